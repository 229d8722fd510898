"""LLVM code of DSD values, DSD operations and loads of DSRs; the kernel does the operations."""

from __future__ import annotations

from collections.abc import Iterator

from fabrica_bench.csl import ir
from fabrica_bench.wse.native.code_writer import CodeWriter, llvm_of
from fabrica_bench.wse.native.support import NativeUnsupported


class DsdCode(CodeWriter):
    """Part of `codegen.FunctionCode`."""

    def _dsd_field(self, base: str, name: str) -> str:
        return self.frame_place(self.context.structs["Dsd"][name], base)

    def _make_dsd(self, instr: ir.MakeDsd) -> None:
        target = f"%r{instr.dst.index}"
        self._copy(target, self.context.sites.dsd(instr.template))
        names = {"base": "base", "extent": "extents", "stride": "strides", "queue": "queue", "color": "color"}
        late = None
        for key, operand in instr.fields:
            value = self.operand(operand, "i64")
            if key == "offset":
                late = value
                continue
            if key == "extent":
                value = self.value(f"and i64 {value}, 65535")
                self._at_least_one(target, "rank", len(instr.template.extents))
            if key == "stride":
                self._at_least_one(target, "stride_count", len(instr.template.strides))
            self.emit(f"store i64 {value}, ptr {self._dsd_field(target, names[key])}")
        if late is not None:
            place = self._dsd_field(target, "base")
            step = self.value(f"mul i64 {late}, {int(instr.element_bytes)}")
            base = self.value(f"load i64, ptr {place}")
            self.emit(f"store i64 {self.value(f'add i64 {base}, {step}')}, ptr {place}")

    def _at_least_one(self, target: str, name: str, count: int) -> None:
        if count == 0:
            self.emit(f"store i64 1, ptr {self._dsd_field(target, name)}")

    def _set_dsd(self, instr: ir.SetDsd) -> None:
        target = f"%r{instr.dst.index}"
        value = self.operand(instr.value, "i64")
        self._copy(target, self.dsd_operand(instr.src))
        if instr.field == "length":
            value = self.value(f"and i64 {value}, 65535")
            place = self._dsd_field(target, "extents")
        elif instr.field == "stride":
            place = self._dsd_field(target, "strides")
        else:
            place = self._dsd_field(target, "base")
            if instr.field == "advance":
                value = self.value(f"add i64 {self.value(f'load i64, ptr {place}')}, {value}")
        self.emit(f"store i64 {value}, ptr {place}")

    def _dsd_operation(self, instr: ir.DsdOp, live: set[int]) -> None:
        site = self.context.sites.site(instr, self.context.image)
        offset = self.context.pe["values"]
        for position, text in enumerate(self._dsd_values(instr, site.scalars)):
            self.emit(f"store i64 {text}, ptr {self.frame_place(offset + position, '%pe')}")
        self.flush_cost()
        self.store_time()
        result = self.call("fb_dsd_operation", "i64", "ptr %pe", f"ptr {site.name}")
        after, wait = self.label("done"), self.label("wait")
        self.emit(f"br i1 {self.value(f'icmp ne i64 {result}, 0')}, label %{wait}, label %{after}")
        self.place(wait)
        dst = instr.result
        self.suspend(live - ({dst.index} if dst is not None else set()), after)
        self.place(after)
        self.load_time()
        if dst is not None:
            self.define(dst, self.load_field("result"), "i64")

    def _dsd_values(self, instr: ir.DsdOp, scalars: dict[int, str]) -> Iterator[str]:
        """Run-time operands in the kernel's order, as words. `scalars`: how a scalar source becomes a bit pattern."""
        for position, arg in enumerate((instr.dest, *instr.sources)):
            if arg is None or arg.kind not in ("dsd", "scalar", "pointer"):
                continue
            operand: ir.Operand = arg.value  # type: ignore[assignment]
            if arg.kind == "dsd":
                yield self.value(f"ptrtoint ptr {self.dsd_operand(operand)} to i64")
            elif arg.kind == "pointer":
                yield self.operand(operand, "i64")
            else:
                yield self._scalar_bits(operand, arg, scalars[position])
        config = instr.config
        for wake in (config.on_done, config.on_control):
            if wake is not None:
                yield self.operand(wake.id, "i64")
        if config.index is not None:
            yield self.operand(config.index, "i64")

    def _scalar_bits(self, operand: ir.Operand, arg: ir.DsdArg, type_: str) -> str:
        """As `DsdSite._scalar_bits`. `type_`: element type of the operation, `moves` for the source of `@fmovs`."""
        register = self.type_of(operand)
        if register is not None:
            is_int = register.kind == "int"
        else:
            is_int = isinstance(operand, ir.Imm) and isinstance(operand.value, int)
        if is_int and type_ not in ("h", "s") and (arg.type is None or arg.type.kind == "int"):
            mask = 0xFFFFFFFF if type_ in ("u32", "moves") else 0xFFFF
            return self.value(f"and i64 {self.operand(operand, 'i64')}, {mask}")
        number = self._as_double(operand, register)
        if arg.type is not None and arg.type.kind == "float":
            single = arg.type.bits == 32
            if not single and arg.type.name != self.half:
                raise NativeUnsupported(f"a scalar of {arg.type.name} in a program of {self.half}")
        elif arg.type is not None and is_int:
            single = type_ in ("s", "moves")
        else:
            single = type_ in ("s", "moves")
        if single:
            bits = self.single_bits(self.value(f"fptrunc double {number} to float"))
            return self.value(f"zext i32 {bits} to i64")
        return self.call("fb_half_bits", "i64", "ptr %pe", f"double {number}")

    def _as_double(self, operand: ir.Operand, register: ir.ScalarType | None) -> str:
        if register is None:
            return self.operand(operand, "double")
        kind = llvm_of(register)
        value = self.operand(operand, kind)
        if kind == "i64":
            return self.value(f"sitofp i64 {value} to double")
        return value if kind == "double" else self.value(f"fpext float {value} to double")

    def _load_dsr(self, instr: ir.LoadDsr) -> None:
        ids = [
            self.operand(wake.id, "i64") if wake else "0" for wake in (instr.config.on_done, instr.config.on_control)
        ]
        number = self.context.sites.dsr(instr.dsr)
        config = self.context.sites.config(instr.config)
        args = f"i64 {number}", f"ptr {config}", f"i64 {int(instr.save_address)}", f"ptr {self.dsd_operand(instr.dsd)}"
        self.call("fb_load_dsr", "void", "ptr %pe", *args, f"i64 {ids[0]}", f"i64 {ids[1]}")
