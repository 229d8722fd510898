"""`fabrica-bench study`: experiment protocols by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    Application,
    ClusterOption,
    EventsOption,
    JobsOption,
    JsonOption,
    KeyOption,
    ProgressOption,
    TasksOption,
    app,
    examples,
    use_tasks,
)
from fabrica_bench.cli.console import Column
from fabrica_bench.errors import ExitCode

if TYPE_CHECKING:
    from fabrica_bench.studies import Study, StudyPlan

study = Application(
    name="study",
    help="Run experiment protocols: the published ones by name, or your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(study)

StudyArgument = Annotated[
    str, typer.Argument(metavar="STUDY", help="Name of a study, or the path of your own YAML file.")
]


@study.command("list", epilog=examples("fabrica-bench study list", "fabrica-bench study list --json"))
def list_command(json: JsonOption = False) -> None:
    """List the studies with the denominators of their arms."""
    from fabrica_bench.studies import list_studies

    found = list_studies()
    if json:
        console.write_json([item.model_dump(mode="json") for item in found])
        return
    console.write_table(
        [Column("study"), Column("arms and denominators", prose=True), Column("question", prose=True)],
        [[s.name, ", ".join(f"{arm.name} {arm.denominator}" for arm in s.arms), s.question] for s in found],
    )


@study.command("show", epilog=examples("fabrica-bench study show feedback-ablation"))
def show(name: StudyArgument, json: JsonOption = False) -> None:
    """Show a study: its question, arms, controls and notes."""
    from fabrica_bench.studies import load_study
    from fabrica_bench.studies.catalogue import denominator

    found = load_study(name)
    if json:
        console.write_json(found.model_dump(mode="json"))
        return
    console.write(f"{found.title} ({found.name})\n{found.question}\n")
    for arm in found.arms:
        options = ", ".join(f"{key}={value}" for key, value in arm.options.items()) or "the agent's defaults"
        console.write(f"  {arm.name}: {arm.what}")
        console.write(
            f"    {' '.join(arm.filter)}, {arm.workflow}, {arm.arch}, {arm.toolchain}, size {arm.size}, "
            f"{arm.repeat} per task, denominator {denominator(found, arm)}; {options}"
        )
    console.write(f"controls: {', '.join(found.controls) or 'none'}")
    for text in found.notes:
        console.write(f"note: {text}")


@study.command("schema", epilog=examples("fabrica-bench study schema > study.schema.json"))
def schema() -> None:
    """Print the JSON Schema of study files."""
    from fabrica_bench.studies import study_json_schema

    console.write_json(study_json_schema())


@study.command(
    "run",
    epilog=examples(
        "fabrica-bench study run controlled-comparison --agent fabrica --dry-run",
        "fabrica-bench study run model-study --agent fabrica --model anthropic:NAME --price-in 3 --price-out 15",
        "fabrica-bench study run hardware-replay --agent fabrica --run runs/w2",
        "fabrica-bench study run my-study.yaml --agent fabrica --out studies/mine",
    ),
)
def run(
    name: StudyArgument,
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="The agent; see `fabrica-bench agents`.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="The agent's model, as `run` takes it. [default: $FABRICA_AGENT_MODEL]"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of the study. [default: studies/STUDY-AGENT]")
    ] = None,
    replayed: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="Finished run that a replay study scores again.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only N tasks of each arm; the study is partial.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", min=0, help="Seed of every run.")] = 0,
    jobs: JobsOption = None,
    price_in: Annotated[
        float | None, typer.Option("--price-in", metavar="USD", min=0, help="Per million input tokens.")
    ] = None,
    price_out: Annotated[
        float | None, typer.Option("--price-out", metavar="USD", min=0, help="Per million output tokens.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", metavar="USD", min=0.01, help="Limit of the cost of each run.")
    ] = None,
    rpm: Annotated[float | None, typer.Option("--rpm", metavar="N", min=0.01, help="Model calls per minute.")] = None,
    tasks: TasksOption = None,
    key: KeyOption = None,
    cluster: ClusterOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print plan and cost estimate; do nothing.")] = False,
    progress: ProgressOption = "auto",
    events: EventsOption = None,
    json: JsonOption = False,
) -> None:
    """Run a study, or continue it.

    Prints what it may cost at most before it begins. The controls of an arm run first; where one doesn't hold, the
    study stops.
    """
    from fabrica_bench.cli.progress import progress_display
    from fabrica_bench.cli.runs import model_word
    from fabrica_bench.studies.catalogue import load_study
    from fabrica_bench.studies.planning import Prices, plan_study
    from fabrica_bench.studies.running import run_study
    from fabrica_bench.toolchains.processes import available_cores

    use_tasks(tasks)
    protocol = load_study(name)
    folder = out if out is not None else Path("studies") / f"{protocol.name}-{agent}"
    plan = plan_study(
        protocol,
        agent=agent,
        out=folder,
        jobs=jobs or available_cores(),
        seed=seed,
        limit=limit,
        prices=Prices(price_in, price_out),
        replay=replayed,
        model=model_word(model),
        only_shown=dry_run,
        overrides={"key_file": key, "cluster": cluster, "max_cost": max_cost, "requests_per_minute": rpm},
    )
    if dry_run and json:
        console.write_json(_plan_json(plan))
        return
    _write_plan(plan, to_stderr=json)
    if dry_run:
        return
    with progress_display(progress, events) as display:
        run_study(plan, display)
    _write_results(protocol, folder, plan, json)


@study.command("report", epilog=examples("fabrica-bench study report model-study --out studies/model-study-fabrica"))
def report(
    name: StudyArgument,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the study.")],
    json: JsonOption = False,
) -> None:
    """Show what came out of a study, finished or not, and write study.html, study.md and study.json."""
    from fabrica_bench.studies.catalogue import load_study

    _write_results(load_study(name), out, None, json)


def _write_results(protocol: Study, folder: Path, plan: StudyPlan | None, json: bool) -> None:
    from fabrica_bench.report.writer import write_whole
    from fabrica_bench.studies.catalogue import denominator
    from fabrica_bench.studies.results import load_results, results_html, results_json, results_markdown

    denominators = {arm.name: denominator(protocol, arm) for arm in protocol.arms}
    result = load_results(protocol, folder, denominators)
    write_whole(folder / "study.md", results_markdown(result))
    write_whole(folder / "study.json", results_json(result))
    write_whole(folder / "study.html", results_html(result))
    if json:
        console.write(results_json(result).rstrip("\n"))
    else:
        console.write(results_markdown(result).split("\n## Words")[0].rstrip())
        console.write("\n" + "\n".join(str(folder / f"study.{suffix}") for suffix in ("md", "json", "html")))
    if not all(arm.controls_hold for arm in result.arms) and protocol.published:
        raise typer.Exit(ExitCode.HARNESS)


def _write_plan(plan: StudyPlan, *, to_stderr: bool) -> None:
    say = console.note if to_stderr else console.write
    say(f"{plan.study.title}: {plan.study.question}")
    for item in plan.runs:
        missing = f", {len(item.unwritten)} tasks not written" if item.unwritten and not item.control else ""
        attempts = console.counted(item.attempts, "attempt")
        say(f"  {item.label}: {attempts}, {item.finished} finished{missing}; {item.config.out}")
    bounds = plan.estimate()
    cost = bounds["cost_usd_at_most"]
    text = "unknown: give --price-in and --price-out" if cost is None else f"at most ${cost:.2f}"
    attempts = console.counted(bounds["attempts"], "attempt")
    say(
        f"estimate: {attempts} and {bounds['control_attempts']} of controls, at most "
        f"{bounds['evaluations_at_most']} evaluations, {bounds['tokens_at_most']:,} tokens and "
        f"{bounds['core_hours_at_most']} core-hours; cost {text}"
    )


def _plan_json(plan: StudyPlan) -> dict[str, object]:
    return {
        "study": plan.study.name,
        "estimate": plan.estimate(),
        "runs": [
            {
                "label": item.label,
                "control": item.control,
                "attempts": item.attempts,
                "finished": item.finished,
                "unwritten": list(item.unwritten),
                "folder": str(item.config.out),
                "config": item.config.frozen(),
            }
            for item in plan.runs
        ],
    }
