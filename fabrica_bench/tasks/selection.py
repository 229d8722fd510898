"""Finding tasks: the tasks folder, the filters of `--filter`, and loading by name."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError, empty_path, wrong_type
from fabrica_bench.tasks.catalogue import CatalogueEntry, load_catalogue
from fabrica_bench.tasks.spec import SET_NAMES, TaskSpec, load_spec
from fabrica_bench.tasks.task import SPEC_FILE, Task, slug_of

TASKS_VARIABLE: Final = "FABRICA_BENCH_TASKS"
FILTER_KEYS: Final = ("set", "level", "split", "origin", "family", "name")
_FEW: Final = 4
"""Up to so many tasks are named in an error; more are counted."""
_FIXED_VALUES: Final = {
    "set": SET_NAMES,
    "level": ("1", "2", "3", "4"),
    "split": ("train", "test"),
    "origin": ("original", "added", "user"),
}


def tasks_root(override: Path | str | None = None) -> Path:
    """The folder whose subfolders are tasks.

    In order: `override`, the environment variable FABRICA_BENCH_TASKS, the checkout's tasks/, the installed package's.

    Raises:
        FabricaError: The folder doesn't exist, or `override` is no path.
    """
    if override == "":
        raise empty_path("the tasks folder", "name a folder of tasks, or None for those in use")
    if override is not None and not isinstance(override, str | Path):
        raise wrong_type("the tasks folder", override, "the path of a folder, or None")
    chosen = override or os.environ.get(TASKS_VARIABLE)
    if chosen:
        # Absolute: the processes of a run work elsewhere.
        root = Path(chosen).absolute()
        if not root.is_dir():
            remedy = "name the folder whose subfolders are tasks" if override else f"check {TASKS_VARIABLE}"
            raise FabricaError("there is no such tasks folder", place=str(root), remedy=remedy)
        return root
    return shipped_tasks_root()


def shipped_tasks_root() -> Path:
    """The tasks that came with this installation: the checkout's tasks/ or the installed package's.

    Raises:
        FabricaError: There are none.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (package.parent / "tasks", package / "_tasks"):
        if any(root.glob(f"*/{SPEC_FILE}")):
            return root
    raise FabricaError(
        "no tasks are installed",
        place=str(package / "_tasks"),
        remedy=f"reinstall fabrica-bench, or set {TASKS_VARIABLE} to a tasks folder",
        code=ExitCode.ENVIRONMENT,
    )


@dataclass(frozen=True)
class TaskFilter:
    """One condition of `--filter`: any of `values` for `key`; names and families may hold `*` and `?`."""

    key: str
    values: tuple[str, ...]

    def matches(self, spec: TaskSpec) -> bool:
        match self.key:
            case "set":
                return "full" in self.values or any(name in self.values for name in spec.sets)
            case "level":
                return str(spec.level) in self.values
            case "name":
                return any(fnmatch.fnmatchcase(spec.name.lower(), value.lower()) for value in self.values)
            case key:
                actual = str(getattr(spec, key)).lower()
                return any(fnmatch.fnmatchcase(actual, value.lower()) for value in self.values)


def parse_filters(filters: Iterable[str] | Mapping[str, str]) -> tuple[TaskFilter, ...]:
    """Parse `key=value[,value...]` conditions; all must hold.

    Raises:
        UnknownNameError: Unknown key or value.
        FabricaError: A condition without `=` or without a value, or something that is no condition.
    """
    if isinstance(filters, str):  # would be a sequence of letters
        raise FabricaError(
            f"the filters must be a sequence of conditions, not the text {filters!r}",
            remedy=f"write {[filters]!r}",
            code=ExitCode.USAGE,
        )
    if isinstance(filters, bytes) or not isinstance(filters, Iterable):
        raise wrong_type("the filters", filters, "a sequence of conditions such as ['level=1'] (all tasks: ())")
    items = [f"{key}={value}" for key, value in filters.items()] if isinstance(filters, Mapping) else list(filters)
    for place, item in enumerate(items):
        if not isinstance(item, str):
            raise wrong_type(f"element {place} of the filters", item, "a text such as 'level=1'")
    return tuple(_parse_filter(item) for item in items)


