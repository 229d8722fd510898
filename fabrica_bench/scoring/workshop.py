"""Built candidates, kept for the next thing that is asked of them: a compile, a visible run, the final score.

Each candidate has a clone of the bundle of its own, keyed by the digest of its files. What lies there is compared with
what was written and built before it is used again, so that a run can't prepare anything for a later one.
"""

from __future__ import annotations

import hashlib
import shutil
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error, require_readable
from fabrica_bench.firewall.bundle import frozen_texts
from fabrica_bench.scoring.candidate import candidate_digest
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import InputData
from fabrica_bench.scoring.staging import Stage
from fabrica_bench.toolchains.protocol import BuildResult

MIN_FREE_BYTES: Final = 16 << 20
"""A failure with less free space than this is the machine's, not the candidate's."""

KEPT: Final = 3
"""Builds kept at a time: the reference, the best candidate so far, and the one being tried."""


@dataclass(frozen=True)
class Built:
    """A candidate in its clone, with what the compiler said; `print` is the digest of what it made."""

    stage: Stage
    result: BuildResult
    print: str

    def altered(self) -> bool:
        """Whether the compiled program is no longer what the compiler made."""
        return self.result.artifact is not None and _tree_digest(self.result.artifact) != self.print


class Workshop:
    """Builds candidates of one task under fixed conditions; use it as a context manager, or `close` it.

    Args:
        conditions: Task, toolchain, target, size and workflow.

    Attributes:
        data: The inputs on which they are run, and the answers.
    """

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self.data = InputData(conditions.task, conditions.parameters)
        self._built: OrderedDict[str, tuple[Built, ExitStack]] = OrderedDict()
        # For callers that don't close it: no clone outlives the process.
        self._finalizer = weakref.finalize(self, _remove_all, self._built)

    def __enter__(self) -> Workshop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove every clone."""
        _remove_all(self._built)

    def build(self, files: Mapping[str, str]) -> Built:
        """The candidate, built now or before.

        Raises:
            FabricaError: The machine failed, or the compiler itself did.
        """
        digest = candidate_digest(files)
        if digest in self._built:
            built = self._built[digest][0]
            if not built.stage.altered() and not built.altered():
                self._built.move_to_end(digest)
                return built
            self.forget(files)
        while len(self._built) >= KEPT:
            self._built.popitem(last=False)[1][1].close()
        with ExitStack() as stack:
            stage = stack.enter_context(Stage(files, frozen_texts(self._conditions.task, self._conditions.workflow)))
            result = self._compile(stage)
            built = Built(stage, result, "" if result.artifact is None else _tree_digest(result.artifact))
            self._built[digest] = built, stack.pop_all()
        return built

    def forget(self, files: Mapping[str, str]) -> None:
        """Remove a candidate's clone."""
        entry = self._built.pop(candidate_digest(files), None)
        if entry is not None:
            entry[1].close()

    def _compile(self, stage: Stage) -> BuildResult:
        try:
            result = self._conditions.toolchain.build(stage.bundle, self._conditions.build_options())
        except OSError as error:
            raise from_os_error(error) from error
        if not result.ok:
            require_space(stage)
        return result


def _remove_all(built: OrderedDict[str, tuple[Built, ExitStack]]) -> None:
    while built:
        built.popitem()[1][1].close()


def require_space(stage: Stage) -> None:
    """Refuse to blame a candidate for what a full disk may have caused.

    Raises:
        FabricaError: There is next to no free space.
    """
    free = shutil.disk_usage(stage.root).free
    if free < MIN_FREE_BYTES:
        raise FabricaError(
            f"no space left for temporary files: {free >> 20} MiB free",
            place=str(stage.root.parent),
            remedy="free some space or set TMPDIR to another folder; finished work is kept, run again to continue",
            code=ExitCode.ENVIRONMENT,
        )


def _tree_digest(root: Path) -> str:
    """Digest over the names, kinds and contents below a folder."""
    digest = hashlib.sha256()
    try:
        for path in sorted(root.rglob("*")):
            kind = "link" if path.is_symlink() else "file" if path.is_file() else "other"
            data = path.read_bytes() if kind == "file" else b""
            head = f"{kind} {path.relative_to(root)} {len(data)}\n"
            digest.update(head.encode("utf-8", "surrogateescape") + data)
    except OSError as error:
        require_readable(error)
        return "unreadable"
    return digest.hexdigest()
