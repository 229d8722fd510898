"""DSD operations whose operands all lie in memory: `wse.dsd` on flat state. Kernel language: parsed, never imported."""
# ruff: noqa
# mypy: ignore-errors


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
