"""Facts from the host script: launch order, and which element of which array goes where.

The script is run in this process against a stand-in for the host runtime. Its input arrays are filled with a different
number in every element, so that the words it copies to the device show where each element goes; what it copies back is
numbered too, so that its output file shows where each element came from.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fabrica_agent.records import ArrayFact, HostFacts, Placement

POISON_LIMIT = 1 << 23
"""Numbers from here on mark elements read back from the device; all are exact in f32."""

NARROW_POISON = 0x4000
"""The same for 16-bit elements."""

NARROW_LIMIT = 0x7C00
"""Bits from here on are no finite f16."""

_FILLS = (0, 0xFFFFFFFF, 0x7FC00000, 0xFFFF, 0x7E00)
"""Zeros, all ones and NaN, of 32 and of 16 bits."""

Words = npt.NDArray[np.uint32]


class ProbeError(Exception):
    """The script can't be observed; the message says why."""


@dataclass
class _Recorder:
    """What the stand-in device saw."""

    copies: dict[str, tuple[tuple[int, int], Words]] = field(default_factory=dict)
    reads: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    launches: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    saved: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    narrow_reads: dict[str, int] = field(default_factory=dict)  # first number in what was read in 16 bits
    next_narrow: int = NARROW_POISON
    inputs: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    written: set[str] = field(default_factory=set)


class _Runtime:
    """Stand-in for `SdkRuntime`."""

    recorder: _Recorder

    def __init__(self, *_: Any, **__: Any) -> None:
        self._names = self.recorder.names

    def get_id(self, name: str) -> int:
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)

    def load(self) -> None:
        return

    run = stop = load

    def launch(self, name: str, *args: Any, **_: Any) -> None:
        self.recorder.launches.append((name, args))

    call = launch

    def memcpy_h2d(
        self, dest: int, src: npt.NDArray[Any], px: int, py: int, w: int, h: int, elements: int, **_: Any
    ) -> None:
        name = self._names[dest]
        words = np.ascontiguousarray(src).ravel().view(np.uint32).reshape(h, w, elements).copy()
        self.recorder.copies[name] = ((px, py), words)

    def memcpy_d2h(
        self, dest: npt.NDArray[Any], src: int, px: int, py: int, w: int, h: int, elements: int, **kwargs: Any
    ) -> None:
        name = self._names[src]
        held = self.recorder.copies.get(name)
        if held is not None and held[1].shape == (h, w, elements) and not _is_poison(held[1]):
            words = held[1]
        elif "16" in str(kwargs.get("data_type", "")):
            words = self._narrow(name, h, w, elements)
        else:
            base = POISON_LIMIT + (self._names.index(name) << 18)
            words = (base + np.arange(h * w * elements, dtype=np.int64)).astype(np.float32).view(np.uint32)
            words = words.reshape(h, w, elements)
            self.recorder.reads[name] = (h, w, elements)
        np.copyto(dest, words.ravel().view(dest.dtype).reshape(dest.shape))

    def _narrow(self, name: str, h: int, w: int, elements: int) -> Words:
        """What is read in 16 bits: a number in every element, zeros when there are too many of them."""
        base = self.recorder.narrow_reads.setdefault(name, self.recorder.next_narrow)
        count = h * w * elements
        if base + count > NARROW_LIMIT:
            return np.zeros((h, w, elements), np.uint32)
        self.recorder.next_narrow = max(self.recorder.next_narrow, base + count)
        self.recorder.reads[name] = (h, w, elements)
        return np.arange(base, base + count, dtype=np.uint32).reshape(h, w, elements)


def _is_poison(words: Words) -> bool:
    """Whether a copy only fills: all words alike."""
    return words.size > 0 and bool((words == words.ravel()[0]).all()) and words.ravel()[0] in _FILLS


class _Numpy:
    """NumPy with `load` and `savez` in memory."""

    def __init__(self, load: Callable[[], Mapping[str, npt.NDArray[Any]]], recorder: _Recorder) -> None:
        self._load = load
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def load(self, *_: Any, **__: Any) -> Mapping[str, npt.NDArray[Any]]:
        return self._load()

    def savez(self, _: Any, **arrays: npt.NDArray[Any]) -> None:
        self._recorder.saved.update({n: np.asarray(a) for n, a in arrays.items()})

    savez_compressed = savez


