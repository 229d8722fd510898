"""Check 6: does a bundle's runner notice wrong outputs?

The reference is built once and run by its own `run.py`, which compares with its own expected values. On the way from
the device to the host the outputs are falsified (`fabrica_bench.integrity.corrupting_host`). A runner must succeed on
the true outputs and fail on every falsified ones. Only exit statuses count: nothing that is printed can say success.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.bundle import frozen_texts, reference_files
from fabrica_bench.integrity.corrupting_host import CHANGES
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import visible_cases
from fabrica_bench.scoring.staging import Stage
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.spec import Arch
from fabrica_bench.toolchains.commands import stage_run
from fabrica_bench.toolchains.embedded import embedded_toolchain
from fabrica_bench.toolchains.processes import run_process, scrubbed_environment
from fabrica_bench.toolchains.protocol import RunRequest

DEADLINE_S: Final = 600.0
NONE: Final = "none"


@dataclass(frozen=True)
class RunnerCheck:
    """What a runner did with each change.

    Attributes:
        refused_right: The exit status on true outputs wasn't 0.
        why: What the runner said last then, on standard error.
        missed: Changes that it didn't notice.
        noticed: Changes at which it failed.
    """

    task: str
    refused_right: bool
    missed: tuple[str, ...]
    noticed: tuple[str, ...]
    why: str = ""

    @property
    def ok(self) -> bool:
        return not self.refused_right and not self.missed and bool(self.noticed)


def check_runner(task: Task, arch: Arch = "wse3", size: str = "small", changes: Sequence[str] = ()) -> RunnerCheck:
    """Run a task's runner on falsified outputs, on the embedded toolchain.

    Args:
        task: The task.
        arch, size: What is built.
        changes: Names of changes; all when empty.

    Raises:
        FabricaError: The reference can't be built or run at all.
    """
    toolchain = embedded_toolchain()
    conditions = Conditions(task, toolchain, arch, size)
    names = [NONE, *(name for name in (changes or CHANGES) if name != NONE)]
    bundle = task.spec.bundle
    with Stage(reference_files(task, "W1"), frozen_texts(task, "W1")) as stage:
        build = toolchain.build(stage.bundle, conditions.build_options())
        if build.artifact is None:
            raise FabricaError(f"the reference of {task.name} can't be built", place=str(task.bundle_dir))
        case = visible_cases(task, 1)[0]
        inputs = stage.root / "inputs.npz"
        np.savez(inputs, **task.inputs(case.seed, conditions.parameters, case.distribution))  # type: ignore[arg-type]
        support = tuple(stage.bundle / name for name in bundle.runner_files if name != bundle.runner)
        folders = [stage.run_folder(str(number)) for number in range(len(names))]
        arguments: list[str] = []
        for folder in folders:
            request = RunRequest(stage.bundle / bundle.runner, folder, inputs, support, check=True)
            arguments = stage_run(build.artifact, request)
        orders = stage.root / "orders.json"
        orders.write_text(
            json.dumps(
                {
                    "symbols": [output.name for output in task.spec.outputs],
                    "changes": names,
                    "folders": [str(folder) for folder in folders],
                    "arguments": arguments,
                    "support": bool(support),
                }
            ),
            encoding="utf-8",
        )
        result = run_process(
            [sys.executable, "-P", "-m", "fabrica_bench.integrity.corrupting_host"],
            workdir=stage.root,
            environment=scrubbed_environment(stage.root, toolchain.environment),
            limits=toolchain.limits,
            deadline_s=DEADLINE_S,
            stdin=orders,
        )
        said = _said(folders[0] / "stderr")
    statuses = [int(line) for line in result.stdout.split()]
    if len(statuses) != len(names):
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise FabricaError(f"the runner of {task.name} can't be run: {last}", code=ExitCode.HARNESS)
    wrong = dict(zip(names[1:], statuses[1:], strict=True))
    return RunnerCheck(
        task.name,
        statuses[0] != 0,
        tuple(name for name, status in wrong.items() if status == 0),
        tuple(name for name, status in wrong.items() if status != 0),
        said or f"exit status {statuses[0]}, and nothing on standard error",
    )


def _said(stream: Path) -> str:
    """The last line that a process wrote."""
    try:
        lines = stream.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1].strip() if lines else ""
