"""Element arithmetic of DSD operations, on bit patterns. Kernel language: parsed, never imported.

The same formulas as `wse.elementwise` and `wse.numeric`: binary64 with one final rounding, canonical NaNs.
"""
# ruff: noqa
# mypy: ignore-errors

OP_MOVE = 0
OP_ADD16 = 1
OP_SUB16 = 2
OP_AND16 = 3
OP_OR16 = 4
OP_XOR16 = 5
OP_SLL16 = 6
OP_SLR16 = 7
OP_SAR16 = 8
OP_CLZ = 9
OP_CTZ = 10
OP_POPCNT = 11
OP_FADD = 20
OP_FSUB = 21
OP_FMUL = 22
OP_FMAX = 23
OP_FABS = 24
OP_FNEG = 25
OP_FMAC = 26
OP_CONVERT = 27
OP_TO_INT16 = 28
OP_ADDC16 = 40

NAN_F32 = 2143289344
TWO_52 = 4503599627370496.0


def encode_f32(value: "f64") -> "i64":
    if value != value:
        return NAN_F32
    return f32_bits(value)


def encode_half(m: "M", value: "f64") -> "i64":
    """Bit pattern of the nearest value of the program's 16-bit format."""
    if value != value:
        return m.half_quiet
    bits = fbits(value)
    sign = shift_right(bits, 63) << 15
    bits = bits & 0x7FFFFFFFFFFFFFFF
    field = bits >> 52
    if field == 0:
        return sign
    if field == 2047:
        return sign | m.half_top
    biased = field - 1023 + m.half_bias
    if biased < 1:
        biased = 1
    power = m.half_bias + m.half_mantissa - biased
    units = 0.0
    if power > 1000:
        power = 1000
    # value * 2**power, rounded to an integer by pushing the fraction out of the 52-bit significand
    scaled = bitsf(bits) * bitsf((power + 1023) << 52)
    units = (scaled + TWO_52) - TWO_52
    result = ((biased - 1) << m.half_mantissa) + to_int(units)
    if result > m.half_top:
        result = m.half_top
    return sign | result


def fma_to_odd(a: "f64", b: "f64", c: "f64") -> "f64":
    product = a * b
    total = product + c
    other = total - product
    error = (product - (total - other)) + (c - other)
    if error != 0.0 and total - total == 0.0:
        bits = fbits(total)
        if bits & 1 == 0:
            up = (error > 0.0) == (total > 0.0)
            bits += 1 if up else -1
            return bitsf(bits)
    return total


def number(m: "M", type_: "i64", bits: "i64") -> "f64":
    if type_ == T_F32:
        return f32_value(bits)
    if type_ == T_HALF:
        return m.half_values[bits & 65535]
    if type_ == T_I16:
        return to_float((bits << 48) >> 48)
    return to_float(bits)


def encode(m: "M", type_: "i64", value: "f64") -> "i64":
    if type_ == T_F32:
        return encode_f32(value)
    return encode_half(m, value)


def to_int16(value: "f64") -> "i64":
    if value != value:
        return 0
    if value >= 32767.0:
        return 32767
    if value <= -32768.0:
        return 32768
    if value < 0.0:
        return to_int(-((-value + TWO_52) - TWO_52)) & 65535
    return to_int((value + TWO_52) - TWO_52) & 65535


def integer_op(op: "i64", a: "i64", b: "i64") -> "i64":
    if op == OP_MOVE:
        return a
    if op == OP_ADD16:
        return (a + b) & 65535
    if op == OP_SUB16:
        return (a - b) & 65535
    if op == OP_AND16:
        return a & b
    if op == OP_OR16:
        return a | b
    if op == OP_XOR16:
        return a ^ b
    if op == OP_SLL16:
        return (a << b) & 65535 if b < 16 else 0
    if op == OP_SLR16:
        return a >> (b if b < 16 else 16)
    if op == OP_SAR16:
        return (((a << 48) >> 48) >> (b if b < 16 else 16)) & 65535
    if op == OP_CLZ:
        return leading_zeros(a) - 48
    if op == OP_CTZ:
        return low_bit(a) if a != 0 else 16
    return bit_count(a)


