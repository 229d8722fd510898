"""Every card that holds code is compiled for the targets that it is about; those that say what they compute are run."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from fabrica_agent.knowledge.cards import CARDS, ROLES, Card, load_cards, primer_text
from fabrica_agent.stages.library import Library
from fabrica_agent.stages.settings import Settings

from fabrica_bench.compat.cslc import compile_options
from fabrica_bench.compat.cslc_options import parse_options
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.driver import compile_program
from fabrica_bench.firewall.screening import hidden_kernels
from fabrica_bench.integrity.leakage import similarity
from fabrica_bench.tasks import list_tasks
from fabrica_bench.wse.machine import Machine

BODY = """
const N: u16 = 16;
var a = @zeros([N]f32);
var b = @zeros([N]f32);
export var c = @zeros([N]f32);
export var s: f32 = 0.0;
export var k: i16 = 1;
const a_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{N} -> a[i] });
const b_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{N} -> b[i] });
const c_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{N} -> c[i] });
const run_id: local_task_id = @get_local_task_id(14);
task run() void {
BODY}
comptime {
  @bind_local_task(run, run_id);
  @activate(run_id);
}
"""
ONE_PE = 'layout {\n  @set_rectangle(1, 1);\n  @set_tile_code(0, 0, "pe.csl");\n}\n'

CODE_CARDS = [card for card in load_cards() if card.check is not None]


def compiled(card: Card, arch: str, folder: Path):
    """The card's code as a program."""
    assert card.code is not None
    if card.check == "layout":
        names = dict.fromkeys(re.findall(r"\.(\w+) = ", card.code))
        layout, pe = card.code, "".join(f"param {name};\n" for name in names)
    else:
        names = re.findall(r'@export_symbol\(\w+, "(\w+)"\)', card.code)
        functions = re.findall(r"@export_symbol\((\w+)\)", card.code)
        exports = "".join(f'  @export_name("{name}", [*]f32, true);\n' for name in names)
        exports += "".join(f'  @export_name("{name}", fn()void);\n' for name in functions)
        layout = ONE_PE.replace("}\n", exports + "}\n")
        pe = BODY.replace("BODY", card.code) if card.check == "body" else card.code
    (folder / "layout.csl").write_text(layout, encoding="utf-8")
    (folder / "pe.csl").write_text(pe, encoding="utf-8")
    flags = ["--fabric-dims=12,6", "--fabric-offsets=4,1", "--memcpy"] if "memcpy" in layout else ["--fabric-dims=6,6"]
    options = compile_options(parse_options([str(folder / "layout.csl"), f"--arch={arch}", *flags]))
    # A card shows a PE program by itself; whoever lays it out routes its colors.
    return compile_program(dataclasses.replace(options, check_routes=card.check == "layout"))


def arches(card: Card) -> tuple[str, ...]:
    return ("wse2", "wse3") if card.arch is None else (card.arch,)


@pytest.mark.parametrize("card", CODE_CARDS, ids=lambda card: card.title)
def test_the_code_of_a_card_is_what_it_says(card: Card, tmp_path: Path) -> None:
    for arch in arches(card):
        if card.check == "fails":
            with pytest.raises(CslError) as caught:
                compiled(card, arch, tmp_path)
            messages = "\n".join(diagnostic.message for diagnostic in caught.value.diagnostics)
            assert card.message in messages
            continue
        program = compiled(card, arch, tmp_path)
        if card.expect:
            name, _, values = card.expect.partition(" ")
            machine = Machine(program.program)
            machine.drain()
            wanted = ast.literal_eval(values)
            found = np.frombuffer(machine.read_symbol(0, 0, name), dtype=np.float32)[: len(wanted)]
            assert found.tolist() == wanted


def test_there_are_enough_cards_of_every_kind() -> None:
    cards = load_cards()
    assert len(cards) >= 120
    assert len({card.title for card in cards}) == len(cards)
    kinds = {card.kind for card in cards}
    assert kinds == {"language", "library", "idiom", "failure", "pattern"} == {path.stem for path in CARDS.glob("*.md")}


def test_a_card_with_code_is_checked() -> None:
    assert [card.title for card in load_cards() if (card.code is None) != (card.check is None)] == []


def test_every_role_finds_cards() -> None:
    library = Library(Settings(), "wse3")
    for role in ROLES:
        assert library.cards(role, "descriptor task color queue reduce failure loop layout"), role


def test_no_card_holds_a_kernel_of_the_benchmark() -> None:
    whole = primer_text() + "\n".join(card.body for card in load_cards())
    for task in list_tasks():
        for name, kernel in hidden_kernels(task, "W1").items():
            assert not similarity(whole, kernel).is_copy, f"{task.name} {name}"
