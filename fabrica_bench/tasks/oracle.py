"""Oracles: the float64 reference of a task, loaded from its oracle.py into a namespace of its own.

    inputs(rng, size, distribution) -> arrays     the task's inputs in their declared dtypes; scalars have shape [1]
    expected(inputs, size) -> arrays              float64, independent of any CSL
    magnitude(inputs, size) -> arrays             float64, only for outputs with `of: magnitude`

An oracle may import NumPy and the shared draws, and nothing that could reach files, processes or the network: it must
be a pure function of its arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

from fabrica_bench.errors import FabricaError

Arrays = dict[str, np.ndarray[Any, Any]]

ALLOWED_IMPORTS: Final = frozenset({"__future__", "fabrica_bench.tasks.draws", "math", "numpy", "typing"})
_FORBIDDEN_NAMES: Final = frozenset(
    {"open", "eval", "exec", "compile", "__import__", "input", "globals", "locals", "vars", "breakpoint", "print"}
)
_FORBIDDEN_ATTRIBUTES: Final = frozenset(
    {"load", "save", "savez", "loadtxt", "savetxt", "genfromtxt", "fromfile", "tofile", "memmap", "seed", "default_rng"}
)


class Oracle:
    """The three functions of an oracle.py.

    Args:
        path: The file; it is read once. Raises `FabricaError` when it is missing, impure or lacks a function.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        namespace = _run(path)
        self.inputs: Callable[[np.random.Generator, dict[str, int], str], Arrays] = _function(namespace, "inputs", path)
        self.expected: Callable[[Arrays, dict[str, int]], Arrays] = _function(namespace, "expected", path)
        self.magnitude: Callable[[Arrays, dict[str, int]], Arrays] | None = namespace.get("magnitude")


def impurities(source: str, filename: str = "oracle.py") -> list[str]:
    """Reasons, each with its line, why the text isn't a pure oracle; empty when it is."""
    found = []
    for node in ast.walk(ast.parse(source, filename)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            found += [f"{line}: imports {item.name}" for item in node.names if item.name not in ALLOWED_IMPORTS]
        elif isinstance(node, ast.ImportFrom) and (node.level or node.module not in ALLOWED_IMPORTS):
            found.append(f"{line}: imports from {'.' * node.level}{node.module or ''}")
        elif isinstance(node, ast.Name) and node.id in _FORBIDDEN_NAMES:
            found.append(f"{line}: uses {node.id}")
        elif isinstance(node, ast.Attribute) and (node.attr in _FORBIDDEN_ATTRIBUTES or node.attr.startswith("__")):
            found.append(f"{line}: uses .{node.attr}")
        elif isinstance(node, ast.Attribute) and node.attr == "random" and isinstance(node.value, ast.Name):
            if not _is_annotation_of_generator(node, source):
                found.append(f"{line}: uses the global random state")
        elif isinstance(node, ast.Global | ast.Nonlocal):
            found.append(f"{line}: changes state outside the function")
    return found


def _is_annotation_of_generator(node: ast.Attribute, source: str) -> bool:
    """`np.random.Generator` is a type, not a use of the global state."""
    line = source.splitlines()[node.lineno - 1]
    return line[node.end_col_offset or 0 :].startswith(".Generator")


def _run(path: Path) -> dict[str, Any]:
    place = str(path)
    try:
        source = path.read_text(encoding="utf-8")
        problems = impurities(source, place)
        code = compile(source, place, "exec", dont_inherit=True)
    except FileNotFoundError:
        raise FabricaError("there is no such file", place=place, remedy="a task needs an oracle.py") from None
    except UnicodeDecodeError as error:
        raise FabricaError(f"byte {error.start} is not UTF-8", place=place, remedy="save the file as UTF-8") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{place}:{line}" if line else place
        raise FabricaError(f"not valid Python: {error.args[0]}", place=where, remedy="mend the oracle") from None
    if problems:
        line, reason = problems[0].split(": ", 1)
        raise FabricaError(
            f"an oracle must be pure, but this one {reason}",
            place=f"{place}:{line}",
            remedy=f"use only its arguments and {', '.join(sorted(ALLOWED_IMPORTS))}",
        )
    module = ModuleType("oracle")
    try:
        exec(code, module.__dict__)
    except Exception as error:
        raise FabricaError(
            f"fails to load: {type(error).__name__}: {error}", place=place, remedy="mend the oracle"
        ) from error
    return module.__dict__


def _function(namespace: dict[str, Any], name: str, path: Path) -> Callable[..., Arrays]:
    function = namespace.get(name)
    if not callable(function):
        raise FabricaError(f"has no function {name}()", place=str(path), remedy="see docs/adding-a-task.md")
    return function  # type: ignore[no-any-return]
