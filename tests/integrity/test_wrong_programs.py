"""Wrong programs are made from kernels by their syntax tree, and differ from them in what their names say."""

from __future__ import annotations

import numpy as np
import pytest

from fabrica_bench.csl.lexer import tokenize
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.integrity.device_facts import Program, Symbol
from fabrica_bench.integrity.honest_variants import VARIANTS, all_at_once
from fabrica_bench.integrity.mutants import FAMILY as RESULTS
from fabrica_bench.integrity.program_mutations import KINDS, mutations
from fabrica_bench.integrity.syntax import functions, parse_text
from fabrica_bench.integrity.wrong_programs import FAMILY, Inapplicable, splice
from fabrica_bench.tasks import load_task

TASK = load_task("ReLU-1PE")
PLAIN = (TASK.bundle_dir / "plain.csl").read_text(encoding="utf-8")
LOOPS = (load_task("Laplacian2D-Halo").bundle_dir / "plain.csl").read_text(encoding="utf-8")


def program(outputs: int = 4, inputs: int = 8, dtype: str = "f32") -> Program:
    words = np.full((1, 1, outputs), 0x3F800001, dtype=np.uint32)
    return Program(
        "BEGIN;END;",
        (Symbol("y", "y_ptr", dtype, outputs, words),),
        (Symbol("x", "x_ptr", "f32", inputs),) if inputs else (),
        (6,),
        (6,),
        (1, 1),
    )


def test_the_family_has_every_kind_of_the_compared_results() -> None:
    assert set(FAMILY) >= set(RESULTS)


def test_statements_go_after_the_start_and_before_the_end() -> None:
    assert splice(program(), begin="a();", end="b();", declare="c").split() == ["BEGIN;", "a();", "b();", "END;", "c"]


@pytest.mark.parametrize("name", FAMILY)
def test_each_is_wrong_in_its_way_or_says_why_it_can_not_be(name: str) -> None:
    made = FAMILY[name](program())
    assert isinstance(made, str)
    assert "y_ptr[" in made or "x_ptr[" in made
    assert made.index("END;") > made.index("BEGIN;")


def test_what_can_not_be_wrong_gives_a_rule() -> None:
    def rule(name: str, given: Program) -> str:
        made = FAMILY[name](given)
        assert isinstance(made, Inapplicable)
        return made.rule

    assert "no order" in rule("wrong order", program(outputs=1))
    assert "half precision" in rule("lower precision", program(dtype="f16"))
    assert "stale output" in rule("copy of the input", program(inputs=0))
    assert "no part" in rule("last element only", program(outputs=1, inputs=1))


def test_mutations_change_one_place_and_name_it() -> None:
    found = mutations(LOOPS, 2)
    assert {item.kind for item in found} == set(KINDS)
    for item in found:
        changed = [a for a, b in zip(LOOPS.splitlines(), item.text.splitlines(), strict=False) if a != b]
        assert item.text != LOOPS
        assert changed
        line = int(item.place.removeprefix("line ").split(":")[0])
        assert LOOPS.splitlines()[line - 1] != item.text.splitlines()[line - 1]
    assert len({item.text for item in found}) == len(found)


def test_a_loop_runs_one_time_less() -> None:
    (short,) = (item for item in mutations(PLAIN, 1) if item.kind == "loop one short")
    assert "while ((i) + 1 < n)" in short.text


@pytest.mark.parametrize("name", VARIANTS)
def test_honest_variants_are_programs_with_other_text(name: str) -> None:
    text = VARIANTS[name](LOOPS, "window.csl")
    assert text != LOOPS
    assert len(functions(parse_text("pe.csl", text))) >= len(functions(parse_text("pe.csl", LOOPS)))


def test_a_new_name_is_used_everywhere_and_the_interface_is_kept() -> None:
    words = {token.text for token in tokenize(virtual_source("", all_at_once(PLAIN, "window.csl"))).tokens}
    assert {"my_x", "my_out_ptr", "my_value", "compute", "window", "sys_mod", "n", '"out"'} <= words
    assert not {"x", "out", "out_ptr", "value"} & words
