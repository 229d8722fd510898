"""`fabrica-bench report`, `submit` and `leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import (
    Application,
    EventsOption,
    JobsOption,
    JsonOption,
    ProgressOption,
    TasksOption,
    app,
    examples,
    use_tasks,
)
from fabrica_bench.errors import ExitCode, FabricaError

if TYPE_CHECKING:
    from fabrica_bench.report.document import Document

FolderOption = Annotated[Path, typer.Option("--folder", metavar="DIR", help="The leaderboard's folder.")]


@app.command(
    epilog=examples(
        "fabrica-bench report runs/fabrica-20260101-120000",
        "fabrica-bench report RUN --format md --out result.md",
        "fabrica-bench report RUN --format parquet",
        "fabrica-bench report RUN --format figures --out figures    (PDF and SVG)",
        "fabrica-bench report RUN --json",
    )
)
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, finished or not.")],
    format_name: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help="html, md, csv, json, parquet (pandas) or figures (plots)."),
    ] = "html",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write; into the run folder by default.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write the report of a run. It is one self-contained page, or the result table in another format.

    The same records always give the same bytes.
    """
    from fabrica_bench.report import load_report, render_json, write_report

    if json:
        console.write(render_json(load_report(run)).rstrip("\n"))
        return
    written = write_report(run, format_name, out)
    if written.is_file() or written.is_dir():  # a pipe, such as /dev/stdout, holds the report and nothing else
        console.write(str(written))


@app.command(
    epilog=examples(
        "fabrica-bench submit runs/fabrica-20260101-120000",
        "fabrica-bench submit RUN --out fabrica.fabrica",
        "fabrica-bench submit RUN --key my.key",
        "fabrica-bench submit RUN --keep-key      (for a key that serves other runs too)",
    )
)
def submit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run; it is only read.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The bundle. [default: RUN.fabrica beside the run]")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="The run's held-out key. [default: the one kept for it]"),
    ] = None,
    keep_key: Annotated[
        bool, typer.Option("--keep-key", help="Leave the held-out key out; whoever checks has to ask for it.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Pack a run into one file that others can verify.

    It holds records, candidates, versions, seed commitments and, to check those, the run's held-out key.
    """
    from fabrica_bench.report.bundle import SUFFIX, pack_run

    target = out if out is not None else run.with_name(run.name + SUFFIX)
    digest = pack_run(run, target, with_key=not keep_key, key_file=key)
    if json:
        console.write_json({"bundle": str(target), "digest": digest, "key": not keep_key})
    else:
        console.write(f"{target}\ndigest {digest}")


leaderboard = Application(
    name="leaderboard",
    help="Rank verified runs: add bundles by re-execution, write the pages.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(leaderboard)


@leaderboard.command(
    "add", epilog=examples("fabrica-bench leaderboard add fabrica.fabrica --folder reports/leaderboard --jobs 4")
)
def add(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What `fabrica-bench submit` wrote.")],
    folder: FolderOption = Path("leaderboard"),
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="The run's held-out key, if the bundle has none.")
    ] = None,
    jobs: JobsOption = None,
    tasks: TasksOption = None,
    progress: ProgressOption = "auto",
    events: EventsOption = None,
) -> None:
    """Check a bundle by executing it again, and take it in.

    Every verdict has to come out byte for byte, and what was valid has to be valid on fresh held-out inputs too.
    """
    from fabrica_bench.cli.progress import progress_display
    from fabrica_bench.report.leaderboard import add_bundle, write_leaderboard
    from fabrica_bench.tasks.seeds import HeldOutKey
    from fabrica_bench.toolchains.processes import available_cores

    use_tasks(tasks)
    secret = HeldOutKey.from_file(key) if key is not None else None
    with progress_display(progress, events) as display:
        digest = add_bundle(folder, bundle, key=secret, jobs=jobs or available_cores(), progress=display)
    console.write(f"verified and added: {digest}")
    console.write("\n".join(str(path) for path in write_leaderboard(folder)))


@leaderboard.command("show", epilog=examples("fabrica-bench leaderboard show --folder reports/leaderboard --json"))
def show(folder: FolderOption = Path("leaderboard"), json: JsonOption = False) -> None:
    """Write the pages and tables, and show the ranking."""
    from fabrica_bench.report.document import build_document
    from fabrica_bench.report.leaderboard import load_entries, ranking_json, write_leaderboard

    document = build_document(load_entries(folder))
    written = write_leaderboard(folder)
    if json:
        console.write(ranking_json(document).rstrip("\n"))
        return
    _write_ranking(document)
    console.write("\n".join(str(path) for path in written))


@leaderboard.command(
    "exclude",
    epilog=examples('fabrica-bench leaderboard exclude RUN_ID --reason "memoises the inputs" --folder leaderboard'),
)
def exclude(
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="As the ranking's JSON names it.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Shown beside it; empty takes it back.")],
    folder: FolderOption = Path("leaderboard"),
) -> None:
    """Show an entry without a rank, with the reason, e.g. the hack that was found."""
    from fabrica_bench.report.leaderboard import exclude as exclude_run
    from fabrica_bench.report.leaderboard import write_leaderboard

    exclude_run(folder, run_id, reason)
    console.write("\n".join(str(path) for path in write_leaderboard(folder)))


@leaderboard.command(
    "compare", epilog=examples("fabrica-bench leaderboard compare runs/one runs/two", "... compare RUN RUN --json")
)
def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="A run.")],
    second: Annotated[Path, typer.Argument(metavar="RUN", help="Another one.")],
    json: JsonOption = False,
) -> None:
    """Compare two runs on the tasks that both attempted: exact McNemar for passes, paired bootstrap for speed."""
    from fabrica_bench.report.data import load_report
    from fabrica_bench.report.ranking import Entry, compare_entries

    reports = [load_report(path) for path in (first, second)]
    names = [f"{item.summary.agent} ({path.name})" for item, path in zip(reports, (first, second), strict=True)]
    words = compare_entries(Entry(names[0], reports[0]), Entry(names[1], reports[1]))
    if not words:
        raise FabricaError("the two runs share no scored task", place=str(second), code=ExitCode.USAGE)
    if json:
        console.write_json({"first": names[0], "second": names[1], "findings": list(words)})
    else:
        console.write("\n".join(words))


def _write_ranking(document: Document) -> None:
    from fabrica_bench.cli.console import Column
    from fabrica_bench.report.tables import number_text, percent_text, ratio_text

    console.write_table(
        [
            Column("rank", True),
            Column("entry"),
            Column("track"),
            Column("valid", True),
            Column("fast_0", True),
            Column("fast_1", True),
            Column("geo. mean", True),
            Column("state", prose=True),
        ],
        [
            [
                "–" if item.rank is None else str(item.rank),
                item.entry.name,
                str(item.track),
                f"{number_text(item.figures.valid)}/{number_text(item.figures.total)}",
                percent_text(item.figures.fast_0),
                percent_text(item.figures.fast_1),
                ratio_text(item.figures.geometric_mean),
                "; ".join(item.reasons) or "verified",
            ]
            for item in document.ranked
        ],
    )
