"""`--filter field=value`: which tasks a command works on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError

if TYPE_CHECKING:
    from fabrica_bench.tasks import Task

Facets = Mapping[str, frozenset[str]]

EVERY_TASK: Final = "full"
"""The set that every task is in."""


def facets(task: Task) -> Facets:
    """What a task can be selected by; all values in lower case."""
    spec = task.spec
    values: dict[str, Iterable[object]] = {
        "set": [*spec.sets, EVERY_TASK],
        "level": [spec.level],
        "name": [task.name, task.slug],
        "family": [spec.family],
        "split": [spec.split],
        "origin": [spec.origin],
    }
    return {field: frozenset(str(value).casefold() for value in some) for field, some in values.items()}


def parse_filters(texts: Iterable[str]) -> dict[str, frozenset[str]]:
    """Parse `field=value[,value]` texts; a repeated field widens the choice, another field narrows it.

    Raises:
        FabricaError: A text is not of that form.
    """
    wanted: dict[str, set[str]] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        values = {part.strip().casefold() for part in value.split(",") if part.strip()}
        if not equals or not field.strip() or not values:
            raise FabricaError(
                f"filter {text!r} is not of the form field=value",
                place="--filter",
                remedy="for example --filter set=core level=1",
                code=ExitCode.USAGE,
            )
        wanted.setdefault(field.strip().casefold(), set()).update(values)
    return {field: frozenset(values) for field, values in wanted.items()}


def select_tasks(tasks: Sequence[Task], texts: Iterable[str]) -> list[Task]:
    """The tasks that fulfil every filter, in the given order.

    Raises:
        UnknownNameError: A field or a value that no task has; a typing error must not select nothing in silence.
        FabricaError: The filters are malformed, or each is fulfilled by some task but no task fulfils all.
    """
    filters = parse_filters(texts)
    by_task = [(task, facets(task)) for task in tasks]
    known = _known_values([some for _, some in by_task])
    for field, values in filters.items():
        if field not in known:
            raise UnknownNameError("filter field", field, known)
        for value in sorted(values - known[field]):
            raise UnknownNameError(field, value, known[field], listing="fabrica-bench list")
    chosen = [task for task, some in by_task if all(some[field] & values for field, values in filters.items())]
    if not chosen:
        text = " ".join(f"{field}={','.join(sorted(values))}" for field, values in filters.items())
        raise FabricaError(
            f"no task fulfils {text}" if text else "there is no task",
            place="--filter",
            remedy="drop one of the filters; `fabrica-bench list` shows every task",
            code=ExitCode.USAGE,
        )
    return chosen


def _known_values(all_facets: Iterable[Facets]) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {"set": {EVERY_TASK}}
    for some in all_facets:
        for field, values in some.items():
            known.setdefault(field, set()).update(values)
    return known