def _parse_filter(item: str) -> TaskFilter:
    key, equals, value = item.partition("=")
    key = key.strip()
    if key not in FILTER_KEYS and equals:
        raise UnknownNameError("filter key", key, FILTER_KEYS)
    values = tuple(part.strip() for part in value.split(",") if part.strip())
    if not values:
        raise FabricaError(
            f"filter {item!r} is not of the form key=value",
            remedy=f"write e.g. set=core or level=1,2; keys: {', '.join(FILTER_KEYS)}",
            code=ExitCode.USAGE,
        )
    for known in values if key in _FIXED_VALUES else ():
        if known not in _FIXED_VALUES[key]:
            raise UnknownNameError(f"{key} in filter", known, _FIXED_VALUES[key])
    return TaskFilter(key, values)


class TaskSurvey(NamedTuple):
    """The tasks that meet the filters, and one error per folder whose spec is broken, whatever the filters say."""

    tasks: list[Task]
    errors: list[FabricaError]


def survey_tasks(filters: Iterable[str] | Mapping[str, str] = (), root: Path | str | None = None) -> TaskSurvey:
    """Like `list_tasks`, but a broken spec takes nothing from the other tasks.

    Raises:
        UnknownNameError: A filter names something unknown.
    """
    conditions = parse_filters(filters)
    tasks: list[Task] = []
    errors: list[FabricaError] = []
    for path in sorted(tasks_root(root).glob(f"*/{SPEC_FILE}")):
        try:
            tasks.append(_load(path.parent))
        except FabricaError as error:
            errors.append(error)
    order = {entry.name: index for index, entry in enumerate(load_catalogue())}
    tasks.sort(key=lambda task: (order.get(task.name, len(order)), task.name))
    for condition in conditions:
        if not errors:  # what is missing may be in a folder that can't be read
            _require_known(condition, tasks)
    return TaskSurvey([task for task in tasks if all(condition.matches(task.spec) for condition in conditions)], errors)


def list_tasks(filters: Iterable[str] | Mapping[str, str] = (), root: Path | str | None = None) -> list[Task]:
    """The written tasks that meet every filter, in the catalogue's order, then the user's own by name.

    Args:
        filters: `set=core`, `level=1,2`, `split=test`, `origin=added`, `family=scan`, `name=ReLU-1PE`; none means
            every task (`set=full`).
        root: A tasks folder, see `tasks_root`.

    Raises:
        UnknownNameError: A filter names something unknown, or exact names of which none is written.
        FabricaError: A broken spec.
    """
    tasks, errors = survey_tasks(filters, root)
    if errors:
        raise errors[0]
    return tasks


def require_tasks(filters: Sequence[str] = (), root: Path | str | None = None) -> list[Task]:
    """Like `list_tasks`, for work that makes no sense without a task.

    Raises:
        UnknownNameError: As of `list_tasks`.
        FabricaError: A broken spec, or no task meets all filters.
    """
    tasks = list_tasks(filters, root)
    if not tasks:
        raise none_chosen(filters, root)
    return tasks


def none_chosen(filters: Sequence[str], root: Path | str | None = None) -> FabricaError:
    """The error when no task meets all filters: it says which ones each filter chooses by itself."""
    tasks = survey_tasks((), root).tasks
    if not tasks:
        return FabricaError(
            "there is no task",
            place=str(tasks_root(root)),
            remedy="`fabrica-bench tasks new` makes one",
            code=ExitCode.USAGE,
        )
    alone = [
        f"{item} {_named([task for task in tasks if condition.matches(task.spec)])}"
        for item, condition in zip(filters, parse_filters(filters), strict=True)
    ]
    return FabricaError(
        f"no task meets {' and '.join(filters)}",
        remedy=f"by itself {', '.join(alone)}; `fabrica-bench list` shows all {len(tasks)} tasks",
        code=ExitCode.USAGE,
    )


