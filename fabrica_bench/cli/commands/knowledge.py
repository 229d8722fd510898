"""`fabrica-bench kb`: the user's own knowledge, which agents may read beside their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import Application, JsonOption, app, examples

kb_app: Final = Application(
    help="Documents and lessons that agents may read beside their own knowledge base.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(kb_app, name="kb")


@kb_app.command(epilog=examples("fabrica-bench kb add ~/sdk/docs", "fabrica-bench kb add notes.md --json"))
def add(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A Markdown, text, reStructuredText or HTML file, or a folder.")
    ],
    json: JsonOption = False,
) -> None:
    """Cut documents into notes and add them to the knowledge folder.

    A passage that holds a reference kernel of the benchmark is refused. A file that is added again replaces its notes.
    """
    from fabrica_bench.export.documents import add_documents

    result = add_documents(path)
    if json:
        console.write_json({**result._asdict(), "folder": str(result.folder)})
        return
    console.write(f"{result.notes} notes of {console.counted(result.files, 'file')} in {result.folder}")
    if result.refused:
        console.write(f"refused, because they hold a reference kernel: {result.refused}")


@kb_app.command(epilog=examples("fabrica-bench kb lessons runs/a runs/b"))
def lessons(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    json: JsonOption = False,
) -> None:
    """Turn finished runs into lessons: which failures came how often, and how often a repair cured them.

    Lessons hold counts and messages of the toolchain, no program text and no name of a task.
    """
    from fabrica_bench.export.documents import LEAST_SEEN, add_lessons

    result = add_lessons(runs)
    if json:
        console.write_json({**result._asdict(), "folder": str(result.folder)})
        return
    console.write(
        f"{console.counted(result.notes, 'lesson')} of {console.counted(result.files, 'run')} in {result.folder}"
    )
    if not result.notes:
        console.note(
            f"a lesson is a failure, found by the harness, that at least {LEAST_SEEN} attempts with a model met; these "
            "runs hold none"
        )


@kb_app.command("list", epilog=examples("fabrica-bench kb list"))
def list_command(json: JsonOption = False) -> None:
    """Show what the knowledge folder holds."""
    from fabrica_bench.export.documents import folder_contents
    from fabrica_bench.firewall.library import knowledge_folder

    found = folder_contents()
    if json:
        console.write_json(found)
        return
    for source, count in found.items():
        console.write(f"{count:5d}  {source}")
    console.write(f"folder: {knowledge_folder()}")
