"""`fabrica-bench score`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    WORKFLOWS,
    ArchOption,
    JsonOption,
    KeyOption,
    SizeOption,
    TasksOption,
    ToolchainOption,
    WorkflowOption,
    app,
    checked_choice,
    examples,
    use_tasks,
)
from fabrica_bench.errors import ExitCode, FabricaError

if TYPE_CHECKING:
    from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid


@app.command(
    epilog=examples(
        "fabrica-bench score --task ReLU-1PE --candidate my_folder",
        "fabrica-bench score --task ReLU-1PE --agent fabrica",
        "fabrica-bench score --task ReLU-1PE --candidate my_folder --arch wse2 --json",
    )
)
def score(
    task: Annotated[str, typer.Option("--task", metavar="T", help="The task.")],
    candidate: Annotated[
        Path | None,
        typer.Option("--candidate", metavar="DIR", help="Folder with exactly the files that the task lets you change."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="A", help="Let this agent translate instead; makes a run folder.")
    ] = None,
    toolchain: ToolchainOption = "embedded",
    arch: ArchOption = "wse3",
    size: SizeOption = "small",
    workflow: WorkflowOption = "W1",
    key: KeyOption = None,
    folder: TasksOption = None,
    json: JsonOption = False,
) -> None:
    """Score one candidate, or one agent on one task.

    Shows the evidence of each predicate. Exits with 0 when it is valid, 1 when it is not.
    """
    use_tasks(folder)
    if (candidate is None) == (agent is None):
        raise FabricaError(
            "give either --candidate or --agent",
            remedy=f"for example `fabrica-bench score --task {task} --candidate my_folder`",
            code=ExitCode.USAGE,
        )
    if candidate is not None:
        verdict, facts = _score_folder(task, candidate, toolchain, arch, size, workflow, key)
        name = facts.pop("task")
    else:
        assert agent is not None
        name, verdict, facts = _score_agent(agent, task, toolchain, arch, size, workflow, key)
    if json:
        console.write_json({"task": name, **facts, "verdict": verdict.model_dump(mode="json")})
    else:
        from fabrica_bench.cli.results import write_verdict

        write_verdict(name, verdict)
        console.write(", ".join(f"{title} {text}" for title, text in facts.items()))
    raise typer.Exit(_exit_code(verdict))


def _score_folder(
    task: str, candidate: Path, toolchain: str, arch: str, size: str, workflow: str, key: Path | None
) -> tuple[Valid | Invalid | NotScored, dict[str, str]]:
    from fabrica_bench.firewall.bundle import editable_files
    from fabrica_bench.scoring.api import score as score_files
    from fabrica_bench.scoring.candidate import read_candidate
    from fabrica_bench.tasks import load_task
    from fabrica_bench.tasks.seeds import HeldOutKey
    from fabrica_bench.toolchains import get_toolchain
    from fabrica_bench.toolchains.embedded import spread

    found = load_task(task)
    kind = checked_choice("--workflow", workflow, WORKFLOWS)
    backend = spread(get_toolchain(toolchain))
    # Read here, so that a folder that can't be used is an error of the caller with its place, not a verdict.
    files = read_candidate(candidate, editable_files(found, kind))
    console.note(f"scoring {candidate} on {found.name}")
    verdict = score_files(
        found,
        files,
        toolchain=backend,
        arch=checked_choice("--arch", arch, ("wse2", "wse3")),
        size=size,
        workflow=kind,
        key=HeldOutKey.from_file(key) if key is not None else None,
    )
    facts = backend.describe()
    return verdict, {"task": found.name, "toolchain": f"{facts['toolchain']} {facts.get('version', '')}".strip()}


def _score_agent(
    agent: str, task: str, toolchain: str, arch: str, size: str, workflow: str, key: Path | None
) -> tuple[str, Valid | Invalid | NotScored, dict[str, str]]:
    from fabrica_bench.cli.progress import progress_display
    from fabrica_bench.cli.runs import default_run_folder, make_config, write_page
    from fabrica_bench.runs.execution import execute_run
    from fabrica_bench.tasks import TASKS_VARIABLE, load_task, tasks_root

    found = load_task(task)
    if found.root.parent.resolve() != tasks_root().resolve():
        # A task named by its folder: the processes of the run look it up by name.
        os.environ[TASKS_VARIABLE] = str(found.root.absolute().parent)
    name = found.name
    config = make_config(
        agent=agent,
        tasks=[name],
        out=default_run_folder(agent),
        toolchain=toolchain,
        arch=arch,
        size=size,
        workflow=workflow,
        key=key,
        jobs=1,
    )
    with progress_display() as display:
        summary = execute_run(config, display)
    if not summary.rows:
        raise FabricaError(
            "the attempt ended without a verdict",
            place=str(summary.run_dir),
            remedy="its records say why; run the command again",
            code=ExitCode.HARNESS,
        )
    facts = {
        "agent": agent,
        "model": summary.model,
        "toolchain": summary.toolchain.get("toolchain", ""),
        "run_dir": str(summary.run_dir),
        "report": str(write_page(config)),
    }
    return name, summary.rows[0].verdict, facts


def _exit_code(verdict: Valid | Invalid | NotScored) -> ExitCode:
    if verdict.kind == "valid":
        return ExitCode.OK
    if verdict.kind == "not_scored" and verdict.blame != "agent":
        return ExitCode.HARNESS
    return ExitCode.FAILURE
