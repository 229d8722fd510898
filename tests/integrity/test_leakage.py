"""A copy is a copy in any dress; an independent program, or what everybody is shown, is not."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from helpers.double_it import double_it, expert
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.firewall.disguise import disguised
from fabrica_bench.firewall.screening import candidate_leaks, leaks, public_texts, reference_share
from fabrica_bench.integrity.leakage import check_leakage, lexical_fingerprints, similarity, tree_fingerprints
from fabrica_bench.tasks import Task, list_tasks, load_task
from fabrica_bench.tasks.canary import canary_of, with_canary, without_canary

TASKS = list_tasks()
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)
MODEL = load_task("Laplacian2D-Halo")


def kernel(task: Task, name: str) -> str:
    """A kernel without its canary."""
    return without_canary((task.bundle_dir / name).read_text(encoding="utf-8"))


def reordered(text: str) -> str:
    """The functions, each with its comments, from the last to the first."""
    parts = re.split(r"(?m)^(?=(?:fn|task) )", text)
    last, rest = re.split(r"(?m)^(?=comptime)", parts[-1], maxsplit=1)
    return "".join([parts[0], last, *reversed(parts[1:-1]), rest])


def padded(text: str) -> str:
    """Much other code around it."""
    return text + "".join(f"fn pad_{i}(a: f32) f32 {{ return a * {i}.0 + {i + 1}.0; }}\n" for i in range(200))


DRESSES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "names and layout changed": lambda text: disguised(text, "window.csl"),
    "functions reordered": reordered,
    "padded": padded,
    "numbers changed": lambda text: re.sub(r"\b1\b", "0x1", text),
    "parentheses added": lambda text: re.sub(r"= (\w+);", r"= (\1);", text),
    "in a prompt": lambda text: f"Here is a hint:\n```csl\n{text}```\nGood luck!",
    "in prose without a fence": lambda text: f"Here is a hint:\n{text}\nGood luck!",
}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES.keys())
def test_a_copy_is_found_in_any_dress(dress: Callable[[str], str]) -> None:
    found = leaks(dress(kernel(MODEL, "pe.csl")), MODEL, "W1", "somewhere")
    assert [str(item)[:42] for item in found] == ["somewhere: is a copy of Laplacian2D-Halo's"]


@BY_NAME
def test_every_reference_is_found_in_disguise_and_its_plain_kernel_is_no_copy(task: Task) -> None:
    compute = task.spec.bundle.compute
    copy = disguised(kernel(task, compute), task.spec.bundle.window)
    found = candidate_leaks({compute: copy}, task, "W1")
    assert len(found) == 1
    assert found[0].predicate == "Contract"
    assert candidate_leaks({compute: kernel(task, str(task.spec.bundle.plain))}, task, "W1") == []


@BY_NAME
def test_what_everybody_is_shown_is_no_leak(task: Task) -> None:
    for text in (*public_texts(task, "W1"), task.cuda_path.read_text(encoding="utf-8")):
        assert leaks(text, task, "W1") == []


@BY_NAME
def test_both_kernels_end_with_their_canary(task: Task) -> None:
    for name in (task.spec.bundle.compute, str(task.spec.bundle.plain)):
        text = (task.bundle_dir / name).read_text(encoding="utf-8")
        assert with_canary(text, task.name, name) == text


def test_a_canary_gives_even_a_small_part_away() -> None:
    text = f"x = 1; // {canary_of(MODEL.name, 'plain.csl')}"
    assert "holds the canary of Laplacian2D-Halo's plain.csl" in leaks(text, MODEL, "W1")[0].message
    assert leaks(text, MODEL, "W2") == []  # where the plain kernel is what the agent is given
    assert len({canary_of(task.name, name) for task in TASKS for name in ("pe.csl", "plain.csl")}) == 2 * len(TASKS)


def test_half_a_copy_scores_between() -> None:
    lines = kernel(MODEL, "pe.csl").splitlines()
    half = similarity("\n".join(lines[: len(lines) // 2]), kernel(MODEL, "pe.csl")).share
    assert 0.1 < half < 0.9
    assert reference_share({"pe.csl": kernel(MODEL, "pe.csl")}, MODEL, "W1") == 1.0


def test_a_small_kernel_counts_as_copied_only_as_a_whole() -> None:
    text = expert()
    assert similarity(text, text, public_texts(double_it(), "W1")).total < 60
    public = public_texts(double_it(), "W1")
    assert check_leakage(text, text, task="T", file="f", public=public) != []
    other = text.replace("@fadds(y_dsd, x_dsd, x_dsd)", "@fmuls(y_dsd, x_dsd, 2.0)")
    assert check_leakage(other, text, task="T", file="f", public=public) == []


def test_prose_is_no_leak() -> None:
    assert similarity("Write twice the input x to y, on one PE, within the timing window. " * 20, expert()).share == 0.0


@BY_NAME
def test_a_disguised_reference_still_parses(task: Task) -> None:
    text = disguised(kernel(task, task.spec.bundle.compute), task.spec.bundle.window)
    parse_file(virtual_source("pe.csl", text))
    assert "//" not in text.splitlines()[1]


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_is_accepted_and_shares_lie_between_0_and_1(text: str, reference: str) -> None:
    assert 0.0 <= similarity(text * 3, reference).share <= 1.0
    assert isinstance(tree_fingerprints(text), frozenset)


@pytest.mark.parametrize("piece", ['\\"', "\\'", '"\\', "'\"\\"])
def test_a_line_of_unclosed_quotes_takes_no_time_to_speak_of(piece: str) -> None:
    begin = time.monotonic()
    lexical_fingerprints('"' + piece * 100_000)
    assert time.monotonic() - begin < 20
