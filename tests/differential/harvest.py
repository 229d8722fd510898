"""A pytest plug-in: whatever a test asks of a `Machine` is asked of a native one too.

    python -m pytest -p differential.harvest tests/wse

After each test the steps given to each machine are repeated on both executors. A difference fails the test. The
summary counts machines compared, machines that the native executor left to the reference, and those that fell back.
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest

from differential.replay import Step, compare
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.native.support import NativeUnsupported

COUNTS: Counter[str] = Counter()
_JOURNALS: list[tuple[Any, Any, list[Step]]] = []
_ORIGINAL: dict[str, Any] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Listen to machines."""
    for name in ("__init__", "submit", "wait", "drain"):
        _ORIGINAL[name] = getattr(Machine, name)
        setattr(Machine, name, _listener(name))


def _listener(name: str) -> Any:
    original = _ORIGINAL[name]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self) is not Machine:
            return original(self, *args, **kwargs)
        if name == "__init__":
            journal: list[Step] = []
            # a test may change its program afterwards
            _JOURNALS.append((copy.deepcopy(args[0] if args else kwargs["program"]), kwargs.get("limits"), journal))
            self.__dict__["_heard"], self.__dict__["_numbers"] = journal, {}
            return original(self, *args, **kwargs)
        heard, numbers = self.__dict__["_heard"], self.__dict__["_numbers"]
        if name == "submit":
            handle = original(self, *args, **kwargs)
            numbers[id(handle)] = len(numbers)
            heard.append(("submit", copy.deepcopy(args[0])))
            return handle
        heard.append(("wait", numbers[id(args[0])]) if name == "wait" else ("drain",))
        return original(self, *args, **kwargs)

    return method


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Compare after the test's own checks."""
    _JOURNALS.clear()
    result = yield
    heard = list(_JOURNALS)
    for program, limits, steps in heard:
        if not steps:
            continue
        try:
            seen = compare(program, steps, limits)
        except NativeUnsupported as reason:
            COUNTS[f"left to the reference: {reason}"] += 1
        else:
            COUNTS["compared" if seen.executor == "native" else "compared after falling back"] += 1
    _JOURNALS.clear()
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the counts."""
    for text, number in sorted(COUNTS.items()):
        terminalreporter.write_line(f"differential: {number} machine(s) {text}")
