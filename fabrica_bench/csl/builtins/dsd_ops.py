"""DSD operations: one table of legal forms, and the checks that all of them share.

Forms are written as the documentation does: `d` DSD or DSR destination, `p` pointer destination, `s` DSD or DSR source,
`v` scalar source; the destination first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.async_config import operation_config
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.sema.calls import FnInstance, fn_type, invoke_signature
from fabrica_bench.csl.sema.coerce import try_coerce
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.values import TRUE, VOID_VALUE, Const, FifoRef, FnValue, Rt, Value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.session import Session

TypeRule = Callable[["Session"], tuple[t.Type, ...]]


def _i16(session: Session) -> tuple[t.Type, ...]:
    return (t.I16, t.U16)


def _i32(session: Session) -> tuple[t.Type, ...]:
    return (t.I32, t.U32)


def _half(session: Session) -> tuple[t.Type, ...]:
    return (session.fp16,)


def _single(session: Session) -> tuple[t.Type, ...]:
    return (t.F32,)


def _signed16(session: Session) -> tuple[t.Type, ...]:
    return (t.I16,)


@dataclass(frozen=True)
class Operation:
    """Legal forms of one operation. `dest` and `sources` rule the types of pointers and scalars, slot by slot."""

    forms: tuple[str, ...]
    dest: TypeRule
    sources: tuple[TypeRule, ...]


_BINARY = ("dss", "dvs", "dsv")
_REDUCING = (*_BINARY, "pvs")
_UNARY = ("ds", "dv")
_MOVE = ("ds", "ps", "dv")

OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(
        ("add16", "addc16", "and16", "or16", "xor16", "sar16", "sll16", "slr16"),
        Operation(_BINARY, _i16, (_i16, _i16)),
    ),
    "sub16": Operation(("dss", "dsv"), _i16, (_i16, _i16)),
    **dict.fromkeys(("clz", "ctz", "popcnt"), Operation(_UNARY, _i16, (_i16,))),
    "mov16": Operation(_MOVE, _i16, (_i16,)),
    "mov32": Operation(_MOVE, _i32, (_i32,)),
    "fmovh": Operation(_MOVE, _half, (_half,)),
    "fmovs": Operation(_MOVE, _single, (_single,)),
    **dict.fromkeys(("faddh", "fsubh", "fmulh", "fmaxh"), Operation(_REDUCING, _half, (_half, _half))),
    **dict.fromkeys(("fadds", "fsubs", "fmuls", "fmaxs"), Operation(_REDUCING, _single, (_single, _single))),
    "faddhs": Operation(_REDUCING, _single, (_half, _half)),
    "fmach": Operation(("dssv",), _half, (_half, _half, _half)),
    "fmacs": Operation(("dssv",), _single, (_single, _single, _single)),
    "fmachs": Operation(("dssv",), _single, (_single, _half, _half)),
    **dict.fromkeys(("fabsh", "fnegh"), Operation(_UNARY, _half, (_half,))),
    **dict.fromkeys(("fabss", "fnegs"), Operation(_UNARY, _single, (_single,))),
    "fh2s": Operation(_UNARY, _single, (_half,)),
    "fs2h": Operation(_UNARY, _half, (_single,)),
    "fh2xp16": Operation((*_UNARY, "pv"), _signed16, (_half,)),
    "fs2xp16": Operation((*_UNARY, "pv"), _signed16, (_single,)),
    "xp162fh": Operation(_UNARY, _half, (_i16,)),
    "xp162fs": Operation(_UNARY, _single, (_i16,)),
    "fnormh": Operation(("pv",), _half, (_half,)),
    "fnorms": Operation(("pv",), _single, (_single,)),
    "fscaleh": Operation(("pvv",), _half, (_half, _signed16)),
    "fscales": Operation(("pvv",), _single, (_single, _signed16)),
}


@dataclass(slots=True)
class Operand:
    """An analysed operand before it is matched with a form."""

    value: Value
    span: ast.Span
    kinds: str = field(default="")

    @property
    def type(self) -> t.Type:
        return self.value.type

    @property
    def dsd_kind(self) -> str:
        return self.value.type.kind if isinstance(self.value.type, t.DsdType) else ""

    @property
    def is_fifo(self) -> bool:
        type_ = self.value.type
        return isinstance(type_, t.FifoType) or (isinstance(type_, t.DsrType) and type_.is_fifo)

    @property
    def is_vector(self) -> bool:
        return isinstance(self.value.type, t.DsdType | t.DsrType | t.FifoType)


_ROLES: Final = {"d": "dest", "p": "&dest", "s": "source", "v": "scalar"}


def _spelled(name: str, form: str) -> str:
    """A form of an operation as a user writes it."""
    return f"@{name}({', '.join(_ROLES[code] for code in form)})"


@builtin(*OPERATIONS, args=(2, 5), contexts="R")
def dsd_operation(call: Call) -> Value:
    operation = OPERATIONS[call.name]
    session = call.frame.unit.session
    arity = len(operation.forms[0])
    if call.count not in (arity, arity + 1):
        call.fail(
            f"@{call.name} takes {arity} operands and an optional configuration, got {call.count} arguments",
            hint=f"write {' or '.join(_spelled(call.name, form) for form in operation.forms)}",
        )
    hints = (operation.dest, *operation.sources)
    operands = [Operand(call.value(index, hints[index](session)[0]), call.arg_span(index)) for index in range(arity)]
    form = _match(call, operation, operands)
    _check_operands(call, operands)
    config = operation_config(call, arity if call.count > arity else None, operands)
    dest = _argument(call, operands[0], form[0], operation.dest(session))
    sources = tuple(
        _argument(call, operand, code, rule(session))
        for operand, code, rule in zip(operands[1:], form[1:], _source_rules(call.name, form, operation), strict=True)
    )
    return _emit(call, dest, sources, config, operands)


def _source_rules(name: str, form: str, operation: Operation) -> tuple[TypeRule, ...]:
    if name == "faddhs":  # one source has 32 bits: the second beside a 16-bit scalar, otherwise the first
        return (_half, _single) if form == "dvs" else (_single, _half)
    return operation.sources


def _emit(
    call: Call, dest: ir.DsdArg | None, sources: tuple[ir.DsdArg, ...], config: ir.DsdConfig, operands: list[Operand]
) -> Value:
    may_end_early = any(operand.is_fifo for operand in operands) and not config.is_async
    code = call.frame.code(call.span)
    result = code.register(ir.BOOL) if may_end_early else None
    call.emit(ir.DsdOp(0, result, call.name, dest, sources, config))
    return TRUE if result is None else Rt(t.BOOL, result)


# ------------------------------------------------------------------------------------------------------- matching


def _classes(operand: Operand, is_dest: bool) -> str:
    if operand.is_vector:
        return "d" if is_dest else "s"
    return "p" if is_dest else "v"


def _match(call: Call, operation: Operation, operands: list[Operand]) -> str:
    found = "".join(_classes(operand, index == 0) for index, operand in enumerate(operands))
    if found in operation.forms:
        return found
    if not operands[0].is_vector and not isinstance(operands[0].type, t.PointerType):
        call.fail(f"the destination of @{call.name} can't be a value of type '{operands[0].type.name}'", 0)
    shown = ", ".join(f"({', '.join(form)})" for form in operation.forms)
    call.fail(
        f"@{call.name} can't take operands of these kinds: ({', '.join(operand.type.name for operand in operands)})",
        hint=f"legal forms are {shown}; d, s: DSD or DSR, v: scalar, p: pointer to a scalar",
    )


def _argument(call: Call, operand: Operand, code: str, legal: tuple[t.Type, ...]) -> ir.DsdArg:
    """The IR operand for a matched slot, its scalar type checked."""
    value = operand.value
    if code in "ds":
        _warn_of_width(call, operand, legal[0])
        return vector_argument(call, operand, legal[0])
    if code == "p":
        type_ = value.type
        if not isinstance(type_, t.PointerType) or type_.is_many or type_.pointee not in legal:
            call.fail(f"expected a pointer to '{legal[0].name}', got: '{type_.name}'", 0)
        if type_.is_const:
            call.fail("the destination can't be written through a const pointer", 0)
        return ir.DsdArg("pointer", call.frame.operand(value, operand.span), t.scalar_type(type_.pointee))
    for type_ in legal:
        scalar = t.scalar_type(type_)
        coerced = _scalar(call, operand, type_)
        if coerced is not None:
            return ir.DsdArg("scalar", call.frame.operand(coerced, operand.span), scalar)
    names = " or ".join(f"'{type_.name}'" for type_ in legal)
    hint = None
    if isinstance(value, Const) and value.type == t.COMPTIME_INT and t.is_float(legal[0]):
        hint = f"write the literal as a float: '{value.data}.0'"
    elif t.is_numeric(value.type) and not value.type.is_comptime_only:
        hint = f"convert explicitly with @as({legal[0].name}, ...)"
    fail(operand.span, f"expected type {names}, got: '{value.type.name}'", hint)


def _warn_of_width(call: Call, operand: Operand, used: t.Type) -> None:
    """A memory DSD takes its strides from the tensor it was made for, and the size of elements from the operation."""
    made = operand.type.element if isinstance(operand.type, t.DsdType) else None
    width, size = t.bit_width(used), None if made is None else t.bit_width(made)
    if made is None or width is None or size is None or width == size:
        return
    value = operand.value
    if width < size and isinstance(value, Const) and all(extent == 1 for extent in value.data.extents):
        return  # the low half of one element: nothing is stepped over
    call.frame.unit.session.warn(
        operand.span,
        f"@{call.name} takes elements of {width} bits here, but this DSD steps over elements of type '{made.name}'",
        "use the operation for the type, or describe a tensor with elements of that width",
    )


def _scalar(call: Call, operand: Operand, type_: t.Type) -> Value | None:
    value = operand.value
    if value.type == type_:
        return value
    if isinstance(value, Const) and isinstance(type_, t.IntType):
        fits = t.is_integer(value.type) and type_.fits(value.data)
        return Const(type_, value.data) if fits else None
    return try_coerce(call.frame, value, type_, operand.span)


def vector_argument(call: Call, operand: Operand, element: t.Type) -> ir.DsdArg:
    """A DSD, DSR or FIFO operand."""
    value, scalar = operand.value, t.scalar_type(element)
    if isinstance(value.type, t.DsdType):
        return ir.DsdArg("dsd", call.frame.operand(value, operand.span), scalar)
    assert isinstance(value, Const)
    if isinstance(value.data, FifoRef):
        return ir.DsdArg("fifo", value.data.number, scalar)
    if operand.is_fifo:
        number = call.frame.unit.pe_state.fifo_registers.get(value.data)
        if number is None:
            fail(operand.span, "this register holds no FIFO", "give it to @allocate_fifo as 'dest' or 'src'")
        return ir.DsdArg("fifo", number, scalar)
    return ir.DsdArg("dsr", value.data, scalar)


# --------------------------------------------------------------------------------------------------------- checks


def _check_operands(call: Call, operands: list[Operand]) -> None:
    dest, sources = operands[0], operands[1:]
    if dest.dsd_kind == "fabin":
        call.fail("a fabin_dsd can't be a destination", 0)
    for index, operand in enumerate(operands):
        if operand.dsd_kind == "circbuf":
            call.fail("a circbuf_dsd can't be an operand", index, "load it with @load_to_dsr_xdsr")
    for index, source in enumerate(sources, 1):
        if source.dsd_kind == "fabout":
            call.fail("a fabout_dsd can't be a source", index)
    fabric_inputs = [source for source in sources if source.dsd_kind == "fabin"]
    if len(fabric_inputs) > 1 and call.frame.unit.session.arch == "wse3":
        call.fail("at most one operand can be a fabin_dsd on wse3")
    vectors = [source for source in sources if source.is_vector]
    fifos = [source for source in sources if source.is_fifo]
    if len(fifos) > 1:
        call.fail("at most one source can be a FIFO")
    if fifos and len(vectors) > 1 and fifos[0] is vectors[0]:
        call.fail("a FIFO can't be the first of two sources", hint="swap the sources")
    _check_registers(call, dest, sources)


def _check_registers(call: Call, dest: Operand, sources: list[Operand]) -> None:
    if isinstance(dest.type, t.DsrType) and dest.type.file == "src1":
        call.fail(f"a '{dest.type.name}' can't be a destination", 0, "use a dsr_dest (or a dsr_src0 to accumulate)")
    for index, source in enumerate(sources, 1):
        if isinstance(source.type, t.DsrType) and source.type.file == "dest":
            call.fail(f"a '{source.type.name}' can't be a source", index, "use a dsr_src0 or dsr_src1")


# ------------------------------------------------------------------------------------------------------ dfilt, map


@builtin("dfilt", args=2, contexts="R")
def dfilt(call: Call) -> Value:
    operand = Operand(call.value(0), call.arg_span(0))
    is_register = isinstance(operand.type, t.DsrType) and operand.type.file == "src1"
    if operand.dsd_kind != "fabin" and not is_register:
        call.fail(f"@dfilt takes a fabin_dsd or a dsr_src1, got: '{operand.type.name}'", 0)
    config = operation_config(call, 1, [operand])
    if not config.is_async:
        call.fail("@dfilt must be asynchronous", 1, "add .async = true")
    if config.on_control is not None or config.index is not None:
        call.fail("@dfilt takes no 'on_control' and no 'index'", 1)
    return _emit(call, None, (vector_argument(call, operand, t.U32),), config, [operand])


_MAP_ELEMENTS = (t.I16, t.U16, t.I32, t.U32, t.F32)


@builtin("map", args=(2, 1000), contexts="R")
def map_operation(call: Call) -> Value:
    function = call.const(0).data
    if not isinstance(function, FnValue) or function.decl.kind != "fn":
        call.fail("the first argument of @map must be a function", 0)
    type_ = fn_type(call.frame.unit, function)
    count = len(type_.params)
    has_output = type_.result != t.VOID
    if call.count != 1 + count + has_output:
        call.fail(
            f"@map of '{function.decl.name}' takes {count} input(s){' and an output' if has_output else ''}, "
            f"got {call.count - 1}"
        )
    values = [Operand(call.value(1 + k, type_.params[k]), call.arg_span(1 + k)) for k in range(count)]
    instance = invoke_signature(call.frame, function, [_element_stand_in(call, v) for v in values], call.span)
    inputs = tuple(_map_input(call, operand, k, instance) for k, operand in enumerate(values))
    output = None
    operands = list(values)
    if has_output:
        target = Operand(call.value(1 + count), call.arg_span(1 + count))
        operands.append(target)
        output = _map_output(call, target, instance)
    if not any(operand.is_vector for operand in operands):
        call.fail("at least one argument of @map must be a DSD or DSR")
    call.emit(ir.MapOp(0, instance.name, inputs, output))
    return VOID_VALUE


def _element_stand_in(call: Call, operand: Operand) -> Value:
    """What the mapped function receives for an operand, for the choice of a generic function's instance."""
    if not operand.is_vector:
        return operand.value
    element = operand.type.element if isinstance(operand.type, t.DsdType) else None
    return Rt(element or t.F32, ir.Imm(0))