class _Enum:
    def __getattr__(self, name: str) -> str:
        return name


def observe(script: str, sizes: Mapping[str, int], modules: Mapping[str, str] | None = None) -> HostFacts:
    """Run the host script twice: once to see what data it makes for itself, once with numbered data.

    Args:
        script: Text of run.py.
        sizes: Compile-time parameters, as the compiler would record them.
        modules: Text of the files that the script may import from beside it, by module name.

    Returns:
        The facts; `problem` says why some are missing.
    """
    try:
        own = _run(script, sizes, None, modules or {})
        if not own.inputs:
            raise ProbeError("the script makes no data of its own that could be recognised")
        numbered, numbers = _numbered(own.inputs)
        seen = _run(script, sizes, numbered, modules or {})
    except ProbeError as error:
        return HostFacts(inputs=(), outputs=(), placements=(), launches=(), arguments={}, problem=str(error))
    outputs = {n: a for n, a in seen.saved.items() if n in own.saved and n not in ("cycles", "stamps")}
    placements: list[Placement] = []
    for name, (base, array) in numbers.items():
        for symbol, (_, words) in seen.copies.items():
            place = _placement(name, symbol, array.shape, base, words)
            if place is not None:
                placements.append(place)
    for name, array in outputs.items():
        place = _output_placement(name, array, seen)
        if place is not None and not any(p.array == name and p.symbol == place.symbol for p in placements):
            placements.append(place)
    return HostFacts(
        inputs=tuple(_array_fact(n, a) for n, a in own.inputs.items()),
        outputs=tuple(_array_fact(n, a) for n, a in outputs.items()),
        placements=tuple(placements),
        launches=tuple(name for name, _ in seen.launches),
        arguments={name: tuple(_argument(a, numbered, numbers) for a in args) for name, args in seen.launches},
    )


def _array_fact(name: str, array: npt.NDArray[Any]) -> ArrayFact:
    return ArrayFact(name=name, shape=array.shape, dtype=str(array.dtype))


def _numbered(
    inputs: Mapping[str, npt.NDArray[Any]],
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, tuple[int, npt.NDArray[Any]]]]:
    """Inputs of the same form with a number of its own in every element; what has too many keeps its values.

    In a 16-bit element the number is in its bits. A single one keeps its value: the script may count with it.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    numbers: dict[str, tuple[int, npt.NDArray[Any]]] = {}
    base = 1
    for name, array in inputs.items():
        if array.dtype.itemsize == 2 and array.size > 1 and base + array.size <= NARROW_POISON:
            bits = np.arange(base, base + array.size, dtype=np.uint16).reshape(array.shape)
            arrays[name] = bits.view(array.dtype)
            numbers[name] = (base, arrays[name])
            base += array.size
    for name, array in inputs.items():
        if name in arrays:
            continue
        if array.dtype.itemsize == 4 and base + array.size < POISON_LIMIT:
            ids = np.arange(base, base + array.size, dtype=np.int64).reshape(array.shape)
            arrays[name] = ids.astype(array.dtype)
            numbers[name] = (base, arrays[name])
            base += array.size
        else:
            arrays[name] = array
    return arrays, numbers


def _argument(
    value: Any, inputs: Mapping[str, npt.NDArray[Any]], numbers: Mapping[str, tuple[int, npt.NDArray[Any]]]
) -> str | None:
    """The one-element input that a launch argument is."""
    scalars = {n: a for n, a in inputs.items() if a.size == 1}
    exact = [n for n, a in scalars.items() if n in numbers and a.ravel()[0] == value]
    if exact:
        return exact[0]
    alike = [
        n
        for n, a in scalars.items()
        if n not in numbers and a.ravel()[0] == value and a.dtype == np.asarray(value).dtype
    ]
    return alike[0] if len(alike) == 1 else None


def _placement(name: str, symbol: str, shape: tuple[int, ...], base: int, words: Words) -> Placement | None:
    """The regular placement of an input in a copied tensor, if its elements are there."""
    size = int(np.prod(shape)) if shape else 1
    ids = np.stack([_decode(words.view(np.float32)), words.astype(np.int64)])
    found = np.where((ids[0] >= base) & (ids[0] < base + size), ids[0], ids[1]) - base
    inside = (found >= 0) & (found < size)
    if not inside.any():
        return None
    ys, xs, offsets = np.nonzero(inside)
    return _fit(name, symbol, shape, words.shape, found[inside], xs, ys, offsets)


def _output_placement(name: str, array: npt.NDArray[Any], seen: _Recorder) -> Placement | None:
    values = np.ascontiguousarray(array)
    narrow = values.dtype.itemsize == 2
    if not narrow and values.dtype.itemsize != 4:
        return None
    ids = values.view(np.uint16).ravel().astype(np.int64) if narrow else _decode(values.view(np.float32).ravel())
    for index, symbol in enumerate(seen.names):
        if symbol not in seen.reads or (symbol in seen.narrow_reads) is not narrow:
            continue
        places = ids - (seen.narrow_reads[symbol] if narrow else POISON_LIMIT + (index << 18))
        shape = seen.reads[symbol]
        if places.size and (places >= 0).all() and (places < np.prod(shape)).all():
            ys, xs, offsets = np.unravel_index(places.astype(np.int64), shape)
            flat = np.arange(values.size)
            return _fit(name, symbol, array.shape, shape, flat, xs, ys, offsets)
    return None


def _decode(values: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Numbers carried by floats; -1 where there is none."""
    with np.errstate(invalid="ignore"):
        whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 1 << 25)
    return np.where(whole, values, -1).astype(np.int64)


