"""Finding studies: those in the package by name, a user's own by path."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError
from fabrica_bench.studies.protocol import Arm, Study
from fabrica_bench.tasks import CatalogueEntry, list_tasks, load_catalogue
from fabrica_bench.tasks.selection import TaskFilter, parse_filters
from fabrica_bench.tasks.spec import read_yaml

SUFFIX: Final = ".yaml"


def study_folder() -> Path:
    """Where the package's studies are."""
    return Path(__file__).with_name("data")


def list_studies() -> list[Study]:
    """The package's studies by name."""
    return [_load(path) for path in sorted(study_folder().glob(f"*{SUFFIX}"))]


def load_study(name: str) -> Study:
    """A study of the package by name, or one of your own by the path of its YAML file.

    Raises:
        UnknownNameError: There is no such study.
        FabricaError: The file isn't a study; the message names the field.
    """
    if name.endswith((SUFFIX, ".yml")):
        return _load(Path(name))
    path = study_folder() / f"{name.lower()}{SUFFIX}"
    known = sorted(found.stem for found in study_folder().glob(f"*{SUFFIX}"))
    if name.lower() not in known and Path(name).is_file():
        return _load(Path(name))
    if name.lower() not in known:
        raise UnknownNameError("study", name, known, listing="fabrica-bench study list")
    return _load(path)


def study_json_schema() -> dict[str, Any]:
    """JSON Schema of a study file, for editors and other tools."""
    schema = Study.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def catalogue_tasks(arm: Arm) -> list[CatalogueEntry]:
    """The tasks of an arm in the frozen catalogue, whether they are written or not."""
    conditions = parse_filters(arm.filter)
    return [entry for entry in load_catalogue() if all(_meets(entry, condition) for condition in conditions)]


def denominator(study: Study, arm: Arm) -> int:
    """Attempts of an arm by its protocol: of the frozen catalogue's tasks, and in a study of your own of yours too."""
    names = {entry.name for entry in catalogue_tasks(arm)}
    if not study.published:
        names |= {task.name for task in list_tasks(arm.filter)}
    return len(names) * arm.repeat


def _meets(entry: CatalogueEntry, condition: TaskFilter) -> bool:
    """As `TaskFilter.matches`, which needs a written spec."""
    if condition.key == "set":
        return "full" in condition.values or any(name in condition.values for name in entry.sets)
    wanted = [value.lower() for value in condition.values]
    return str(getattr(entry, condition.key)).lower() in wanted


def _load(path: Path) -> Study:
    data = read_yaml(path)
    try:
        study = Study.model_validate(_lists_as_tuples(data))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise FabricaError(
            f"not a study: {field}: {first['msg'].removeprefix('Value error, ')}",
            place=str(path),
            remedy="see `fabrica-bench study schema` and the studies that `fabrica-bench study list` names",
        ) from error
    for arm in study.arms:
        parse_filters(arm.filter)
        if arm.denominator is not None and arm.denominator != (expected := denominator(study, arm)):
            raise FabricaError(
                f"arm {arm.name}: the denominator is {arm.denominator}, but its filter and repeats give {expected}",
                place=str(path),
                remedy="mend the number or the filter",
                code=ExitCode.USAGE,
            )
    return study


def _lists_as_tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_lists_as_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _lists_as_tuples(item) for key, item in value.items()}
    return value