def apply(m: "M", s: "Site", a: "i64", b: "i64", c: "i64") -> "i64":
    """One element: bits of the sources to bits of the destination."""
    op = s.op
    if op < OP_FADD:
        return integer_op(op, a, b)
    x = number(m, s.source_types[0], a)
    if op == OP_FMAC:
        return encode(m, s.dest_type, fma_to_odd(number(m, s.source_types[1], b), number(m, s.source_types[2], c), x))
    if op == OP_FABS:
        return encode(m, s.dest_type, bitsf(fbits(x) & 0x7FFFFFFFFFFFFFFF))
    if op == OP_FNEG:
        return encode(m, s.dest_type, -x)
    if op == OP_CONVERT:
        return encode(m, s.dest_type, x)
    if op == OP_TO_INT16:
        return to_int16(x)
    y = number(m, s.source_types[1], b)
    if op == OP_FADD:
        return encode(m, s.dest_type, x + y)
    if op == OP_FSUB:
        return encode(m, s.dest_type, x - y)
    if op == OP_FMUL:
        return encode(m, s.dest_type, x * y)
    if x >= y or y != y:
        return encode(m, s.dest_type, x)
    return encode(m, s.dest_type, y)


def add_with_carry(pe: "Pe", a: "i64", b: "i64") -> "i64":
    total = a + b + pe.carry
    pe.carry = total >> 16
    return total & 65535


# ------------------------------------------------------------------------------------------ memory


def read_int(pe: "Pe", place: "i64", size: "i64") -> "i64":
    """2 or 4 bytes; anything odd or outside goes to the reference executor."""
    if place < 0 or place > MEMORY_BYTES - size or place & 1 != 0:
        return bail(pe.machine, 10)
    if size == 2:
        return cast(ptr_u16, addr(pe.memory) + place)[0]
    return cast(ptr_u32, addr(pe.memory) + place)[0]


def write_int(pe: "Pe", place: "i64", bits: "i64", size: "i64") -> "None":
    if place < 0 or place > MEMORY_BYTES - size or place & 1 != 0:
        bail(pe.machine, 11)
        return
    if size == 2:
        cast(ptr_u16, addr(pe.memory) + place)[0] = bits
    else:
        cast(ptr_u32, addr(pe.memory) + place)[0] = bits


# ------------------------------------------------------------------------------------------ descriptors


def dsd_length(d: "Dsd") -> "i64":
    if d.kind != MEM4D:
        return d.extents[0]
    count = 1
    for i in range(0, d.rank):
        count = count * d.extents[i]
        if count > MAX_ELEMENTS:
            count = MAX_ELEMENTS + 1  # four extents could ask for 2**64
    return count


def dsd_equal(a: "Dsd", b: "Dsd") -> "i64":
    p = cast(ptr_i64, addr(a))
    q = cast(ptr_i64, addr(b))
    for i in range(0, DSD_WORDS):
        if p[i] != q[i]:
            return 0
    return 1


def copy_words(to: "i64", source: "i64", count: "i64") -> "None":
    p = cast(ptr_i64, to)
    q = cast(ptr_i64, source)
    for i in range(0, count):
        p[i] = q[i]


def element_address(d: "Dsd", base: "i64", k: "i64", size: "i64") -> "i64":
    """Byte address of element `k` (see `cursors.addresses`)."""
    if d.kind == MEM1D:
        return base + size * d.strides[0] * k
    if d.kind == CIRCBUF:
        step = size * (d.strides[0] if d.stride_count > 0 else 1)
        wrap = d.wraparound if d.wraparound > 1 else 1
        return base + step * (k % wrap)
    rest = k
    total = 0
    offset = 0  # sum of c_j * (extent_j - 1) over the inner dimensions
    rank = d.rank
    for dimension in range(0, rank):
        extent = d.extents[rank - 1 - dimension]
        stride = d.strides[dimension] if dimension < d.stride_count else 1
        step = stride + offset
        offset += step * (extent - 1)
        digit = rest
        if dimension != rank - 1 and extent != 0:
            digit = rest % extent
            rest = rest // extent
        total += digit * step
    return base + size * total


def finish_dsr(dsr: "Dsr", generation: "i64", count: "i64", size: "i64") -> "None":
    # an operation that outlives a new load of its register leaves the new contents alone
    if dsr.generation == generation and dsr.save_address != 0 and count != 0:
        dsr.dsd[0].base = element_address(dsr.dsd[0], dsr.dsd[0].base, count, size)


# ------------------------------------------------------------------------------------------ for generated code


def round_half(pe: "Pe", value: "f64") -> "f64":
    m = pe.machine
    return m.half_values[encode_half(m, value)]


def half_bits(pe: "Pe", value: "f64") -> "i64":
    return encode_half(pe.machine, value)


def float_remainder(a: "f64", b: "f64") -> "f64":
    if b == 0.0 or a - a != 0.0 or b != b:
        return bitsf(0x7FF8000000000000)
    return fb_libm_fmod(a, b)


def stop(pe: "Pe") -> "None":
    bail(pe.machine, 1)
