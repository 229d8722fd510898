"""Every DSD operation in every operand form, on memory descriptors and on explicit registers, against NumPy.

One program per architecture runs all of them; each writes a result of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.csl_acceptance import run

N = 7
DTYPES = {"i16": np.int16, "u16": np.uint16, "u32": np.uint32, "f16": np.float16, "f32": np.float32}
Values = dict[str, Any]


class Operation(NamedTuple):
    """Types of destination and sources, legal forms (d, s: vector; p: pointer; v: scalar), and what it computes."""

    name: str
    dest: str
    sources: tuple[str, ...]
    forms: tuple[str, ...]
    function: Callable[..., Any]


def fused(dtype: type) -> Callable[..., Any]:
    """a + b * v with one rounding: products of the operands are exact in float64."""
    return lambda a, b, v: (np.float64(a) + np.float64(b) * np.float64(v)).astype(dtype)


def counted(function: Callable[[int], int]) -> Callable[..., Any]:
    return lambda a: np.array([function(int(x)) for x in np.atleast_1d(a)])


def leading_zeros(a: int) -> int:
    return 16 - a.bit_length()


def trailing_zeros(a: int) -> int:
    return next((k for k in range(16) if a >> k & 1), 16)


BINARY = ("dss", "dvs", "dsv")
REDUCING = (*BINARY, "pvs")
MOVE = ("ds", "ps", "dv")
UNARY = ("ds", "dv")

OPERATIONS = [
    Operation("add16", "i16", ("i16", "i16"), BINARY, lambda a, b: a + b),
    Operation("add16", "u16", ("u16", "u16"), BINARY, lambda a, b: a + b),
    Operation("sub16", "i16", ("i16", "i16"), ("dss", "dsv"), lambda a, b: a - b),
    Operation("and16", "u16", ("u16", "u16"), BINARY, lambda a, b: a & b),
    Operation("or16", "u16", ("u16", "u16"), BINARY, lambda a, b: a | b),
    Operation("xor16", "i16", ("i16", "i16"), BINARY, lambda a, b: a ^ b),
    Operation("sll16", "u16", ("u16", "count"), ("dss", "dsv"), lambda a, b: a << b),
    Operation("slr16", "u16", ("u16", "count"), ("dss", "dsv"), lambda a, b: a >> b),
    Operation("sar16", "i16", ("i16", "count"), ("dss", "dsv"), lambda a, b: a >> b.astype(np.int16)),
    Operation("clz", "u16", ("u16",), UNARY, counted(leading_zeros)),
    Operation("ctz", "u16", ("u16",), UNARY, counted(trailing_zeros)),
    Operation("popcnt", "u16", ("u16",), UNARY, counted(int.bit_count)),
    Operation("mov16", "i16", ("i16",), MOVE, lambda a: a),
    Operation("mov32", "u32", ("u32",), MOVE, lambda a: a),
    Operation("fmovh", "f16", ("f16",), MOVE, lambda a: a),
    Operation("fmovs", "f32", ("f32",), MOVE, lambda a: a),
    *(
        Operation(f"f{name}{suffix}", kind, (kind, kind), REDUCING, function)
        for suffix, kind in (("h", "f16"), ("s", "f32"))
        for name, function in (
            ("add", lambda a, b: a + b),
            ("sub", lambda a, b: a - b),
            ("mul", lambda a, b: a * b),
            ("max", np.maximum),
        )
    ),
    Operation("faddhs", "f32", ("f32", "f16"), ("dss", "pvs", "dsv"), lambda a, b: a + b.astype(np.float32)),
    Operation("fmach", "f16", ("f16", "f16", "f16"), ("dssv",), fused(np.float16)),
    Operation("fmacs", "f32", ("f32", "f32", "f32"), ("dssv",), fused(np.float32)),
    Operation("fmachs", "f32", ("f32", "f16", "f16"), ("dssv",), fused(np.float32)),
    Operation("fabsh", "f16", ("f16",), UNARY, np.abs),
    Operation("fabss", "f32", ("f32",), UNARY, np.abs),
    Operation("fnegh", "f16", ("f16",), UNARY, lambda a: -a),
    Operation("fnegs", "f32", ("f32",), UNARY, lambda a: -a),
    Operation("fh2s", "f32", ("f16",), UNARY, lambda a: a),
    Operation("fs2h", "f16", ("f32",), UNARY, lambda a: a),
    # How a fraction is rounded isn't documented, so the numbers are whole.
    Operation("fh2xp16", "i16", ("whole_f16",), (*UNARY, "pv"), lambda a: a),
    Operation("fs2xp16", "i16", ("whole_f32",), (*UNARY, "pv"), lambda a: a),
    Operation("xp162fh", "f16", ("i16",), UNARY, lambda a: a),
    Operation("xp162fs", "f32", ("i16",), UNARY, lambda a: a),
    Operation("fscaleh", "f16", ("f16", "power"), ("pvv",), lambda a, k: np.ldexp(a, k)),
    Operation("fscales", "f32", ("f32", "power"), ("pvv",), lambda a, k: np.ldexp(a, k)),
]
CSL_TYPES = {"count": "u16", "power": "i16", "whole_f16": "f16", "whole_f32": "f32"}


class Case(NamedTuple):
    number: int
    operation: Operation
    form: str
    by_register: bool

    @property
    def name(self) -> str:
        return f"@{self.operation.name}({', '.join(self.form)}){' by register' if self.by_register else ''}"


def all_cases() -> list[Case]:
    found: list[Case] = []
    for operation in OPERATIONS:
        for form in operation.forms:
            for by_register in (False, True):
                if not by_register or set(form) <= {"d", "s"}:
                    found.append(Case(len(found), operation, form, by_register))
    return found


def inputs() -> Values:
    """Arrays (name_0, name_1: per source slot) and scalars (name_v) of each kind."""
    rng = np.random.default_rng(3)
    make: dict[str, Callable[[int], Any]] = {
        "i16": lambda n: rng.integers(-300, 300, n, dtype=np.int16),
        "u16": lambda n: rng.integers(0, 1 << 16, n, dtype=np.uint16),
        "u32": lambda n: rng.integers(0, 1 << 32, n, dtype=np.uint32),
        "f16": lambda n: rng.normal(0, 3, n).astype(np.float16),
        "f32": lambda n: rng.normal(0, 3, n).astype(np.float32),
        "count": lambda n: rng.integers(0, 16, n, dtype=np.uint16),
        "power": lambda n: rng.integers(-3, 4, n, dtype=np.int16),
        "whole_f16": lambda n: rng.integers(-2000, 2000, n).astype(np.float16),
        "whole_f32": lambda n: rng.integers(-30000, 30000, n).astype(np.float32),
    }
    values: Values = {}
    for kind, function in make.items():
        for slot in (0, 1):
            values[f"{kind}_{slot}"] = function(N)
        values[f"{kind}_v"] = function(1)[0]
    return values


def program(cases: list[Case], values: Values) -> str:
    """The source: data, one result per case, and a task that runs all cases."""
    lines = []
    for name, value in values.items():
        kind = name.rsplit("_", 1)[0]
        type_ = CSL_TYPES.get(kind, kind)
        shown = [_literal(item, type_) for item in np.atleast_1d(value)]
        if np.ndim(value):
            lines.append(f"var {name} = [{N}]{type_} {{ {', '.join(shown)} }};")
            lines.append(f"const d_{name} = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{N}}} -> {name}[i] }});")
        else:
            lines.append(f"var {name}: {type_} = {shown[0]};")
    body = []
    for case in cases:
        dest = case.operation.dest
        if case.form[0] == "d":
            name = f"r{case.number}"
            lines.append(f"export var {name}: [{N}]{dest};")
            lines.append(f"const d_{name} = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{N}}} -> {name}[i] }});")
        else:
            lines.append(f"export var r{case.number}: {dest};")
        body += _call(case)
    text = "\n".join(lines) + "\nconst to = @get_dsr(dsr_dest, 4);\nconst a = @get_dsr(dsr_src0, 4);\n"
    text += "const b = @get_dsr(dsr_src1, 4);\n"
    for number, start in enumerate(range(0, len(body), 20)):
        text += f"fn part{number}() void {{\n  " + "\n  ".join(body[start : start + 20]) + "\n}\n"
    calls = " ".join(f"part{number}();" for number in range(-(-len(body) // 20)))
    return f"""{text}task main() void {{ {calls} }}
