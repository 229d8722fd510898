"""What the commands that make a run share: its configuration, its folder, its page, its exit code."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabrica_bench.cli.app import WORKFLOWS, checked_choice
from fabrica_bench.errors import ExitCode, FabricaError

if TYPE_CHECKING:
    from fabrica_bench.plugins import Budget
    from fabrica_bench.runs.config import RunConfig
    from fabrica_bench.runs.summary import RunSummary


def make_config(
    *,
    agent: str,
    tasks: Sequence[str],
    out: Path,
    toolchain: str,
    arch: str,
    size: str,
    workflow: str,
    key: Path | None,
    jobs: int,
    repeat: int = 1,
    model: str | None = None,
    limits: Sequence[str] = (),
    requests_per_minute: float | None = None,
    **more: Any,
) -> RunConfig:
    """A configuration from the options' words; `more` are further fields of `RunConfig`.

    Raises:
        FabricaError: A word is none of its option's values, or there is no such agent or option of it.
    """
    from fabrica_bench.plugins import find_agent, require_options
    from fabrica_bench.runs.config import RunConfig

    found = find_agent(agent)
    require_options(found, more.get("options", ()))
    fields = {
        "agent": found.name,
        "tasks": tuple(tasks),
        "out": out,
        "toolchain": toolchain,
        "arch": checked_choice("--arch", arch, ("wse2", "wse3")),
        "size": size,
        "workflow": checked_choice("--workflow", workflow, WORKFLOWS),
        "repeat": repeat,
        "budget": make_budget(limits),
        "model": model_word(model),
        "requests_per_minute": requests_per_minute,
        "jobs": jobs,
        "key_file": key,
        **more,
    }
    return RunConfig.checked(fields)


def make_budget(limits: Sequence[str]) -> Budget:
    """The default budget with some limits replaced: `evaluations=40`, `cost_usd=2.5`.

    Raises:
        FabricaError: A word names no limit, or its value is none.
    """
    from pydantic import ValidationError

    from fabrica_bench.plugins import Budget
    from fabrica_bench.runs.config import DEFAULT_BUDGET

    values: dict[str, object] = DEFAULT_BUDGET.model_dump()
    for text in limits:
        name, value = _assignment("--budget", text)
        values[checked_choice("--budget", name, tuple(values))] = value
    try:
        return Budget.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise FabricaError(
            f"{'.'.join(map(str, first['loc']))}={first['input']!r}: {first['msg']}",
            place="--budget",
            remedy="leave the limit out for the default; see `fabrica-bench run --help`",
            code=ExitCode.USAGE,
        ) from error


def _assignment(option: str, text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.replace("_", "").isalnum():
        raise FabricaError(
            f"{text!r} is not NAME=VALUE", place=option, remedy="write e.g. evaluations=40", code=ExitCode.USAGE
        )
    return name, value


def model_word(model: str | None) -> str:
    """The chosen model, the environment's, or none; a folder or file in it is made absolute, as jobs have their own.

    Raises:
        FabricaError: The word isn't understood.
    """
    from fabrica_bench.models.selection import NO_MODEL, REPLAYS, VARIABLE, public_name

    word = model or os.environ.get(VARIABLE) or NO_MODEL
    public_name(word)
    kind, _, rest = word.partition(":")
    return f"{kind}:{Path(rest).absolute()}" if kind in ("exchange", *REPLAYS) else word


def chosen_tasks(filters: Sequence[str], limit: int | None = None) -> tuple[list[str], int]:
    """Names of the tasks that meet every filter, the first `limit` of them, and how many folders can't be read.

    A broken spec is said at once and takes nothing from the other tasks.

    Raises:
        FabricaError: A filter is wrong, or no task meets all of them.
    """
    from fabrica_bench.cli.main import report_error
    from fabrica_bench.tasks import survey_tasks
    from fabrica_bench.tasks.selection import none_chosen

    tasks, errors = survey_tasks(filters)
    if errors and not tasks and not filters:
        raise errors[0]  # there are tasks, but none that can be read
    for error in errors:
        report_error(error)
    names = [task.name for task in tasks][:limit]
    if not names:
        raise none_chosen(filters)
    return names, len(errors)


def parse_options(words: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` words as a mapping.

    Raises:
        FabricaError: A word isn't of this form, or a name comes twice.
    """
    options: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_-]{0,40}", name) or name in options:
            raise FabricaError(
                f"{word!r} is no option, or its name comes twice",
                place="--option",
                remedy="write NAME=VALUE with a name in lower case, e.g. --option mode=C",
                code=ExitCode.USAGE,
            )
        options[name] = value
    return options


def default_run_folder(agent: str) -> Path:
    """A new folder under `runs/`, named after the agent and the time in UTC."""
    safe = "".join(char if char.isalnum() or char in "-_." else "-" for char in agent)
    stem = Path("runs") / f"{safe}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder


def write_page(config: RunConfig) -> Path:
    """Write the HTML report of the run into its folder."""
    from fabrica_bench.report import write_report

    return write_report(config.out)


def exit_code(summary: RunSummary) -> ExitCode:
    """Success when every attempt has a verdict, whatever it says; a fault of the harness or the machine is none."""
    from fabrica_bench.scoring.verdict import Blame, NotScored

    ours = {Blame.HARNESS, Blame.MACHINE, Blame.PROVIDER}
    at_fault = any(isinstance(row.verdict, NotScored) and row.verdict.blame in ours for row in summary.rows)
    return ExitCode.HARNESS if summary.partial or at_fault else ExitCode.OK
