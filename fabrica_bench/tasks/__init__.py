"""Tasks: what is to be translated, on which data, and how closely the result must match.

A task is a folder (`tasks/relu-1pe`) with a typed `spec.yaml`, a CUDA source, a CSL bundle and a float64 oracle. This
package loads and checks them, lists them by the benchmark's frozen sets, and derives the visible and held-out seeds.
"""

from fabrica_bench.tasks.catalogue import CatalogueEntry, load_catalogue
from fabrica_bench.tasks.oracle import Arrays, Oracle
from fabrica_bench.tasks.selection import (
    TASKS_VARIABLE,
    TaskFilter,
    list_tasks,
    load_task,
    parse_filters,
    require_tasks,
    secret_roots,
    survey_tasks,
    tasks_root,
    unwritten_tasks,
)
from fabrica_bench.tasks.spec import TaskSpec, load_spec, spec_json_schema
from fabrica_bench.tasks.task import Answers, OutputCheck, Task, slug_of

__all__ = [
    "TASKS_VARIABLE",
    "Answers",
    "Arrays",
    "CatalogueEntry",
    "Oracle",
    "OutputCheck",
    "Task",
    "TaskFilter",
    "TaskSpec",
    "list_tasks",
    "load_catalogue",
    "load_spec",
    "load_task",
    "parse_filters",
    "require_tasks",
    "secret_roots",
    "slug_of",
    "spec_json_schema",
    "survey_tasks",
    "tasks_root",
    "unwritten_tasks",
]
