"""The reference executor: prepares an image by translating its functions to Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType, GeneratorType, TracebackType
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ir
from fabrica_bench.csl.descriptors import DescriptorError, decode_dsd, encode_dsd
from fabrica_bench.wse import memory, numeric
from fabrica_bench.wse.costs import CostTable
from fabrica_bench.wse.faults import Fault
from fabrica_bench.wse.intrinsics import AssertionFailed, Unsupported
from fabrica_bench.wse.translate import FunctionTranslator
from fabrica_bench.wse.unit import Unit, UnsupportedIr

if TYPE_CHECKING:
    from fabrica_bench.wse.pe import ProcessingElement


#: Nested calls that are followed. A suspended call takes about 500 bytes of this process's own stack of 8 MiB.
CALL_DEPTH = 5_000


class StackOverflow(Exception):
    """The stack pointer went below the end of the data; carries the address."""


class Stop(Exception):
    """The program reached a place that must not be reached; carries the text."""


GENERATED = "<csl program>"
"""File name of all generated code: equal text of two images is compiled once, and each image has its own locations."""


@lru_cache(maxsize=256)
def _compiled(text: str) -> CodeType:
    return compile(text, GENERATED, "exec")


class ReferenceExecutor:
    """See `executor.Executor`."""

    name = "reference"

    def __init__(self, by_line: bool = False) -> None:
        """`by_line`: every PE counts the main thread's cycles by location, in a list `line_cycles`."""
        self._by_line = by_line

    def prepare(self, image: ir.Image, costs: CostTable, half: str) -> ReferenceCode:
        """Translate all functions of an image."""
        return ReferenceCode(image, costs, half, self._by_line)


class ReferenceCode:
    """See `executor.ImageCode`."""

    def __init__(self, image: ir.Image, costs: CostTable, half: str, by_line: bool = False) -> None:
        self.image = image
        self._file = GENERATED
        unit = Unit(image, costs, half, by_line)
        self._functions: list[Callable[..., Any]] = []
        lines: list[str] = []
        self._locations: list[int] = [0]
        for name in unit.names:
            translator = FunctionTranslator(unit, image.functions[name])
            translator.translate()
            lines += translator.lines
            self._locations += translator.locations
        self._index = unit.index
        self._names = unit.names
        scope = self._scope(half)
        scope.update({f"K{number}": value for number, value in enumerate(unit.constants)})
        exec(_compiled("\n".join(lines) + "\n"), scope)
        self._functions = [scope[f"f{number}"] for number in range(len(unit.names))]

    def _scope(self, half: str) -> dict[str, Any]:
        values, encode = numeric.half_values(half), numeric.half_encoder(half)
        return {
            "__builtins__": {"float": float, "type": type, "locals": locals},
            "S": numeric.SCRATCH_F32,
            "T16": values,
            "NAN": numeric.NAN,
            "Gen": GeneratorType,
            "Stop": Stop,
            "StackOverflow": StackOverflow,
            "encode16": encode,
            "round16": lambda value: values[encode(value)],
            "round32": numeric.round_f32,
            "udiv": numeric.divide_unsigned,
            "urem": numeric.remainder_unsigned,
            "idiv": numeric.divide_int,
            "irem": numeric.remainder_int,
            "fdiv": numeric.divide_float,
            "frem": numeric.remainder_float,
            "float_to_int": numeric.float_to_int,
            "int_to_odd": numeric.int_to_odd,
            "to_bits": numeric.to_bits,
            "from_bits": numeric.from_bits,
            "make_dsd": make_dsd,
            "set_length": lambda dsd, value: dsd._replace(extents=(value & 0xFFFF, *dsd.extents[1:])),
            "set_stride": lambda dsd, value: dsd._replace(strides=(value, *dsd.strides[1:])),
            "set_base": lambda dsd, value: dsd._replace(base=value),
            "set_advance": lambda dsd, value: dsd._replace(base=dsd.base + value),
            "load_dsd": lambda mem, address: decode_dsd(mem.read(address, ir.DSD_BYTES)),
            "store_dsd": lambda mem, address, dsd: mem.write(address, encode_dsd(dsd)),
            "function_at": self._function_at,
        }

    def function(self, name: str) -> Callable[..., Any]:
        """Python function of an IR function: returns its result, or a generator that does."""
        return self._functions[self._index[name]]

    def _function_at(self, pe: ProcessingElement, pointer: int, count: int) -> Callable[..., Any]:
        if not 1 <= pointer <= len(self._functions):
            raise Stop(f"call through a function pointer that holds {pointer}, which is no function")
        expected = self.image.functions[self._names[pointer - 1]].param_count
        if expected != count:
            raise Stop(f"call through a function pointer with {count} argument(s) to a function of {expected}")
        return self._functions[pointer - 1]

    def call(self, pe: ProcessingElement, function: str, args: tuple[int | float, ...]) -> Iterator[None]:
        """Begin a call; the returned generator runs it."""
        return self._run(pe, self.function(function), args)

    def _run(
        self, pe: ProcessingElement, function: Callable[..., Any], args: tuple[int | float, ...]
    ) -> Iterator[None]:
        result = function(pe, *args)
        if isinstance(result, GeneratorType):
            yield from result

    # ------------------------------------------------------------------------------------------ faults

    def fault_of(self, pe: ProcessingElement, error: BaseException) -> Fault | None:
        """The fault behind an exception, with the source line of the generated code's frame."""
        found = self._place(error.__traceback__)
        if found is not None:
            pe.loc = found[0]
            pe.t = max(pe.t, self._cycle(error.__traceback__))
        if isinstance(error, Fault):
            return error if found is None else pe.fault(error.message, error.values)
        address = found[1] if found is not None else None
        if isinstance(error, IndexError | KeyError | TypeError) and not self._is_innermost(error.__traceback__):
            return None
        text, values = _explain(error, address)
        return pe.fault(text, values) if text else None

    def _is_innermost(self, trace: TracebackType | None) -> bool:
        """The generated code itself raised, not something it called."""
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        return trace is not None and trace.tb_frame.f_code.co_filename == self._file

    def _place(self, trace: TracebackType | None) -> tuple[int, int | None] | None:
        """Location and address of the innermost call; the location of its caller, if it is in a system library."""
        found: tuple[int, int | None] | None = None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                address = trace.tb_frame.f_locals.get("a")
                location = self._location(trace.tb_lineno)
                if found is not None and self._in_library(location) and not self._in_library(found[0]):
                    location = found[0]
                found = (location, address if isinstance(address, int) else None)
            trace = trace.tb_next
        return found

    def _cycle(self, trace: TracebackType | None) -> int:
        """The latest cycle that a call of the generated code had reached: it counts in a variable of its own."""
        latest = 0
        while trace is not None:
            cycle = trace.tb_frame.f_locals.get("t") if trace.tb_frame.f_code.co_filename == self._file else None
            latest = max(latest, cycle if isinstance(cycle, int) else 0)
            trace = trace.tb_next
        return latest

    def _location(self, line: int) -> int:
        return self._locations[line] if line < len(self._locations) else 0

    def _in_library(self, location: int) -> bool:
        return self.image.locations[location][0].startswith("<")

    def place_of(self, activation: Any) -> int:
        """See `executor.ImageCode.place_of`."""
        found = 0
        while activation is not None and getattr(activation, "gi_frame", None) is not None:
            if activation.gi_frame.f_code.co_filename == self._file:
                location = self._location(activation.gi_frame.f_lineno)
                if not found or not self._in_library(location):
                    found = location
            activation = activation.gi_yieldfrom
        return found


