"""The commands, one module per theme; importing this package adds them to the application.

Command functions import what they need when they run, so that `--help` stays fast and works with anything missing.
"""

from __future__ import annotations

from typing import Final

from fabrica_bench.cli.commands import (
    adequacy,
    audit,
    catalogue,
    csl,
    csl_profile,
    csl_run,
    csl_show,
    doctor,
    export,
    knowledge,
    report,
    run,
    score,
    study,
    task_authoring,
    task_validation,
    tasks,
    verify,
)

REGISTERED: Final = (
    adequacy,
    audit,
    catalogue,
    run,
    score,
    report,
    verify,
    study,
    export,
    knowledge,
    doctor,
    csl,
    csl_run,
    csl_profile,
    csl_show,
    tasks,
    task_authoring,
    task_validation,
)
