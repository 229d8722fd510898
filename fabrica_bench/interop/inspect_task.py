"""An Inspect AI task (extra `inspect`): `inspect eval fabrica_bench/fabrica --model PROVIDER/NAME -T filter=set=core`.

Inspect's model is asked for the editable files, may repair them after a look at what compiler and visible inputs say,
and is scored by Fabrica-Bench's own scorer on visible and held-out inputs. Inspect sees the same view of a task as an
agent: never the reference, never a held-out input.
"""

from __future__ import annotations

import asyncio
import re
from statistics import median_low
from typing import Any, Final, cast

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from fabrica_bench.errors import FabricaError
from fabrica_bench.firewall.view import task_view
from fabrica_bench.plugins import TaskView, Workflow
from fabrica_bench.scoring.candidate import CandidateError, read_candidate
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.scoring.scorer import Scorer as CandidateScorer
from fabrica_bench.scoring.verdict import NotScored, Valid, outcome_text
from fabrica_bench.tasks import load_task, require_tasks
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.tasks.spec import Arch
from fabrica_bench.toolchains import get_toolchain

FEEDBACK_LIMIT: Final = 4000
"""Characters of compiler and simulator output that a repair is told."""

_FENCE: Final = re.compile(r"^```[^\n]*?(?P<name>[\w./-]+\.\w+)[^\n]*\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


@task
def fabrica(
    filter: str = "set=core",
    attempts: int = 1,
    arch: str = "wse3",
    workflow: str = "W1",
    size: str = "small",
    toolchain: str = "embedded",
) -> Task:
    """Translate CUDA kernels to CSL.

    Args:
        filter: Which tasks, as `--filter` takes them; several conditions with spaces between.
        attempts: Programs that the model may write per task: the first, and repairs.
        arch: `wse2` or `wse3`.
        workflow: `W1`, `W1-C` or `W2`.
        size: Named size.
        toolchain: Back end that builds and runs.
    """
    conditions = {"arch": arch, "workflow": workflow, "size": size, "toolchain": toolchain}
    samples = [
        Sample(
            id=found.name,
            input=prompt(_view(found.name, **conditions)),
            metadata={"level": found.spec.level, "family": found.spec.family, **conditions},
        )
        for found in require_tasks(filter.split())
    ]
    return Task(
        dataset=MemoryDataset(samples, name="fabrica-bench"),
        solver=translate(attempts),
        scorer=verdict(),
        version=1,
        metadata=conditions,
    )


@solver
def translate(attempts: int = 1) -> Solver:
    """Ask for the files; after a failure on the visible inputs ask again, up to `attempts` programs."""
    if attempts < 1:
        raise ValueError("a model gets at least one attempt")

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state = await generate(state)
        for _ in range(attempts - 1):
            complaint = await asyncio.to_thread(
                _complaint, str(state.sample_id), state.output.completion, state.metadata
            )
            if complaint is None:
                break
            state.messages.append(ChatMessageUser(content=complaint))
            state = await generate(state)
        return state

    return solve


@scorer(metrics={"valid": [mean(), stderr()], "fast_1": [mean(), stderr()]})
def verdict() -> Scorer:
    """Score the files of the last answer on visible inputs and on held-out ones drawn for this evaluation."""
    key = HeldOutKey.fresh()

    async def score(state: TaskState, target: Target) -> Score:
        return await asyncio.to_thread(_score, str(state.sample_id), state.output.completion, state.metadata, key)

    return score


def prompt(view: TaskView) -> str:
    """What the model is asked."""
    files = "\n\n".join(f"```{name}\n{text}```" for name, text in view.files.items())
    return (
        f"Translate a CUDA kernel to CSL for Cerebras {view.arch.upper()}.\n\n{view.task_md}\n\n"
        f"Size parameters: {', '.join(f'{name}={value}' for name, value in view.size.items())}\n\n"
        f"The CUDA source:\n\n```kernel.cu\n{view.cuda}```\n\n"
        f"The other files of the program, which stay as they are:\n\n{files}\n\n"
        f"Answer with {', '.join(view.editable)}, each complete and in a fenced block of its own whose first line is "
        "three backticks and the file's name. The program must begin its timing window with the first statement and "
        "end it before it returns control to the host, as the description says."
    )


def files_of(answer: str) -> dict[str, str]:
    """The files in an answer: fenced blocks that name one; the last of a name counts."""
    return {match["name"]: match["body"] for match in _FENCE.finditer(answer)}


def _view(name: str, *, arch: str, workflow: str, size: str, toolchain: str) -> TaskView:
    return task_view(
        load_task(name), arch=cast(Arch, arch), size=size, workflow=cast(Workflow, workflow), toolchain=toolchain
    )


def _conditions(name: str, facts: dict[str, Any]) -> Conditions:
    return Conditions(
        load_task(name), get_toolchain(facts["toolchain"]), facts["arch"], facts["size"], facts["workflow"]
    )


def _complaint(name: str, answer: str, facts: dict[str, Any]) -> str | None:
    """What is wrong with an answer on the visible inputs; None when it is right there."""
    conditions = _conditions(name, facts)
    with CandidateScorer(conditions) as judge:
        try:
            files = read_candidate(files_of(answer), judge.editable)
        except CandidateError as error:
            return f"The answer can't be used: {error}. Send every file again, complete."
        evaluation = judge.evaluate(files, visible_cases(conditions.task))
    failed = evaluation.failed
    if failed is None:
        return None
    lines = "\n".join(failed.evidence)[:FEEDBACK_LIMIT]
    return f"The program fails {failed.predicate}:\n\n{lines}\n\nSend every file again, complete and mended."


def _score(name: str, answer: str, facts: dict[str, Any], key: HeldOutKey) -> Score:
    conditions = _conditions(name, facts)
    cases = (
        *visible_cases(conditions.task),
        *held_out_cases(conditions.task, held_out_seeds(conditions.task, key)),
    )
    files = files_of(answer)
    with CandidateScorer(conditions) as judge:
        found = judge.score(files, cases)
    if isinstance(found, NotScored):
        # The machine's or the harness's fault is an error of the evaluation, never the model's zero.
        raise FabricaError(found.reason)
    good = isinstance(found, Valid)
    speedup = found.speedup if isinstance(found, Valid) else None
    return Score(
        value={"valid": int(good), "fast_1": int(speedup is not None and speedup > 1)},
        answer="\n".join(f"// {file}\n{text}" for file, text in files.items()),
        explanation=outcome_text(found),
        metadata={
            "speedup": speedup,
            "cycles": median_low(found.samples) if isinstance(found, Valid) else None,
            "key_fingerprint": key.fingerprint,
            "verdict": found.model_dump(mode="json"),
        },
    )
