"""LLVM code of intrinsics: one entry per name. What is missing here makes a program run on the reference executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.csl import ir
from fabrica_bench.wse.intrinsics import INTRINSIC_TABLE, intrinsic_cost, scalar_type
from fabrica_bench.wse.native.memory_code import MemoryCode
from fabrica_bench.wse.native.support import NativeUnsupported
from fabrica_bench.wse.unit import registers_read

if TYPE_CHECKING:
    pass

#: value and LLVM type of a result, or None
Result = tuple[str, str] | None

#: intrinsic -> (kernel function, how `text` becomes a leading argument, has a result)
_KERNEL_CALLS: dict[str, tuple[str, dict[str, int] | None, bool]] = {
    "activate": ("activate", None, False),
    "tsc_enable": ("tsc_enable", None, False),
    "tsc_disable": ("tsc_disable", None, False),
    "tsc_reset": ("tsc_reset", None, False),
    "tsc_read": ("tsc_read", None, False),
    "unblock_cmd_stream": ("unblock_cmd_stream", None, False),
    "random16": ("random16", None, True),
    "set_active_prng": ("set_active_prng", None, False),
    "print": ("print_memory", None, False),
    "task_priority": ("set_task_priority", None, False),
    "main_priority": ("set_main_priority", None, False),
    "queue_flush": ("queue_flush", {"input": 0, "output": 1}, False),
    "queue_flush_exit": ("queue_flush_exit", {"input": 0, "output": 1}, False),
    "queue_flush_status": ("queue_flush_status", {"input": 0, "output": 1}, True),
    "queue_status": ("queue_status", {"input": 0, "output": 1}, True),
    "rebind_queue": ("rebind_queue", {"input": 0, "output": 1}, False),
    "teardown_pending": ("take_teardown_pending", None, True),
    "teardown_exit": ("teardown_exit", None, False),
    "switch_set_position": ("switch_set_position", None, False),
    "switch_invalidate": ("switch_invalidate", None, False),
    "switch_set_current": ("switch_set_current", None, False),
    "switch_set_ring": ("switch_set_ring", None, False),
    "switch_set_pop": ("switch_set_pop", None, False),
    "control_transform_mask": ("set_transform_mask", None, False),
}
_ROUTE_MODES = {"color_set_routes": 0, "color_toggle_route": 1, "color_clear_route": 2, "color_add_route": 3}
_FILTER_SET = {"counter": 0, "max_counter": 1, "active_limit": 2}
_FILTER_GET = {"counter": 0, "state": 1, "pass_count": 2, "drop_count": 3}
_LIBM = ("exp", "log", "sin", "cos", "tan", "tanh", "sqrt", "ceil", "floor", "pow")


class IntrinsicCode(MemoryCode):
    """Part of `codegen.FunctionCode`."""

    def _intrinsic(self, instr: ir.Intrinsic, live: set[int]) -> None:
        entry = INTRINSIC_TABLE.get(instr.name)
        if entry is None:
            raise NativeUnsupported(f"intrinsic {instr.name!r}")
        cost = intrinsic_cost(instr, self.costs)
        self.flush_cost()
        self.store_time()
        if entry.synchronizes:
            now = self.machine_field("now")
            ahead = self.value(f"icmp sgt i64 {self.value('load i64, ptr %t')}, {now}")
            go, wait = self.label("go"), self.label("sync")
            self.emit(f"br i1 {ahead}, label %{wait}, label %{go}")
            self.place(wait)
            needed = (live - ({instr.dst.index} if instr.dst is not None else set())) | set(registers_read(instr))
            self.suspend(needed, go)
            self.place(go)
        value = self.run_intrinsic(instr)
        if instr.dst is not None and value is not None:
            self.define(instr.dst, *value)
        elif instr.dst is not None:
            raise NativeUnsupported(f"the result of {instr.name}")
        if entry.synchronizes:
            self.load_time()
        self.cost += cost

    def run_intrinsic(self, instr: ir.Intrinsic) -> Result:
        """Code of one intrinsic."""
        name = instr.name
        if name in _KERNEL_CALLS:
            return self._kernel_call(instr)
        if name in _ROUTE_MODES:
            color, rx, tx = (f"i64 {self.operand(arg, 'i64')}" for arg in instr.args)
            self.call("fb_set_routes", "void", "ptr %pe", color, rx, tx, f"i64 {_ROUTE_MODES[name]}")
            return None
        match name:
            case "block" | "unblock":
                is_thread = int(instr.text == "ut")
                id_ = self.operand(instr.args[0], "i64")
                self.call(f"fb_{name}", "void", "ptr %pe", f"i64 {is_thread}", f"i64 {id_}")
                return None
            case "assert":
                self._guard(self.value(f"icmp eq i64 {self.operand(instr.args[0], 'i64')}, 0"))
                return None
            case "x_coord" | "y_coord":
                return self.load_field(name[0]), "i64"
            case "math":
                return self._math(instr)
            case "print_text":
                content = instr.text.encode("latin-1", "replace")
                table = self.context.sites.data(content)
                self.call("fb_print_text", "void", "ptr %pe", f"ptr {table}", f"i64 {len(content)}")
                return None
            case "fifo_read_length" | "fifo_write_length":
                return self._fifo_length(instr)
            case "filter_set":
                if instr.text not in _FILTER_SET:
                    raise NativeUnsupported(f"filter_set {instr.text}")
                id_, value = (f"i64 {self.operand(arg, 'i64')}" for arg in instr.args)
                self.call("fb_filter_set", "void", "ptr %pe", id_, value, f"i64 {_FILTER_SET[instr.text]}")
                return None
            case "filter_get":
                if instr.text not in _FILTER_GET:
                    raise NativeUnsupported(f"filter_get {instr.text}")
                id_ = f"i64 {self.operand(instr.args[0], 'i64')}"
                return self.call("fb_filter_get", "i64", "ptr %pe", id_, f"i64 {_FILTER_GET[instr.text]}"), "i64"
            case "symbol_value" | "tensor_ptr":
                return self._exported(instr)
        raise NativeUnsupported(f"intrinsic {name}")

    def _kernel_call(self, instr: ir.Intrinsic) -> Result:
        function, texts, has_result = _KERNEL_CALLS[instr.name]
        args = ["ptr %pe"]
        if texts is not None:
            if instr.text not in texts:
                raise NativeUnsupported(f"{instr.name} {instr.text}")
            args.append(f"i64 {texts[instr.text]}")
        args += [f"i64 {self.operand(arg, 'i64')}" for arg in instr.args]
        if not has_result:
            self.call(f"fb_{function}", "void", *args)
            return None
        return self.call(f"fb_{function}", "i64", *args), "i64"

    def _fifo_length(self, instr: ir.Intrinsic) -> Result:
        index = instr.args[0]
        count = len(self.context.image.fifos)
        if not isinstance(index, ir.Imm) or not isinstance(index.value, int) or not 0 <= index.value < count:
            raise NativeUnsupported(f"{instr.name} of a FIFO known at run time only")
        length = self.operand(instr.args[1], "i64")
        self.call(f"fb_{instr.name}", "void", "ptr %pe", f"i64 {index.value}", f"i64 {length}")
        return None

    def _exported(self, instr: ir.Intrinsic) -> Result:
        """Value, or address, of an exported variable whose id is known."""
        id_ = instr.args[0]
        if not isinstance(id_, ir.Imm):
            raise NativeUnsupported(f"{instr.name} of an id known at run time only")
        image = self.context.image
        for export in self.context.program.exports:
            if export.id == id_.value and export.name in image.exports:
                address = ir.Imm(image.globals[image.exports[export.name].target].address)
                break
        else:
            raise NativeUnsupported(f"{instr.name} of an unknown id")
        type_ = scalar_type(instr.text) if instr.name == "symbol_value" else ir.U16
        if type_.size == 1:
            raise NativeUnsupported("symbol_value of one byte")
        place = self.address(address, 0, type_.size)
        width = type_.size * 8
        if type_.kind == "float" and type_.bits == 32:
            return self.value(f"load float, ptr {place}, align 2"), "float"
        raw = self.value(f"load i{width}, ptr {place}, align 2")
        if type_.kind == "float":
            if type_.name != self.half:
                raise NativeUnsupported("symbol_value of another 16-bit format")
            return self.half_of_bits(self.value(f"zext i16 {raw} to i64")), "double"
        if width == 64:
            return raw, "i64"
        if type_.bits != width:
            raise NativeUnsupported(f"symbol_value of {type_.name}")
        return self.value(f"{'sext' if type_.signed else 'zext'} i{width} {raw} to i64"), "i64"

    # ------------------------------------------------------------------------------------------ math

    def _math(self, instr: ir.Intrinsic) -> Result:
        """As `numeric.MATH_FUNCTIONS`: in binary64 with the C library's functions, then rounded."""
        name, _, type_name = instr.text.partition(":")
        single = type_name == "f32"
        args = []
        for arg in instr.args:
            if single:
                args.append(self.value(f"fpext float {self.operand(arg, 'float')} to double"))
            else:
                args.append(self.operand(arg, "double"))
        value = self._math_value(name, args)
        if single:
            return self.value(f"fptrunc double {value} to float"), "float"
        return self.round_half(value), "double"

    def _math_value(self, name: str, args: list[str]) -> str:
        x = args[0]
        if name == "pow":
            return self._power(x, args[1])
        if name in ("ceil", "floor"):
            # an integer made a float again: minus zero becomes zero
            return self.value(f"fadd double {self.call(f'fb_libm_{name}', 'double', f'double {x}')}, 0.0")
        if name in _LIBM:
            return self.call(f"fb_libm_{name}", "double", f"double {x}")
        if name == "inv":
            return self.value(f"fdiv double 1.0, {x}")
        if name == "invsqrt":
            return self.value(f"fdiv double 1.0, {self.call('fb_libm_sqrt', 'double', f'double {x}')}")
        if name == "abs":
            return self.call("llvm.fabs.f64", "double", f"double {x}")
        if name == "sig":
            power = self.call("fb_libm_exp", "double", f"double {self.value(f'fneg double {x}')}")
            value = self.value(f"fdiv double 1.0, {self.value(f'fadd double 1.0, {power}')}")
            large = self.value(f"fcmp ogt double {x}, -700.0")
            return self.value(f"select i1 {large}, double {value}, double 0.0")
        raise NativeUnsupported(f"math function {name!r}")

    def _power(self, x: str, y: str) -> str:
        value = self.call("fb_libm_pow", "double", f"double {x}", f"double {y}")
        zero = self.value(f"fcmp oeq double {x}, 0.0")
        negative = self.value(f"fcmp olt double {y}, 0.0")
        pole = self.value(f"and i1 {zero}, {negative}")
        return self.value(f"select i1 {pole}, double 0x7FF0000000000000, double {value}")