def _map_type(call: Call, type_: t.Type, index: int) -> ir.ScalarType:
    if type_ not in (*_MAP_ELEMENTS, call.frame.unit.session.fp16):
        call.fail(f"the elements of @map can't have type '{type_.name}'", index, "use 16-bit or 32-bit numbers")
    scalar = t.scalar_type(type_)
    assert scalar is not None
    return scalar


def _map_input(call: Call, operand: Operand, position: int, instance: FnInstance) -> ir.DsdArg:
    plan = instance.params[position]
    param = plan.type
    index = 1 + position
    if operand.is_fifo:
        call.fail("a FIFO can't be an argument of @map", index)
    if not operand.is_vector:
        value = call.frame.coerce(operand.value, param, operand.span)
        return ir.DsdArg("scalar", call.frame.operand(value, operand.span), t.scalar_type(param))
    if operand.dsd_kind == "fabout":
        call.fail("a fabout_dsd can't be an input of @map", index)
    if isinstance(operand.type, t.DsrType) and operand.type.file != "src1":
        call.fail(f"an input of @map must be a dsr_src1, got: '{operand.type.name}'", index)
    _map_type(call, param, index)
    return vector_argument(call, operand, param)


def _map_output(call: Call, target: Operand, instance: FnInstance) -> ir.DsdArg:
    index = call.count - 1
    scalar = _map_type(call, instance.result, index)
    if target.is_fifo:
        call.fail("a FIFO can't be an argument of @map", index)
    if target.is_vector:
        if target.dsd_kind == "fabin":
            call.fail("a fabin_dsd can't be the output of @map", index)
        if isinstance(target.type, t.DsrType) and target.type.file != "dest":
            call.fail(f"the output of @map must be a dsr_dest, got: '{target.type.name}'", index)
        return vector_argument(call, target, instance.result)
    type_ = target.type
    if not isinstance(type_, t.PointerType) or type_.is_const or type_.is_many or type_.pointee != instance.result:
        call.fail(f"expected a DSD or type '*{instance.result.name}', got: '{type_.name}'", index)
    return ir.DsdArg("pointer", call.frame.operand(target.value, target.span), scalar)
