"""`for` and `while`: executed at comptime, unrolled when `inline`, emitted at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema import access, components, limits, lower, places
from fabrica_bench.csl.sema.control import Target, check_label
from fabrica_bench.csl.sema.dispatch import statement
from fabrica_bench.csl.sema.errors import fail, truth_hint
from fabrica_bench.csl.sema.frame import BreakSignal, ContinueSignal, Frame, Scope
from fabrica_bench.csl.values import Const, Rt, Value, int_value


class RangeParts(NamedTuple):
    """A range whose bounds may be known at run time only. `type` is the type of its items."""

    type: t.Type
    start: Value
    stop: Value
    step: Value


def range_parts(frame: Frame, node: ast.BuiltinCall) -> RangeParts:
    """The arguments of `@range(T, stop)` or `@range(T, start, stop, step)`."""
    if len(node.args) not in (2, 4):
        fail(node.span, f"@range takes 2 or 4 arguments, got {len(node.args)}", "@range(T, start, stop, step)")
    type_ = frame.type_expr(node.args[0])
    if not t.is_integer(type_):
        fail(node.args[0].span, f"a range must be over integers, got: '{type_.name}'")
    given = [frame.coerce(frame.expr(arg, type_), type_, arg.span) for arg in node.args[1:]]
    start, step = Const(type_, 0), Const(type_, 1)
    if len(given) == 1:
        return RangeParts(type_, start, given[0], step)
    if isinstance(given[2], Const) and given[2].data == 0:
        fail(node.args[3].span, "the step of a range can't be zero")
    return RangeParts(type_, *given)


@statement(ast.For)
def run_for(frame: Frame, node: ast.For) -> None:
    check_label(frame, node.label, node.span)
    iterable = node.iterable
    if isinstance(iterable, ast.BuiltinCall) and iterable.name == "range":
        parts = range_parts(frame, iterable)
        known = all(isinstance(part, Const) for part in parts[1:])
        if frame.comptime or node.is_inline:
            if not known:
                fail(iterable.span, "the bounds of this loop must be comptime-known")
            start, stop, step = (part.data for part in parts[1:] if isinstance(part, Const))
            _known_loop(frame, node, (Const(parts.type, number) for number in range(start, stop, step)))
        else:
            _range_loop(frame, node, parts)
        return
    place = places.place_of(frame, iterable)
    type_ = place.type
    if isinstance(type_, t.RangeType):
        value = access.load(frame, place, iterable.span)
        if not isinstance(value, Const):
            fail(iterable.span, "a run-time range can only be used directly in 'for'")
        if frame.comptime or node.is_inline:
            items = (Const(type_.element, number) for number in range(*value.data))
            _known_loop(frame, node, items)
        else:
            _range_loop(frame, node, RangeParts(type_.element, *(Const(type_.element, part) for part in value.data)))
        return
    if isinstance(type_, t.PointerType) and isinstance(type_.pointee, t.ArrayType):
        place = components.deref_place(frame, access.load(frame, place, iterable.span), iterable.span)
        type_ = place.type
    if not isinstance(type_, t.ArrayType):
        fail(iterable.span, f"cannot iterate over a value of type '{type_.name}'", "use an array or @range(T, n)")
    if frame.comptime or node.is_inline:
        _known_array_loop(frame, node, place, type_)
    else:
        _array_loop(frame, node, place, type_)


# ------------------------------------------------------------------------------------------- known iterations


def _known_array_loop(frame: Frame, node: ast.For, place: places.Place, type_: t.ArrayType) -> None:
    if frame.comptime:
        value = access.load(frame, place, node.iterable.span)
        assert isinstance(value, Const)
        _known_loop(frame, node, (Const(type_.element, item) for item in value.data))
        return

    def items() -> Iterator[Value]:
        for position in range(type_.count):
            element = components.element_place(frame, place, type_, position, node.iterable.span)
            yield access.load(frame, element, node.iterable.span)

    _known_loop(frame, node, items())


def _known_loop(frame: Frame, node: ast.For, items: Iterator[Value]) -> None:
    if frame.comptime:
        _comptime_loop(frame, node, items)
    else:
        _unrolled_loop(frame, node, items)


def _bind(frame: Frame, node: ast.For, item: Value, index: Value) -> None:
    lower.bind_value(frame, node.item, item, node.span)
    if node.index is not None:
        lower.bind_value(frame, node.index, index, node.span)


def _comptime_loop(frame: Frame, node: ast.For, items: Iterator[Value]) -> None:
    target = Target(node.label, is_loop=True, is_comptime=True)
    frame.activation.targets.append(target)
    saved = frame.scope
    steps = limits.code_steps(node)
    try:
        for count, item in enumerate(items):
            frame.unit.session.step(node.span, steps)
            frame.scope = Scope(saved)
            _bind(frame, node, item, int_value(count))
            try:
                frame.execute(node.body)
            except ContinueSignal as signal:
                if signal.target is not target:
                    raise
    except BreakSignal as signal:
        if signal.target is not target:
            raise
    finally:
        frame.scope = saved
        frame.activation.targets.pop()


def _unrolled_loop(frame: Frame, node: ast.For, items: Iterator[Value]) -> None:
    code = frame.code(node.span)
    target = Target(node.label, is_loop=True, is_comptime=False, break_block=code.new_block())
    frame.activation.targets.append(target)
    saved = frame.scope
    for count, item in enumerate(items):
        check_inlined(frame, count, node)
        target.continue_block = code.new_block()
        frame.scope = Scope(saved)
        _bind(frame, node, item, int_value(count))
        frame.execute(node.body)
        code.jump(target.continue_block)
        code.enter(target.continue_block)
        if not code.is_live:
            break
    frame.scope = saved
    frame.activation.targets.pop()
    code.jump(target.break_block)
    code.enter(target.break_block)


def check_inlined(frame: Frame, count: int, node: ast.For | ast.While) -> None:
    limit = frame.unit.session.options.max_inlined_iterations
    span = node.span
    frame.unit.session.step(span, limits.code_steps(node))
    if count >= limit:
        fail(span, f"exceeded the maximum of {limit} inlined iterations", "raise --max-inlined-iterations")


# --------------------------------------------------------------------------------------------- run-time loops


def _range_loop(frame: Frame, node: ast.For, parts: RangeParts) -> None:
    span = node.iterable.span
    lower.check_runtime_type(frame, parts.type, span)
    counter_type = _counter_type(parts)
    scalar = t.scalar_type(counter_type)
    assert scalar is not None
    code = frame.code(node.span)
    start, stop, step = (
        lower.operand(frame, lower.copy_to_register(frame, _widen(frame, part, counter_type, span), span), span)
        for part in parts[1:]
    )
    counter = code.register(scalar, is_variable=True)
    code.emit(ir.Move(0, counter, start))

    def condition() -> ir.Operand:
        if isinstance(parts.step, Const):
            return _compare(frame, "lt" if parts.step.data > 0 else "gt", scalar, counter, stop)
        return _two_way_condition(frame, scalar, counter, stop, step)

    def item() -> Value:
        if counter_type == parts.type:
            return Rt(parts.type, counter)
        from fabrica_bench.csl.sema.coerce import cast

        return cast(frame, Rt(counter_type, counter), parts.type, span)

    def advance() -> None:
        code.emit(ir.Bin(0, counter, "add", scalar, counter, step))

    _emit_loop(frame, node, condition, item, advance)


def _counter_type(parts: RangeParts) -> t.Type:
    """The item type, or a wider one if the counter would step over the end of its range."""
    assert isinstance(parts.type, t.IntType)
    if isinstance(parts.step, Const) and isinstance(parts.stop, Const):
        step, stop = parts.step.data, parts.stop.data
        last = stop + step - 1 if step > 0 else stop + step + 1
        if not parts.type.fits(last):
            return t.IntType(min(parts.type.bits * 2, 64), True) if parts.type.bits < 64 else parts.type
    return parts.type


def _widen(frame: Frame, value: Value, type_: t.Type, span: ast.Span) -> Value:
    if isinstance(value, Const):
        return Const(type_, value.data)
    if value.type == type_:
        return value
    from fabrica_bench.csl.sema.coerce import cast

    return cast(frame, value, type_, span)


def _compare(frame: Frame, op: ir.CmpOp, scalar: ir.ScalarType, a: ir.Operand, b: ir.Operand) -> ir.Reg:
    assert frame.builder is not None
    dst = frame.builder.register(ir.BOOL)
    frame.builder.emit(ir.Cmp(0, dst, op, scalar, a, b))
    return dst


def _two_way_condition(
    frame: Frame, scalar: ir.ScalarType, counter: ir.Operand, stop: ir.Operand, step: ir.Operand
) -> ir.Operand:
    """Whether to go on when the sign of the step is only known at run time."""
    code = frame.builder
    assert code is not None
    up = _compare(frame, "gt", scalar, step, ir.Imm(0))
    below = _compare(frame, "lt", scalar, counter, stop)
    above = _compare(frame, "gt", scalar, counter, stop)
    down, a, b, either = (code.register(ir.BOOL) for _ in range(4))
    code.emit(ir.Not(0, down, ir.BOOL, up))
    code.emit(ir.Bin(0, a, "and", ir.BOOL, up, below))
    code.emit(ir.Bin(0, b, "and", ir.BOOL, down, above))
    code.emit(ir.Bin(0, either, "or", ir.BOOL, a, b))
    return either


def _array_loop(frame: Frame, node: ast.For, place: places.Place, type_: t.ArrayType) -> None:
    code = frame.code(node.span)
    counter = code.register(ir.U16, is_variable=True)
    code.emit(ir.Move(0, counter, ir.Imm(0)))
    if isinstance(place, places.ValuePlace) and isinstance(place.value, Const):
        variable = frame.unit.constant(type_, place.value.data)
        place = places.GlobalPlace(type_, variable, 0, True)

    def condition() -> ir.Operand:
        return _compare(frame, "lt", ir.U16, counter, ir.Imm(type_.count))

    def item() -> Value:
        element = components.element_place(frame, place, type_, counter, node.iterable.span)
        return access.load(frame, element, node.iterable.span)

    def advance() -> None:
        code.emit(ir.Bin(0, counter, "add", ir.U16, counter, ir.Imm(1)))

    _emit_loop(frame, node, condition, item, advance, counter)


def _emit_loop(
    frame: Frame,
    node: ast.For,
    condition: Callable[[], ir.Operand],
    item: Callable[[], Value],
    advance: Callable[[], None],
    counter: ir.Reg | None = None,
) -> None:
    """A counted loop; `condition`, `item` and `advance` emit their code where they are called."""
    code = frame.code(node.span)
    head, body, step, end = (code.new_block() for _ in range(4))
    index = counter
    if node.index is not None and index is None:
        index = code.register(ir.U16, is_variable=True)
        code.emit(ir.Move(0, index, ir.Imm(0)))
    code.jump(head)
    code.enter(head)
    code.terminate(ir.Branch(0, condition(), body, end))
    code.enter(body)
    target = Target(node.label, is_loop=True, is_comptime=False, break_block=end, continue_block=step)
    frame.activation.targets.append(target)
    saved, frame.scope = frame.scope, Scope(frame.scope)
    frame.depth += 1
    lower.bind_value(frame, node.item, item(), node.span)
    if node.index is not None and index is not None:
        lower.bind_value(frame, node.index, Rt(t.U16, index), node.span)
    frame.execute(node.body)
    frame.depth -= 1
    frame.scope = saved
    frame.activation.targets.pop()
    code = frame.code(node.span)
    code.jump(step)
    code.enter(step)
    advance()
    if index is not None and index is not counter:
        code.emit(ir.Bin(0, index, "add", ir.U16, index, ir.Imm(1)))
    code.jump(head)
    code.enter(end)


# ----------------------------------------------------------------------------------------------------- while


@statement(ast.While)
def run_while(frame: Frame, node: ast.While) -> None:
    check_label(frame, node.label, node.span)
    if frame.comptime:
        _comptime_while(frame, node)
    elif node.is_inline:
        _unrolled_while(frame, node)
    else:
        _runtime_while(frame, node)


def _condition(frame: Frame, node: ast.While) -> Value:
    value = frame.expr(node.cond, t.BOOL)
    if value.type != t.BOOL:
        message = f"the condition of 'while' must be of type 'bool', got: '{value.type.name}'"
        fail(node.cond.span, message, truth_hint(value.type))
    return value


def _comptime_while(frame: Frame, node: ast.While) -> None:
    target = Target(node.label, is_loop=True, is_comptime=True)
    frame.activation.targets.append(target)
    steps = limits.code_steps(node)
    try:
        while True:
            frame.unit.session.step(node.span, steps)
            cond = _condition(frame, node)
            if not isinstance(cond, Const):
                fail(node.cond.span, "expected a comptime-known value", "the value depends on run-time data")
            if not cond.data:
                break
            try:
                frame.execute(node.body)
            except ContinueSignal as signal:
                if signal.target is not target:
                    raise
            if node.step is not None:
                frame.execute(node.step)
    except BreakSignal as signal:
        if signal.target is not target:
            raise
    finally:
        frame.activation.targets.pop()


def _unrolled_while(frame: Frame, node: ast.While) -> None:
    code = frame.code(node.span)
    target = Target(node.label, is_loop=True, is_comptime=False, break_block=code.new_block())
    frame.activation.targets.append(target)
    count = 0
    while code.is_live:
        cond = _condition(frame, node)
        if not isinstance(cond, Const):
            fail(node.cond.span, "the condition of an inline loop must be comptime-known")
        if not cond.data:
            break
        check_inlined(frame, count, node)
        count += 1
        target.continue_block = code.new_block()
        frame.execute(node.body)
        code.jump(target.continue_block)
        code.enter(target.continue_block)
        if node.step is not None and code.is_live:
            frame.execute(node.step)
    frame.activation.targets.pop()
    code.jump(target.break_block)
    code.enter(target.break_block)


def _runtime_while(frame: Frame, node: ast.While) -> None:
    code = frame.code(node.span)
    head, body, step, end = (code.new_block() for _ in range(4))
    code.jump(head)
    code.enter(head)
    frame.depth += 1
    cond = _condition(frame, node)
    code = frame.code(node.span)
    if isinstance(cond, Const):
        code.jump(body if cond.data else end)
    else:
        code.terminate(ir.Branch(0, frame.operand(cond, node.cond.span), body, end))
    code.enter(body)
    if code.is_live:
        target = Target(node.label, is_loop=True, is_comptime=False, break_block=end, continue_block=step)
        frame.activation.targets.append(target)
        frame.execute(node.body)
        frame.activation.targets.pop()
        code.jump(step)
        code.enter(step)
        if node.step is not None and code.is_live:
            frame.execute(node.step)
        code.jump(head)
    frame.depth -= 1
    code.enter(end)
