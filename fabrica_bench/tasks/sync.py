"""What bundles share: copy it from its model and write the canaries, or tell what differs.

    python -m fabrica_bench.tasks.sync [--check] [--tasks DIR]

A bundle must stand alone, so each has its own copy of what it shares with others, the same byte for byte:

* whole files, the timing window and the host scripts' common part: those of `tasks/saxpy-1pe/csl` are the ones to edit;
* passages between a line `shared: NAME` and a line `end of shared: NAME`, both in comments, in any file of a task: the
  first one is the one to edit, by folder, and within a task in the order layout, compute, plain, the other files.

The last line of either reference kernel is its canary.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.tasks.canary import with_canary
from fabrica_bench.tasks.selection import list_tasks, load_task
from fabrica_bench.tasks.task import Task

MODEL_TASK: Final = "SAXPY-1PE"

PASSAGE: Final = re.compile(
    r"^(?P<head>[ \t]*(?://|#) shared: (?P<name>[^\n]+)\n)(?P<body>.*?)(?=^[ \t]*(?://|#) end of shared: (?P=name)$)",
    re.MULTILINE | re.DOTALL,
)


def common_files(model: Task) -> tuple[str, ...]:
    """Names of the common files in the model task's bundle."""
    bundle = model.spec.bundle
    return (bundle.window,) if bundle.host is None else (bundle.window, bundle.host)


def differing(tasks: Sequence[Task], model: Task) -> Iterator[tuple[Path, bytes]]:
    """Files of bundles that are missing or not the model's, with the content they should have.

    Raises:
        FabricaError: A file can't be read.
    """
    try:
        for name in common_files(model):
            content = (model.bundle_dir / name).read_bytes()
            for task in tasks:
                path = task.bundle_dir / name
                if name in task.spec.bundle.files and not (path.is_file() and path.read_bytes() == content):
                    yield path, content
    except OSError as error:
        raise from_os_error(error) from error


def unlike_their_models(tasks: Sequence[Task], model: Task) -> Iterator[tuple[Path, bytes]]:
    """Files with a shared passage that isn't its model's, and reference kernels that don't end with their canary, with
    the content they should have.

    Raises:
        FabricaError: A file can't be read.
    """
    models: dict[str, str] = {}
    try:
        for task in sorted(tasks, key=lambda task: task.slug):
            bundle = task.spec.bundle
            kernels = [task.bundle_dir / name for name in (bundle.compute, bundle.plain) if name is not None]
            own = [task.bundle_dir / name for name in bundle.files if name not in common_files(model)]
            for path in [*own, task.root / "oracle.py", task.cuda_path]:
                if not path.is_file():
                    continue  # the lint names it
                text = path.read_bytes().decode("utf-8", errors="surrogateescape")
                for match in PASSAGE.finditer(text):
                    models.setdefault(match["name"], match["body"])
                wanted = PASSAGE.sub(lambda match: match["head"] + models[match["name"]], text)
                if path in kernels:
                    wanted = with_canary(wanted, task.name, path.name)
                if text != wanted:
                    yield path, wanted.encode("utf-8", errors="surrogateescape")
    except OSError as error:
        raise from_os_error(error) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fabrica_bench.tasks.sync", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only tell which files differ; exit code 1 if any does")
    parser.add_argument("--tasks", type=Path, help="another tasks folder")
    options = parser.parse_args(argv)
    try:
        tasks, model = list_tasks((), options.tasks), load_task(MODEL_TASK)
        found = [*differing(tasks, model), *unlike_their_models(tasks, model)]
        for path, content in found:
            sys.stdout.write(f"{'differs' if options.check else 'written'}: {path}\n")
            if not options.check:
                path.write_bytes(content)
    except OSError as error:
        sys.stderr.write(f"error: {from_os_error(error)}\n")
        return int(ExitCode.ENVIRONMENT)
    except FabricaError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(error.code)
    return int(ExitCode.FAILURE if options.check and found else ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
