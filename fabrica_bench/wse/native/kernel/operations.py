"""DSD operations: `wse.dsd`, `dsd_cost`, `endpoints` and `microthread` on flat state. Kernel language."""
# ruff: noqa
# mypy: ignore-errors


# ------------------------------------------------------------------------------------------ resolving operands


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


# ------------------------------------------------------------------------------------------ memory operations


def lies_inside(end: "End", count: "i64") -> "i64":
    """All elements of a linear operand lie in memory, at even addresses."""
    if end.kind == K_SCALAR:
        return 1
    last = end.at + end.step * (count - 1)
    low = least(end.at, last)
    high = most(end.at, last)
    return low >= 0 and high <= MEMORY_BYTES - end.size and (end.at | end.step) & 1 == 0


def source_bits(pe: "Pe", end: "End", k: "i64") -> "i64":
    if end.kind == K_SCALAR:
        return end.bits
    if end.linear != 0:
        return read_int(pe, end.at + end.step * k, end.size)
    return read_int(pe, element_address(end.dsd[0], end.at, k, end.size), end.size)


def run_generic(m: "M", pe: "Pe", s: "Site", op: "Op", count: "i64") -> "None":
    dest = op.dest[0]
    for k in range(0, count):
        a = source_bits(pe, op.sources[0], k)
        b = 0
        c = 0
        if s.source_count > 1:
            b = source_bits(pe, op.sources[1], k)
        if s.source_count > 2:
            c = source_bits(pe, op.sources[2], k)
        result = 0
        if s.sequential != 0:
            result = add_with_carry(pe, a, b)
        else:
            result = apply(m, s, a, b, c)
        place = dest.at + dest.step * k
        if dest.linear == 0:
            place = element_address(dest.dsd[0], dest.at, k, dest.size)
        write_int(pe, place, result, dest.size)
        if m.stop == STOP_BAIL:
            return


def f32_at(pe: "Pe", end: "End", place: "i64") -> "f64":
    return cast(ptr_f32, addr(pe.memory) + place)[0]


def run_f32(m: "M", pe: "Pe", s: "Site", op: "Op", count: "i64") -> "i64":
    """Linear operations whose operands are all f32; 0 if this is none. Addresses were checked."""
    code = s.op
    if s.dest_type != T_F32 or s.source_types[0] != T_F32:
        return 0
    if s.source_count > 1 and s.source_types[1] != T_F32:
        return 0
    if s.source_count > 2 and s.source_types[2] != T_F32:
        return 0
    if code != OP_FADD and code != OP_FSUB and code != OP_FMUL and code != OP_FMAC:
        return 0
    a = op.sources[0]
    b = op.sources[1]
    c = op.sources[2]
    memory = addr(pe.memory)
    # scalars are spilled to a word beside the operand, so that every operand is a (place, step) pair
    pa = memory + a.at
    sa = a.step
    if a.kind == K_SCALAR:
        pa = addr(a) + 64
        sa = 0
    pb = memory + b.at
    sb = b.step
    if b.kind == K_SCALAR:
        pb = addr(b) + 64
        sb = 0
    dest = op.dest[0]
    pd = memory + dest.at
    sd = dest.step
    if code == OP_FMAC:
        pc = memory + c.at
        sc = c.step
        if c.kind == K_SCALAR:
            pc = addr(c) + 64
            sc = 0
        for k in range(0, count):
            x = cast(ptr_f32, pa)[0]
            value = fma_to_odd(cast(ptr_f32, pb)[0], cast(ptr_f32, pc)[0], x)
            cast(ptr_u32, pd)[0] = encode_f32(value)
            pa += sa
            pb += sb
            pc += sc
            pd += sd
        return 1
    for k in range(0, count):
        x = cast(ptr_f32, pa)[0]
        y = cast(ptr_f32, pb)[0]
        value = x + y
        if code == OP_FSUB:
            value = x - y
        elif code == OP_FMUL:
            value = x * y
        cast(ptr_u32, pd)[0] = encode_f32(value)
        pa += sa
        pb += sb
        pd += sd
    return 1