def _fit(
    name: str,
    symbol: str,
    shape: tuple[int, ...],
    device: tuple[int, ...],
    flat: npt.NDArray[np.int64],
    xs: npt.NDArray[np.int64],
    ys: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
) -> Placement | None:
    """Express PE and offset as affine functions of the array's coordinates; None when they aren't."""
    for candidate in _refinements(shape, device):
        place = _fit_shape(name, symbol, candidate, device, flat, xs, ys, offsets)
        if place is not None:
            return place
    return None


def _refinements(shape: tuple[int, ...], device: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Finer shapes in which an array's placement may be regular: as rows for PEs, as tiles of its last two axes."""
    size = int(np.prod(shape)) if shape else 1
    height, width, _ = device
    yield shape
    if size % (height * width) == 0:
        yield (height, width, size // (height * width))
    for count in (width, height):
        if len(shape) == 1 and count > 1 and size % count == 0:
            yield (count, size // count)
    if len(shape) >= 2 and shape[-2] % height == 0 and shape[-1] % width == 0:
        yield (*shape[:-2], height, shape[-2] // height, width, shape[-1] // width)


def _fit_shape(
    name: str,
    symbol: str,
    shape: tuple[int, ...],
    device: tuple[int, ...],
    flat: npt.NDArray[np.int64],
    xs: npt.NDArray[np.int64],
    ys: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
) -> Placement | None:
    height, width, length = device
    coordinates = np.stack(np.unravel_index(flat, shape)) if shape else np.zeros((0, flat.size), np.int64)
    offset = _affine(coordinates, offsets, shape)
    if offset is None:
        return None
    size = int(np.prod(shape)) if shape else 1
    everywhere = flat.size == size * width * height
    if everywhere:
        return Placement(array=name, shape=shape, symbol=symbol, length=length, x=None, y=None, offset=offset)
    x, y = _affine(coordinates, xs, shape), _affine(coordinates, ys, shape)
    if x is None or y is None:
        return None
    return Placement(array=name, shape=shape, symbol=symbol, length=length, x=x, y=y, offset=offset)


def _affine(
    coordinates: npt.NDArray[np.int64], values: npt.NDArray[np.int64], shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Constant and coefficients of `values` as a function of the coordinates."""
    rows = np.vstack([np.ones(values.size, np.int64), coordinates]).T.astype(np.float64)
    solution, *_ = np.linalg.lstsq(rows, values.astype(np.float64), rcond=None)
    rounded = np.rint(solution).astype(np.int64)
    for axis, extent in enumerate(shape):
        if extent == 1:
            rounded[axis + 1] = 0
    rounded[0] += int(values[0]) - int((rows[0].astype(np.int64) * rounded).sum())
    if not (rows.astype(np.int64) @ rounded == values).all():
        return None
    return tuple(int(c) for c in rounded)


# ------------------------------------------------------------------------------------------------------ running it


def _run(
    script: str,
    sizes: Mapping[str, int],
    inputs: Mapping[str, npt.NDArray[Any]] | None,
    modules: Mapping[str, str],
) -> _Recorder:
    recorder = _Recorder()
    arguments = ["run.py", "--name", "probe", "--no-check", "--outputs", "probe-out.npz"]
    if inputs is not None:
        arguments += ["--inputs", "probe-in.npz"]

    def load() -> Mapping[str, npt.NDArray[Any]]:
        return dict(inputs or {})

    def open_file(path: object, *_: Any, **__: Any) -> io.StringIO:
        if str(path).endswith("out.json"):
            return io.StringIO(json.dumps({"params": {n: str(v) for n, v in sizes.items()}, "colors": {}}))
        raise ProbeError(f"the script opens {path}")

    namespace: dict[str, Any] = {"__name__": "fabrica_host_probe", "open": open_file}
    with _stand_in(recorder, arguments, modules):
        try:
            for name, text in modules.items():
                module = sys.modules[name].__dict__
                module["open"] = open_file
                exec(compile(text, f"{name}.py", "exec"), module)
                module["np"] = _Numpy(load, recorder)
            exec(compile(script, "run.py", "exec"), namespace)
            namespace["np"] = _Numpy(load, recorder)
            main = namespace.get("main")
            if not callable(main):
                raise ProbeError("the script has no main()")
            with _watch_inputs(recorder):
                main()
        except SystemExit as error:
            if not recorder.saved:
                raise ProbeError(f"the script stopped: {error}") from error
        except ProbeError:
            raise
        except Exception as error:
            # The script is not ours: whatever goes wrong in it only means that less is known.
            if not recorder.saved:
                raise ProbeError(f"the script failed: {type(error).__name__}: {error}") from error
    return recorder


@contextlib.contextmanager
def _watch_inputs(recorder: _Recorder) -> Iterator[None]:
    """Note the largest dictionary of arrays that a function of the script makes before it uses the device.

    A smaller one, such as that of a comprehension, is a part of it.
    """

    def watch(frame: types.FrameType, event: str, value: Any) -> None:
        if event == "return" and frame.f_code.co_filename == "run.py" and isinstance(value, dict) and value:
            arrays = {str(n): a for n, a in value.items() if isinstance(a, np.ndarray)}
            early = not recorder.copies and not recorder.launches
            if len(arrays) == len(value) and (not recorder.inputs or (early and len(arrays) > len(recorder.inputs))):
                recorder.inputs = arrays

    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextlib.contextmanager
def _stand_in(recorder: _Recorder, arguments: list[str], modules: Iterable[str]) -> Iterator[None]:
    """Put the stand-in modules and the command line in place, silence the script, and restore everything."""
    runtime = type("SdkRuntime", (_Runtime,), {"recorder": recorder})
    path = "cerebras.sdk.runtime.sdkruntimepybind"
    parts = path.split(".")
    names = [*(".".join(parts[: i + 1]) for i in range(len(parts))), *modules]
    saved = {n: sys.modules.get(n) for n in names}
    for n in names:
        sys.modules[n] = types.ModuleType(n)
    sys.modules[path].__dict__.update(SdkRuntime=runtime, MemcpyDataType=_Enum(), MemcpyOrder=_Enum())
    argv, sys.argv = sys.argv, arguments
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        sys.argv = argv
        for n, module in saved.items():
            if module is None:
                sys.modules.pop(n, None)
            else:
                sys.modules[n] = module
