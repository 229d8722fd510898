"""The fixed family of wrong programs, as what they would leave in the outputs.

Each mutant takes the right outputs of a case, or the inputs and the oracle, and gives the outputs of a program that is
wrong in one way. A mutant that has nothing to change at (the order of one element) gives None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fabrica_bench.integrity.outputs import POISON_WORDS
from fabrica_bench.tasks import Arrays, Task
from fabrica_bench.tasks.spec import NUMPY_DTYPE

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """What a wrong program has to work with.

    Attributes:
        task, size: The task and the values of its size parameters.
        inputs: The inputs of the case.
        visible: The inputs of the first visible case, which anybody can know.
    """

    task: Task
    size: dict[str, int]
    inputs: Arrays
    visible: Arrays

    def right(self, inputs: Arrays | None = None) -> Arrays:
        """The oracle's outputs, correctly rounded to their types."""
        expected = self.task.expected(self.inputs if inputs is None else inputs, self.size)
        return {item.name: cast(expected[item.name], NUMPY_DTYPE[item.dtype]) for item in self.task.spec.outputs}


Mutant = Callable[[Case], Arrays | None]


def cast(values: Array, dtype: str) -> Array:
    """Values in a type of the device."""
    kind = np.dtype(dtype)
    return np.rint(values).astype(np.int64).astype(kind) if kind.kind in "iu" else values.astype(kind)


def _each(change: Callable[[Array, Array], Array]) -> Mutant:
    """Change every output: `change(flat right values, flat values of some input in the same type)`."""

    def mutant(case: Case) -> Arrays | None:
        outputs = {}
        for name, array in case.right().items():
            flat = array.ravel()
            other = np.resize(next(iter(case.inputs.values())).ravel(), flat.size)
            other = case.inputs[name].ravel() if name in case.inputs else other.astype(array.dtype)
            outputs[name] = change(flat.copy(), other).astype(array.dtype).reshape(array.shape)
        return outputs

    return mutant


def _inputs(change: Callable[[Array], Array]) -> Mutant:
    """The right result for other inputs: every array with more than one element is changed."""

    def mutant(case: Case) -> Arrays | None:
        changed = {}
        for name, array in case.inputs.items():
            flat = array.ravel()
            changed[name] = array if flat.size < 2 else change(flat.copy()).astype(array.dtype).reshape(array.shape)
        return _without_faults(case, changed)

    return mutant


def _without_faults(case: Case, inputs: Arrays) -> Arrays | None:
    """The oracle may not take just any input (an index out of range)."""
    from fabrica_bench.errors import FabricaError

    try:
        with np.errstate(all="ignore"):
            return case.right(inputs)
    except (FabricaError, ArithmeticError, ValueError, IndexError):
        return None


def _by_size(several: Mutant, one: Mutant | None) -> Mutant:
    """One mutant for outputs of several elements, another for those of one."""

    def mutant(case: Case) -> Arrays | None:
        largest = max(array.size for array in case.right().values())
        if largest > 1:
            return several(case)
        return one(case) if one is not None else None

    return mutant


def _kept(flat: Array, where: slice) -> Array:
    changed = np.zeros_like(flat)
    changed[where] = flat[where]
    return changed


def _zeroed(flat: Array, where: slice) -> Array:
    flat[where] = 0
    return flat


def _poison(flat: Array, other: Array) -> Array:
    bits = flat.dtype.itemsize * 8
    words = np.full(flat.size, POISON_WORDS[bits], dtype=np.uint32 if bits == 32 else np.uint16)
    return words.view(flat.dtype)


def _stale(case: Case) -> Arrays:
    """Outputs as before the run: what was copied in, or the poison."""
    return {
        name: case.inputs[name].copy() if name in case.inputs else _poison(array.ravel(), array).reshape(array.shape)
        for name, array in case.right().items()
    }


def _tile(flat: Array) -> slice:
    """The part of one PE, or a quarter."""
    length = max(1, flat.size // 4)
    return slice(flat.size // 2, flat.size // 2 + length)


def _with_nan(flat: Array, other: Array) -> Array:
    if flat.dtype.kind == "f":
        flat[flat.size // 2] = np.nan
    else:
        flat[flat.size // 2] = np.iinfo(flat.dtype).max
    return flat


def _narrow(flat: Array) -> Array:
    """Single precision rounded to the mantissa of half; integers without their low bit."""
    if flat.dtype.kind != "f":
        return np.asarray(flat & ~flat.dtype.type(1))
    words = flat.astype(np.float32).view(np.uint32)
    rounded = (words + np.uint32(1 << 12)) >> np.uint32(13) << np.uint32(13)
    return np.asarray(rounded.view(np.float32))


def _lower_precision(case: Case) -> Arrays | None:
    """The right result in half precision, or for integers that of inputs without their low bit.

    None for outputs in half: a PE has no narrower arithmetic than what the task stores.
    """
    kinds = {array.dtype for array in case.right().values()}
    if np.dtype(np.float16) in kinds:
        return None
    if all(kind.kind == "f" for kind in kinds):
        return _each(lambda flat, other: _narrow(flat))(case)
    return _inputs(_narrow)(case)


def _hard_coded(case: Case) -> Arrays | None:
    """The answer to the first visible input, whatever the input is."""
    return case.right(case.visible)


def _boundary(flat: Array, other: Array) -> Array:
    """The first element is that of its neighbour, as with a clamped halo."""
    flat[0] = flat[1] if flat.size > 1 else flat[0]
    return flat


FAMILY: Final[dict[str, Mutant]] = {
    "zeros": _each(lambda flat, other: np.zeros_like(flat)),
    "constant": _each(lambda flat, other: np.ones_like(flat)),
    "copy of the input": _each(lambda flat, other: other),
    "stale output": _stale,
    "one tile missing": _by_size(
        _each(lambda flat, other: _zeroed(flat, _tile(flat))), _inputs(lambda flat: _zeroed(flat, _tile(flat)))
    ),
    "halo off by one": _by_size(
        _each(lambda flat, other: np.roll(flat, 1)), _inputs(lambda flat: _zeroed(flat, slice(-1, None)))
    ),
    "last element only": _by_size(
        _each(lambda flat, other: _kept(flat, slice(-1, None))), _inputs(lambda flat: _kept(flat, slice(-1, None)))
    ),
    "wrong order": _by_size(_each(lambda flat, other: flat[::-1]), None),
    "lower precision": _lower_precision,
    "NaN": _each(_with_nan),
    "hard-coded visible seed": _hard_coded,
    "boundary wrong": _by_size(_each(_boundary), _inputs(lambda flat: _zeroed(flat, slice(0, 1)))),
}
"""The mutants by name."""


def _other_zeros(case: Case) -> Arrays:
    """Zeros of the other sign."""
    outputs = {}
    for name, array in case.right().items():
        outputs[name] = np.where(array == 0, -array, array).astype(array.dtype) if array.dtype.kind == "f" else array
    return outputs


HONEST: Final[dict[str, Mutant]] = {
    "correctly rounded": lambda case: case.right(),
    "zeros of either sign": _other_zeros,
}
"""Right results that must pass."""