def run_memory(m: "M", pe: "Pe", s: "Site", op: "Op", count: "i64") -> "None":
    dest = op.dest[0]
    if s.is_reduction != 0:
        total = op.sources[0].bits
        for k in range(0, count):
            total = apply(m, s, total, source_bits(pe, op.sources[1], k), 0)
        write_int(pe, dest.at, total, dest.size)
    else:
        linear = dest.linear
        for i in range(0, s.source_count):
            end = op.sources[i]
            linear = linear & end.linear
            if end.kind == K_POINTER:
                bail(m, 52)
                return
        done = 0
        if linear != 0 and s.sequential == 0:
            inside = lies_inside(dest, count)
            for i in range(0, s.source_count):
                inside = inside & lies_inside(op.sources[i], count)
            if inside == 0:
                bail(m, 53)
                return
            done = run_f32(m, pe, s, op, count)
        if done == 0:
            run_generic(m, pe, s, op, count)
    finish_ends(op, count)


def finish_ends(op: "Op", count: "i64") -> "None":
    dest = op.dest[0]
    if dest.kind == K_MEMORY and addr(dest.dsr) != 0:
        finish_dsr(dest.dsr, dest.generation, count, dest.size)
    for i in range(0, op.source_count):
        end = op.sources[i]
        if end.kind == K_MEMORY and addr(end.dsr) != 0:
            finish_dsr(end.dsr, end.generation, count, end.size)


# ------------------------------------------------------------------------------------------ beginning


def new_op(m: "M", pe: "Pe") -> "Op":
    for i in range(0, MAX_OPS):
        op = pe.pool[i]
        if addr(op) == 0:
            op = cast(Op, allocate(m, words_of(Op)))
            pe.pool[i] = op
        if op.in_use == 0:
            op.in_use = 1
            return op
    bail(m, 54)
    return pe.pool[0]


def iterations(s: "Site", op: "Op") -> "i64":
    plain = 1
    others = 0
    for i in range(0, s.source_count):
        end = op.sources[i]
        if end.length != 0:
            return end.length
        if end.kind != K_SCALAR and end.kind != K_POINTER and end.kind != K_FIFO:
            plain = 0
        if end.kind != K_FIFO:
            others = 1
    if s.dest_kind != 0:
        dest = op.dest[0]
        if dest.length != 0:
            return dest.length
        if dest.kind != K_POINTER and dest.kind != K_SCALAR and dest.kind != K_FIFO:
            plain = 0
        if dest.kind != K_FIFO:
            others = 1
    return plain & others


def dsd_operation(pe: "Pe", s: "Site") -> "i64":
    """Execute a memory operation, or leave an operation in `pe.pending`; 1: the thread must give control back."""
    m = pe.machine
    op = new_op(m, pe)
    op.site = s
    op.source_count = s.source_count
    feed_at = 0
    dest = op.dest[0]
    if s.dest_kind != 0:
        resolve(m, pe, dest, s.dest_kind, s.dest_ref, s.dest_size, pe.values[0], 1)
        if s.dest_kind != A_DSR and s.dest_kind != A_FIFO:
            feed_at += 1
    else:
        dest.kind = K_NONE
        dest.has_dsd = 0
        dest.dsr = cast(Dsr, 0)
        dest.length = 0
    for i in range(0, s.source_count):
        kind = s.source_kinds[i]
        resolve(m, pe, op.sources[i], kind, s.source_refs[i], s.source_sizes[i], pe.values[feed_at], 0)
        if kind != A_DSR and kind != A_FIFO:
            feed_at += 1
    config = s.config[0]
    op.config = config
    op.done_id = 0
    op.control_id = 0
    op.index = 0
    if config.has_done != 0:
        op.done_id = pe.values[feed_at]
        feed_at += 1
    if config.has_control != 0:
        op.control_id = pe.values[feed_at]
        feed_at += 1
    if config.has_index != 0:
        op.index = pe.values[feed_at]
    if m.stop == STOP_BAIL:
        op.in_use = 0
        return 1
    count = iterations(s, op)
    if count > MAX_ELEMENTS or count < 0:
        op.in_use = 0
        bail(m, 51)
        return 1
    fabric = 0
    if s.dest_kind != 0:
        fabric = dest.kind >= K_FABIN
        if dest.kind == K_MEMORY and dest.has_dsd != 0 and dest.dsd[0].wavelet_index_offset != 0:
            dest.at += 2 * op.index
    for i in range(0, s.source_count):
        end = op.sources[i]
        fabric = fabric | (end.kind >= K_FABIN)
        if end.kind == K_MEMORY and end.has_dsd != 0 and end.dsd[0].wavelet_index_offset != 0:
            end.at += 2 * op.index
    if fabric != 0:
        prepare_op(m, op, s, count)
        pe.pending = op
        return 1
    if s.dest_kind == 0 or dest.kind == K_SCALAR:
        op.in_use = 0
        bail(m, 55)
        return 1
    pe.t += memory_cycles(s, op, count)
    if count != 0:
        run_memory(m, pe, s, op, count)
    pe.result = 1
    m.issues += 1
    if config.has_done != 0:
        wake(pe, config.done_action, config.done_is_thread, op.done_id)
    op.in_use = 0
    return pe.t > pe.limit or m.stop == STOP_BAIL


