"""Runs whose processes are killed at random, and what must hold of their records afterwards.

`nox -s kills` runs 200 jobs of a toy agent on the fixture task under 200 SIGKILLs and prints the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from fabrica_bench.plugins import Budget
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import finished_jobs
from fabrica_bench.runs.records import JobStarted, Measured, SessionStarted, VerdictRecord
from fabrica_bench.runs.store import RunStore
from helpers.double_it import FIXTURE_TASKS

CODE = """
import pathlib, sys
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
execute_run(RunConfig.model_validate_json(pathlib.Path(sys.argv[1]).read_text()))
"""


@dataclass
class Fire:
    """How often which process was hit, and how often the command had to be given."""

    coordinators: int = 0
    jobs: int = 0
    commands: int = 0

    @property
    def kills(self) -> int:
        return self.coordinators + self.jobs


@dataclass(frozen=True)
class Account:
    """What the records of a run say.

    Attributes:
        verdicts: Attempts with a verdict about the agent.
        lost: Attempts of the configuration without one.
        twice: Attempts with several, evaluations under one key computed again, and jobs that a later session began
            although they were finished.
        sessions, started: Sessions, and jobs begun in all of them: what was killed was begun again.
        evaluations: Different evaluations on record.
    """

    jobs: int
    verdicts: int
    lost: int
    twice: int
    sessions: int
    started: int
    evaluations: int


def run_under_fire(config: RunConfig, folder: Path, *, seed: int, kills: int, pause: tuple[float, float]) -> Fire:
    """Run a configuration in another process, by the same command until it is finished.

    Args:
        config: What to run.
        folder: For the configuration's file.
        seed: Draws the pauses and the victims: the coordinator, or one of its jobs.
        kills: SIGKILLs altogether.
        pause: Shortest and longest pause between them, in seconds.
    """
    path = folder / "config.json"
    path.write_text(config.model_dump_json(), encoding="utf-8")
    dice, fire = random.Random(seed), Fire()
    wanted = len(config.order())
    while True:
        fire.commands += 1
        child = subprocess.Popen(
            [sys.executable, "-c", CODE, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            # Otherwise a busy machine would see nothing but deaths at the start.
            if fire.kills < kills and dice.random() < 0.9:
                _await_work(child, config.out)
            while fire.kills < kills and child.poll() is None:
                time.sleep(dice.uniform(*pause))
                jobs = _children(child.pid)
                if not jobs or dice.random() < 0.2:
                    fire.coordinators += _kill(child.pid)
                    break
                fire.jobs += _kill(dice.choice(jobs))
            _, stderr = child.communicate(timeout=3600)
        finally:
            _kill(child.pid)
        if child.returncode == 0 and len(finished_jobs(RunStore.open(config.out).records())) == wanted:
            return fire
        # A run whose agent is killed before it could say what it is does not begin; the same call begins it again.
        unborn = b"its process ended with signal 9" in stderr and b"describe_agent" in stderr
        assert child.returncode in (0, -signal.SIGKILL) or unborn, stderr.decode(errors="replace")[-2000:]


def account(config: RunConfig) -> Account:
    """Count the records of a finished run."""
    store = RunStore.open(config.out)
    records = store.records()
    verdicts = Counter(
        (r.task, r.attempt) for r in records if isinstance(r, VerdictRecord) and r.verdict.kind != "not_scored"
    )
    keys = Counter(r.key for r in records if isinstance(r, Measured))
    wanted, done = config.order(), set[tuple[str, int]]()
    finished_before: set[tuple[str, int]] = set()
    again = 0
    for record in records:
        if isinstance(record, SessionStarted):
            finished_before = set(done)
        elif isinstance(record, VerdictRecord) and record.verdict.kind != "not_scored":
            done.add((record.task, record.attempt))
        elif isinstance(record, JobStarted):
            again += (record.task, record.attempt) in finished_before
    return Account(
        jobs=len(wanted),
        verdicts=len(verdicts),
        lost=sum(job not in verdicts for job in wanted),
        twice=sum(count - 1 for count in (*verdicts.values(), *keys.values())) + again,
        sessions=sum(isinstance(r, SessionStarted) for r in records),
        started=sum(isinstance(r, JobStarted) for r in records),
        evaluations=len(keys),
    )


def fixture_environment(folder: Path) -> dict[str, str]:
    """Variables under which the toy agents run on the fixture task with the scripted toolchain."""
    root = Path(__file__).parents[2]
    agents = (root / "tests" / "fixtures" / "agents", root, root / "agents")
    return {
        "FABRICA_BENCH_TASKS": str(FIXTURE_TASKS),
        "FABRICA_BENCH_TEST_DOUBLES": "1",
        "FABRICA_BENCH_KEYS": str(folder / "keys"),
        "FABRICA_BENCH_EVALUATIONS": "off",
        "PYTHONPATH": os.pathsep.join(map(str, agents)),
    }


def _await_work(child: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until a session has begun its first jobs, or the process has ended."""
    records = out / "records.jsonl"
    before = records.stat().st_size if records.exists() else 0
    while child.poll() is None and not (records.exists() and records.stat().st_size > before):
        time.sleep(0.05)


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]) == parent:
                    found.append(int(entry.name))
            except OSError:
                continue
    return sorted(found)


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    """Print the figures; 1 when something was lost or done twice."""
    parser = argparse.ArgumentParser(description="Kill the processes of a run at random and account for its jobs.")
    parser.add_argument("--jobs", type=int, default=200, help="attempts in the run (default 200)")
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs (default 200)")
    parser.add_argument("--seed", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ.update(fixture_environment(folder))
        config = RunConfig(
            agent="toy",
            tasks=("Double-It",),
            out=folder / "run",
            toolchain="scripted",
            budget=Budget(evaluations=5, wall_s=20.0, tokens=0),
            repeat=given.jobs,
            jobs=4,
        )
        begin = time.monotonic()
        fire = run_under_fire(config, folder, seed=given.seed, kills=given.kills, pause=(0.3, 2.0))
        found = account(config)
        seconds = round(time.monotonic() - begin)
        print(
            json.dumps(
                {"kills": {"all": fire.kills, **asdict(fire)}, "run": asdict(found), "seconds": seconds}, indent=2
            )
        )
    return int(found.lost > 0 or found.twice > 0)


if __name__ == "__main__":
    sys.exit(main())
