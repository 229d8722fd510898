"""Running a study: its controls first, then its agent, arm by arm; what is finished is kept."""

from __future__ import annotations

import os
from dataclasses import dataclass

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.models.selection import open_model
from fabrica_bench.report.data import load_report
from fabrica_bench.report.ranking import control_holds
from fabrica_bench.report.writer import write_report
from fabrica_bench.runs.events import Progress, no_progress
from fabrica_bench.runs.execution import RunInterrupted, execute_run
from fabrica_bench.runs.summary import RunSummary
from fabrica_bench.studies.planning import StudyPlan


@dataclass(frozen=True)
class FinishedRun:
    """One run of a study with its result."""

    label: str
    summary: RunSummary


def run_study(plan: StudyPlan, progress: Progress = no_progress) -> list[FinishedRun]:
    """Run everything that is owed.

    Raises:
        FabricaError: A control of a published study doesn't hold: nothing measured with this harness could be trusted,
            so the agent isn't run. Or as `execute_run`.
    """
    for model in {run.config.model for run in plan.runs if run.finished < run.attempts}:
        open_model(model, os.environ)  # a missing key is better found now than after all controls
    finished: list[FinishedRun] = []
    for run in plan.runs:
        try:
            summary = execute_run(run.config, progress)
        except RunInterrupted as error:
            raise RunInterrupted(
                error.message, place=error.place, remedy="give the study's command again to continue"
            ) from None
        write_report(run.config.out)
        finished.append(FinishedRun(run.label, summary))
        if run.control and plan.study.published and not control_holds(load_report(run.config.out)):
            raise FabricaError(
                f"control {run.config.agent} does not hold in arm {run.arm.name}: "
                f"{summary.valid} of {summary.total} valid",
                place=str(run.config.out),
                remedy="its report names the tasks; nothing measured with this harness can be trusted until it holds",
                code=ExitCode.HARNESS,
            )
    return finished
