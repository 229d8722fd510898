"""Every feature that docs/csl-support.md calls supported has a program that runs, with values not from the simulator.

docs/csl-conformance.md lists them. After a change on purpose, run
`PYTHONPATH=.:tests python tests/conformance/test_coverage.py` and review the difference.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from conformance.test_dsd_operations import OPERATIONS
from csl.test_support_page import section
from helpers.csl_acceptance import FOLDER
from helpers.csl_acceptance import programs as acceptances

from fabrica_bench.csl.builtins import load_all
from fabrica_bench.csl.builtins.registry import BUILTINS

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "csl-conformance.md"
#: tests that compile programs of their own and compare what they compute with NumPy or a published value
WITNESSES = (
    "csl/test_collectives_library.py",
    "csl/test_configuration_libraries.py",
    "csl/test_fft_library.py",
    "csl/test_math_library.py",
    "csl/test_message_passing_library.py",
    "csl/test_system_libraries.py",
    "compat/test_runtime.py",
)
DSD_OPERATIONS = "conformance/test_dsd_operations.py"
#: modules that programs use through another one
BUILT_ON = {
    "<kernels/fft/get_params>": "<kernels/fft/fft3d_layout>",
    "<kernels/fft/fft3d>": "<kernels/fft/fft3d_layout>",
}
#: compiled, but refused when a run reaches them: their results are not documented
UNDEFINED = {"fnormh", "fnorms"}
#: the compiler's own
INTERNAL = {"__intrinsic"}

#: programs of each row of the language table
LANGUAGE: dict[str, tuple[str, ...]] = {
    "integers of 8, 16, 32 and 64 bits": ("numbers",),
    "integers of other widths": ("integers_of_any_width",),
    "f16, f32": ("floats_of_16_bits", "numbers"),
    "bf16, cb16": ("bf16", "cb16"),
    "arrays of any rank": ("arrays",),
    "structs, anonymous structs and tuples": ("structs", "struct_builtins", "aggregates_at_run_time"),
    "packed and extern structs": ("packed_structs", "symbols"),
    "unions": ("unions",),
    "enums": ("enums",),
    "pointers to variables, arrays and functions": ("pointers",),
    "@ptrcast and *anyopaque": ("pointers",),
    "comptime_int, comptime_float, comptime_string, type": ("comptime_values", "strings"),
    "functions, recursion": ("control_flow",),
    "generic functions (anytype, comptime parameters)": ("generics",),
    "inline functions": ("inline_and_comptime",),
    "functions that return types": ("generics",),
    "if, while, for, labels, switch, block values": ("control_flow",),
    "labelled continue": ("control_flow",),
    "inline for, comptime var": ("inline_and_comptime",),
    "export, extern, linkname, align, linksection": ("symbols",),
    "lazy analysis of what is not reached": ("lazy_analysis",),
    "modules with params": ("modules",),
    "data, local and control tasks": (
        "loopback_and_data_tasks",
        "joins",
        "ids_at_run_time",
        "control_tasks",
        "control_table",
        "control_tables",
    ),
    "rotating tasks": ("rotating_tasks",),
    "mem1d and mem4d DSDs": ("mem4d", "changed_descriptors"),
    "circular-buffer DSDs": ("registers",),
    "fabric DSDs, synchronous and on microthreads": (
        "two_fabric_sources",
        "explicit_microthreads",
        "on_control",
        "simd_packing",
        "wavelet_index",
    ),
    "explicit DSRs": ("registers",),
    "FIFOs": ("fifo", "fifo_lengths"),
    "routes, switches, teardown": (
        "switch_route",
        "switch_ring",
        "switch_reset",
        "pop_modes",
        "merging_in_turn",
        "teardown",
        "teardown_task",
    ),
    "counter, sparse-counter and range filters": (
        "range_filter",
        "counter_filter",
        "counter_filter_phase",
        "counter_filter_of_controls",
        "control_filter",
        "sparse_counter_filter",
        "filter_set_at_run_time",
        "drop_until_control",
    ),
    "color swap": ("color_swap", "color_swap_axes"),
    "queue flush and empty-queue handlers": ("queue_flush", "empty_queue_handler", "rebound_queues"),
}

INTRODUCTION = """\
# Conformance programs