def dsd_priority(end: "End") -> "i64":
    if end.has_dsd != 0:
        return end.dsd[0].priority
    return 0


def prepare_op(m: "M", op: "Op", s: "Site", count: "i64") -> "None":
    """What `FabricOp.__init__` does. Async settings come from the fabric operand's DSR, if it is an explicit one."""
    found = 0
    for i in range(-1, s.source_count):
        end = op.dest[0]
        if i >= 0:
            end = op.sources[i]
        if found == 0 and addr(end.dsr) != 0 and (end.kind == K_FABIN or end.kind == K_FABOUT):
            found = 1
            op.config = end.dsr.config
            op.done_id = end.dsr.done_id
            op.control_id = end.dsr.control_id
    m.serial += 1
    op.serial = m.serial
    op.is_async = op.config.is_async
    op.infinite = count == 32767
    op.count = count
    op.remaining = count
    op.setup = setup_cycles(s, op)
    op.start = 0
    op.thread = -1
    op.done = 0
    op.stopped_early = 0
    priority = op.config.priority
    if priority == 0:
        priority = dsd_priority(op.dest[0])
    for i in range(0, s.source_count):
        if priority == 0:
            priority = dsd_priority(op.sources[i])
    op.priority = 0 if priority <= 1 else (2 if priority == 2 else 4)
    op.batch = 1
    op.reduction = 0


def is_packed(end: "End") -> "i64":
    return end.size == 2 and end.dsd[0].simd != 0


def prepare_end(m: "M", pe: "Pe", op: "Op", end: "End", is_dest: "i64", zero: "i64") -> "None":
    end.zero = 0
    end.position = 0
    if end.kind == K_MEMORY:
        end.zero = zero
        if end.linear == 0:
            total = op.count if op.count > 0 else end.length
            end.total = total if total > 1 else 1
    elif end.kind == K_POINTER:
        if is_dest == 0:
            bail(m, 56)
    elif end.kind == K_FIFO:
        action = end.fifo.full_action if is_dest != 0 else end.fifo.empty_action
        if action == F_TEST and op.is_async != 0:
            action = F_WAIT
        end.action = action
    elif end.kind == K_FABOUT:
        if is_dest == 0:
            bail(m, 57)
            return
        d = end.dsd[0]
        end.color = output_color(m, pe, d)
        end.channel = output_channel(m, pe, d.queue if d.queue > 0 else 0)
        if d.queue >= 0:
            if addr(end.channel.op) != 0 and addr(end.channel.op) != addr(op):
                bail(m, 65)
                return
            end.channel.op = op
        end.flags = CONTROL if d.control != 0 else 0
        end.advance = d.advance_switch
        end.transform = d.control_transform
        end.index = op.index << 16 if d.wavelet_index_offset != 0 else 0
        end.packed = is_packed(end)
        end.has_half = 0
    elif end.kind == K_FABIN:
        if is_dest != 0:
            bail(m, 57)
            return
        end.queue = find_input(m, pe, end.dsd[0])
        end.transform = end.dsd[0].control_transform
        end.packed = is_packed(end)
        end.has_half = 0


