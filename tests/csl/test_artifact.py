"""Programs survive the round trip to disk, and nothing that isn't a program is taken for one."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabrica_bench.csl import artifact, ir
from fabrica_bench.csl.artifact import ArtifactError, decode_program, encode_program, load_program, save_program
from fabrica_bench.csl.record_codec import CodecError, RecordCodec

INSTRUCTIONS = [
    value
    for value in vars(ir).values()
    if isinstance(value, type) and issubclass(value, ir.Instr) and value is not ir.Instr
]


def program_of(*instructions: ir.Instr) -> ir.Program:
    """A program for one PE whose only function has these instructions."""
    function = ir.Function("main", "fn", 0, None, [ir.I16, ir.F32], [list(instructions)])
    image = ir.Image("pe", "pe.csl", functions={"main": function})
    return ir.Program("wse3", 1, 1, (8, 3), (4, 1), [image], [[0]], [[{}]], [], {})


def rich_program() -> ir.Program:
    """Every container of the IR is used at least once."""
    route = ir.ColorConfig(
        rx=ir.WEST,
        tx=ir.RAMP | ir.EAST,
        positions=(ir.SwitchPosition(tx=ir.EAST), None, ir.SwitchPosition(invalid=True)),
        pop_mode="pop_on_advance",
        filter=ir.FilterConfig("range", min_idx=2, max_idx=5),
    )
    dsd = ir.Dsd("mem4d", (2, 3), base=64, strides=(1, -7))
    image = ir.Image(
        name="pe#1",
        file="pe.csl",
        functions={
            "f": ir.Function(
                "f",
                "task",
                1,
                ir.F16,
                [ir.F16, ir.DSD],
                [
                    [
                        ir.MakeDsd(3, ir.Reg(1), dsd, (("base", ir.Imm(8)), ("extent", ir.Reg(0)))),
                        ir.DsdOp(
                            4,
                            None,
                            "fmacs",
                            ir.DsdArg("dsd", ir.Reg(1)),
                            (ir.DsdArg("dsr", ir.DsrRef("src1", 3)), ir.DsdArg("fifo", 0)),
                            ir.DsdConfig(is_async=True, on_done=ir.Wake("activate", id=ir.Imm(9)), ut_id=2),
                        ),
                        ir.SwitchInt(5, ir.Reg(0), ((1, 1), (-2, 1)), 1),
                    ],
                    [ir.Ret(6, None)],
                ],
                frame_size=6,
            )
        },
        globals={"a.b": ir.Global("a.b", 64, 4, b"\x00\xff\x10", "[2]i16", is_export=True)},
        tasks=[ir.TaskBinding("data", 3, "f")],
        activated=[9],
        blocked=[("task", 3)],
        queues=[ir.QueueInit("input", 2, 4, "high")],
        fifos=[ir.Fifo("q", 96, 4, 16)],
        dsr_loads=[ir.LoadDsr(1, ir.DsrRef("dest", 1), ir.Imm(dsd), ir.DsdConfig(), save_address=True)],
        teardown_handlers={5: "f"},
        empty_queue_handlers=[("input", 2, "f")],
        control_table=(4, 1),
        rotating_tasks=[("f", "f", 3, 10, 0)],
        local_colors={7: route},
        exports={"f": ir.ExportedSymbol("f", "fn", "f", "fn(f16) void", (ir.F16,))},
        config_words={0x7E00: 1},
        locations=[("", 0, 0), ("pe.csl", 3, 1)],
    )
    return ir.Program(
        arch="wse2",
        width=2,
        height=1,
        fabric=(9, 3),
        offset=(4, 1),
        images=[image, ir.Image("empty", "<empty>")],
        tiles=[[0, 1]],
        colors=[[{3: route, 11: ir.ColorConfig()}, {3: route}]],
        exports=[ir.ExportName(0, "f", "fn", "fn(f16)void", False, ("f16",))],
        params={"len": "8"},
        stream_colors={21: "h2d"},
    )


def same(left: object, right: object) -> bool:
    """Equal, also in the types of numbers and in NaNs, which `==` does not compare."""
    return repr(left) == repr(right)


def test_a_program_with_everything_survives(tmp_path: Path) -> None:
    program = rich_program()
    path = save_program(program, tmp_path / "out")
    assert path == tmp_path / "out" / "bin" / "program.json.gz"
    loaded = load_program(tmp_path / "out")
    assert loaded == program
    assert same(loaded, program)
    assert [entry.name for entry in path.parent.iterdir()] == ["program.json.gz"]


def test_the_bytes_depend_on_the_program_only() -> None:
    assert encode_program(rich_program()) == encode_program(rich_program())


def test_a_file_is_replaced(tmp_path: Path) -> None:
    save_program(rich_program(), tmp_path)
    save_program(program_of(ir.Ret(0, None)), tmp_path)
    assert load_program(tmp_path) == program_of(ir.Ret(0, None))


FLOATS = st.floats(allow_nan=True, allow_infinity=True)
OPERANDS = st.one_of(
    st.builds(ir.Reg, st.integers(0, 99)),
    st.builds(ir.Imm, st.integers(-(2**63), 2**64)),
    st.builds(ir.Imm, FLOATS),
    st.builds(ir.Imm, st.builds(ir.Dsd, kind=st.just("fabin"), extents=st.tuples(st.integers(0, 9)))),
    st.builds(ir.Sym, st.text(max_size=5), st.integers(-9, 9)),
    st.builds(ir.FnAddr, st.text(max_size=5)),
)
st.register_type_strategy(ir.Imm, OPERANDS.filter(lambda operand: isinstance(operand, ir.Imm)))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(INSTRUCTIONS).flatmap(st.from_type), max_size=4))
def test_any_instruction_survives(instructions: list[ir.Instr]) -> None:
    program = program_of(*instructions)
    assert same(decode_program(encode_program(program)), program)


@given(OPERANDS)
def test_any_operand_survives(operand: ir.Operand) -> None:
    program = program_of(ir.Move(1, ir.Reg(0), operand))
    assert same(decode_program(encode_program(program)), program)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 5e-324, math.inf, -math.inf, math.nan])
def test_special_floats_keep_their_bits(value: float) -> None:
    loaded = decode_program(encode_program(program_of(ir.Ret(0, ir.Imm(value)))))
    ret = loaded.images[0].functions["main"].blocks[0][0]
    assert isinstance(ret, ir.Ret)
    assert isinstance(ret.value, ir.Imm)
    assert np.float64(ret.value.value).tobytes() == np.float64(value).tobytes()  # type: ignore[arg-type]


def test_numbers_of_numpy_are_stored_as_plain_numbers() -> None:
    integer: Any = np.int16(7)
    program = program_of(ir.Move(1, ir.Reg(0), ir.Imm(integer)), ir.Ret(0, ir.Imm(np.float64(0.5))))
    first, second = decode_program(encode_program(program)).images[0].functions["main"].blocks[0]
    assert same(first, ir.Move(1, ir.Reg(0), ir.Imm(7)))
    assert same(second, ir.Ret(0, ir.Imm(0.5)))


def test_a_wafer_part_of_ten_thousand_pes_is_small() -> None:
    program = program_of(ir.Ret(0, None))
    route = {color: ir.ColorConfig(rx=ir.WEST, tx=ir.EAST) for color in range(8)}
    program.width = program.height = 100
    program.tiles = [[0] * 100 for _ in range(100)]
    program.colors = [[dict(route) for _ in range(100)] for _ in range(100)]
    data = encode_program(program)
    assert len(data) < 100_000
    loaded = decode_program(data)
    assert loaded == program
    loaded.colors[0][0].clear()
    assert loaded.colors[0][1] == route, "PEs don't share their color tables"


# --------------------------------------------------------------------------------------------- bad programs


def bad(cls: Any, *values: Any) -> ir.Instr:
    """An instruction that its annotations forbid."""
    return cls(*values)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (bad(ir.Move, "1", ir.Reg(0), ir.Imm(1)), r"blocks\[0\]\[0\].loc: expected an integer, got str '1'"),
        (bad(ir.Move, 1, ir.Reg(0), 5), r"\[0\].src: expected FnAddr or Imm or Reg or Sym, got int 5"),
        (bad(ir.Bin, 1, ir.Reg(0), "pow", ir.I16, ir.Reg(0), ir.Reg(1)), "expected one of 'add'.*got str 'pow'"),
        (bad(ir.Instr, 1), r"blocks\[0\]\[0\]: expected a known class, got Instr"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_when_saved(instruction: ir.Instr, text: str, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=text):
        save_program(program_of(instruction), tmp_path)
    assert not list(tmp_path.rglob("*.gz"))


# ------------------------------------------------------------------------------------------ bad documents


def document(program: ir.Program | None = None) -> dict[str, Any]:
    return json.loads(gzip.decompress(encode_program(program or program_of(ir.Ret(0, None)))))  # type: ignore[no-any-return]


def packed(content: Any) -> bytes:
    return gzip.compress(json.dumps(content).encode(), mtime=0)


def test_a_missing_program_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no compiled program here") as caught:
        load_program(tmp_path)
    assert caught.value.remedy is not None
    assert "cslc" in caught.value.remedy


def test_damage_is_reported_with_the_file(tmp_path: Path) -> None:
    path = save_program(rich_program(), tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ArtifactError, match="cut off") as caught:
        load_program(tmp_path)
    assert caught.value.place == str(path)


def mutated(change: str) -> Any:
    content = document()
    if change == "class":
        content["classes"]["Exec"] = ["command"]
    elif change == "field":
        content["classes"]["Ret"].append("surprise")
    elif change == "missing field":
        content["classes"]["Ret"].remove("value")
    elif change == "missing class":
        del content["classes"]["Ret"]
    elif change == "version":
        content["version"] = 99
    elif change == "format":
        content["format"] = "other"
    elif change == "key":
        content["extra"] = 1
    elif change == "pools":
        del content["pools"]["ScalarType"]
    else:
        content["program"][0] = "wse9"
    return content


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("class", "unknown class 'Exec'"),
        ("field", "unknown field str 'surprise' of class 'Ret'"),
        ("missing field", "field 'value' of class 'Ret' is missing"),
        ("missing class", "class 'Ret' is missing"),
        ("version", "version 99"),
        ("format", "not a compiled CSL program"),
        ("key", "has the keys"),
        ("pools", "shared values"),
        ("value", "arch: expected one of 'wse2', 'wse3', got str 'wse9'"),
    ],
)
def test_a_document_of_another_make_is_refused(change: str, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        decode_program(packed(mutated(change)))


def test_an_unknown_instruction_class_is_refused() -> None:
    content = document()
    text = json.dumps(content).replace('["Ret", 0', '["Quit", 0')
    with pytest.raises(CodecError, match=r"blocks\[0\]\[0\]: expected a known class, got unknown class 'Quit'"):
        decode_program(gzip.compress(text.encode(), mtime=0))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "cut off"),
        (b"plain text", "damaged"),
        (gzip.compress(b"{", mtime=0), "not JSON"),
        (gzip.compress(b"[" * 200_000, mtime=0), "nested too deeply|not JSON"),
        (gzip.compress(b"9" * 5000, mtime=0), "not JSON"),
        (packed([]), "not a compiled CSL program"),
    ],
)
def test_data_that_is_no_document_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        decode_program(data)


def test_a_document_that_expands_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_JSON_BYTES", 1000)
    with pytest.raises(CodecError, match="larger than"):
        decode_program(gzip.compress(b" " * 2000, mtime=0))


def test_tables_must_fit_the_size_of_the_program() -> None:
    program = program_of(ir.Ret(0, None))
    program.width = 2
    with pytest.raises(CodecError, match="tiles: expected 1 rows of 2 PEs"):
        encode_program(program)
    program.width = 1
    program.tiles = [[4]]
    with pytest.raises(CodecError, match=r"tiles\[0\]\[0\]: there is no image 4"):
        encode_program(program)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_one_changed_value_is_loaded_as_a_program_or_refused(data: st.DataObject) -> None:
    content = document(rich_program())
    node: Any = content["program"]
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.integers(0, 9)) == 0:
            break
        node = node[key]
    node[key] = data.draw(LEAVES | st.lists(LEAVES, max_size=2))
    try:
        loaded = decode_program(packed(content))
    except CodecError:
        return
    assert same(decode_program(encode_program(loaded)), loaded)


def test_annotations_without_a_json_form_are_a_programming_error() -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        RecordCodec([]).coder(set[int])
