"""Blocks, `if`, `switch`, `break`, `continue` and `return`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.diagnostics import CslError, Diagnostic
from fabrica_bench.csl.sema import limits, lower
from fabrica_bench.csl.sema.coerce import coerce, peer_type
from fabrica_bench.csl.sema.dispatch import STATEMENTS, expression, statement
from fabrica_bench.csl.sema.errors import fail, truth_hint
from fabrica_bench.csl.sema.frame import BreakSignal, ContinueSignal, Frame, ReturnSignal, Scope
from fabrica_bench.csl.values import UNKNOWN, VOID_VALUE, Const, Rt, Value, const_key

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.builder import FnBuilder


class Merge:
    """Joins the values of several run-time paths (`if` arms, `break :label v`, returns of inline functions)."""

    def __init__(self, frame: Frame, hint: t.Type | None, span: ast.Span) -> None:
        self.frame = frame
        self.hint = hint
        self.span = span
        self.exit = frame.code(span).new_block()
        self.arms: list[tuple[Value, int, ast.Span]] = []

    def add(self, value: Value, span: ast.Span) -> None:
        """The current path ends here with `value`."""
        code = self.frame.code(span)
        if code.is_live:
            self.arms.append((value, code.current, span))
            code.jump(self.exit)

    def finish(self) -> Value:
        """Continue where all paths meet; the value they brought."""
        code = self.frame.code(self.span)
        code.enter(self.exit)
        values = [value for value, _, _ in self.arms]
        if not values or all(value.type == t.VOID for value in values):
            return VOID_VALUE
        if len(values) == 1:
            return values[0]
        first = values[0]
        if isinstance(first, Const) and all(
            isinstance(value, Const) and const_key(value) == const_key(first) for value in values
        ):
            return first
        return self._join(code, self._type(values))

    def _type(self, values: Sequence[Value]) -> t.Type:
        try:
            found = peer_type(self.frame, values, self.span)
        except CslError:
            if self.hint is None or self.hint == t.COMPTIME_STRUCT:
                raise
            return self.hint
        if found.is_comptime_only and self.hint is not None:
            return self.hint
        return found

    def _join(self, code: FnBuilder, type_: t.Type) -> Value:
        lower.check_runtime_type(self.frame, type_, self.span)
        scalar = t.scalar_type(type_)
        result = code.register(scalar) if scalar is not None else None
        slot = 0 if scalar is not None else code.frame_slot(t.size_of(type_), t.align_of(type_))
        for value, block, span in self.arms:
            terminator = code.insert_before_jump(block)
            moved = coerce(self.frame, value, type_, span)
            if result is not None:
                code.emit(ir.Move(0, result, lower.operand(self.frame, moved, span)))
            else:
                base = code.register(ir.U16)
                code.emit(ir.FrameAddr(0, base, slot))
                lower.store(self.frame, base, 0, type_, moved, span)
            code.close(terminator)
        code.enter(self.exit)
        if result is None:
            result = code.register(ir.U16)
            code.emit(ir.FrameAddr(0, result, slot))
        return Rt(type_, result)


@dataclass(eq=False, slots=True)
class Target:
    """What `break`, `continue` or the `return` of an inline function jumps to."""

    label: str | None
    is_loop: bool
    is_comptime: bool
    merge: Merge | None = None
    break_block: int = -1
    continue_block: int = -1


# ---------------------------------------------------------------------------------------------------- blocks


def run_statements(frame: Frame, stmts: Sequence[ast.Stmt]) -> None:
    """Statements in a scope of their own; what can't be reached at run time is not analysed.

    After an error in run-time code the following statements are still looked at; all errors are raised at the end.
    """
    saved = frame.scope
    frame.scope = Scope(saved)
    try:
        if frame.comptime:
            step = frame.unit.session.step
            for stmt in stmts:
                step(stmt.span)
                STATEMENTS[type(stmt)](frame, stmt)
        else:
            _run_all(frame, stmts)
    finally:
        frame.scope = saved


def run_independent(frame: Frame, stmts: Sequence[ast.Stmt]) -> None:
    """The statements of a top-level comptime or layout block: as `run_statements`, going on after an error."""
    saved = frame.scope
    frame.scope = Scope(saved)
    try:
        _run_all(frame, stmts)
    finally:
        frame.scope = saved


def _run_all(frame: Frame, stmts: Sequence[ast.Stmt]) -> None:
    errors: list[Diagnostic] = []
    failed = False
    scope, depth, target_count = frame.scope, frame.depth, len(frame.activation.targets)
    for stmt in stmts:
        if not frame.comptime and not frame.code(stmt.span).is_live:
            break
        try:
            STATEMENTS[type(stmt)](frame, stmt)
        except CslError as problem:
            errors += problem.diagnostics
            failed = True
            if _ends_here(frame, stmt) or len(errors) >= limits.ERRORS:
                break
            frame.scope, frame.depth = scope, depth
            del frame.activation.targets[target_count:]
            if isinstance(stmt, ast.VarDecl):
                scope.names.setdefault(stmt.name, UNKNOWN)
            if not frame.comptime:
                frame.code(stmt.span).revive()
    if failed:
        raise CslError(errors)


def _ends_here(frame: Frame, stmt: ast.Stmt) -> bool:
    """Whether nothing after a faulty statement is worth a look."""
    if isinstance(stmt, ast.Return | ast.Break | ast.Continue):
        return True
    layout = frame.unit.layout
    return frame.comptime and layout is not None and not layout.width


def check_label(frame: Frame, label: str | None, span: ast.Span) -> None:
    if label is not None and any(target.label == label for target in frame.activation.targets):
        fail(span, f"redefinition of label '{label}'")


@expression(ast.Block)
def block(frame: Frame, node: ast.Block, hint: t.Type | None) -> Value:
    if node.label is None:
        run_statements(frame, node.stmts)
        return VOID_VALUE
    return labelled(frame, node.label, node.span, hint, lambda: run_statements(frame, node.stmts))


def labelled(frame: Frame, label: str, span: ast.Span, hint: t.Type | None, body: Any) -> Value:
    """Run `body` as the block called `label`; the value that its breaks give."""
    check_label(frame, label, span)
    target = Target(label, is_loop=False, is_comptime=frame.comptime)
    targets = frame.activation.targets
    if not frame.comptime:
        target.merge = Merge(frame, hint, span)
    targets.append(target)
    try:
        body()
    except BreakSignal as signal:
        if signal.target is not target:
            raise
        return signal.value
    finally:
        targets.pop()
    if target.merge is None:
        return VOID_VALUE
    target.merge.add(VOID_VALUE, span)
    return _checked(target.merge)


def _checked(merge: Merge) -> Value:
    voids = [span for value, _, span in merge.arms if value.type == t.VOID]
    if voids and len(voids) < len(merge.arms):
        other = next(value.type.name for value, _, _ in merge.arms if value.type != t.VOID)
        fail(merge.span, f"expected type '{other}', got: 'void'", "control can reach the end of the block")
    return merge.finish()


def branch_value(frame: Frame, node: ast.Expr | ast.Stmt, hint: t.Type | None, discard: bool) -> Value:
    """Analyse an `if` arm or `switch` case."""
    if isinstance(node, ast.Expr) and not discard:
        return frame.expr(node, hint)
    frame.execute(node)
    return VOID_VALUE


# ------------------------------------------------------------------------------------------------------- if


@expression(ast.If)
def if_expression(frame: Frame, node: ast.If, hint: t.Type | None) -> Value:
    return run_if(frame, node, hint, discard=False)


@statement(ast.If)
def if_statement(frame: Frame, node: ast.If) -> None:
    run_if(frame, node, None, discard=True)


def run_if(frame: Frame, node: ast.If, hint: t.Type | None, *, discard: bool) -> Value:
    """`if`: a comptime-known condition prunes the other arm."""
    if node.label is not None:
        return labelled(frame, node.label, node.span, hint, lambda: _if(frame, node, hint, discard))
    return _if(frame, node, hint, discard)


def _if(frame: Frame, node: ast.If, hint: t.Type | None, discard: bool) -> Value:
    cond = frame.expr(node.cond, t.BOOL)
    if cond.type != t.BOOL:
        message = f"the condition of 'if' must be of type 'bool', got: '{cond.type.name}'"
        fail(node.cond.span, message, truth_hint(cond.type))
    if isinstance(cond, Const):
        taken = node.then if cond.data else node.otherwise
        return VOID_VALUE if taken is None else branch_value(frame, taken, hint, discard)
    code = frame.code(node.span)
    merge = Merge(frame, hint, node.span)
    then = code.new_block()
    otherwise = merge.exit if node.otherwise is None and discard else code.new_block()
    code.terminate(ir.Branch(0, frame.operand(cond, node.cond.span), then, otherwise))
    frame.depth += 1
    code.enter(then)
    merge.add(branch_value(frame, node.then, hint, discard), node.then.span)
    if otherwise != merge.exit:
        code.enter(otherwise)
        last = VOID_VALUE if node.otherwise is None else branch_value(frame, node.otherwise, hint, discard)
        merge.add(last, node.span if node.otherwise is None else node.otherwise.span)
    frame.depth -= 1
    if not discard:
        return _checked(merge)
    code.enter(merge.exit)
    return VOID_VALUE


# --------------------------------------------------------------------------------------------------- switch


@expression(ast.Switch)
def switch_expression(frame: Frame, node: ast.Switch, hint: t.Type | None) -> Value:
    return _switch(frame, node, hint, discard=False)


@statement(ast.Switch)
def switch_statement(frame: Frame, node: ast.Switch) -> None:
    _switch(frame, node, None, discard=True)


def _switch(frame: Frame, node: ast.Switch, hint: t.Type | None, *, discard: bool) -> Value:
    value = frame.expr(node.value)
    type_ = value.type
    if not (t.is_integer(type_) or isinstance(type_, t.EnumType)):
        fail(node.value.span, f"cannot switch on a value of type '{type_.name}'")
    table, default = _case_table(frame, node, type_)
    if isinstance(value, Const):
        chosen = table.get(value.data, default)
        if chosen is None:
            fail(node.span, f"no case of the switch matches {value.data}", "add an else case")
        return branch_value(frame, chosen.body, hint, discard)
    _check_exhaustive(node, type_, table, default)
    return _emit_switch(frame, node, value, table, default, hint, discard)


def _case_table(
    frame: Frame, node: ast.Switch, type_: t.Type
) -> tuple[dict[int, ast.SwitchCase], ast.SwitchCase | None]:
    table: dict[int, ast.SwitchCase] = {}
    default: ast.SwitchCase | None = None
    for case in node.cases:
        if not case.values:
            if default is not None:
                fail(case.span, "a switch has only one else case")
            default = case
        for item in case.values:
            found = coerce(frame, frame.comptime_expr(item, type_), type_, item.span)
            assert isinstance(found, Const)
            if found.data in table:
                fail(item.span, "duplicate switch case", "each value may appear once")
            table[found.data] = case
    return table, default


def _check_exhaustive(
    node: ast.Switch, type_: t.Type, table: dict[int, ast.SwitchCase], default: ast.SwitchCase | None
) -> None:
    if default is not None:
        return
    if isinstance(type_, t.EnumType):
        missing = [name for name, value in type_.members if value not in table]
        if missing:
            fail(node.span, f"switch does not handle '{missing[0]}'", "add the missing cases or an else case")
    elif isinstance(type_, t.IntType) and len(table) < 1 << type_.bits:
        fail(node.span, f"switch does not handle all values of '{type_.name}'", "add an else case")


def _emit_switch(
    frame: Frame,
    node: ast.Switch,
    value: Value,
    table: dict[int, ast.SwitchCase],
    default: ast.SwitchCase | None,
    hint: t.Type | None,
    discard: bool,
) -> Value:
    code = frame.code(node.span)
    merge = Merge(frame, hint, node.span)
    blocks = {id(case): code.new_block() for case in node.cases}
    fallback = blocks[id(default)] if default is not None else code.new_block()
    pairs = tuple((number, blocks[id(case)]) for number, case in table.items())
    code.terminate(ir.SwitchInt(0, frame.operand(value, node.value.span), pairs, fallback))
    frame.depth += 1
    for case in node.cases:
        code.enter(blocks[id(case)])
        merge.add(branch_value(frame, case.body, hint, discard), case.span)
    frame.depth -= 1
    if default is None:
        code.enter(fallback)
        code.terminate(ir.Unreachable(0, "no case of the switch matches the value"))
    if not discard:
        return _checked(merge)
    code.enter(merge.exit)
    return VOID_VALUE


# ------------------------------------------------------------------------------------ break, continue, return


def _find_target(frame: Frame, label: str | None, word: str, span: ast.Span) -> Target:
    for target in reversed(frame.activation.targets):
        if (target.label == label) if label is not None else target.is_loop:
            if frame.comptime != target.is_comptime:
                fail(span, f"'{word}' can't leave comptime code for a run-time target")
            return target
    if label is not None:
        fail(span, f"label '{label}' does not exist here")
    hint = "the case of a switch ends by itself; to leave a block, label it: break :label" if word == "break" else None
    fail(span, f"'{word}' outside of a loop", hint)


@statement(ast.Break)
def run_break(frame: Frame, node: ast.Break) -> None:
    target = _find_target(frame, node.label, "break", node.span)
    if node.value is not None and target.is_loop:
        fail(node.value.span, "a loop has no value")
    hint = target.merge.hint if target.merge is not None else None
    value = VOID_VALUE if node.value is None else frame.expr(node.value, hint)
    if target.is_comptime:
        raise BreakSignal(target, value)
    if target.merge is not None:
        target.merge.add(value, node.span)
    else:
        frame.code(node.span).jump(target.break_block)


@statement(ast.Continue)
def run_continue(frame: Frame, node: ast.Continue) -> None:
    target = _find_target(frame, node.label, "continue", node.span)
    if not target.is_loop:
        fail(node.span, f"'{node.label}' is not a loop")
    if target.is_comptime:
        raise ContinueSignal(target)
    frame.code(node.span).jump(target.continue_block)


@statement(ast.Return)
def run_return(frame: Frame, node: ast.Return) -> None:
    activation = frame.activation
    if frame.comptime and activation.is_runtime:
        fail(node.span, "'return' can't leave a comptime block of a run-time function")
    if not activation.name:
        fail(node.span, "'return' outside of a function")
    value = VOID_VALUE if node.value is None else frame.expr(node.value, activation.result)
    span = node.span if node.value is None else node.value.span
    value = coerce(frame, value, activation.result, span)
    if frame.comptime:
        raise ReturnSignal(value, node.span)
    code = frame.code(node.span)
    if activation.inline_return is not None and activation.inline_return.merge is not None:
        activation.inline_return.merge.add(value, span)
    elif activation.result == t.VOID:
        code.terminate(ir.Ret(0, None))
    elif activation.result_address is not None:
        lower.store(frame, activation.result_address, 0, activation.result, value, span)
        code.terminate(ir.Ret(0, None))
    else:
        code.terminate(ir.Ret(0, lower.operand(frame, value, span)))