comptime {{
  @bind_local_task(main, @get_local_task_id(10));
  @activate(@get_local_task_id(10));
}}
"""


def _literal(value: Any, type_: str) -> str:
    if type_ in ("f16", "f32"):
        number = np.format_float_positional(np.float64(value), unique=True, trim="0")
        return f"@as({type_}, {number})"
    return str(int(value))


def _call(case: Case) -> list[str]:
    operation = case.operation
    vectors = [f"d_{kind}_{min(slot, 1)}" for slot, kind in enumerate(operation.sources)]
    if case.by_register:
        registers = ["b"] if len(vectors) == 1 else ["a", "b"]
        loads = [f"@load_to_dsr({name}, {vector});" for name, vector in zip(registers, vectors, strict=True)]
        arguments = ", ".join(["to", *registers])
        return [f"@load_to_dsr(to, d_r{case.number}); {' '.join(loads)} @{operation.name}({arguments});"]
    operands = [
        vector if code == "s" else f"{kind}_v"
        for code, kind, vector in zip(case.form[1:], operation.sources, vectors, strict=True)
    ]
    prepare = ""
    target = f"d_r{case.number}" if case.form[0] == "d" else f"&r{case.number}"
    if case.form == "pvs":
        # A running result: it starts with the scalar, which is the destination's own value.
        prepare, operands[0] = f"r{case.number} = {operation.sources[0]}_v; ", f"r{case.number}"
    return [f"{prepare}@{operation.name}({target}, {', '.join(operands)});"]


def expected(case: Case, values: Values) -> Any:
    operation, form = case.operation, case.form
    dtype = DTYPES[operation.dest]
    taken = [
        values[f"{kind}_v"] if code == "v" else values[f"{kind}_{min(slot, 1)}"]
        for slot, (code, kind) in enumerate(zip(form[1:], operation.sources, strict=True))
    ]
    with np.errstate(over="ignore"):
        if form == "pvs":
            result = taken[0]
            for item in taken[1]:
                result = np.asarray(operation.function(result, item)).astype(dtype)
            return result
        result = np.asarray(operation.function(*taken)).astype(dtype)
    if form == "ps":
        return result[-1]
    return np.broadcast_to(result, N) if form[0] == "d" else result.reshape(())


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_every_operation_in_every_form_computes_what_numpy_does(arch: str, tmp_path: Path) -> None:
    cases, values = all_cases(), inputs()
    source = tmp_path / "pe.csl"
    source.write_text(program(cases, values), encoding="utf-8")
    for machine in run(source, arch, (), tmp_path):
        wrong = {}
        for case in cases:
            want = expected(case, values)
            got = np.frombuffer(machine.read_symbol(0, 0, f"r{case.number}"), want.dtype)
            if not np.array_equal(got, np.atleast_1d(want)):
                wrong[case.name] = (got.tolist(), np.atleast_1d(want).tolist())
        assert wrong == {}
