"""The frozen head of a run: what decides its results, and what it ran on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, field_validator

from fabrica_bench.json_text import json_text, parse_json
from fabrica_bench.errors import FabricaError
from fabrica_bench.runs.config import RunConfig

RunId = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z._ -]{0,63}$")]


class Manifest(BaseModel):
    """Written once when a run is created.

    Attributes:
        run_id: Random name of the run.
        created: UTC time.
        config: `RunConfig.frozen()`.
        model, control: What the agent said about itself.
        versions: fabrica-bench, suite, Python, NumPy, platform.
        toolchain: `Toolchain.describe()`.
        isolation: What confines the agent's process and the children of the toolchain.
        key_fingerprint: Fingerprint of the held-out key; never the key.
        commitments: For each task the SHA-256 commitments of its held-out seeds.
        tasks: For each task the digest over its bundle, spec and oracle.
        tasks_dir: Folder of the tasks, empty for those that came with the installation.
        environment: Machine and settings that don't decide results: cores, kernel, variables of the agent. Values of
            variables whose names look like secrets are left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: RunId
    created: str
    config: dict[str, Any]
    model: str
    control: bool
    versions: dict[str, str]
    toolchain: dict[str, str]
    isolation: dict[str, dict[str, str]]
    key_fingerprint: str
    commitments: dict[str, tuple[str, ...]]
    tasks: dict[str, str]
    tasks_dir: str = ""
    environment: dict[str, str] = {}

    @field_validator("config")
    @classmethod
    def _is_a_configuration(cls, config: dict[str, Any]) -> dict[str, Any]:
        # It may come from anybody, in a bundle; kept as it is written, so that digests and comparisons hold.
        RunConfig.model_validate({**{name: config[name] for name in config if name != "replay_of"}, "out": "."})
        return config

    def has_attempt(self, task: str, attempt: int) -> bool:
        """Whether the run makes this attempt at this task: results of any other don't belong to it."""
        return task in self.config["tasks"] and 1 <= attempt <= self.config["repeat"]

    def to_text(self) -> str:
        """Indented JSON, for people too."""
        return json_text(self.model_dump(mode="json"), indent=2) + "\n"

    @classmethod
    def from_text(cls, text: str, place: str) -> Manifest:
        """Parse a manifest file.

        Raises:
            FabricaError: It isn't one; `place` is named.
        """
        try:
            return cls.model_validate(parse_json(text))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the file"
            problem = f"{where}: {first['msg']}"
            raise _no_manifest(problem, place) from error
        except ValueError as error:
            raise _no_manifest(f"no JSON: {error}", place) from error


def _no_manifest(problem: str, place: str) -> FabricaError:
    return FabricaError(
        f"not a run manifest of this version: {problem}",
        place=place,
        remedy="name the folder of a run, or start a new one with --out",
    )


def config_difference(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line per field that differs, `name: old -> new`; empty when the two are the same."""
    return [
        f"{name}: {json.dumps(old.get(name))} -> {json.dumps(new.get(name))}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def task_difference(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """One line per task that is in both and has another digest. Which tasks there are is the configuration's matter."""
    return [f"task {name} has changed since" for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
