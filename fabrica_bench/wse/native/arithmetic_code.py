"""LLVM code of arithmetic, comparisons and conversions, as `wse.numeric` defines them."""

from __future__ import annotations

from fabrica_bench.csl import ir
from fabrica_bench.wse.native.code_writer import CodeWriter, llvm_of
from fabrica_bench.wse.native.support import NativeUnsupported


class ArithmeticCode(CodeWriter):
    """Part of `codegen.FunctionCode`."""

    def _binary(self, instr: ir.Bin) -> None:
        type_, op = instr.type, instr.op
        kind = llvm_of(type_)
        a, b = self.operand(instr.a, kind), self.operand(instr.b, kind)
        if kind == "i64":
            self.define(instr.dst, self._binary_int(op, type_, a, b), kind)
            return
        if op == "rem":
            if kind == "float":
                a, b = (self.value(f"fpext float {x} to double") for x in (a, b))
            value = self.call("fb_float_remainder", "double", f"double {a}", f"double {b}")
            if kind == "float":
                value = self.value(f"fptrunc double {value} to float")
        else:
            name = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}.get(op)
            if name is None:
                raise NativeUnsupported(f"{op} on floats")
            value = self.value(f"{name} {kind} {a}, {b}")
        self.define(instr.dst, value if kind == "float" else self.round_half(value), kind)

    def _binary_int(self, op: str, type_: ir.ScalarType, a: str, b: str) -> str:
        if op in ("and", "or", "xor"):
            return self.value(f"{op} i64 {a}, {b}")
        if op in ("add", "sub", "mul"):
            return self.wrap(self.value(f"{op} i64 {a}, {b}"), type_)
        if op == "shl":
            self._guard(self.value(f"icmp slt i64 {b}, 0"))
            fits = self.value(f"icmp ult i64 {b}, {type_.bits}")
            count = self.value(f"select i1 {fits}, i64 {b}, i64 0")
            shifted = self.value(f"shl i64 {a}, {count}")
            return self.wrap(self.value(f"select i1 {fits}, i64 {shifted}, i64 0"), type_)
        if op == "shr":
            self._guard(self.value(f"icmp slt i64 {b}, 0"))
            small = self.value(f"icmp ult i64 {b}, 63")
            name = "lshr" if type_.bits == 64 and not type_.signed else "ashr"
            if name == "lshr":
                fits = self.value(f"icmp ult i64 {b}, 64")
                count = self.value(f"select i1 {fits}, i64 {b}, i64 0")
                return self.value(f"select i1 {fits}, i64 {self.value(f'lshr i64 {a}, {count}')}, i64 0")
            count = self.value(f"select i1 {small}, i64 {b}, i64 63")
            return self.value(f"ashr i64 {a}, {count}")
        self._guard(self.value(f"icmp eq i64 {b}, 0"))
        if not type_.signed:
            return self.value(f"{'udiv' if op == 'div' else 'urem'} i64 {a}, {b}")
        if type_.bits == 64:  # the one quotient that does not fit
            least = self.value(f"icmp eq i64 {a}, {-(1 << 63)}")
            bad = self.value(f"and i1 {least}, {self.value(f'icmp eq i64 {b}, -1')}")
            self._guard(bad)
        value = self.value(f"{'sdiv' if op == 'div' else 'srem'} i64 {a}, {b}")
        return self.wrap(value, type_) if op == "div" else value

    def _compare(self, dst: ir.Reg, op: str, type_: ir.ScalarType, a: ir.Operand, b: ir.Operand) -> None:
        kind = llvm_of(type_)
        left, right = self.operand(a, kind), self.operand(b, kind)
        if kind == "i64":
            sign = "" if op in ("eq", "ne") else "u" if type_.bits == 64 and not type_.signed else "s"
            bit = self.value(f"icmp {sign}{op} i64 {left}, {right}")
        else:
            bit = self.value(f"fcmp {'u' if op == 'ne' else 'o'}{op} {kind} {left}, {right}")
        self.define(dst, self.value(f"zext i1 {bit} to i64"), "i64")

    def _cast(self, value: str, to: ir.ScalarType, from_: ir.ScalarType) -> str:
        have, want = llvm_of(from_), llvm_of(to)
        if to.kind == "int" and to.bits == 1:
            test = f"icmp ne i64 {value}, 0" if have == "i64" else f"fcmp une {have} {value}, 0.0"
            return self.value(f"zext i1 {self.value(test)} to i64")
        if to.kind == "int":
            if from_.kind == "float":
                return self._to_int(value, have, to)
            contained = from_.bits < to.bits and (to.signed or not from_.signed)
            same = from_.bits == to.bits and from_.signed == to.signed
            return value if contained or same else self.wrap(value, to)
        if from_.kind == "int":
            name = "uitofp" if from_.bits == 64 and not from_.signed else "sitofp"
            if want == "float":
                return self.value(f"{name} i64 {value} to float")
            if from_.bits > 53:
                raise NativeUnsupported("a 64-bit integer converted to a 16-bit float")
            return self.round_half(self.value(f"{name} i64 {value} to double"))
        if want == "float":
            return value if have == "float" else self.value(f"fptrunc double {value} to float")
        if to == from_:
            return value
        return self.round_half(value if have == "double" else self.value(f"fpext float {value} to double"))

    def _to_int(self, value: str, have: str, to: ir.ScalarType) -> str:
        name = "fptoui" if to.bits == 64 and not to.signed else "fptosi"
        suffix = "f32" if have == "float" else "f64"
        result = self.call(f"llvm.{name}.sat.i64.{suffix}", "i64", f"{have} {value}")
        if to.bits < 64:
            low = -(1 << (to.bits - 1)) if to.signed else 0
            high = (1 << (to.bits - int(to.signed))) - 1
            result = self.call("llvm.smax.i64", "i64", f"i64 {result}", f"i64 {low}")
            result = self.call("llvm.smin.i64", "i64", f"i64 {result}", f"i64 {high}")
        return result

    def _bitcast(self, value: str, to: ir.ScalarType, from_: ir.ScalarType) -> str:
        if to.kind == from_.kind == "int":
            return self.wrap(value, to) if to.signed != from_.signed else value
        if to.kind == from_.kind:
            return value
        if to.kind == "int":
            if llvm_of(from_) == "float":
                return self.wrap(self.value(f"zext i32 {self.single_bits(value)} to i64"), to)
            return self.wrap(self.call("fb_half_bits", "i64", "ptr %pe", f"double {value}"), to)
        bits = self.value(f"and i64 {value}, {(1 << to.bits) - 1}")
        if llvm_of(to) == "float":
            return self.value(f"bitcast i32 {self.value(f'trunc i64 {bits} to i32')} to float")
        return self.half_of_bits(bits)
