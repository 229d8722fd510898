"""LLVM code of `@map`: a loop around a call, as `wse.mapping` describes it.

What is read and computed for one element waits in the kernel's record of the operation, whose address is kept in the
frame, so that the loop can be suspended anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ir
from fabrica_bench.wse.code_cost import return_cost
from fabrica_bench.wse.native.call_code import CallCode
from fabrica_bench.wse.native.code_writer import llvm_of
from fabrica_bench.wse.native.kernel_builtins import WORD
from fabrica_bench.wse.native.support import NativeUnsupported
from fabrica_bench.wse.unit import registers_read

if TYPE_CHECKING:
    pass


class MapCode(CallCode):
    """Part of `codegen.FunctionCode`."""

    def _map(self, instr: ir.MapOp, live: set[int]) -> None:
        function = self.context.image.functions.get(instr.fn)
        if function is None or function.param_count != len(instr.inputs):
            raise NativeUnsupported("@map of an unknown function, or with another number of inputs")
        needed = live | set(registers_read(instr))
        self.flush_cost()
        self.store_time()
        self._add_time(self.costs["dsd.map_setup"])
        site = self.context.sites.map_site(instr, function, self.context.image)
        self._pass_operands(instr, function)
        record = self.call("fb_map_begin", "i64", "ptr %pe", f"ptr {site}")
        self._guard(self.value(f"icmp eq i64 {record}, 0"))
        self.emit(f"store i64 {record}, ptr {self.frame_place(self._slots[-1])}")
        head, body, done = self.label("map"), self.label("element"), self.label("mapped")
        self.emit(f"br label %{head}")
        self.place(head)
        more = self.call("fb_map_more", "i64", "ptr %pe", self._record())
        self.emit(f"br i1 {self.value(f'icmp ne i64 {more}, 0')}, label %{body}, label %{done}")
        self.place(body)
        self._element(instr, function, needed, head)
        self.place(done)
        self.call("fb_map_finish", "void", "ptr %pe", self._record())
        self.load_time()

    def _record(self) -> str:
        """The operation's record as an argument."""
        return f"ptr {self.value(f'load ptr, ptr {self.frame_place(self._slots[-1])}')}"

    def _add_time(self, cycles: int) -> None:
        now = self.load_field("t")
        self.store_field("t", self.value(f"add i64 {now}, {cycles}"))

    def _pass_operands(self, instr: ir.MapOp, function: ir.Function) -> None:
        offset = self.context.pe["values"]
        position = 0
        for arg in (*instr.inputs, instr.output):
            if arg is None or (arg is not instr.output and arg.kind in ("scalar", "pointer")) or arg.kind == "dsr":
                continue
            operand: ir.Operand = arg.value  # type: ignore[assignment]
            if arg.kind == "dsd":
                text = self.value(f"ptrtoint ptr {self.dsd_operand(operand)} to i64")
            else:
                text = self.operand(operand, "i64")
            self.emit(f"store i64 {text}, ptr {self.frame_place(offset + position, '%pe')}")
            position += 1

    def _element(self, instr: ir.MapOp, function: ir.Function, needed: set[int], head: str) -> None:
        """One turn of the loop."""
        stream = 0
        sources: list[int] = []
        for arg in instr.inputs:
            if arg.kind in ("scalar", "pointer"):
                sources.append(-1)
                continue
            self._await(stream, needed)
            self.call("fb_map_take", "void", "ptr %pe", self._record(), f"i64 {stream}")
            sources.append(stream)
            stream += 1
        self.call("fb_map_count", "void", self._record())
        result = self._call_body(instr, function, sources, needed)
        self._add_time(self.costs["dsd.map_element"] - return_cost(function, False, self.costs))
        if instr.output is not None and function.result is not None:
            bits = self._bits_of(result, function.result)
            self.emit(f"store i64 {bits}, ptr {self._end_bits(-1)}")
            self._await(-1, needed)
            self.call("fb_map_put", "void", "ptr %pe", self._record())
        place = self._op_field("count")
        moved = self.value(f"load i64, ptr {place}")
        self.emit(f"store i64 {self.value(f'add i64 {moved}, 1')}, ptr {place}")
        late = self.value(f"icmp sgt i64 {self.load_field('t')}, {self.load_field('limit')}")
        wait = self.label("late")
        self.emit(f"br i1 {late}, label %{wait}, label %{head}")
        self.place(wait)
        self.suspend(needed, head)

    def _await(self, index: int, needed: set[int]) -> None:
        """Give control back until an operand is ready."""
        for name in ("fb_map_ahead", "fb_map_poll"):
            must = self.call(name, "i64", "ptr %pe", self._record(), f"i64 {index}")
            wait, go = self.label("wait"), self.label("go")
            self.emit(f"br i1 {self.value(f'icmp ne i64 {must}, 0')}, label %{wait}, label %{go}")
            self.place(wait)
            self.suspend(needed, go)
            self.place(go)

    def _op_field(self, name: str, extra: int = 0) -> str:
        record = self._record().split(" ", 1)[1]
        return self.frame_place(self.context.structs["Op"][name] + extra, record)

    def _end_bits(self, index: int) -> str:
        end = self.context.structs["End"]
        return self._op_field("dest" if index < 0 else "sources", max(index, 0) * end.words + end["bits"])

    def _call_body(self, instr: ir.MapOp, function: ir.Function, sources: list[int], needed: set[int]) -> Any:
        """Call the function with the elements read; its result as a register value."""
        args = []
        for arg, source, type_ in zip(instr.inputs, sources, function.registers, strict=False):
            if source < 0:
                if type_.kind == "dsd":
                    raise NativeUnsupported("@map with a DSD as a plain argument")
                args.append(self.operand(arg.value, llvm_of(type_)))  # type: ignore[arg-type]
            else:
                args.append(self._value_of(self.value(f"load i64, ptr {self._end_bits(source)}"), type_))
        result = function.result
        if result is not None and result.kind == "dsd":
            raise NativeUnsupported("@map of a function that returns a DSD")
        if instr.fn in self.context.simple:
            typed = [f"{llvm_of(type_)} {text}" for type_, text in zip(function.registers, args, strict=False)]
            kind = llvm_of(result) if result is not None else "void"
            text = f"call {kind} @{self.symbol(instr.fn, True)}({', '.join(['ptr %pe', *typed])})"
            if kind == "void":
                self.emit(text)
                return ""
            return self.value(text)
        frame = self._new_frame(str(self.context.frame_words[instr.fn] * WORD))
        self.emit(f"store ptr @{self.symbol(instr.fn)}, ptr {frame}")
        self.emit(f"store i64 0, ptr {self.frame_place(1, frame)}")
        self.emit(f"store ptr %fr, ptr {self.frame_place(2, frame)}")
        for position, (text, type_) in enumerate(zip(args, function.registers, strict=False)):
            self.emit(f"store i64 {self.to_word(text, type_)}, ptr {self.frame_place(4 + position, frame)}")
        self.store_field("frame", frame, "ptr")
        after = self.label("back")
        self.suspend(needed, after, 1)
        self.place(after)
        return self.from_word(self.load_field("value"), result) if result is not None else ""

    def _value_of(self, bits: str, type_: ir.ScalarType) -> str:
        """Register value of an element's bits (`numeric.from_bits`)."""
        if type_.kind == "int":
            return self.wrap(bits, type_)
        if type_.bits == 32:
            return self.value(f"bitcast i32 {self.value(f'trunc i64 {bits} to i32')} to float")
        if type_.name != self.half:
            raise NativeUnsupported(f"@map over {type_.name} in a program of {self.half}")
        return self.half_of_bits(self.value(f"and i64 {bits}, 65535"))

    def _bits_of(self, value: str, type_: ir.ScalarType) -> str:
        """Bits of a register value (`numeric.to_bits`)."""
        if type_.kind == "int":
            return self.value(f"and i64 {value}, {(1 << type_.bits) - 1}")
        if type_.bits == 32:
            return self.value(f"zext i32 {self.single_bits(value)} to i64")
        if type_.name != self.half:
            raise NativeUnsupported(f"@map over {type_.name} in a program of {self.half}")
        return self.call("fb_half_bits", "i64", "ptr %pe", f"double {value}")