Programs of our own that hold the compiler, the libraries and the simulator to the documents: they run on both
architectures (on one, where the feature exists on one only), and leave in memory what their first lines say. These
values come from the documents, from NumPy, or from a calculation by hand, never from the simulator.
`tests/conformance/accept` has one file for each name; a name that ends in `.py` is a test under `tests` that compiles
programs of its own. Programs that must be refused are in `csl-rejections.md`, those that must end with a fault or a
deadlock in `tests/conformance/faults` and `deadlocks`.

This page is written by `tests/conformance/test_coverage.py`, which fails if a supported feature has no program.
"""


@cache
def arches() -> dict[str, tuple[str, ...]]:
    """Program -> architectures."""
    return {program.path.stem: program.arches for program in acceptances()}


@cache
def texts() -> dict[str, str]:
    """Program or test -> its text; of programs without comments."""
    found = {name: re.sub(r"//.*", "", (FOLDER / f"{name}.csl").read_text(encoding="utf-8")) for name in arches()}
    return found | {file: (TESTS / file).read_text(encoding="utf-8") for file in WITNESSES}


def mentioning(pattern: str) -> list[str]:
    """Programs, then tests, whose text has the pattern."""
    return [name for name, text in texts().items() if re.search(pattern, text)]


def builtin_programs(name: str) -> list[str]:
    """Programs that use a builtin."""
    vector = [DSD_OPERATIONS] if name in {operation.name for operation in OPERATIONS} else []
    return vector + mentioning(rf"@{name}\b")


def library_programs(name: str) -> list[str]:
    """Programs that import a module, or one that is built on it."""
    return mentioning(re.escape(BUILT_ON.get(name, name)))


def test_every_row_of_the_language_has_programs() -> None:
    supported = [row.name for row in section("Language") if row.status != "no"]
    assert sorted(LANGUAGE) == sorted(supported)
    assert {name for names in LANGUAGE.values() for name in names} <= set(arches())


def test_every_builtin_has_a_program() -> None:
    load_all()
    assert [name for name in sorted(set(BUILTINS) - UNDEFINED - INTERNAL) if not builtin_programs(name)] == []


def test_every_library_has_a_program() -> None:
    assert [row.name for row in section("Libraries") if row.status != "no" and not library_programs(row.name)] == []


def test_every_feature_of_both_architectures_runs_on_both() -> None:
    known = arches()
    alone = {feature for feature, names in LANGUAGE.items() if len({arch for n in names for arch in known[n]}) < 2}
    assert alone == {"color swap", "rotating tasks", "queue flush and empty-queue handlers"}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def page() -> str:
    """The text of the page."""
    load_all()
    lines = [INTRODUCTION, "## Language", "", "| feature | programs |", "|---|---|"]
    for row in section("Language"):
        if row.name in LANGUAGE:
            lines.append(f"| {row.name} | {_names(LANGUAGE[row.name])} |")
    lines += ["", "## Builtins", "", "| builtin | programs |", "|---|---|"]
    for name in sorted(set(BUILTINS) - INTERNAL):
        lines.append(f"| `@{name}` | {_names(builtin_programs(name)[:4]) or 'none: its result is not documented'} |")
    lines += ["", "## Libraries", "", "| module | programs |", "|---|---|"]
    for row in section("Libraries"):
        shown = row.name.replace("<", "&lt;").replace(">", "&gt;")
        lines.append(f"| {shown} | {_names(library_programs(row.name)[:4])} |")
    return "\n".join(lines) + "\n"


def _names(names: list[str] | tuple[str, ...]) -> str:
    known = arches()
    return ", ".join(
        f"`{name}`" + (f" ({known[name][0]})" if name in known and len(known[name]) == 1 else "") for name in names
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