def claim_queue(m: "M", queue: "InQ", op: "Op") -> "None":
    if addr(queue.op) != 0 and addr(queue.op) != addr(op):
        bail(m, 58)
        return
    queue.op = op
    queue.watched = 1


def thread_of(m: "M", pe: "Pe", op: "Op") -> "i64":
    if op.config.ut_id >= 0:
        return op.config.ut_id
    for i in range(-1, op.source_count):
        end = op.dest[0]
        if i >= 0:
            end = op.sources[i]
        if end.kind == K_FABIN or end.kind == K_FABOUT:
            return end.dsd[0].queue if end.dsd[0].queue > 0 else 0
    for number_ in range(0, 62):
        if addr(pe.threads[number_]) == 0:
            return number_
    return 63


def attach(m: "M", pe: "Pe", op: "Op") -> "None":
    """Bind queues and the microthread; the first element may issue once the DSRs are loaded."""
    s = op.site
    now = m.now
    op.start = now + op.setup
    dest = op.dest[0]
    zero_first = 0
    zero_second = 0
    if dest.has_dsd != 0:
        zero_first = dest.dsd[0].zero_first
        zero_second = dest.dsd[0].zero_second
    if s.dest_kind != 0:
        prepare_end(m, pe, op, dest, 1, 0)
    count = s.source_count
    gates = dest.kind >= K_FABIN
    fabric = dest.kind == K_FABOUT
    packed = 1
    if fabric != 0:
        packed = is_packed(dest)
    op.has_input = 0
    for i in range(0, count):
        end = op.sources[i]
        second = i == 1
        if count == 1:
            second = 1
        zero = (zero_second != 0 and second != 0) or (zero_first != 0 and i == 0 and second == 0)
        prepare_end(m, pe, op, end, 0, zero)
        if m.stop == STOP_BAIL:
            return
        if end.kind >= K_FABIN:
            gates += 1
        if end.kind == K_FABIN:
            op.has_input = 1
            fabric = 1
            packed = packed & is_packed(end)
    op.gates = gates
    if s.is_reduction != 0 and dest.kind == K_POINTER:
        op.reduction = 1
        dest.bits = op.sources[0].bits
    for i in range(0, count):
        if op.sources[i].kind == K_FABIN:
            claim_queue(m, op.sources[i].queue, op)
    if op.is_async != 0:
        op.thread = thread_of(m, pe, op)
        if op.thread < 0 or op.thread > 61:
            bail(m, 59)
            return
        if addr(pe.threads[op.thread]) != 0:
            bail(m, 60)
            return
        pe.threads[op.thread] = op
    if fabric == 0:
        op.batch = s.width
    else:
        op.batch = 2 if packed != 0 else 1
    if op.count == 0 and op.infinite == 0:
        finish_op(m, pe, op, 1)


# ------------------------------------------------------------------------------------------ running


def end_ready(m: "M", end: "End", is_dest: "i64") -> "i64":
    kind = end.kind
    if kind == K_FABIN:
        return end.has_half != 0 or head_ready(m, end.queue) != 0
    if kind == K_FABOUT:
        channel = end.channel
        if channel.count < channel.depth:
            return 1
        channel.feeder_waits = 1
        return 0
    if kind == K_FIFO:
        if is_dest != 0:
            return end.fifo.count < end.fifo.capacity
        return end.fifo.count > 0
    return 1


def control_waits(m: "M", end: "End") -> "i64":
    if end.has_half != 0:
        return 0
    queue = end.queue
    if head_ready(m, queue) == 0:
        return 0
    return head_control(queue) != 0


def any_control(m: "M", op: "Op") -> "i64":
    for i in range(0, op.source_count):
        if op.sources[i].kind == K_FABIN:
            if control_waits(m, op.sources[i]) != 0:
                return 1
    return 0


