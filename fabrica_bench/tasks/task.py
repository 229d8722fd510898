"""Task: a spec together with its folder, its oracle and the quantities that follow from a size."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from fabrica_bench.errors import FabricaError, UnknownNameError
from fabrica_bench.tasks import expressions
from fabrica_bench.tasks.expressions import Expression
from fabrica_bench.tasks.oracle import Arrays, Oracle
from fabrica_bench.tasks.spec import (
    FABRIC_MARGIN,
    FABRIC_OFFSETS,
    NUMPY_DTYPE,
    UNIT_ROUNDOFF,
    Arch,
    OutputTensor,
    TaskSpec,
    Tensor,
)

SPEC_FILE: Final = "spec.yaml"


def slug_of(name: str) -> str:
    """Folder name of a task: kebab-case of its published name (`ReLU-1PE` -> `relu-1pe`)."""
    return name.lower()


@dataclass(frozen=True)
class OutputCheck:
    """One output compared with the oracle.

    Attributes:
        name: The output.
        ok: Whether dtype, shape, finiteness and tolerance all hold.
        reason: Why not; empty when ok.
        max_error: Largest |output - expected| (absolute); nan when it can't be computed.
        max_ratio: Largest |output - expected| / allowed; 0/0 counts as 0; nan when it can't be computed.
    """

    name: str
    ok: bool
    reason: str
    max_error: float
    max_ratio: float


class Answers(NamedTuple):
    """What the oracle says of some inputs: the float64 results, and the largest accepted difference of each element."""

    expected: Arrays
    allowed: Arrays


@dataclass(frozen=True)
class Task:
    """A task on disk.

    Args:
        spec: Its checked spec.
        root: Its folder.
    """

    spec: TaskSpec
    root: Path

    def __repr__(self) -> str:
        return f"<Task {self.name}: level {self.spec.level}, {self.spec.family}, {self.root}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: what is asked, and how large the sizes are."""
        rows = "".join(
            f"<tr><td>{html.escape(size.name)}</td>"
            f"<td>{html.escape(', '.join(f'{name} = {value}' for name, value in size.params.items()))}</td></tr>"
            for size in self.spec.sizes
        )
        title = (
            f"<p><b>{html.escape(self.name)}</b> (level {self.spec.level}): {html.escape(self.spec.description)}</p>"
        )
        return f"{title}<table><tr><th>size</th><th>parameters</th></tr>{rows}</table>"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def slug(self) -> str:
        return self.root.name

    @property
    def bundle_dir(self) -> Path:
        return self.root / "csl"

    @property
    def cuda_path(self) -> Path:
        return self.root / "cuda" / "kernel.cu"

    @property
    def text_path(self) -> Path:
        """What an agent is told."""
        return self.root / "task.md"

    @cached_property
    def oracle(self) -> Oracle:
        return Oracle(self.root / "oracle.py")

    # ------------------------------------------------------------------------------------------- sizes

    def size(self, name: str) -> dict[str, int]:
        """The parameters of a named size. Raises `UnknownNameError`."""
        if name not in self.spec.size_names:
            raise UnknownNameError(f"size of {self.name}", name, self.spec.size_names)
        return dict(self.spec.size(name).params)

    def mesh(self, size: dict[str, int]) -> tuple[int, int]:
        """PE columns and rows of the program rectangle."""
        mesh = self.spec.mesh
        return Expression(mesh.columns).integer(size), Expression(mesh.rows).integer(size)

    def fabric_dims(self, size: dict[str, int]) -> tuple[int, int]:
        """Smallest fabric that holds the rectangle and the host I/O infrastructure: columns + 7, rows + 2."""
        columns, rows = self.mesh(size)
        return columns + FABRIC_MARGIN[0], rows + FABRIC_MARGIN[1]

    def compile_params(self, size: dict[str, int]) -> dict[str, int]:
        """The `--params` of the compile command: every size parameter under its own name."""
        return dict(size)

    def compile_flags(self, size: dict[str, int], arch: Arch) -> list[str]:
        """Flags of cslc after the layout file, without `-o`."""
        dims, offsets = self.fabric_dims(size), FABRIC_OFFSETS
        params = ",".join(f"{name}:{value}" for name, value in self.compile_params(size).items())
        return [
            f"--arch={arch}",
            f"--fabric-dims={dims[0]},{dims[1]}",
            f"--fabric-offsets={offsets[0]},{offsets[1]}",
            f"--params={params}",
            "--memcpy",
            "--channels=1",
        ]

    def lower_bound(self, size: dict[str, int], arch: Arch) -> int:
        """Cycles that no correct program can undercut at this size."""
        return int(Expression(getattr(self.spec.lower_bound, arch)).real(size))

    def shape(self, tensor: Tensor, size: dict[str, int]) -> tuple[int, ...]:
        return expressions.shape(tensor.shape, size)

    # --------------------------------------------------------------------------------------------- data

    @property
    def distributions(self) -> tuple[str, ...]:
        """Names of the input distributions; cycles are measured on the first."""
        return tuple(self.spec.distributions)

    def distribution(self, index: int) -> str:
        """The distribution of the index-th visible or held-out input: they take turns."""
        return self.distributions[index % len(self.distributions)]

    def inputs(self, seed: int, size: dict[str, int], distribution: str) -> Arrays:
        """Draw the inputs of a seed.

        Raises:
            UnknownNameError: No such distribution.
            FabricaError: The oracle breaks the spec: wrong names, shape or dtype, or a value that isn't finite.
        """
        if distribution not in self.spec.distributions:
            raise UnknownNameError(f"distribution of {self.name}", distribution, self.distributions)
        arrays = self._call("inputs()", self.oracle.inputs, np.random.default_rng(seed), dict(size), distribution)
        self._require_names("inputs()", arrays, self.spec.inputs)
        for tensor in self.spec.inputs:
            self._require(
                arrays[tensor.name], NUMPY_DTYPE[tensor.dtype], self.shape(tensor, size), f"input '{tensor.name}'"
            )
        return arrays

    def expected(self, inputs: Arrays, size: dict[str, int]) -> Arrays:
        """The float64 results. Raises `FabricaError` when the oracle breaks the spec or changes its inputs."""
        before = {name: array.copy() for name, array in inputs.items()}
        arrays = self._call("expected()", self.oracle.expected, inputs, dict(size))
        self._require_names("expected()", arrays, self.spec.outputs)
        for output in self.spec.outputs:
            self._require(arrays[output.name], "float64", self.shape(output, size), f"expected '{output.name}'")
        if any(not np.array_equal(before[name], inputs[name]) for name in before):
            raise self._broken("expected() changes its inputs")
        return arrays

    def allowed_error(self, inputs: Arrays, expected: Arrays, size: dict[str, int]) -> Arrays:
        """Largest accepted |output - expected|, elementwise and in float64, for every output."""
        magnitudes: Arrays = {}
        if any(output.tolerance.of == "magnitude" for output in self.spec.outputs):
            if self.oracle.magnitude is None:
                raise self._broken("has no function magnitude(), which a tolerance needs")
            magnitudes = self._call("magnitude()", self.oracle.magnitude, inputs, dict(size))
        return {
            output.name: self._allowed(output, expected[output.name], magnitudes, size) for output in self.spec.outputs
        }

    def answers(self, inputs: Arrays, size: dict[str, int]) -> Answers:
        """What outputs of these inputs are compared with; errors as `expected`."""
        expected = self.expected(inputs, size)
        return Answers(expected, self.allowed_error(inputs, expected, size))

    def check(
        self, outputs: Arrays, inputs: Arrays, size: dict[str, int], answers: Answers | None = None
    ) -> list[OutputCheck]:
        """Compare every output with the oracle: dtype and shape first, then finiteness, then tolerance.

        `answers`: those of the inputs, where they are known already.
        """
        expected, allowed = answers or self.answers(inputs, size)
        return [self._check(output, outputs, expected, allowed, size) for output in self.spec.outputs]

    def _check(
        self, output: OutputTensor, outputs: Arrays, expected: Arrays, allowed: Arrays, size: dict[str, int]
    ) -> OutputCheck:
        name, shape, dtype = output.name, self.shape(output, size), np.dtype(NUMPY_DTYPE[output.dtype])
        if name not in outputs:
            return OutputCheck(name, False, "missing", np.nan, np.nan)
        array = outputs[name]
        if array.shape != shape or array.dtype != dtype:
            reason = f"is {array.dtype} {list(array.shape)}, not {dtype} {list(shape)}"
            return OutputCheck(name, False, reason, np.nan, np.nan)
        values = array.astype(np.float64)
        if not np.isfinite(values).all():
            reason = f"values that are not finite: {int((~np.isfinite(values)).sum())} of {values.size}"
            return OutputCheck(name, False, reason, np.nan, np.nan)
        error = np.abs(values - expected[name])
        ratio = np.divide(error, allowed[name], out=np.where(error > 0, np.inf, 0.0), where=allowed[name] > 0)
        worst = np.unravel_index(int(np.argmax(ratio)), shape)
        ok = bool(ratio[worst] <= 1.0)
        at = [int(index) for index in worst]
        reason = (
            ""
            if ok
            else f"at {at}: {values[worst]:.9g}, expected {expected[name][worst]:.9g} +- {allowed[name][worst]:.3g}"
        )
        return OutputCheck(name, ok, reason, float(error.max()), float(ratio.max()))

    def _allowed(
        self, output: OutputTensor, expected: np.ndarray[Any, Any], magnitudes: Arrays, size: dict[str, int]
    ) -> np.ndarray[Any, Any]:
        values = {**size, "u": UNIT_ROUNDOFF.get(output.dtype, 0.0)}
        atol = float(Expression(output.tolerance.atol).real(values))
        rtol = float(Expression(output.tolerance.rtol).real(values))
        scale = np.abs(expected)
        if output.tolerance.of == "max":
            scale = np.full_like(scale, scale.max())
        elif output.tolerance.of == "magnitude":
            scale = magnitudes[output.name]
            self._require(scale, "float64", expected.shape, f"magnitude '{output.name}'")
        allowed: np.ndarray[Any, Any] = atol + rtol * scale
        return allowed

    def _call(self, what: str, function: Callable[..., Arrays], *arguments: Any) -> Arrays:
        try:
            return function(*arguments)
        except Exception as error:
            # The boundary of a task's own code: whatever it raises is the task's fault, and is named as such.
            raise self._broken(f"{what} fails: {type(error).__name__}: {error}") from error

    def _require(self, array: Any, dtype: str, shape: tuple[int, ...], what: str) -> None:
        if not isinstance(array, np.ndarray) or array.dtype != np.dtype(dtype) or array.shape != shape:
            got = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            raise self._broken(f"{what} is {got}, but the spec says {dtype} {list(shape)}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise self._broken(f"{what} has a value that is not finite")

    def _require_names(self, what: str, arrays: Any, tensors: tuple[Tensor, ...]) -> None:
        names = sorted(tensor.name for tensor in tensors)
        if not isinstance(arrays, dict) or sorted(arrays) != names:
            raise self._broken(f"{what} must return exactly {', '.join(names) or 'nothing'}")

    def _broken(self, reason: str) -> FabricaError:
        return FabricaError(reason, place=str(self.root / "oracle.py"), remedy="mend the oracle or the spec")
