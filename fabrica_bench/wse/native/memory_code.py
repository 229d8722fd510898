"""LLVM code of accesses to PE memory, each checked against its size."""

from __future__ import annotations

from fabrica_bench.csl import ir
from fabrica_bench.wse.memory import MEMORY_BYTES
from fabrica_bench.wse.native.code_writer import CodeWriter, llvm_of
from fabrica_bench.wse.native.support import NativeUnsupported


class MemoryCode(CodeWriter):
    """Part of `codegen.FunctionCode`."""

    def address(self, operand: ir.Operand, offset: int, size: int, aligned: bool = True) -> str:
        """Checked host address of `size` bytes at a PE address plus an offset."""
        base = self.operand(operand, "i64")
        where = base
        if offset:
            where = self.value(f"add i64 {base}, {offset}")
            if offset < 0:
                where = self.value(f"and i64 {where}, 65535")
        bad = self.value(f"icmp ugt i64 {where}, {MEMORY_BYTES - size}")
        if size > 1 and aligned:
            odd = self.value(f"trunc i64 {where} to i1")
            bad = self.value(f"or i1 {bad}, {odd}")
        self._guard(bad)
        return self.value(f"getelementptr i8, ptr %memory, i64 {where}")

    def _plain_address(self, operand: ir.Operand, offset: int) -> str:
        base = self.operand(operand, "i64")
        if not offset:
            return base
        where = self.value(f"add i64 {base}, {offset}")
        return where if offset > 0 else self.value(f"and i64 {where}, 65535")

    def _load(self, instr: ir.Load) -> None:
        type_ = instr.type
        if type_.kind == "dsd":
            where = self._plain_address(instr.addr, instr.offset)
            self.call("fb_fetch_dsd", "void", "ptr %pe", f"i64 {where}", f"ptr %r{instr.dst.index}")
            return
        place = self.address(instr.addr, instr.offset, type_.size)
        align = 2 if type_.size > 1 else 1
        if llvm_of(type_) == "float":
            self.define(instr.dst, self.value(f"load float, ptr {place}, align 2"), "float")
            return
        width = type_.size * 8
        raw = self.value(f"load i{width}, ptr {place}, align {align}")
        if type_.kind == "float":
            self.define(instr.dst, self.half_of_bits(self.value(f"zext i16 {raw} to i64")), "double")
            return
        if type_.bits == 1:
            bit = self.value(f"icmp ne i8 {raw}, 0")
            self.define(instr.dst, self.value(f"zext i1 {bit} to i64"), "i64")
            return
        word = raw
        if width < 64:
            word = self.value(f"{'sext' if type_.signed else 'zext'} i{width} {raw} to i64")
        self.define(instr.dst, word if width == type_.bits else self.wrap(word, type_), "i64")

    def _store(self, instr: ir.Store) -> None:
        type_ = instr.type
        if type_.kind == "dsd":
            where = self._plain_address(instr.addr, instr.offset)
            self.call("fb_store_dsd", "void", "ptr %pe", f"i64 {where}", f"ptr {self.dsd_operand(instr.value)}")
            return
        kind = llvm_of(type_)
        value = self.operand(instr.value, kind)
        place = self.address(instr.addr, instr.offset, type_.size)
        align = 2 if type_.size > 1 else 1
        if kind == "float":
            self.emit(f"store i32 {self.single_bits(value)}, ptr {place}, align 2")
            return
        if kind == "double":
            value = self.call("fb_half_bits", "i64", "ptr %pe", f"double {value}")
        width = type_.size * 8
        if width < 64:
            value = self.value(f"trunc i64 {value} to i{width}")
        self.emit(f"store i{width} {value}, ptr {place}, align {align}")

    def _copy_memory(self, instr: ir.CopyMem) -> None:
        size = int(instr.size)
        if size > MEMORY_BYTES:
            raise NativeUnsupported("a copy larger than the memory")
        source = self.address(instr.src_addr, 0, size, aligned=False)
        to = self.address(instr.dst_addr, 0, size, aligned=False)
        self.declared.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
        self.emit(f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")