def gate_blocks(m: "M", op: "Op", end: "End", is_dest: "i64") -> "i64":
    """0: ready; 1: the operation must wait; 2: it must issue in order to end."""
    if end_ready(m, end, is_dest) != 0:
        return 0
    if end.kind == K_FIFO:
        fifo = end.fifo
        remaining = op.remaining if op.infinite == 0 else 1
        needs = most(1, least(remaining, fifo.capacity))
        if is_dest != 0:
            fifo.push_needs = needs
        else:
            fifo.pop_needs = needs
        if end.action != F_WAIT:
            return 2
    return 1


def op_ready(m: "M", op: "Op") -> "i64":
    """May issue in this cycle: every operand is there, or the operation has to end."""
    if m.now < op.start:
        return 0
    if op.config.has_control != 0 and op.has_input != 0:
        if any_control(m, op) != 0:
            return 1
    for i in range(0, op.source_count):
        end = op.sources[i]
        if end.kind >= K_FABIN:
            state = gate_blocks(m, op, end, 0)
            if state != 0:
                return state == 2
    dest = op.dest[0]
    if dest.kind >= K_FABIN:
        state = gate_blocks(m, op, dest, 1)
        if state != 0:
            return state == 2
    return 1


def next_place(end: "End") -> "i64":
    if end.linear != 0:
        place = end.at
        end.at += end.step
        return place
    place = element_address(end.dsd[0], end.at, end.position, end.size)
    end.position += 1
    if end.position >= end.total:
        end.position = 0
    return place


def get(m: "M", pe: "Pe", op: "Op", index: "i64") -> "i64":
    end = op.sources[index]
    kind = end.kind
    if kind == K_FABIN:
        if end.has_half != 0:
            end.has_half = 0
            return end.half
        control = head_control(end.queue)
        word = pop_input(m, pe, end.queue)
        if control != 0 and end.transform != 0:
            word = word ^ (pe.transform_mask << 26)
        if end.packed != 0:
            end.has_half = 1
            end.half = word >> 16
        return word & (65535 if end.size == 2 else 0xFFFFFFFF)
    if op.reduction != 0 and index == 0:
        return op.dest[0].bits
    if kind == K_MEMORY:
        place = next_place(end)
        bits = read_int(pe, place, end.size)
        if end.zero != 0:
            write_int(pe, place, 0, end.size)
        return bits
    if kind == K_FIFO:
        return fifo_pop(pe, end.fifo)
    return end.bits


def put_result(m: "M", pe: "Pe", op: "Op", bits: "i64", last: "i64") -> "None":
    end = op.dest[0]
    kind = end.kind
    if kind == K_MEMORY:
        write_int(pe, next_place(end), bits, end.size)
    elif kind == K_FABOUT:
        if end.packed != 0:
            if end.has_half == 0 and last == 0:
                end.has_half = 1
                end.half = bits
                return
            if end.has_half != 0:
                bits = end.half | (bits << 16)
                end.has_half = 0
        elif end.index != 0:
            bits = (bits & 65535) | end.index
        flags = end.flags
        if end.transform != 0 and bits >> 30 == 3:
            bits = bits ^ (pe.transform_mask << 26)
            flags = flags | CONTROL
        if last != 0 and end.advance != 0:
            flags = flags | ADVANCE_AFTER
        inject(m, pe, end.channel, end.color, bits, flags)
    elif kind == K_POINTER:
        end.bits = bits
        write_int(pe, end.at, bits, end.size)
    elif kind == K_FIFO:
        fifo_push(pe, end.fifo, bits)


def finish_op(m: "M", pe: "Pe", op: "Op", complete: "i64") -> "None":
    """Release what the operation holds and wake what waits for its completion."""
    op.done = 1
    moved = op.count - op.remaining if op.infinite == 0 else 0
    for i in range(0, op.source_count):
        if op.sources[i].kind == K_FABIN:
            queue = op.sources[i].queue
            queue.op = cast(Op, 0)
            queue.watched = 0
    if op.dest[0].kind == K_FABOUT:
        if addr(op.dest[0].channel.op) == addr(op):
            op.dest[0].channel.op = cast(Op, 0)
    if op.thread >= 0:
        pe.threads[op.thread] = cast(Op, 0)
    finish_ends(op, moved)
    pe.result = 0 if op.stopped_early != 0 else 1
    if complete != 0 and op.config.has_done != 0:
        wake(pe, op.config.done_action, op.config.done_is_thread, op.done_id)


