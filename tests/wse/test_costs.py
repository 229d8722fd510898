"""The cost tables: complete, sourced, the same entries for both architectures."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fabrica_bench.wse.costs import load_costs
from fabrica_bench.wse.elementwise import OPS


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_every_entry_says_where_it_comes_from(arch: str) -> None:
    for entry in load_costs(arch):
        assert entry.source.strip(), entry.name
        assert entry.unit.strip(), entry.name


def test_both_architectures_have_the_same_entries() -> None:
    assert {entry.name for entry in load_costs("wse2")} == {entry.name for entry in load_costs("wse3")}


@pytest.mark.parametrize("op", sorted(OPS))
def test_every_dsd_operation_has_a_width(op: str) -> None:
    assert load_costs("wse2")[f"dsd_width.{op}"] >= 1


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(ValueError, match="expected wse2 or wse3"):
        load_costs("wse1")


def test_measured_hop_and_ramp_latencies() -> None:
    assert [load_costs(a)["fabric.hop"] for a in ("wse2", "wse3")] == [1, 2]
    assert [load_costs(a)["fabric.ramp"] for a in ("wse2", "wse3")] == [2, 3]


# ------------------------------------------------------------------------------------- no number of time elsewhere

SOURCES = Path(load_costs.__wrapped__.__code__.co_filename).parent
CLOCKS = {"t", "start", "expected", "ended", "issued"}  # attributes that hold a cycle


def _numbers(node: ast.AST) -> list[object]:
    """Literals of an expression that could be a cost: 0 and 1 are no cycle and the next one; shifts are fractions."""
    skipped = {id(n.right) for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.RShift)}
    return [
        n.value
        for n in ast.walk(node)
        if isinstance(n, ast.Constant)
        and id(n) not in skipped
        and isinstance(n.value, int | float)
        and not isinstance(n.value, bool)
        and n.value not in (0, 1)
    ]


def _timed_with_literals(text: str) -> list[str]:
    """Statements that set a clock, a cost or a count of cycles from a number in the code."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.attr for target in targets if isinstance(target, ast.Attribute)}
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
            timed = any("cycles" in n or "cost" in n for n in names)
            timed |= any(isinstance(target, ast.Attribute) and target.attr in CLOCKS for target in targets)
            if timed and _numbers(node.value):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if name == "wake_pe" and any(_numbers(argument) for argument in node.args):
                found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("text", ["pe.t += 3", "op.start = now + 6", "cycles = count * 2", "wake_pe(m, pe, now + 3)"])
def test_a_number_of_cycles_in_the_code_is_found(text: str) -> None:
    assert _timed_with_literals(text) == [text]


@pytest.mark.parametrize(
    "path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)).replace("/", ".")
)
def test_nothing_about_time_is_in_the_code(path: Path) -> None:
    assert _timed_with_literals(path.read_text(encoding="utf-8")) == []


def test_every_entry_is_used() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.parent.rglob("*.py"))
    unused = []
    for entry in load_costs("wse3"):
        section, key = entry.name.split(".")
        stem, _, ending = key.rpartition("_")
        # Some names are put together: by operation, by width, by field of a DSD.
        parts = {
            "dsd_width": True,
            "silicon": True,
            "math": True,
            "scalar": ending in ("wide", "quad") and f'"{section}.{stem}' in text,
            "dsd": stem == "set" and 'f"dsd.set_{field}"' in text,
        }
        if f'"{entry.name}"' not in text and not parts.get(section, False):
            unused.append(entry.name)
    assert unused == []
