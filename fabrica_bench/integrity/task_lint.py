"""Lint of a task: is its folder complete, its oracle usable, and its bundle what its spec says?

Nothing is built or run here; `fabrica-bench tasks validate` does that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.errors import FabricaError
from fabrica_bench.integrity.frozen import BrokenReference, check_program, window_use
from fabrica_bench.integrity.syntax import parse_text
from fabrica_bench.tasks import Arrays, Task, load_task
from fabrica_bench.tasks.canary import canary_of
from fabrica_bench.tasks.recording import comparisons
from fabrica_bench.tasks.seeds import visible_seed
from fabrica_bench.tasks.selection import shipped_tasks_root
from fabrica_bench.tasks.sync import MODEL_TASK

FIXED_FILES: Final = ("spec.yaml", "task.md", "oracle.py", "cuda/kernel.cu")
"""Files of every task beside its bundle."""

GUIDE: Final = "see docs/adding-a-task.md"


@dataclass(frozen=True)
class Problem:
    """What is wrong with a task: where, and what to do about it."""

    place: str
    message: str
    remedy: str = GUIDE
    about_inputs: bool = False
    """Whether every input matters isn't shown: one doesn't, or the oracle can't be asked."""

    def to_json(self) -> dict[str, str]:
        """JSON values for `--json` output."""
        return {"place": self.place, "message": self.message, "remedy": self.remedy}


def lint_task(task: Task) -> list[Problem]:
    """Everything that can be found wrong without building the task; an empty list when there is nothing.

    Checks that need a file are left out while that file is missing.
    """
    problems = list(_files(task))
    if problems:
        return [replace(problem, about_inputs=True) for problem in problems]
    return [
        *_oracle(task),
        *_bundle(task),
        *_window(task),
        *_canaries(task),
        *_texts(task),
        *_bounds(task),
    ]


def _files(task: Task) -> Iterator[Problem]:
    wanted = {*FIXED_FILES, *(f"csl/{name}" for name in task.spec.bundle.files)}
    present = {
        path.relative_to(task.root).as_posix()
        for path in task.root.rglob("*")
        if not path.is_dir() and "__pycache__" not in path.parts
    }
    for name in sorted(wanted - present):
        yield Problem(str(task.root / name), "is missing")
    for name in sorted(present - wanted):
        yield Problem(str(task.root / name), "doesn't belong to a task", "remove it, or name it under `bundle`")
    for name in sorted(wanted & present):
        path = task.root / name
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            yield Problem(str(path), f"byte {error.start} is not UTF-8", "save the file as UTF-8")
        except OSError as error:
            yield Problem(str(path), (error.strerror or str(error)).lower(), "check its mode")
    for name in task.spec.bundle.commands.values():
        script = task.bundle_dir / name
        if script.is_file() and not os.access(script, os.X_OK):
            yield Problem(str(script), "is not executable", f"chmod +x {name}")


# -------------------------------------------------------------------------------------------------- oracle


def _oracle(task: Task) -> Iterator[Problem]:
    place = str(task.root / "oracle.py")
    try:
        for size_name in task.spec.size_names:
            size = task.size(size_name)
            for index, distribution in enumerate(task.distributions):
                inputs = task.inputs(visible_seed(task.name, index), size, distribution)
                task.allowed_error(inputs, task.expected(inputs, size), size)
        size = task.size(task.spec.size_names[0])
        for distribution in task.distributions:
            one, again, other = (task.inputs(seed, size, distribution) for seed in (1, 1, 2))
            if not _same(one, again):
                yield Problem(place, f"the same seed gives different inputs ({distribution})", "draw from `rng` only")
            if _same(one, other):
                yield Problem(place, f"every seed gives the same inputs ({distribution})", "draw from `rng`")
        for name in _ignored_inputs(task, size):
            yield Problem(place, f"no output depends on input '{name}'", "use it, or leave it out of the spec", True)
        if _zeros_pass(task, size):
            yield Problem(place, "outputs of zeros would be right", "choose another distribution or a closer tolerance")
    except FabricaError as error:
        yield Problem(error.place or place, error.message, error.remedy or GUIDE, True)


