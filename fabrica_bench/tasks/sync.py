"""What every bundle carries: copy the common files from the model task and write the canaries, or tell what differs.

    python -m fabrica_bench.tasks.sync [--check] [--tasks DIR]

Common files are the same byte for byte. The copies in `tasks/saxpy-1pe/csl` are the ones to edit: a bundle must stand
alone, so each has its own copy of the timing window and of the host scripts' common part. The last line of either
reference kernel is its canary.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.tasks.canary import with_canary
from fabrica_bench.tasks.selection import list_tasks, load_task
from fabrica_bench.tasks.task import Task

MODEL_TASK: Final = "SAXPY-1PE"


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


def without_canary(tasks: Sequence[Task]) -> Iterator[tuple[Path, bytes]]:
    """Reference kernels that don't end with their canary, with the content they should have.

    Raises:
        FabricaError: A file can't be read.
    """
    try:
        for task in tasks:
            for name in (task.spec.bundle.compute, task.spec.bundle.plain):
                path = task.bundle_dir / (name or "")
                if name is None or not path.is_file():
                    continue
                text = path.read_text(encoding="utf-8")
                wanted = with_canary(text, task.name, name)
                if text != wanted:
                    yield path, wanted.encode("utf-8")
    except OSError as error:
        raise from_os_error(error) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fabrica_bench.tasks.sync", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only tell which files differ; exit code 1 if any does")
    parser.add_argument("--tasks", type=Path, help="another tasks folder")
    options = parser.parse_args(argv)
    try:
        tasks = list_tasks((), options.tasks)
        found = [*differing(tasks, load_task(MODEL_TASK)), *without_canary(tasks)]
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
