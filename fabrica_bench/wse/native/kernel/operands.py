"""Operands of DSD operations, what their registers and elements cost, DSD values in memory: `wse.endpoints` and
`wse.dsd_cost` on flat state. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors


def resolve_dsd(m: "M", end: "End", d: "Dsd", size: "i64") -> "None":
    # far beyond any address, and small enough that no product of them wraps around
    far = d.base > 1099511627776 or d.base < -1099511627776
    for i in range(0, 4):
        far = far | (d.strides[i] > 2147483648 or d.strides[i] < -2147483648)
    if far != 0:
        bail(m, 66)
    copy_words(addr(end.dsd[0]), addr(d), DSD_WORDS)
    end.has_dsd = 1
    end.size = size
    end.length = dsd_length(d)
    end.linear = 1
    end.step = 0
    end.at = 0
    if d.kind == FABIN:
        end.kind = K_FABIN
    elif d.kind == FABOUT:
        end.kind = K_FABOUT
    else:
        end.kind = K_MEMORY
        end.at = d.base
        if d.kind == MEM1D:
            end.step = size * d.strides[0]
        else:
            end.linear = 0


def resolve(m: "M", pe: "Pe", end: "End", kind: "i64", ref: "i64", size: "i64", value: "i64", is_dest: "i64") -> "None":
    end.has_dsd = 0
    end.dsr = cast(Dsr, 0)
    end.length = 0
    end.linear = 1
    end.step = 0
    end.at = 0
    end.size = size
    end.bits = 0
    if kind == A_SCALAR:
        end.kind = K_SCALAR
        end.bits = value
    elif kind == A_POINTER:
        end.kind = K_POINTER
        end.at = value
    elif kind == A_FIFO:
        end.kind = K_FIFO
        fifo = pe.fifos[ref]
        end.fifo = fifo
        end.length = fifo.write_length if is_dest != 0 else fifo.read_length
    elif kind == A_DSR:
        dsr = pe.dsrs[ref]
        if dsr.valid == 0:
            bail(m, 50)
            end.kind = K_NONE
            return
        resolve_dsd(m, end, dsr.dsd[0], size)
        end.dsr = dsr
        end.generation = dsr.generation
    else:
        resolve_dsd(m, end, cast(Dsd, value), size)


def setup_cycles(s: "Site", op: "Op") -> "i64":
    """Cycles before the first element: DSR loads, their gap, scalar operands."""
    loads = 0
    scalars = 0
    for i in range(0, s.source_count):
        end = op.sources[i]
        if end.kind == K_SCALAR:
            scalars += 1
        elif addr(end.dsr) == 0:
            loads += 1
    dest = op.dest[0]
    if s.dest_kind != 0 and addr(dest.dsr) == 0:
        same = 0
        if s.source_count > 0 and op.sources[0].has_dsd != 0 and dest.has_dsd != 0:
            same = dsd_equal(op.sources[0].dsd[0], dest.dsd[0])
        if same == 0:
            loads += 1
    return loads * s.dsr_load + (s.dsr_gap if loads > 0 else 0) + scalars * s.scalar_operand


def step_of(end: "End") -> "i64":
    """Bytes from an element to the next one of its row."""
    if end.linear != 0:
        return end.step
    if end.has_dsd != 0:
        return end.dsd[0].strides[0] * end.size
    return end.size


def stride_width(s: "Site", end: "End", width: "i64") -> "i64":
    step = step_of(end) >> 1
    if s.stride_span != 0 or step == 0 or step == end.size // 2:
        return width
    rest = step & 7
    if rest == 0:
        return s.stride_8
    if rest == 4:
        return s.stride_4
    if rest == 7:
        return s.stride_7
    return width


def least(a: "i64", b: "i64") -> "i64":
    return a if a < b else b


def most(a: "i64", b: "i64") -> "i64":
    return a if a > b else b


def group_size(s: "Site", op: "Op") -> "i64":
    """Elements that go through the pipe together."""
    dest = op.dest[0]
    width = least(s.width, most(s.write_bytes // dest.size, 1))
    for i in range(0, s.source_count):
        end = op.sources[i]
        if end.kind == K_MEMORY and (end.linear == 0 or end.step != 0):
            if s.read_shared == 0:
                width = least(width, most(s.read_bytes // end.size, 1))
    if dest.kind == K_MEMORY:
        width = least(width, stride_width(s, dest, width))
    for i in range(0, s.source_count):
        end = op.sources[i]
        if end.kind == K_MEMORY:
            width = least(width, stride_width(s, end, width))
    return most(width, 1)


def span_of(s: "Site", end: "End") -> "i64":
    """Bytes that an element takes of a port's width: with `stride_span`, those up to the next one."""
    if s.stride_span == 0:
        return end.size
    step = step_of(end)
    return most(most(step, -step), end.size)