def control_arrived(m: "M", pe: "Pe", op: "Op") -> "i64":
    for i in range(0, op.source_count):
        if op.sources[i].kind == K_FABIN:
            if control_waits(m, op.sources[i]) != 0:
                get(m, pe, op, i)
                if op.config.control_action == W_TERMINATE:
                    finish_op(m, pe, op, 1)
                else:
                    finish_op(m, pe, op, 0)
                    wake(pe, op.config.control_action, op.config.control_is_thread, op.control_id)
                return 1
    return 0


def stop_on_fifo(m: "M", pe: "Pe", op: "Op", end: "End", is_dest: "i64") -> "None":
    if end.action == F_FAULT:
        bail(m, 61)
        return
    if is_dest != 0:
        end.fifo.write_length = op.remaining
    else:
        end.fifo.read_length = op.remaining
    op.stopped_early = end.action == F_TEST
    finish_op(m, pe, op, 1)


def gates_ready(m: "M", op: "Op") -> "i64":
    for i in range(0, op.source_count):
        if op.sources[i].kind >= K_FABIN:
            if end_ready(m, op.sources[i], 0) == 0:
                return 0
    if op.dest[0].kind >= K_FABIN:
        return end_ready(m, op.dest[0], 1)
    return 1


def issue_op(m: "M", pe: "Pe", op: "Op") -> "None":
    """Move the elements of one issue slot."""
    s = op.site
    m.issues += 1
    if s.is_filter != 0:
        was_control = control_waits(m, op.sources[0])
        get(m, pe, op, 0)
        if was_control != 0 and op.infinite == 0:
            op.remaining -= 1
            if op.remaining == 0:
                finish_op(m, pe, op, 1)
        return
    batch = op.batch
    for position in range(0, batch):
        if op.has_input != 0 and op.config.has_control != 0:
            if control_arrived(m, pe, op) != 0:
                return
        if position > 0:
            if gates_ready(m, op) == 0:
                return
        for i in range(0, op.source_count):
            end = op.sources[i]
            if end.kind == K_FIFO:
                if end_ready(m, end, 0) == 0:
                    stop_on_fifo(m, pe, op, end, 0)
                    return
        if op.dest[0].kind == K_FIFO:
            if end_ready(m, op.dest[0], 1) == 0:
                stop_on_fifo(m, pe, op, op.dest[0], 1)
                return
        last = op.remaining == 1 and op.infinite == 0
        a = get(m, pe, op, 0)
        b = 0
        c = 0
        if op.source_count > 1:
            b = get(m, pe, op, 1)
        if op.source_count > 2:
            c = get(m, pe, op, 2)
        bits = a
        if s.sequential != 0:
            bits = add_with_carry(pe, a, b)
        elif s.is_move == 0:
            bits = apply(m, s, a, b, c)
        put_result(m, pe, op, bits, last)
        if op.infinite == 0:
            op.remaining -= 1
            if last != 0:
                finish_op(m, pe, op, 1)
                return
        if m.stop == STOP_BAIL:
            return


# ------------------------------------------------------------------------------------------ @map


