"""Functions: signatures, comptime calls, inlining, and lowering of the instances that run-time code needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.sema import access, folding, limits, lower, places
from fabrica_bench.csl.sema.builder import FnBuilder
from fabrica_bench.csl.sema.control import Merge, Target, run_statements
from fabrica_bench.csl.sema.dispatch import expression
from fabrica_bench.csl.sema.errors import called_from, fail
from fabrica_bench.csl.sema.frame import Activation, Frame, ReturnSignal, Scope
from fabrica_bench.csl.sema.walk import address_taken, mentions
from fabrica_bench.csl.values import VOID_VALUE, Agg, Const, FnValue, Rt, Value, const_key

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.unit import Unit

MAX_INLINE_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Signature:
    """What is known of a function without arguments; None where that depends on the arguments."""

    params: tuple[t.Type | None, ...]
    result: t.Type | None
    is_generic: bool
    address_taken: frozenset[str]


def signature(unit: Unit, function: FnValue) -> Signature:
    """Signature of a function, analysed once."""
    found: Signature | None = unit.signatures.get(function)
    if found is not None:
        return found
    decl = function.decl
    if decl.is_inline and decl.attributes.linkname is not None:
        fail(decl.attributes.linkname.span, f"inline function '{decl.name}' can't have a 'linkname'")
    names = {param.name for param in decl.params if param.name is not None}
    frame = function.module.frame()
    params: list[t.Type | None] = []
    for param in decl.params:
        if param.type_expr is None or mentions(param.type_expr, names):
            params.append(None)
        else:
            params.append(frame.type_expr(param.type_expr))
    result = None if mentions(decl.result, names) else frame.type_expr(decl.result)
    is_generic = result is None or None in params or any(param.is_comptime for param in decl.params)
    found = Signature(tuple(params), result, is_generic, address_taken(decl.body))
    unit.signatures[function] = found
    return found


def fn_type(unit: Unit, function: FnValue) -> t.FnType:
    """Type of a function value."""
    found = signature(unit, function)
    return t.FnType(function.decl.kind, found.params, found.result)


# ------------------------------------------------------------------------------------------------------ calls


#: Told of each analysed argument of a call.
Note = Callable[[ast.Expr, Value], None]


@expression(ast.Call)
def call(frame: Frame, node: ast.Call, hint: t.Type | None) -> Value:
    return call_noting(frame, node, None)


def call_noting(frame: Frame, node: ast.Call, note: Note | None) -> Value:
    """Evaluate a call; `note` is told of its arguments."""
    callee = access.load(frame, places.place_of(frame, node.callee), node.callee.span)
    if isinstance(callee, Const) and isinstance(callee.data, FnValue):
        return call_function(frame, callee.data, node.args, node.span, note)
    type_ = callee.type
    if t.is_fn_pointer(type_) or isinstance(type_, t.FnType):
        return _call_pointer(frame, callee, node, note)
    fail(node.callee.span, f"a value of type '{type_.name}' can't be called")


def _call_pointer(frame: Frame, callee: Value, node: ast.Call, note: Note | None) -> Value:
    type_ = callee.type.pointee if isinstance(callee.type, t.PointerType) else callee.type
    assert isinstance(type_, t.FnType)
    if None in type_.params or type_.result is None:
        fail(node.span, "a generic function can't be called through a pointer")
    if len(node.args) != len(type_.params):
        fail(node.span, f"expected {len(type_.params)} argument(s), got {len(node.args)}")
    operands: list[ir.Operand] = []
    for arg, param in zip(node.args, type_.params, strict=True):
        assert param is not None
        value = frame.coerce(frame.expr(arg, param), param, arg.span)
        if note is not None:
            note(arg, value)
        operands += _flatten(frame, value, arg.span)
    pointer = frame.operand(callee, node.callee.span)
    return _emit_call(frame, None, pointer, operands, type_.result, node.span)


def call_function(
    frame: Frame, function: FnValue, args: Sequence[ast.Expr], span: ast.Span, note: Note | None = None
) -> Value:
    """Call a known function with argument expressions of the caller."""
    decl = function.decl
    if decl.kind == "task":
        fail(span, f"task '{decl.name}' can't be called", "activate it with @activate(id)")
    if len(args) != len(decl.params):
        declared = (("declared here", decl.name_span),)
        fail(span, f"'{decl.name}' takes {len(decl.params)} argument(s), got {len(args)}", notes=declared)
    found = signature(frame.unit, function)
    outer = Activation("", is_runtime=frame.activation.is_runtime)
    inner = Frame(frame.unit, function.module, context=frame.context, activation=outer)
    values: list[Value] = []
    for param, arg, type_ in zip(decl.params, args, found.params, strict=True):
        if type_ is None and param.type_expr is not None:
            type_ = inner.type_expr(param.type_expr)
        if param.is_comptime:
            value: Value = frame.comptime_expr(arg, type_)
        else:
            value = frame.expr(arg, type_)
        if type_ is not None:
            value = frame.coerce(value, type_, arg.span)
        if note is not None:
            note(arg, value)
        values.append(value)
        if param.name is not None:
            inner.declare(param.name, value, param.span)
    result = found.result if found.result is not None else inner.type_expr(decl.result)
    return invoke(frame, function, values, result, found, span)


def invoke(
    frame: Frame, function: FnValue, values: Sequence[Value], result: t.Type, found: Signature, span: ast.Span
) -> Value:
    """Call a function with analysed arguments, in the way the context needs."""
    if frame.comptime or result.is_comptime_only:
        return _call_at_comptime(frame, function, values, result, span)
    if folding.is_known(function, values, result):
        known = folding.fold(frame.unit.session, lambda: _call_at_comptime(frame, function, values, result, span))
        if known is not None:
            if not function.decl.is_inline:
                _instance(frame.unit, function, values, result, found, span, folded=True)
            return known
    if function.decl.is_inline:
        return _call_inline(frame, function, values, result, found, span)
    instance = _instance(frame.unit, function, values, result, found, span)
    operands: list[ir.Operand] = []
    for plan, value in zip(instance.params, values, strict=True):
        operands += _plan_operands(frame, plan, value, span)
    return _emit_call(frame, instance.name, None, operands, result, span)


def _emit_call(
    frame: Frame,
    name: str | None,
    pointer: ir.Operand | None,
    operands: list[ir.Operand],
    result: t.Type,
    span: ast.Span,
) -> Value:
    scalar = t.scalar_type(result)
    value: Value = VOID_VALUE
    dst = None
    if scalar is not None:
        dst = frame.code(span).register(scalar)
        value = Rt(result, dst)
    elif result != t.VOID:
        slot = lower.frame_memory(frame, result, span)
        operands = [slot, *operands]
        value = Rt(result, slot)
    code = frame.code(span)
    if name is not None:
        code.emit(ir.Call(0, dst, name, tuple(operands)))
    else:
        assert pointer is not None
        code.emit(ir.CallIndirect(0, dst, pointer, tuple(operands)))
    return value


# ---------------------------------------------------------------------------------------------- comptime calls


def _call_at_comptime(
    frame: Frame, function: FnValue, values: Sequence[Value], result: t.Type, span: ast.Span
) -> Value:
    decl = function.decl
    for param, value in zip(decl.params, values, strict=True):
        if not isinstance(value, Const):
            fail(
                span, f"'{decl.name}' must be called at comptime, but argument '{param.name}' is only known at run time"
            )
    if decl.body is None:
        fail(span, f"extern function '{decl.name}' can't be called at comptime")
    session = frame.unit.session
    limit = session.options.comptime_func_depth_limit
    if session.call_depth >= limit:
        fail(span, f"comptime calls are nested more than {limit} deep", "raise --comptime-func-depth-limit")
    session.step(span, limits.CALL_STEPS + limits.code_steps(decl.body))
    scope = Scope()
    for param, value in zip(decl.params, values, strict=True):
        if param.name is not None:
            scope.names[param.name] = value
    context = frame.context if frame.comptime else "L" if frame.unit.is_layout else "C"
    inner = Frame(frame.unit, function.module, scope=scope, context=context, activation=Activation(decl.name, result))
    session.call_depth += 1
    try:
        run_statements(inner, decl.body.stmts)
    except ReturnSignal as signal:
        return signal.value
    except CslError as problem:
        raise called_from(problem, decl.name, span) from None
    finally:
        session.call_depth -= 1
    if result not in (t.VOID, t.COMPTIME_STRUCT):
        fail(decl.name_span, f"function '{decl.name}' can end without returning a value of type '{result.name}'")
    return VOID_VALUE


# ------------------------------------------------------------------------------------------------ inline calls


def _call_inline(
    frame: Frame, function: FnValue, values: Sequence[Value], result: t.Type, found: Signature, span: ast.Span
) -> Value:
    decl = function.decl
    assert decl.body is not None
    session = frame.unit.session
    if session.call_depth >= MAX_INLINE_DEPTH:
        fail(span, f"inline calls are nested more than {MAX_INLINE_DEPTH} deep")
    session.step(span, limits.CALL_STEPS + limits.code_steps(decl.body))
    merge = Merge(frame, result, span)
    target = Target(None, is_loop=False, is_comptime=False, merge=merge)
    activation = Activation(decl.name, result, found.address_taken, inline_return=target, is_runtime=True)
    inner = Frame(frame.unit, function.module, builder=frame.builder, comptime=False, activation=activation)
    inner.depth = frame.depth
    for param, value in zip(decl.params, values, strict=True):
        if param.name is not None:
            lower.bind_value(inner, param.name, lower.copy_to_register(frame, value, span), param.span)
    session.call_depth += 1
    try:
        run_statements(inner, decl.body.stmts)
    except CslError as problem:
        raise called_from(problem, decl.name, span) from None
    finally:
        session.call_depth -= 1
    code = frame.code(span)
    if code.is_live and result != t.VOID:
        fail(decl.name_span, f"function '{decl.name}' can end without returning a value of type '{result.name}'")
    merge.add(VOID_VALUE, span)
    return merge.finish()


# ------------------------------------------------------------------------------------------ run-time instances


@dataclass(frozen=True, slots=True)
class RegParam:
    """A parameter (or field of one) that arrives in a register: the scalar, or the address of an aggregate."""

    type: t.Type


@dataclass(frozen=True, slots=True)
class AggParam:
    """A struct literal that arrives field by field."""

    type: t.StructType
    fields: tuple[Plan, ...]


Plan = Const | RegParam | AggParam


@dataclass(eq=False, slots=True)
class FnInstance:
    """A function specialised for the types of its parameters and the values of its comptime parameters."""

    name: str
    function: FnValue
    params: tuple[Plan, ...]
    result: t.Type
    address_taken: frozenset[str]
    origin: ast.Span
    #: whose code holds the call at `origin`; None for top-level code
    asked_by: FnInstance | None = field(default=None)
    lowered: ir.Function | None = field(default=None)
    #: False while only folded calls ask for it: analysed for its errors, but no code of the program
    is_needed: bool = False
    #: what it calls, as long as it is not needed itself
    asks_for: list[FnInstance] = field(default_factory=list)

    def need(self) -> None:
        """Make it, and what it calls, part of the program."""
        if not self.is_needed:
            self.is_needed = True
            for other in self.asks_for:
                other.need()

    def scalars(self) -> tuple[ir.ScalarType, ...]:
        """Types of the registers its arguments arrive in."""
        found: list[ir.ScalarType] = []
        if t.scalar_type(self.result) is None and self.result != t.VOID:
            found.append(ir.U16)
        for plan in self.params:
            found += _plan_scalars(plan)
        return tuple(found)


def _plan(value: Value, is_comptime: bool) -> Plan:
    if isinstance(value, Const) and (is_comptime or value.type.is_comptime_only or value.type == t.VOID):
        return value
    if isinstance(value, Agg) and t.scalar_type(value.type) is None:
        return AggParam(value.type, tuple(_plan(part, isinstance(part, Const)) for part in value.fields))
    return RegParam(value.type)


def _plan_key(plan: Plan) -> Hashable:
    if isinstance(plan, Const):
        return ("const", const_key(plan))
    if isinstance(plan, AggParam):
        return ("agg", plan.type, tuple(_plan_key(part) for part in plan.fields))
    return plan.type


def _plan_scalars(plan: Plan) -> list[ir.ScalarType]:
    if isinstance(plan, Const):
        return []
    if isinstance(plan, AggParam):
        return [scalar for part in plan.fields for scalar in _plan_scalars(part)]
    return [t.scalar_type(plan.type) or ir.U16]


def _plan_operands(frame: Frame, plan: Plan, value: Value, span: ast.Span) -> list[ir.Operand]:
    if isinstance(plan, Const):
        return []
    if isinstance(plan, AggParam):
        assert isinstance(value, Agg)
        return [
            operand
            for part, item in zip(plan.fields, value.fields, strict=True)
            for operand in _plan_operands(frame, part, item, span)
        ]
    return _flatten(frame, value, span)


def _flatten(frame: Frame, value: Value, span: ast.Span) -> list[ir.Operand]:
    if value.type == t.VOID:
        return []
    if t.scalar_type(value.type) is None:
        return [lower.address(frame, value, span)]
    return [lower.operand(frame, value, span)]


def _instance(
    unit: Unit,
    function: FnValue,
    values: Sequence[Value],
    result: t.Type,
    found: Signature,
    span: ast.Span,
    *,
    folded: bool = False,
) -> FnInstance:
    decl = function.decl
    plans = tuple(_plan(value, param.is_comptime) for param, value in zip(decl.params, values, strict=True))
    instance = request(unit, function, plans, result, found, span)
    if not folded:
        _use(unit, instance)
    return instance


def _use(unit: Unit, instance: FnInstance) -> None:
    """Note that the function being lowered, or the program itself, needs an instance."""
    user = unit.lowering
    if user is None or user.is_needed:
        instance.need()
    else:
        user.asks_for.append(instance)


def request(
    unit: Unit, function: FnValue, plans: tuple[Plan, ...], result: t.Type, found: Signature, span: ast.Span
) -> FnInstance:
    """The instance for these parameters, queued for lowering if it is new."""
    if function.decl.storage == "extern":
        function, found = _definition(unit, function, span)
    key = (id(function.module), id(function.decl), tuple(_plan_key(plan) for plan in plans), result)
    existing = unit.functions.get(key)
    if existing is not None:
        return existing
    decl = function.decl
    base = decl.name if decl.storage == "export" else function.module.symbol(decl.name)
    if decl.attributes.linkname is not None:
        base = bytes(function.module.frame().comptime_expr(decl.attributes.linkname).data).decode("utf-8", "replace")
    count = unit.function_names.get(base, 0)
    unit.function_names[base] = count + 1
    name = base if count == 0 else f"{base}${count}"
    instance = FnInstance(name, function, plans, result, found.address_taken, span, unit.lowering)
    if len(unit.functions) >= limits.FUNCTIONS:
        message = f"the program of a PE has more than {limits.FUNCTIONS} functions, instances included"
        fail(span, message, "does a generic function call itself with ever new comptime arguments?")
    unit.functions[key] = instance
    unit.worklist.append(instance)
    return instance


def _definition(unit: Unit, function: FnValue, span: ast.Span) -> tuple[FnValue, Signature]:
    """The `export fn` that an `extern fn` stands for."""
    name = function.decl.name
    for module in unit.instances:
        entry = module.entries.get(name)
        if entry is not None and isinstance(entry.decl, ast.FnDecl) and entry.decl.storage == "export":
            defined = FnValue(module, entry.decl)
            if fn_type(unit, defined) != fn_type(unit, function):
                fail(span, f"extern function '{name}' is defined with type '{fn_type(unit, defined).name}'")
            return defined, signature(unit, defined)
    fail(span, f"undefined symbol '{name}': no module exports this function")


def runtime_instance(unit: Unit, function: FnValue, span: ast.Span) -> FnInstance:
    """The one instance of a function that is not generic: for tasks, exports and function pointers."""
    found = signature(unit, function)
    decl = function.decl
    if found.is_generic or found.result is None:
        fail(span, f"generic function '{decl.name}' has no address", "wrap it in a function with fixed types")
    if decl.is_inline:
        fail(span, f"inline function '{decl.name}' has no address")
    plans: list[Plan] = []
    for type_, param in zip(found.params, decl.params, strict=True):
        assert type_ is not None
        lower.check_runtime_type(function.module.frame(), type_, param.span)
        plans.append(RegParam(type_))
    instance = request(unit, function, tuple(plans), found.result, found, span)
    _use(unit, instance)
    return instance


def lower_instance(unit: Unit, instance: FnInstance) -> None:
    """Analyse the body of an instance and build its IR."""
    decl = instance.function.decl
    if decl.body is not None:
        unit.session.translate(instance.origin, limits.translation_steps(decl.body))
    unit.lowering = instance
    try:
        _lower(unit, instance)
    except CslError as problem:
        raise _asked_for(unit, problem, instance) from None
    finally:
        unit.lowering = None


def _asked_for(unit: Unit, problem: CslError, instance: FnInstance) -> CslError:
    """The same errors with the calls that asked for an instance: what is wrong with a generic or library function is
    often the call, and if that stands in such a function too, the call of that one."""
    asker: FnInstance | None = instance
    while asker is not None:
        decl = asker.function.decl
        if not (signature(unit, asker.function).is_generic or decl.span.file.is_system):
            break
        problem = called_from(problem, decl.name, asker.origin)
        asker = asker.asked_by
    return problem


def _lower(unit: Unit, instance: FnInstance) -> None:
    decl = instance.function.decl
    if decl.body is None:
        fail(decl.name_span, f"function '{decl.name}' has no body")
    code = FnBuilder()
    activation = Activation(decl.name, instance.result, instance.address_taken, is_runtime=True)
    frame = Frame(unit, instance.function.module, builder=code, comptime=False, activation=activation)
    code.loc = unit.location(decl.name_span)
    lower.check_runtime_result(frame, instance.result, decl.result.span)
    scalar = t.scalar_type(instance.result)
    if scalar is None and instance.result != t.VOID:
        activation.result_address = code.register(ir.U16)
    arrived = [_arrive(code, plan) for plan in instance.params]
    param_count = len(code.registers)
    for param, value in zip(decl.params, arrived, strict=True):
        if param.name is not None:
            lower.bind_value(frame, param.name, value, param.span)
    run_statements(frame, decl.body.stmts)
    if code.is_live:
        if instance.result != t.VOID:
            fail(
                decl.name_span,
                f"function '{decl.name}' can end without returning a value of type '{instance.result.name}'",
            )
        code.terminate(ir.Ret(code.loc, None))
    instance.lowered = ir.Function(
        instance.name,
        decl.kind,
        param_count,
        scalar,
        code.registers,
        code.finish(),
        t.align_up(code.frame_size, 4),
        unit.location(decl.name_span),
    )


def _arrive(code: FnBuilder, plan: Plan) -> Value:
    if isinstance(plan, Const):
        return plan
    if isinstance(plan, AggParam):
        return Agg(plan.type, tuple(_arrive(code, part) for part in plan.fields))
    return Rt(plan.type, code.register(t.scalar_type(plan.type) or ir.U16))


def invoke_signature(frame: Frame, function: FnValue, values: Sequence[Value], span: ast.Span) -> FnInstance:
    """The run-time instance that a call with these argument values would use (`@map`)."""
    found = signature(frame.unit, function)
    inner = Frame(frame.unit, function.module, activation=Activation("", is_runtime=True))
    bound: list[Value] = []
    for param, type_, value in zip(function.decl.params, found.params, values, strict=True):
        if type_ is None and param.type_expr is not None:
            type_ = inner.type_expr(param.type_expr)
        bound.append(value if type_ is None else Rt(type_, ir.Imm(0)))
        if param.name is not None:
            inner.declare(param.name, bound[-1], param.span)
    result = found.result if found.result is not None else inner.type_expr(function.decl.result)
    if function.decl.is_inline:
        fail(span, f"inline function '{function.decl.name}' can't be mapped")
    return _instance(frame.unit, function, bound, result, found, span)
