"""Text of bulk operations beyond one-dimensional ones: boxes, walks over columns, elementary functions."""

from __future__ import annotations

from collections.abc import Callable

from fabrica_agent.lowering.ir import Columns, Elementary

Fresh = Callable[[str], str]

EXPONENTIALS = (
    ("lowest", "-87.0"), ("highest", "-88.0"), ("per_ln_2", "1.44269504"), ("rounder", "12582912.0"),
    ("ln_2_high", "-0.693359375"), ("ln_2_low", "0.000212194440"),
)  # fmt: skip
"""exp(x) = 2^k exp(x - k ln 2). Adding 1.5 * 2^23 rounds to k, and leaves it in the low bits of the sum."""

SERIES = ("0.001394723886", "0.008369793923", "0.04166625346", "0.1666651074", "0.5000000083", "1.0")
"""exp(r) = 1 + r (1 + r (0.5 + ...)) for |r| <= ln 2 / 2, least-squares coefficients; error below 1e-8."""


def walk_by_register(s: Columns, dest: str, column: str, factors: str, fresh: Fresh) -> tuple[str, list[str]]:
    """A walk whose column register moves on by itself.

    Returns:
        Declarations for the file level, and the statements.
    """
    names = {part: fresh(f"walk_{part}") for part in ("dest", "source", "column", "step")}
    top = (
        f"// Registers of a multiply-add of columns; that of the column moves to the next one by itself.\n"
        f"const {names['dest']} = @get_dsr(dsr_dest, 1);\n"
        f"const {names['source']} = @get_dsr(dsr_src0, 1);\n"
        f"const {names['column']} = @get_dsr(dsr_src1, 1);\n"
        f"fn {names['step']}(factor: f32) void {{\n"
        f"  @fmacs({names['dest']}, {names['source']}, {names['column']}, factor);\n}}"
    )
    return top, [
        f"@load_to_dsr({names['dest']}, {dest});",
        f"@load_to_dsr({names['source']}, {dest});",
        f"@load_to_dsr({names['column']}, {column}, .{{ .save_address = true }});",
        f"@map({names['step']}, {factors});",
    ]


def walk_by_offset(
    s: Columns, dest: tuple[str, bool], column: tuple[str, str], factors: str, fresh: Fresh
) -> tuple[str, list[str]]:
    """A walk that moves a descriptor of the column.

    Args:
        s: The statement.
        dest: Its destination, and whether that is a constant.
        column: The constant descriptor to declare with, and the one to start from.
        factors: Descriptor of the factors.
        fresh: Gives names.
    """
    moving, step = fresh("column"), fresh("add_column")
    top = [f"var {moving} = {column[0]};"]
    lines = [f"{moving} = {column[1]};"]
    target = dest[0]
    if not dest[1]:
        target = fresh("sums")
        top.append(f"var {target} = {column[0]};")
        lines.append(f"{target} = {dest[0]};")
    top += [
        f"fn {step}(factor: f32) void {{",
        f"  @fmacs({target}, {target}, {moving}, factor);",
        f"  {moving} = @increment_dsd_offset({moving}, {s.step}, f32);",
        "}",
    ]
    return "\n".join(top), [*lines, f"@map({step}, {factors});"]


def elementary(
    s: Elementary, array: str, scratch: tuple[str, ...], dsds: tuple[str, ...], fresh: Fresh
) -> tuple[str, str]:
    """An elementary function of a whole array as a function of its own: its text, and the call."""
    name = fresh("exponentials" if s.fn == "exp" else "reciprocals")
    make = _exponentials if s.fn == "exp" else _reciprocals
    body = "\n".join(f"  {line}" for line in make(s.dest.count, array, scratch, dsds))
    about = (
        "// Powers of e: 2^k by the exponent bits, times a series for the rest."
        if s.fn == "exp"
        else "// Reciprocals: a first guess from the bits turned over, then Newton's method."
    )
    return f"{about}\nfn {name}() void {{\n{body}\n}}", f"{name}();"


def _half(array: str, count: int, offset: int) -> str:
    tail = ", .offset = 1" if offset else ""
    address = f"@ptrcast([*]u16, &{array})"
    return f"@get_dsd(mem1d_dsd, .{{ .base_address = {address}, .extent = {count}, .stride = 2{tail} }})"


def _exponentials(count: int, array: str, scratch: tuple[str, ...], dsds: tuple[str, ...]) -> list[str]:
    x, steps, out = dsds
    c = dict(EXPONENTIALS)
    lines = [
        f"@fmaxs({x}, {x}, {c['lowest']});",
        f"@fnegs({x}, {x});",
        f"@fmaxs({x}, {x}, {c['highest']});",
        f"@fnegs({x}, {x});",
        f"@fmuls({steps}, {x}, {c['per_ln_2']});",
        f"@fadds({steps}, {steps}, {c['rounder']});",
        f"@fsubs({out}, {steps}, {c['rounder']});",
        f"@fmacs({x}, {x}, {out}, {c['ln_2_high']});",
        f"@fmacs({x}, {x}, {out}, {c['ln_2_low']});",
        f"@fmuls({out}, {x}, {SERIES[0]});",
    ]
    for coefficient in SERIES[1:]:
        lines += [f"@fadds({out}, {out}, {coefficient});", f"@fmuls({out}, {out}, {x});"]
    return [
        *lines,
        f"@fadds({x}, {out}, 1.0);",
        f"const exponents = {_half(scratch[0], count, 0)};",
        f"const highs = {_half(array, count, 1)};",
        "@sll16(exponents, exponents, 7);",
        "@add16(highs, highs, exponents);",
    ]


def _reciprocals(count: int, array: str, scratch: tuple[str, ...], dsds: tuple[str, ...]) -> list[str]:
    x, error, guess = dsds
    turns = [
        f"@fmuls({error}, {x}, {guess});",
        f"@fsubs({error}, 2.0, {error});",
        f"@fmuls({guess}, {guess}, {error});",
    ]
    last = [*turns[:2], f"@fmuls({x}, {guess}, {error});"]
    return [
        f"const bits = {_half(scratch[1], count, 1)};",
        f"@xor16(bits, {_half(array, count, 1)}, 0xffff);",
        "@add16(bits, bits, 0x7ef4);",
        *turns, *turns, *last,
    ]  # fmt: skip
