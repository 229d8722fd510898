"""Text of LLVM IR: what every part of a function's translation writes with.

Registers are local variables `%rN`; `%t` is the cycle that the function has got to, `%fr` its frame, `%pe` its PE.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from fabrica_bench.csl import ir
from fabrica_bench.wse.memory import CALL_FRAME_BYTES
from fabrica_bench.wse.native.kernel_builtins import WORD
from fabrica_bench.wse.native.support import NativeUnsupported

if TYPE_CHECKING:
    from fabrica_bench.wse.native.program_code import ImageContext

R_RETURN, R_CALL, R_YIELD, R_STOP = 0, 1, 2, 3


def float_literal(value: float) -> str:
    """LLVM's hexadecimal form, the same for `float` and `double`."""
    if value != value:
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def round_single(value: float) -> float:
    """`value` as an f32."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def llvm_of(type_: ir.ScalarType) -> str:
    """Register type. Halves are doubles; DSDs live in memory."""
    if type_.kind == "dsd":
        return "ptr"
    if type_.kind == "int":
        if type_.bits > 64:
            raise NativeUnsupported(f"integers of {type_.bits} bits")
        return "i64"
    return "float" if type_.bits == 32 else "double"


def word_literal(value: int) -> int:
    """`value` as a signed 64-bit constant."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