def _named(tasks: Sequence[Task]) -> str:
    """How many tasks a filter chooses, and which where they are few."""
    if 0 < len(tasks) <= _FEW:
        return f"chooses {', '.join(task.name for task in tasks)}"
    return f"chooses {len(tasks) or 'none'}"


CHECKOUT_SECRETS: Final = ("tests", "validation", "benchmarks", "reports")
"""Folders of a source checkout with finished programs: honest twins of exploits, models of published kernels."""


def secret_roots() -> list[Path]:
    """Folders that hold references, oracles and other solutions: the tasks in use and those of this installation, and
    beside the latter, in a source checkout, tests and validation."""
    roots: list[Path] = []
    for find in (tasks_root, shipped_tasks_root):
        try:
            roots.append(find())
        except FabricaError:
            continue
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "tasks") in roots:
        roots += [checkout / name for name in CHECKOUT_SECRETS]
    return list(dict.fromkeys(roots))


def unwritten_tasks(root: Path | str | None = None) -> tuple[CatalogueEntry, ...]:
    """The catalogue's entries whose pair is not in the tasks folder yet."""
    written = {path.parent.name for path in tasks_root(root).glob(f"*/{SPEC_FILE}")}
    return tuple(entry for entry in load_catalogue() if slug_of(entry.name) not in written)


def _require_known(condition: TaskFilter, tasks: list[Task]) -> None:
    if condition.key not in ("name", "family"):
        return
    known = {getattr(task.spec, condition.key) for task in tasks}
    for value in condition.values:
        if not any(fnmatch.fnmatchcase(name.lower(), value.lower()) for name in known):
            raise _unknown(condition.key, value, known)


def _unknown(key: str, value: str, known: set[str]) -> FabricaError:
    planned = {slug_of(entry.name) for entry in load_catalogue()}
    if key == "name" and slug_of(value) in planned:
        return FabricaError(
            f"task {value!r} is in the catalogue, but its pair is not written yet",
            remedy="`fabrica-bench list` shows the tasks that are",
            code=ExitCode.USAGE,
        )
    kind = "task" if key == "name" else f"{key} in filter"
    return UnknownNameError(kind, value, known, listing="fabrica-bench list")


def load_task(name: str | Path, root: Path | str | None = None) -> Task:
    """Load a task by its published name or its folder's name, in any letter case, or by the path of its folder.

    Raises:
        UnknownNameError: No such task; the remedy names the nearest ones.
        FabricaError: Its spec is broken, or it is in the catalogue but not written yet.
    """
    if isinstance(name, Path):
        if (name / SPEC_FILE).is_file():
            return _load(name)
        raise FabricaError(f"no {SPEC_FILE} here", place=str(name), remedy="name the folder of a task")
    if not isinstance(name, str):
        raise wrong_type("the task", name, "a name or the path of a folder")
    if os.sep in name and (Path(name) / SPEC_FILE).is_file():
        return _load(Path(name))
    folder = tasks_root(root)
    paths = {path.parent.name: path.parent for path in folder.glob(f"*/{SPEC_FILE}")}
    slug = slug_of(name)
    if slug in paths:
        return _load(paths[slug])
    names = {entry.name for entry in load_catalogue() if slug_of(entry.name) in paths}
    raise _unknown("name", name, names | {path for path in paths if path not in map(slug_of, names)})


def _load(folder: Path) -> Task:
    spec = load_spec(folder / SPEC_FILE)
    if slug_of(spec.name) != folder.name:
        raise FabricaError(
            f"field 'name': '{spec.name}' belongs in a folder called {slug_of(spec.name)}",
            place=str(folder / SPEC_FILE),
            remedy="rename the folder or the task",
        )
    return Task(spec, folder)
