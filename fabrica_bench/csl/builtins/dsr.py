"""Explicit data structure registers: `@get_dsr` and the loads."""

from __future__ import annotations

from fabrica_bench.csl import ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.async_config import ASYNC_FIELDS, async_config
from fabrica_bench.csl.builtins.dsd import Properties
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.values import VOID_VALUE, Const, Value

#: Registers per file. 16 is a third-party measurement; the official counts are not public.
DSR_COUNT = 16
XDSR_COUNT = 16
SR_COUNT = 16


@builtin("get_dsr", args=2)
def get_dsr(call: Call) -> Value:
    type_ = call.type(0)
    if not isinstance(type_, t.DsrType):
        call.fail(f"expected a DSR type, got: '{type_.name}'", 0, "dsr_dest, dsr_src0, dsr_src1")
    value = call.const(1)
    if type_.is_fifo:
        if not isinstance(value.type, t.DsrType) or value.type.file != type_.file:
            call.fail(f"expected a 'dsr_{type_.file}', got: '{value.type.name}'", 1)
        return Const(type_, value.data)
    number = _number(call, value, type_.name, DSR_COUNT, 1)
    return Const(type_, ir.DsrRef(type_.file, number))


@builtin("get_xdsr", args=1)
def get_xdsr(call: Call) -> Value:
    return Const(t.XDSR, _number(call, call.const(0), "xdsr", XDSR_COUNT, 0))


@builtin("get_sr", args=1)
def get_sr(call: Call) -> Value:
    return Const(t.SR, _number(call, call.const(0), "sr", SR_COUNT, 0))


def _number(call: Call, value: Const, what: str, count: int, index: int) -> int:
    if not t.is_integer(value.type):
        call.fail(f"expected a comptime-known integer, got: '{value.type.name}'", index)
    if not 0 <= value.data < count:
        call.fail(f"{what} {value.data} does not exist: legal numbers are 0 to {count - 1}", index)
    return int(value.data)


# ---------------------------------------------------------------------------------------------------------- loads


@builtin("load_to_dsr", args=(2, 3), contexts="TR")
def load_to_dsr(call: Call) -> Value:
    return _load(call, dsd_index=1, legal=("mem1d", "fabin", "fabout"))


@builtin("load_to_dsr_xdsr", args=(3, 4), contexts="TR")
def load_to_dsr_xdsr(call: Call) -> Value:
    _expect(call, 1, t.XDSR)
    return _load(call, dsd_index=2, legal=("circbuf",))


@builtin("load_to_dsr_xdsr_sr", args=(4, 5), contexts="TR")
def load_to_dsr_xdsr_sr(call: Call) -> Value:
    _expect(call, 1, t.XDSR)
    registers = call.const(2)
    if not isinstance(registers.type, t.StructType) or any(entry.type != t.SR for entry in registers.type.fields):
        call.fail("expected a tuple of stride registers", 2, ".{ @get_sr(0), ... }")
    _check_stride_registers(call, len(registers.type.fields))
    return _load(call, dsd_index=3, legal=("mem4d",))


def _expect(call: Call, index: int, type_: t.Type) -> None:
    value = call.const(index)
    if value.type != type_:
        call.fail(f"expected type '{type_.name}', got: '{value.type.name}'", index)


def _check_stride_registers(call: Call, given: int) -> None:
    """The innermost dimension needs none; with an innermost stride of 1 the second needs none either."""
    value = call.value(3)
    needed = 3
    if isinstance(value, Const) and isinstance(value.data, ir.Dsd):
        needed = len(value.data.extents) - 1
        if needed and value.data.strides[0] == 1:
            needed -= 1
    if given != needed:
        call.fail(f"this DSD needs {needed} stride register(s), got {given}", 2)


def _load(call: Call, dsd_index: int, legal: tuple[str, ...]) -> Value:
    register = call.const(0)
    if not isinstance(register.type, t.DsrType):
        call.fail(f"expected a DSR, got: '{register.type.name}'", 0)
    if register.type.is_fifo:
        call.fail("the register of a FIFO can't be loaded", 0)
    dsd = call.value(dsd_index)
    if not isinstance(dsd.type, t.DsdType):
        call.fail(f"expected a DSD, got: '{dsd.type.name}'", dsd_index)
    kind = dsd.type.kind
    if kind not in legal:
        hint = {"mem4d": "use @load_to_dsr_xdsr_sr", "circbuf": "use @load_to_dsr_xdsr"}.get(kind)
        call.fail(f"@{call.name} can't load a '{dsd.type.name}'", dsd_index, hint)
    if kind == "fabin" and register.type.file == "dest":
        call.fail("a fabin_dsd can't be loaded into a dsr_dest", dsd_index)
    if kind == "fabout" and register.type.file != "dest":
        call.fail(f"a fabout_dsd can't be loaded into a '{register.type.name}'", dsd_index)
    operand = call.frame.operand(dsd, call.arg_span(dsd_index))
    instr = ir.LoadDsr(0, register.data, operand, ir.DsdConfig())
    if call.count > dsd_index + 1:
        _configure(call, instr, kind, dsd_index + 1)
    if call.frame.comptime:
        instr.loc = call.frame.unit.location(call.span)
        call.frame.unit.pe(call.span).dsr_loads.append(instr)
    else:
        call.emit(instr)
    return VOID_VALUE


def _configure(call: Call, instr: ir.LoadDsr, kind: str, index: int) -> None:
    is_fabric = kind in ("fabin", "fabout")
    known = (*ASYNC_FIELDS, "single_step") if is_fabric else ("save_address", "single_step")
    what = f"the configuration of a {kind}_dsd load"
    given = Properties(call.frame, call.value(index), call.arg_span(index), what, known)
    instr.single_step = given.flag("single_step")
    if is_fabric:
        instr.config = async_config(call, given, index)
    else:
        instr.save_address = given.flag("save_address")