def group_cycles(s: "Site", op: "Op", width: "i64") -> "i64":
    """Cycles of moving a group through the memory ports; at worst its elements go one by one."""
    if s.read_shared == 0:
        return 1
    spans = 0
    sizes = 0
    for i in range(0, s.source_count):
        end = op.sources[i]
        if end.kind == K_MEMORY and (end.linear == 0 or end.step != 0):
            spans += span_of(s, end)
            sizes += end.size
    cycles = (width * spans + s.read_bytes - 1) // s.read_bytes
    if op.dest[0].kind == K_MEMORY:
        cycles = most(cycles, (width * span_of(s, op.dest[0]) + s.write_bytes - 1) // s.write_bytes)
    slowest = most(width, (width * sizes + s.read_bytes - 1) // s.read_bytes)
    return most(least(cycles, slowest), 1)


def bank_conflict(s: "Site", op: "Op") -> "i64":
    """Two memory sources of unit stride start in the same bank class."""
    first = -1
    for i in range(0, s.source_count):
        end = op.sources[i]
        if end.kind == K_MEMORY and end.linear != 0 and end.step != 0:
            if first >= 0:
                other = op.sources[first]
                p = s.period
                same = ((other.at % p) + p) % p == ((end.at % p) + p) % p
                return other.step == end.step and same
            first = i
    return 0


def memory_cycles(s: "Site", op: "Op", count: "i64") -> "i64":
    setup = setup_cycles(s, op)
    dest = op.dest[0]
    if dest.kind == K_POINTER or (dest.linear != 0 and dest.step == 0 and count > 1):
        exact = to_float(count) * s.scalar_dest
        whole = to_int(exact)
        if to_float(whole) < exact:
            whole += 1
        return setup + whole
    width = group_size(s, op)
    cycles = (count + width - 1) // width * group_cycles(s, op, width)
    if bank_conflict(s, op) != 0:
        cycles = cycles * s.conflict
    return setup + cycles


def load_dsr(
    pe: "Pe", number_: "i64", config: "Config", save_address: "i64", d: "Dsd", done: "i64", control: "i64"
) -> "None":
    dsr = pe.dsrs[number_]
    dsr.valid = 1
    dsr.generation += 1
    dsr.save_address = save_address
    dsr.done_id = done
    dsr.control_id = control
    dsr.config = config
    copy_words(addr(dsr.dsd[0]), addr(d), DSD_WORDS)


# ------------------------------------------------------------------------------------------ DSD values in memory


def store_dsd(pe: "Pe", address: "i64", d: "Dsd") -> "None":
    """The memory form of a DSD (see `csl.descriptors`); values without one go to the reference executor."""
    m = pe.machine
    fits = address >= 0 and address <= MEMORY_BYTES - 40
    fits = fits & (d.base >= -2147483648 and d.base <= 2147483647)
    fits = fits & (d.wraparound >= -2147483648 and d.wraparound <= 2147483647)
    fits = fits & (d.queue >= -32768 and d.queue <= 32767) & (d.color >= -32768 and d.color <= 32767)
    for i in range(0, 4):
        fits = fits & (d.extents[i] >= 0 and d.extents[i] <= 65535)
        fits = fits & (d.strides[i] >= -2147483648 and d.strides[i] <= 2147483647)
    if fits == 0:
        bail(m, 62)
        return
    p = cast(ptr_u8, addr(pe.memory) + address)
    p[0] = d.kind
    p[1] = d.rank | (d.stride_count << 4)
    flags = d.control | (d.advance_switch << 1) | (d.control_transform << 2) | (d.wavelet_index_offset << 3)
    p[2] = flags | (d.zero_first << 4) | (d.zero_second << 5)
    p[3] = d.simd | (d.priority << 4)
    put_bytes(p, 4, d.queue, 2)
    put_bytes(p, 6, d.color, 2)
    put_bytes(p, 8, d.base, 4)
    put_bytes(p, 12, d.wraparound, 4)
    for i in range(0, 4):
        put_bytes(p, 16 + 2 * i, d.extents[i], 2)
        put_bytes(p, 24 + 4 * i, d.strides[i], 4)


def put_bytes(p: "ptr_u8", at: "i64", value: "i64", count: "i64") -> "None":
    for i in range(0, count):
        p[at + i] = value >> (8 * i)


def signed_bytes(p: "ptr_u8", at: "i64", count: "i64") -> "i64":
    value = 0
    for i in range(0, count):
        value = value | (p[at + i] << (8 * i))
    shift = 64 - 8 * count
    return (value << shift) >> shift


def fetch_dsd(pe: "Pe", address: "i64", d: "Dsd") -> "None":
    m = pe.machine
    if address < 0 or address > MEMORY_BYTES - 40:
        bail(m, 63)
        return
    p = cast(ptr_u8, addr(pe.memory) + address)
    rank = p[1] & 15
    stride_count = p[1] >> 4
    simd = p[3] & 15
    priority = p[3] >> 4
    sound = p[0] >= 1 and p[0] <= 5 and p[2] < 64 and simd < 5 and priority < 4
    if sound == 0 or rank > 4 or stride_count > 4:
        bail(m, 64)
        return
    d.kind = p[0]
    d.rank = rank
    d.stride_count = stride_count
    d.control = p[2] & 1
    d.advance_switch = (p[2] >> 1) & 1
    d.control_transform = (p[2] >> 2) & 1
    d.wavelet_index_offset = (p[2] >> 3) & 1
    d.zero_first = (p[2] >> 4) & 1
    d.zero_second = (p[2] >> 5) & 1
    d.simd = simd
    d.priority = priority
    d.queue = signed_bytes(p, 4, 2)
    d.color = signed_bytes(p, 6, 2)
    d.base = signed_bytes(p, 8, 4)
    d.wraparound = signed_bytes(p, 12, 4)
    for i in range(0, 4):
        d.extents[i] = 0
        d.strides[i] = 0
        if i < rank:
            d.extents[i] = signed_bytes(p, 16 + 2 * i, 2) & 65535
        if i < stride_count:
            d.strides[i] = signed_bytes(p, 24 + 4 * i, 4)