class CodeWriter:
    """Writes one function; its parts are the subclasses."""

    def __init__(self, context: ImageContext, fn: ir.Function) -> None:
        self.context = context
        self.fn = fn
        self.costs = context.costs
        self.half = context.program.fp16
        self.simple = fn.name in context.simple
        self.declared: set[str] = set()
        self.callees: list[str] = [fn.name]
        self.lines: list[str] = []
        self.cost = 0
        self._temp = 0
        self._label = 0
        self._resumes: list[str] = []
        #: block and number in it of the instruction that is translated; the same of each place to suspend at
        self.at = (0, 0)
        self.stops: list[tuple[int, int]] = []
        calls = any(isinstance(i, ir.Call | ir.CallIndirect | ir.MapOp) for b in fn.blocks for i in b)
        framed = any(isinstance(i, ir.FrameAddr) for b in fn.blocks for i in b)
        needs_stack = fn.frame_size > 0 or calls or framed
        self._stack = (fn.frame_size + 3) // 4 * 4 + CALL_FRAME_BYTES if needs_stack else 0
        self._slots = self.slot_table(fn)

    # ------------------------------------------------------------------------------------------ frames

    def symbol(self, name: str, simple: bool = False) -> str:
        """Stand-in for the LLVM name of a function: `<sN>` the direct form of a simple one, `<fN>` the form with a
        frame; N numbers `callees`."""
        if name not in self.callees:
            self.callees.append(name)
        return f"<{'s' if simple else 'f'}{self.callees.index(name)}>"

    @staticmethod
    def slot_table(fn: ir.Function) -> list[int]:
        """Frame word of each register: behind the header and one word per parameter."""
        at = 4 + fn.param_count
        slots = []
        for type_ in fn.registers:
            slots.append(at)
            at += 23 if type_.kind == "dsd" else 1
        slots.append(at)
        return slots

    @classmethod
    def measure(cls, fn: ir.Function) -> int:
        """Words of a frame."""
        return cls.slot_table(fn)[-1] + 4

    # ------------------------------------------------------------------------------------------ text

    def emit(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def temp(self) -> str:
        self._temp += 1
        return f"%v{self._temp}"

    def value(self, text: str) -> str:
        """Emit an instruction with a result."""
        name = self.temp()
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, stem: str) -> str:
        self._label += 1
        return f"{stem}{self._label}"

    def place(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def field(self, name: str) -> str:
        """Address of a field of the PE."""
        offset = self.context.pe[name] * WORD
        return "%pe" if offset == 0 else self.value(f"getelementptr i8, ptr %pe, i64 {offset}")

    def load_field(self, name: str, type_: str = "i64") -> str:
        return self.value(f"load {type_}, ptr {self.field(name)}")

    def store_field(self, name: str, value: str, type_: str = "i64") -> None:
        self.emit(f"store {type_} {value}, ptr {self.field(name)}")

    def machine_field(self, name: str, type_: str = "i64") -> str:
        machine = self.load_field("machine", "ptr")
        offset = self.context.structs["M"][name] * WORD
        return self.value(f"load {type_}, ptr {self.value(f'getelementptr i8, ptr {machine}, i64 {offset}')}")

    def frame_place(self, word: int, base: str = "%fr") -> str:
        return self.value(f"getelementptr i8, ptr {base}, i64 {word * WORD}")

    def call(self, name: str, result: str, *args: str) -> str:
        """Call a kernel or C function; `args` with their types."""
        types = ", ".join(arg.split(" ", 1)[0] for arg in args)
        self.declared.add(f"declare {result} @{name}({types})")
        text = f"call {result} @{name}({', '.join(args)})"
        if result == "void":
            self.emit(text)
            return ""
        return self.value(text)

    def _guard(self, bad: str) -> None:
        """Stop if a condition holds."""
        after = self.label("ok")
        self.emit(f"br i1 {bad}, label %stop, label %{after}, !prof !0")
        self.place(after)

    # ------------------------------------------------------------------------------------------ time and suspension

    def load_time(self) -> None:
        self.emit(f"store i64 {self.load_field('t')}, ptr %t")

    def store_time(self) -> None:
        self.store_field("t", self.value("load i64, ptr %t"))

    def flush_cost(self) -> None:
        if self.cost:
            now = self.value("load i64, ptr %t")
            self.emit(f"store i64 {self.value(f'add i64 {now}, {self.cost}')}, ptr %t")
            self.cost = 0

    def suspend(self, live: set[int], then: str, code: int = R_YIELD) -> None:
        """Give control back; later go on at label `then`. Ends the current LLVM block."""
        self._spill(live)
        number = len(self._resumes) + 1
        self.emit(f"store i64 {number}, ptr {self.frame_place(1)}")
        self.emit(f"ret i64 {code}")
        name = f"resume{number}"
        self._resumes.append(name)
        self.stops.append(self.at)
        self.place(name)
        self._reload(live)
        self.emit(f"br label %{then}")

    def _spill(self, live: set[int]) -> None:
        for number in sorted(live):
            type_ = self.fn.registers[number]
            if type_.kind != "dsd":
                kind = llvm_of(type_)
                value = self.value(f"load {kind}, ptr %r{number}")
                self.emit(f"store {kind} {value}, ptr {self.frame_place(self._slots[number])}")

    def _reload(self, live: set[int]) -> None:
        for number in sorted(live):
            type_ = self.fn.registers[number]
            if type_.kind != "dsd":
                kind = llvm_of(type_)
                value = self.value(f"load {kind}, ptr {self.frame_place(self._slots[number])}")
                self.emit(f"store {kind} {value}, ptr %r{number}")
        if self._stack:
            self.emit(f"store i64 {self.value(f'load i64, ptr {self.frame_place(3)}')}, ptr %sp")
        self.load_time()

    # ------------------------------------------------------------------------------------------ operands

    def operand(self, operand: ir.Operand, want: str) -> str:
        """Value of a scalar operand as LLVM type `want`."""
        if isinstance(operand, ir.Reg):
            have = llvm_of(self.fn.registers[operand.index])
            if have != want:
                raise NativeUnsupported(f"a register of {have} used as {want}")
            return self.value(f"load {have}, ptr %r{operand.index}")
        if isinstance(operand, ir.FnAddr):
            if operand.name not in self.context.index or want != "i64":
                raise NativeUnsupported("pointer to an unknown function")
            return str(self.context.index[operand.name] + 1)
        if isinstance(operand, ir.Imm) and isinstance(operand.value, int | float):
            value = operand.value
            if want == "i64":
                if isinstance(value, float):
                    raise NativeUnsupported("a float constant used as an integer")
                return str(word_literal(int(value)))
            number = float(value)
            return float_literal(round_single(number) if want == "float" else number)
        raise NativeUnsupported(f"operand {type(operand).__name__}")

    def type_of(self, operand: ir.Operand) -> ir.ScalarType | None:
        return self.fn.registers[operand.index] if isinstance(operand, ir.Reg) else None

    def dsd_operand(self, operand: ir.Operand) -> str:
        """Address of a DSD value."""
        if isinstance(operand, ir.Reg):
            if self.fn.registers[operand.index].kind != "dsd":
                raise NativeUnsupported("a scalar register used as a DSD")
            return f"%r{operand.index}"
        if isinstance(operand, ir.Imm) and isinstance(operand.value, ir.Dsd):
            return self.context.sites.dsd(operand.value)
        raise NativeUnsupported(f"DSD operand {type(operand).__name__}")

    def _copy(self, to: str, source: str) -> None:
        self.declared.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
        self.emit(f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {source}, i64 {23 * WORD}, i1 false)")

    def define(self, dst: ir.Reg, value: str, kind: str) -> None:
        have = llvm_of(self.fn.registers[dst.index])
        if have != kind:
            raise NativeUnsupported(f"a register of {have} gets {kind}")
        self.emit(f"store {kind} {value}, ptr %r{dst.index}")

    def from_word(self, word: str, type_: ir.ScalarType) -> str:
        """Register value of its frame form."""
        kind = llvm_of(type_)
        if kind == "i64":
            return word
        double = self.value(f"bitcast i64 {word} to double")
        return double if kind == "double" else self.value(f"fptrunc double {double} to float")

    def to_word(self, value: str, type_: ir.ScalarType) -> str:
        kind = llvm_of(type_)
        if kind == "i64":
            return value
        if kind == "float":
            value = self.value(f"fpext float {value} to double")
        return self.value(f"bitcast double {value} to i64")

    # ------------------------------------------------------------------------------------------ numbers

    def wrap(self, value: str, type_: ir.ScalarType) -> str:
        """Reduce to the range of an integer type."""
        if type_.bits >= 64:
            return value
        if not type_.signed:
            return self.value(f"and i64 {value}, {(1 << type_.bits) - 1}")
        shift = 64 - type_.bits
        return self.value(f"ashr i64 {self.value(f'shl i64 {value}, {shift}')}, {shift}")

    def round_half(self, value: str) -> str:
        return self.call("fb_round_half", "double", "ptr %pe", f"double {value}")

    def single_bits(self, value: str) -> str:
        """Bits of an f32, NaNs made canonical, as i32."""
        bits = self.value(f"bitcast float {value} to i32")
        nan = self.value(f"fcmp uno float {value}, {value}")
        return self.value(f"select i1 {nan}, i32 2143289344, i32 {bits}")

    def half_of_bits(self, bits: str) -> str:
        """Value of a 16-bit float pattern."""
        table = self.machine_field("half_values", "ptr")
        place = self.value(f"getelementptr double, ptr {table}, i64 {bits}")
        return self.value(f"load double, ptr {place}")
