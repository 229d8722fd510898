"""Profiles of a host script's runs, asked for by an environment variable.

`FABRICA_SIM_PROFILE`  directory for the profiles; without it nothing is recorded

Each run writes `<artefact>.profile.json` and, if the grid is not too large, `<artefact>.profile.svg`; further runs of
one process `<artefact>-2...`. A run that faults or deadlocks writes its profile too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from fabrica_bench.compat.artifacts import write_json
from fabrica_bench.compat.tracing import Recording
from fabrica_bench.wse.profile import ProfileRecorder
from fabrica_bench.wse.profile_picture import MAX_PES, heat_map_svg

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program

PROFILE_SUFFIX: Final = ".profile.json"
PICTURE_SUFFIX: Final = ".profile.svg"


class ProfileRecording(Recording):
    """The profile of one run."""

    def __init__(self, program: Program, directory: Path, name: str) -> None:
        self._profiler = ProfileRecorder(program)
        super().__init__(self._profiler, directory, name)

    def _write_files(self) -> None:
        profile = self._profiler.profile()
        write_json(self.directory / f"{self.name}{PROFILE_SUFFIX}", profile.to_record())
        if profile.width * profile.height <= MAX_PES:
            picture = self.directory / f"{self.name}{PICTURE_SUFFIX}"
            picture.write_text(heat_map_svg(profile, self.name), encoding="utf-8")