def make_dsd(static: tuple[ir.Dsd, tuple[str, ...], int], *values: int) -> ir.Dsd:
    """A DSD from its template and run-time fields (see `ir.MakeDsd`)."""
    template, keys, size = static
    dsd = template
    for key, value in zip(keys, values, strict=True):
        if key == "base":
            dsd = dsd._replace(base=value)
        elif key == "extent":
            dsd = dsd._replace(extents=(value & 0xFFFF, *dsd.extents[1:]))
        elif key == "stride":
            dsd = dsd._replace(strides=(value, *dsd.strides[1:]))
        elif key == "queue":
            dsd = dsd._replace(queue=value)
        elif key == "color":
            dsd = dsd._replace(color=value)
    if "offset" in keys:
        dsd = dsd._replace(base=dsd.base + values[keys.index("offset")] * size)  # type: ignore[operator]
    return dsd


def _explain(error: BaseException, address: int | None) -> tuple[str, dict[str, object]]:
    """Text and values of the fault that an exception of generated code stands for; empty for a simulator error."""
    match error:
        case numeric.DivisionByZero():
            return "division by zero", {"dividend": error.args[0]}
        case memory.AccessError() | DescriptorError():
            return str(error), {}
        case IndexError():
            values: dict[str, object] = {} if address is None else {"address": address}
            return f"access outside the PE's memory of {memory.MEMORY_BYTES} bytes", values
        case KeyError() | TypeError():
            return "access of a 16- or 32-bit value at an odd address", {} if address is None else {"address": address}
        case StackOverflow():
            return "stack overflow: the stack ran into the program's data", {"stack_pointer": error.args[0]}
        case RecursionError():
            return f"stack overflow: calls are nested more than {CALL_DEPTH} deep", {}
        case AssertionFailed():
            return f"assertion failed: {error}", dict(error.values)
        case Stop() | Unsupported() | UnsupportedIr():
            return str(error), {}
    return "", {}
