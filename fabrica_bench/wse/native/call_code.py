"""LLVM code of calls: of simple functions directly, of others by a frame behind the caller's."""

from __future__ import annotations

from fabrica_bench.csl import ir
from fabrica_bench.wse.native.code_writer import R_CALL, CodeWriter, llvm_of
from fabrica_bench.wse.native.kernel_builtins import WORD
from fabrica_bench.wse.native.support import NativeUnsupported


class CallCode(CodeWriter):
    """Part of `codegen.FunctionCode`."""

    def _call(self, instr: ir.Call, live: set[int]) -> None:
        context, name = self.context, instr.fn
        if name not in context.index:
            raise NativeUnsupported(f"call of unknown function {name!r}")
        callee = context.image.functions[name]
        if len(instr.args) != callee.param_count:
            raise NativeUnsupported(f"call of {name!r} with {len(instr.args)} arguments")
        self.cost += 0 if name in context.inlined else self.costs["branch.call"]
        self.flush_cost()
        self.store_time()
        if name in context.simple:
            self._call_simple(instr, callee)
            return
        frame = self._new_frame(str(context.frame_words[name] * WORD))
        self.emit(f"store ptr @{self.symbol(name)}, ptr {frame}")
        types = callee.registers[: callee.param_count]
        self._enter_frame(frame, instr.args, types, instr.dst, callee.result, live)

    def _call_simple(self, instr: ir.Call, callee: ir.Function) -> None:
        args = ["ptr %pe"]
        for arg, type_ in zip(instr.args, callee.registers, strict=False):
            kind = llvm_of(type_)
            args.append(f"{kind} {self.dsd_operand(arg) if kind == 'ptr' else self.operand(arg, kind)}")
        result = callee.result
        kind = llvm_of(result) if result is not None and result.kind != "dsd" else "void"
        text = f"call {kind} @{self.symbol(instr.fn, True)}({', '.join(args)})"
        if kind == "void":
            self.emit(text)
            if instr.dst is not None:
                self._take_dsd(instr.dst, result)
        else:
            value = self.value(text)
            if instr.dst is not None:
                self.define(instr.dst, value, kind)
        self.load_time()

    def _take_dsd(self, dst: ir.Reg, result: ir.ScalarType | None) -> None:
        if result is None or result.kind != "dsd":
            raise NativeUnsupported("the result of a function without one")
        self._copy(f"%r{dst.index}", self.field("dsd_value"))

    def _new_frame(self, size: str) -> str:
        """Frame of a callee of `size` bytes, behind this one."""
        frame = self.frame_place(self.context.frame_words[self.fn.name])
        end = self.value(f"add i64 {self.value(f'ptrtoint ptr {frame} to i64')}, {size}")
        self._guard(self.value(f"icmp ugt i64 {end}, {self.load_field('frame_end')}"))
        return frame

    def _enter_frame(
        self,
        frame: str,
        args: tuple[ir.Operand, ...],
        types: list[ir.ScalarType],
        dst: ir.Reg | None,
        result: ir.ScalarType | None,
        live: set[int],
    ) -> None:
        """Fill a callee's frame, suspend until it returns, take its result."""
        self.emit(f"store i64 0, ptr {self.frame_place(1, frame)}")
        self.emit(f"store ptr %fr, ptr {self.frame_place(2, frame)}")
        for position, (arg, type_) in enumerate(zip(args, types, strict=True)):
            slot = self.frame_place(4 + position, frame)
            if type_.kind == "dsd":
                self.emit(f"store ptr {self.dsd_operand(arg)}, ptr {slot}")
            else:
                word = self.to_word(self.operand(arg, llvm_of(type_)), type_)
                self.emit(f"store i64 {word}, ptr {slot}")
        self.store_field("frame", frame, "ptr")
        after = self.label("back")
        self.suspend(live - ({dst.index} if dst is not None else set()), after, R_CALL)
        self.place(after)
        if dst is None:
            return
        type_ = self.fn.registers[dst.index]
        if type_.kind == "dsd":
            self._take_dsd(dst, result or type_)
        else:
            self.define(dst, self.from_word(self.load_field("value"), type_), llvm_of(type_))

    def _call_indirect(self, instr: ir.CallIndirect, live: set[int]) -> None:
        self.cost += self.costs["branch.call"]
        self.flush_cost()
        self.store_time()
        pointer = self.value(f"sub i64 {self.operand(instr.pointer, 'i64')}, 1")
        count = len(self.context.names)
        self._guard(self.value(f"icmp uge i64 {pointer}, {count}"))
        layout = self.context.structs["Fn"]
        image_offset = self.context.structs["Image"]["functions"] * WORD
        image = self.load_field("image", "ptr")
        table = self.value(f"load ptr, ptr {self.value(f'getelementptr i8, ptr {image}, i64 {image_offset}')}")
        entry_offset = self.value(f"mul i64 {pointer}, {layout.words * WORD}")
        entry = self.value(f"getelementptr i8, ptr {table}, i64 {entry_offset}")
        params = self.value(f"load i64, ptr {self.frame_place(layout['param_count'], entry)}")
        self._guard(self.value(f"icmp ne i64 {params}, {len(instr.args)}"))
        words = self.value(f"load i64, ptr {self.frame_place(layout['frame_words'], entry)}")
        frame = self._new_frame(self.value(f"mul i64 {words}, {WORD}"))
        address = self.value(f"load i64, ptr {self.frame_place(layout['address'], entry)}")
        self.emit(f"store i64 {address}, ptr {frame}")
        self._enter_frame(frame, instr.args, self._indirect_types(instr), instr.dst, None, live)

    def _indirect_types(self, instr: ir.CallIndirect) -> list[ir.ScalarType]:
        """Parameter types of the possible callees; all of them must agree on how arguments travel."""
        fitting = [
            fn.registers[: fn.param_count]
            for fn in self.context.image.functions.values()
            if fn.param_count == len(instr.args)
        ]
        types = []
        for position, arg in enumerate(instr.args):
            known = self.type_of(arg)
            if known is None:
                kinds = {llvm_of(candidate[position]) for candidate in fitting}
                if isinstance(arg, ir.Imm) and isinstance(arg.value, ir.Dsd):
                    known = ir.DSD
                elif len(kinds) == 1:
                    known = fitting[0][position]
                elif isinstance(arg, ir.Imm) and isinstance(arg.value, float):
                    known = ir.F32
                else:
                    known = ir.I64
            types.append(known)
        return types