def _same(one: Arrays, other: Arrays) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def _ignored_inputs(task: Task, size: dict[str, int]) -> Iterator[str]:
    """Inputs of which no looked-at element moves an output by more than its tolerance."""
    inputs = task.inputs(7, size, task.distributions[0])
    expected = task.expected(inputs, size)
    allowed = task.allowed_error(inputs, expected, size)
    for name, array in inputs.items():
        flat = array.ravel()
        places = sorted({0, flat.size // 3, flat.size - 1}) if flat.size else []
        if not any(_moves(task, size, inputs, expected, allowed, name, place) for place in places):
            yield name


def _moves(
    task: Task, size: dict[str, int], inputs: Arrays, expected: Arrays, allowed: Arrays, name: str, place: int
) -> bool:
    values = inputs[name].ravel()
    value = values[place]
    if values.dtype.kind == "f":
        others = [np.abs(value) + 1, 1000 * (np.abs(values).max() + 1)]  # a maximum only moves with the largest
    else:
        others = [value + 1, value ^ 64, value // 2, 1]  # neighbours may count as one, a limit matters from below
    for other in others:
        changed = {key: value.copy() for key, value in inputs.items()}
        flat: np.ndarray[Any, Any] = changed[name].ravel()  # a view: the copy is contiguous
        flat[place] = np.asarray(other, dtype=flat.dtype)
        moved = task.expected(changed, size)
        if any(bool((np.abs(moved[key] - expected[key]) > allowed[key]).any()) for key in expected):
            return True
    return False


def _zeros_pass(task: Task, size: dict[str, int]) -> bool:
    for index, distribution in enumerate(task.distributions):
        inputs = task.inputs(visible_seed(task.name, index), size, distribution)
        zeros = {
            output.name: np.zeros(task.shape(output, size), "float" + output.dtype[1:])
            if output.dtype.startswith("f")
            else np.zeros(task.shape(output, size), _integer(output.dtype))
            for output in task.spec.outputs
        }
        if not all(check.ok for check in task.check(zeros, inputs, size)):
            return False
    return True


def _integer(dtype: str) -> str:
    return f"{'uint' if dtype.startswith('u') else 'int'}{dtype[1:]}"


# -------------------------------------------------------------------------------------------------- bundle


def _bundle(task: Task) -> Iterator[Problem]:
    bundle, frozen = task.spec.bundle, task.spec.frozen
    layout = (task.bundle_dir / bundle.layout).read_text(encoding="utf-8")
    program = (task.bundle_dir / bundle.compute).read_text(encoding="utf-8")
    place = str(task.root / "spec.yaml")
    sizes = sorted(task.size(task.spec.size_names[0]))
    for what, ours, theirs in (
        ("frozen.symbols", sorted(frozen.symbols), sorted(re.findall(r'@export_name\("(\w+)"', layout))),
        ("frozen.params", sorted(frozen.params), sorted(_params(program))),
        ("sizes", sizes, sorted(_params(layout))),
    ):
        if ours != theirs:
            source = bundle.compute if what == "frozen.params" else bundle.layout
            yield Problem(
                place, f"field '{what}' names {_names(ours)}, {source} has {_names(theirs)}", "make them agree"
            )
    yield from _references(task)


def _canaries(task: Task) -> Iterator[Problem]:
    """Both reference kernels carry their canary, so that a text which holds one can be told."""
    for name in (task.spec.bundle.compute, task.spec.bundle.plain):
        if name is not None and canary_of(task.name, name) not in (task.bundle_dir / name).read_text(encoding="utf-8"):
            yield Problem(
                str(task.bundle_dir / name),
                f"has no canary {canary_of(task.name, name)}",
                f"run `fabrica-bench tasks sync --tasks {task.root.parent}`",
            )


def _params(text: str) -> list[str]:
    return re.findall(r"^param (\w+)", text, re.MULTILINE)


def _names(names: list[str]) -> str:
    return ", ".join(names) or "nothing"


def _references(task: Task) -> Iterator[Problem]:
    bundle = task.spec.bundle
    trees = {}
    for name in (bundle.compute, bundle.plain):
        if name is None:
            continue
        path = task.bundle_dir / name
        try:
            trees[name] = parse_text(name, path.read_text(encoding="utf-8"))
        except CslError as error:
            yield Problem(str(path), f"doesn't parse: {error}", f"see `fabrica-bench csl check --syntax {path}`")
    if bundle.compute not in trees:
        return
    reference = trees[bundle.compute]
    place = str(task.bundle_dir / bundle.compute)
    try:
        use = window_use(reference, bundle.window, task.spec.frozen.launches)
    except BrokenReference as error:
        entry = task.spec.entry.name
        yield Problem(
            place,
            str(error),
            f"export {entry}, begin it with `window.start();`, and put `window.end();` right before every return",
        )
        return
    if use is None:
        yield Problem(place, f"doesn't import {bundle.window}")
        return
    for name, tree in trees.items():
        for finding in check_program(tree, reference, use):
            yield Problem(str(task.bundle_dir / name), str(finding))


def _window(task: Task) -> Iterator[Problem]:
    """The timing window is the same bytes in every task, so that cycles mean the same."""
    path = task.bundle_dir / task.spec.bundle.window
    original = load_task(MODEL_TASK, shipped_tasks_root())
    source = original.bundle_dir / original.spec.bundle.window
    if path.read_bytes() != source.read_bytes():
        yield Problem(str(path), "is not the common timing window", f"copy {source}")


def _texts(task: Task) -> Iterator[Problem]:
    text = task.text_path.read_text(encoding="utf-8")
    for name in (*task.spec.frozen.params, task.spec.entry.name, "window.start();", "window.end();"):
        if name not in text:
            yield Problem(str(task.text_path), f"doesn't mention {name}", "tell agents what they must keep")
    launcher = task.spec.cuda.launcher
    if not re.search(rf'extern\s+"C"[^;{{]*\b{re.escape(launcher)}\s*\(', task.cuda_path.read_text(encoding="utf-8")):
        yield Problem(str(task.cuda_path), f'has no extern "C" launcher {launcher}()', "mend it or `cuda.launcher`")


def _bounds(task: Task) -> Iterator[Problem]:
    for size in task.spec.sizes:
        for arch in task.spec.bundle.archs:
            bound = task.lower_bound(dict(size.params), arch)
            published = size.published_cycles if arch == "wse3" else None
            if bound < 1 or (published is not None and bound >= published):
                yield Problem(
                    str(task.root / "spec.yaml"),
                    f"lower_bound.{arch} is {bound} cycles at size {size.name}"
                    + (f", published are {published}" if published is not None else ""),
                    "give a bound of at least 1 that every correct program exceeds",
                )


def lint_record(task: Task) -> Iterator[Problem]:
    """What is wrong with the recorded cycles; no hindrance to measuring them anew.

    The plain form stands for the published program; where it is far from its cycles the spec says why.
    """
    place = str(task.root / "spec.yaml")
    for found in comparisons(task.spec):
        if found.measured is None:
            yield Problem(
                place,
                f"size {found.size} has published cycles, but none of ours are recorded",
                f"run `fabrica-bench tasks validate --all --record --filter name={task.name}`",
            )
        elif found.far and not task.spec.reference_cycles.note:
            yield Problem(
                place,
                f"plain.csl takes {found.measured} cycles at size {found.size}, published are {found.published}",
                "mend plain.csl, or say why in reference_cycles.note",
            )


def folders_without_spec(root: Path) -> list[Problem]:
    """Folders among the tasks that hold files but no spec.yaml: they would be passed over silently."""
    return [
        Problem(str(path), "has no spec.yaml, so it is no task", "write one, or move the folder elsewhere")
        for path in sorted(root.iterdir())
        if path.is_dir() and not path.name.startswith((".", "_")) and not (path / "spec.yaml").exists()
    ]
