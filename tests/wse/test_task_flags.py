"""Active flags of tasks: what comes before and after a task is picked."""

from __future__ import annotations

from fabrica_bench.csl import ir
from fabrica_bench.wse.tasks import TaskTable

TASK = 10


def table() -> TaskTable:
    image = ir.Image("pe", "pe.csl", tasks=[ir.TaskBinding("local", TASK, "f")], activated=[TASK])
    return TaskTable(image, 24)


def complete(tasks: TaskTable, cycle: int) -> None:
    """The end of an operation, in `cycle`."""
    tasks.activate_late(TASK, cycle)


def test_an_activation_is_a_flag_and_no_counter() -> None:
    tasks = table()
    complete(tasks, 5)
    complete(tasks, 6)
    assert tasks.pick(0) == TASK
    tasks.take(TASK, 8)
    assert tasks.pick(0) == -1
    assert tasks.merged == {TASK: 2}


def test_an_operation_that_ends_as_its_task_is_picked_activates_it_once_more() -> None:
    """Two operations activate one task in the official FFT example; the second ends in the cycle in which the task,
    which waited for the one before it, is picked."""
    tasks = table()
    complete(tasks, 8)
    tasks.take(tasks.pick(0), 8)
    assert tasks.pick(0) == TASK
    tasks.take(TASK, 8)
    assert tasks.pick(0) == -1
    assert tasks.merged == {TASK: 0}


def test_an_operation_that_makes_its_task_active_runs_it_once() -> None:
    tasks = table()
    tasks.take(TASK, 3)
    complete(tasks, 8)
    tasks.take(tasks.pick(0), 8)
    assert tasks.pick(0) == -1


def test_operations_that_end_close_together_each_activate_their_task() -> None:
    """The second ends before the first one's activation is due; it is a flag of its own once the task was picked."""
    tasks = table()
    tasks.take(TASK, 0)
    tasks.activate_at(TASK, 24)
    tasks.activate_at(TASK, 29)
    tasks.activate_due(23)
    assert tasks.pick(0) == -1
    tasks.activate_due(24)
    assert tasks.pick(0) == TASK
    tasks.take(TASK, 24)
    tasks.activate_due(30)
    assert tasks.pick(0) == TASK
    assert tasks.due == []
    assert tasks.merged == {}