def map_begin(pe: "Pe", s: "Site") -> "i64":
    """Resolve the operands of `@map`; address of the operation that keeps them, 0 after a stop."""
    m = pe.machine
    op = new_op(m, pe)
    op.site = s
    op.source_count = s.source_count
    op.reduction = 0
    op.remaining = -1
    op.count = 0
    feed_at = 0
    for i in range(0, s.source_count):
        end = op.sources[i]
        kind = s.source_kinds[i]
        resolve(m, pe, end, kind, s.source_refs[i], s.source_sizes[i], pe.values[feed_at], 0)
        if kind != A_DSR:
            feed_at += 1
        end.zero = 0
        end.position = 0
        end.total = most(end.length, 1)
        if end.kind == K_FABIN:
            end.queue = find_input(m, pe, end.dsd[0])
            end.transform = end.dsd[0].control_transform
            end.packed = is_packed(end)
            end.has_half = 0
        elif end.kind != K_MEMORY:
            bail(m, 80)
    dest = op.dest[0]
    dest.kind = K_NONE
    if s.dest_kind != 0:
        resolve(m, pe, dest, s.dest_kind, s.dest_ref, s.dest_size, pe.values[feed_at], 1)
        dest.zero = 0
        dest.position = 0
        dest.total = most(dest.length, 1)
        op.remaining = dest.length
        if dest.kind == K_POINTER:
            dest.kind = K_MEMORY
            op.remaining = -1
        elif dest.kind == K_FABOUT:
            d = dest.dsd[0]
            dest.color = output_color(m, pe, d)
            dest.channel = output_channel(m, pe, d.queue if d.queue > 0 else 0)
            dest.flags = CONTROL if d.control != 0 else 0
            dest.advance = d.advance_switch
            dest.transform = d.control_transform
            dest.index = 0
            dest.packed = is_packed(dest)
            dest.has_half = 0
        elif dest.kind != K_MEMORY:
            bail(m, 81)
    if m.stop == STOP_BAIL:
        op.in_use = 0
        return 0
    return addr(op)


def map_more(pe: "Pe", op: "Op") -> "i64":
    """There is another element."""
    if pe.machine.stop == STOP_BAIL or op.remaining == 0:
        return 0
    for i in range(0, op.source_count):
        if op.sources[i].length == 0:
            return 0
    return 1


def map_end(op: "Op", index: "i64") -> "End":
    if index < 0:
        return op.dest[0]
    return op.sources[index]


def map_ahead(pe: "Pe", op: "Op", index: "i64") -> "i64":
    """The operand is on the fabric and the thread ahead of the clock: it must give control back first."""
    return map_end(op, index).kind >= K_FABIN and pe.t > pe.machine.now


def map_poll(pe: "Pe", op: "Op", index: "i64") -> "i64":
    """The operand is not ready: the thread must wait for it."""
    end = map_end(op, index)
    if end.kind < K_FABIN:
        return 0
    if end_ready(pe.machine, end, index < 0) != 0:
        return 0
    pe.polled = end
    pe.polled_is_dest = index < 0
    pe.state = POLL
    if end.kind == K_FABIN:
        end.queue.watched = 1
    return 1


def release_poll(pe: "Pe") -> "None":
    end = pe.polled
    if end.kind == K_FABIN:
        end.queue.watched = addr(end.queue.op) != 0


def map_take(pe: "Pe", op: "Op", index: "i64") -> "None":
    """Read an element; its bits stay in the end."""
    end = op.sources[index]
    bits = get(pe.machine, pe, op, index)
    end.bits = bits


def map_count(op: "Op") -> "None":
    for i in range(0, op.source_count):
        op.sources[i].length -= 1


def map_put(pe: "Pe", op: "Op") -> "None":
    """Write the result that lies in the end's bits."""
    if op.remaining > 0:
        op.remaining -= 1
    put_result(pe.machine, pe, op, op.dest[0].bits, op.remaining == 0)


def map_finish(pe: "Pe", op: "Op") -> "None":
    s = op.site
    for i in range(0, s.source_count):
        if s.source_kinds[i] == A_DSR:
            finish_map_dsr(pe, s.source_refs[i], op.count)
    if s.dest_kind == A_DSR:
        finish_map_dsr(pe, s.dest_ref, op.count)
    op.in_use = 0


def finish_map_dsr(pe: "Pe", number_: "i64", count: "i64") -> "None":
    dsr = pe.dsrs[number_]
    if dsr.dsd[0].kind != FABIN and dsr.dsd[0].kind != FABOUT:
        finish_dsr(dsr, dsr.generation, count, 2)


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
