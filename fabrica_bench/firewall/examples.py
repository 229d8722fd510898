"""Worked examples for agents: translations from the training split, leave-one-out and screened."""

from __future__ import annotations

from fabrica_bench.firewall.bundle import bundle_texts
from fabrica_bench.firewall.screening import leaks
from fabrica_bench.plugins import WorkedExample, Workflow
from fabrica_bench.tasks import Task, list_tasks


def worked_examples(task: Task, workflow: Workflow) -> list[WorkedExample]:
    """Every training task but this one, unless its text holds a hidden kernel of this task."""
    found = []
    for other in list_tasks():
        if other.name == task.name or other.spec.split != "train":
            continue
        bundle = other.spec.bundle
        texts = bundle_texts(other)
        files = {name: texts[name] for name in (bundle.layout, bundle.compute)}
        if not any(leaks(text, task, workflow) for text in files.values()):
            found.append(WorkedExample(name=other.name, cuda=other.cuda_path.read_text(encoding="utf-8"), files=files))
    return found
