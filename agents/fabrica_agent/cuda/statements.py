"""Translation of statements and declarations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.declarations import Declarations
from fabrica_agent.cuda.mutation import mutation
from fabrica_agent.cuda.pointers import Pointing, moved, now, repoint, restart
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.types import ctype
from fabrica_agent.cuda.values import Closure, Fixed, Opaque, PointerVar, ScalarType
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Assign,
    Body,
    Break,
    Continue,
    Expr,
    For,
    If,
    Load,
    Op,
    Return,
    Stmt,
    Ty,
    Var,
    While,
    assigned,
    names_in,
    own_level,
    walk,
    written_buffers,
)  # fmt: skip


class Counted(NamedTuple):
    """Header of a counted loop: the variable's declaration, its bounds, and the constant step."""

    declared: Cursor
    ty: Ty
    start: Expr
    stop: Expr
    step: int


class ForParts(NamedTuple):
    """The parts of a `for` statement; absent ones are None."""

    init: Cursor | None
    cond: Cursor | None
    step: Cursor | None
    body: Cursor


class Statements(Declarations):
    """Statement half of the translator."""

    def statement(self, cursor: Cursor) -> None:
        """Translate one statement into `out`."""
        kind = cursor.kind.name
        handler = getattr(self, f"_{kind.lower()}", None)
        if handler is None or not (cursor.kind.is_statement() or cursor.kind.is_declaration()):
            if cursor.kind.is_expression():
                self.value(cursor)
                return
            self.fail(f"{kind.lower().replace('_', ' ')} is not understood", cursor)
        handler(cursor)

    def block(self, cursor: Cursor) -> Body:
        """The statements of a branch or loop body."""
        with self.capture() as body:
            self.statement(cursor)
        return tuple(body)

    def _compound_stmt(self, cursor: Cursor) -> None:
        for kid in cu.kids(cursor):
            self.statement(kid)

    def _unexposed_stmt(self, cursor: Cursor) -> None:
        below = cu.kids(cursor)
        if below:
            self.statement(below[-1])

    def _null_stmt(self, cursor: Cursor) -> None:
        return

    def _decl_stmt(self, cursor: Cursor) -> None:
        for kid in cu.kids(cursor):
            if kid.kind.name == "VAR_DECL":
                self.declare(kid)

    # --------------------------------------------------------------------------------------------------- control

    def _if_stmt(self, cursor: Cursor) -> None:
        below = cu.kids(cursor)
        while below and below[0].kind.name in ("DECL_STMT", "VAR_DECL"):
            declaration = below.pop(0)
            self.statement(declaration) if declaration.kind.name == "DECL_STMT" else self.declare(declaration)
        cond = self.condition(below[0])
        known = self.settled(cond)
        if known is not None:
            taken = below[1] if known else (below[2] if len(below) > 2 else None)
            if taken is not None:
                self.statement(taken)
            return
        before = self.pointing()
        then = self.block(below[1])
        self.forget_changes(below[1])
        after = now(before)
        restart(before)
        other = self.block(below[2]) if len(below) > 2 else ()
        if len(below) > 2:
            self.forget_changes(below[2])
        if moved(after):
            cond = self.chosen_by(cond, cursor)
            then, other = self.meet(cond, after, then, other)
        if then:
            self.out.append(If(cond, then, other))
        elif other:
            self.out.append(If(fold.logical_not(cond), other))

    def _for_stmt(self, cursor: Cursor) -> None:
        parts = self._for_parts(cursor)
        if parts.init is not None and parts.init.kind.name != "DECL_STMT":
            self.statement(parts.init)
            parts = parts._replace(init=None)
        self.forget_changes(cursor)
        counted = self._counted(parts)
        if counted is not None and self.counted_loop(parts, counted, cursor):
            return
        if parts.init is not None:
            self.statement(parts.init)
            self.forget_changes(cursor)
        self._while(parts.cond, parts.body, parts.step)
        self.forget_changes(cursor)

    def _for_parts(self, cursor: Cursor) -> ForParts:
        """Assign the children of a `for` to its parts by the position of the two semicolons."""
        below = cu.kids(cursor)
        if len(below) == 4:
            return ForParts(*below)
        depth, semicolons = 0, []
        for token in cursor.get_tokens():
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.spelling, 0)
            if token.spelling == ";" and depth == 1:
                semicolons.append(token.extent.start.offset)
            if len(semicolons) == 2:
                break
        slots: list[Cursor | None] = [None, None, None]
        for kid in below[:-1]:
            at = kid.extent.start.offset
            slots[0 if at < semicolons[0] else 1 if at < semicolons[1] else 2] = kid
        return ForParts(slots[0], slots[1], slots[2], below[-1])

    def _counted(self, parts: ForParts) -> Counted | None:
        """The header as a counted loop, when variable, bounds and step have the usual form."""
        init, cond, step = parts.init, parts.cond, parts.step
        if init is None or cond is None or step is None or init.kind.name != "DECL_STMT":
            return None
        declared = cu.kids(init)
        if len(declared) != 1 or declared[0].kind.name != "VAR_DECL":
            return None
        var, t = declared[0], ctype(declared[0].type)
        if not isinstance(t, ScalarType) or not t.ty.is_int or self._initialiser(var) is None:
            return None
        if var.hash in mutation(parts.body).assigned | mutation(parts.body).addressed:
            return None
        stride = self._stride(step, var)
        if not stride:
            return None
        stop = self._stop(cond, var, stride, t.ty)
        if stop is None:
            return None
        initial = self._initialiser(var)
        assert initial is not None
        start = fold.cast(self.scalar(initial), t.ty)
        return Counted(var, t.ty, start, stop, stride)

    def _stride(self, step: Cursor, var: Cursor) -> int | None:
        step = cu.strip(step)
        below = cu.kids(step)
        if not below or not _is_var(below[0], var):
            return None
        if step.kind.name == "UNARY_OPERATOR":
            return {"++": 1, "--": -1}.get(cu.unary_operator(step)[-2:])
        if step.kind.name == "COMPOUND_ASSIGNMENT_OPERATOR" and cu.binary_operator(step) in ("+=", "-="):
            with self.capture():
                amount = fold.int_value(self.scalar(below[1]))
            return None if amount is None else amount if cu.binary_operator(step) == "+=" else -amount
        if step.kind.name == "BINARY_OPERATOR" and cu.binary_operator(step) == "=":
            sum_ = cu.strip(below[1])
            if sum_.kind.name == "BINARY_OPERATOR" and cu.binary_operator(sum_) in ("+", "-"):
                left, right = cu.kids(sum_)
                if _is_var(left, var):
                    with self.capture():
                        amount = fold.int_value(self.scalar(right))
                    return None if amount is None else amount if cu.binary_operator(sum_) == "+" else -amount
        return None

    def _stop(self, cond: Cursor, var: Cursor, stride: int, ty: Ty) -> Expr | None:
        cond = cu.strip(cond)
        if cond.kind.name != "BINARY_OPERATOR":
            return None
        op, (left, right) = cu.binary_operator(cond), cu.kids(cond)
        if op not in ("<", "<=", ">", ">=", "!="):
            return None
        if not _is_var(left, var):
            left, right = right, left
            op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
        if not _is_var(left, var):
            return None
        with self.capture() as effects:
            bound = self.scalar(right)
        if effects or not bound.ty.is_int:
            return None
        if op == "!=" and abs(stride) != 1:
            return None
        if (stride > 0) != (op in ("<", "<=")) and op != "!=":
            return None
        if not ty.is_signed and stride < 0 and op == ">=":
            return None
        bound = fold.cast(bound, ty)
        delta = {"<=": 1, ">=": -1}.get(op, 0)
        return fold.binary(Op.ADD, bound, fold.const(delta, ty), ty) if delta else bound

    def counted_loop(self, parts: ForParts, head: Counted, cursor: Cursor) -> bool:
        """Emit a `For`; False (and nothing emitted) when the body changes the bound."""
        var = self.loop_variable(head.declared.spelling, head.ty)
        self.frame.bindings[head.declared.hash] = Fixed(var)
        before, length = self.pointing(), len(self.out)
        body = self.looped(lambda: self.block(parts.body), cursor)
        if not _invariant(head.stop, body):
            repoint(before)
            del self.out[length:]
            return False
        self.out.append(For(var.name, head.ty, head.start, head.stop, head.step, body))
        self.forget_changes(cursor)
        return True

    def loop_variable(self, name: str, ty: Ty) -> Var:
        """A variable that only its loop changes; the quote in its name says so."""
        base = self.fresh(name, ty)
        del self.types[base.name]
        self.types[base.name + "'"] = ty
        return Var(base.name + "'", ty)

    def _while_stmt(self, cursor: Cursor) -> None:
        cond, body = cu.kids(cursor)
        self.forget_changes(cursor)
        self._while(cond, body, None)
        self.forget_changes(cursor)

    def _while(self, cond: Cursor | None, body: Cursor, step: Cursor | None) -> None:
        def turn() -> tuple[list[Stmt], Expr, Body, list[Stmt]]:
            with self.capture() as effects:
                test = fold.TRUE if cond is None else self.condition(cond)
            translated = self.block(body)
            self._continued(translated, body)
            with self.capture() as stepping:
                if step is not None:
                    self.value(step)
            return effects, test, translated, stepping

        effects, test, translated, stepping = self.looped(turn, body)
        if effects:
            leave: Body = (*effects, If(fold.logical_not(test), (Break(),)))
            self.out.append(While(fold.TRUE, leave + translated, tuple(stepping)))
        else:
            self.out.append(While(test, translated, tuple(stepping)))

    def _do_stmt(self, cursor: Cursor) -> None:
        body, cond = cu.kids(cursor)
        self.forget_changes(cursor)

        def turn() -> tuple[Body, list[Stmt], Expr]:
            translated = self.block(body)
            self._continued(translated, body)
            with self.capture() as effects:
                test = self.condition(cond)
            return translated, effects, test

        translated, effects, test = turned = self.looped(turn, cursor, ends=_only_turn)
        if _only_turn(turned):
            self.out.extend(translated)
            return
        self.forget_changes(cursor)
        if any(isinstance(s, Continue) for s in own_level(translated)):
            # `continue` goes to the condition, so that is what is computed between two iterations.
            another = self.fresh("another", Ty.BOOL)
            self.out.append(Assign(another.name, fold.TRUE))
            self.out.append(While(another, translated, (*effects, Assign(another.name, test))))
            return
        leave: Body = (*effects, If(fold.logical_not(test), (Break(),)))
        self.out.append(While(fold.TRUE, translated + leave))

    def _continued(self, translated: Body, body: Cursor) -> None:
        """Forget at the end of a turn what is only known where no `continue` has led there."""
        if any(isinstance(s, Continue) for s in own_level(translated)):
            self.forget_changes(body)

    def _break_stmt(self, cursor: Cursor) -> None:
        self.jump(Break())

    def _continue_stmt(self, cursor: Cursor) -> None:
        self.jump(Continue())

    def _return_stmt(self, cursor: Cursor) -> None:
        below = cu.kids(cursor)
        if below:
            value = self.value(below[0])
            if isinstance(self.frame.result, PointerVar):
                self.return_pointer(self.frame.result, value, cursor)
            elif self.frame.result is not None and not isinstance(value, Opaque | Closure):
                self.write(self.frame.result, value, cursor)
        self.jump(Return())

    def _switch_stmt(self, cursor: Cursor) -> None:
        subject = self.save(self.scalar(cu.kids(cursor)[0]), "subject")
        cases: list[_Case] = [_Case()]
        for kid in cu.kids(cu.kids(cursor)[1]):
            statement, labels_here = _labels(kid)
            if labels_here:
                if cases[-1].statements:
                    cases.append(_Case())
                cases[-1].labels += [self.scalar(v) for v in labels_here if v is not None]
                cases[-1].default |= any(v is None for v in labels_here)
            if statement.kind.name != "BREAK_STMT":
                cases[-1].statements.append(statement)
            if statement.kind.name in ("BREAK_STMT", "RETURN_STMT") or _ends_in_break(statement):
                cases[-1].ends = True
                cases.append(_Case())
        used = [(c, _run_on(cases[k:])) for k, c in enumerate(cases) if c.used]
        arms = self.looped(
            lambda: [(None if c.default else c.labels, a) for c, a in self._arms(used)], cursor, jumps=(Break,)
        )
        self._emit_switch(subject, arms)

    def _arms(self, cases: list[tuple[_Case, list[Cursor]]]) -> list[tuple[_Case, Body]]:
        """The arms of a switch; a pointer variable is left with everything that they let it point into."""
        before = self.pointing()
        arms: list[tuple[_Case, Body]] = []
        ends: list[list[Pointing]] = []
        for case, statements in cases:
            restart(before)
            arms.append((case, self._arm(statements)))
            ends.append(now(before))
        self.gather(before, ends)
        return arms

    def _arm(self, statements: list[Cursor]) -> Body:
        body = self._arm_body(statements)
        inside = list(own_level(body))
        if any(isinstance(s, Break) for s in inside) and any(isinstance(s, Continue) for s in inside):
            self.fail("`break` and `continue` inside branches of one switch case are not supported", statements[0])
        for s in statements:
            self.forget_changes(s)
        return body

    def _arm_body(self, statements: list[Cursor]) -> Body:
        with self.capture() as body:
            for s in statements:
                if s.kind.name == "COMPOUND_STMT" and _ends_in_break(s):
                    for inner in cu.kids(s)[:-1]:
                        self.statement(inner)
                else:
                    self.statement(s)
        return tuple(body)

    def _emit_switch(self, subject: Expr, arms: list[tuple[list[Expr] | None, Body]]) -> None:
        chain: Body = next((_left_early(body) for labels, body in arms if labels is None), ())
        for labels, body in reversed(arms):
            if labels is None:
                continue
            cond: Expr = fold.FALSE
            for label in labels:
                cond = fold.logical_or(cond, fold.binary(Op.EQ, subject, fold.cast(label, subject.ty), Ty.BOOL))
            chain = (If(cond, _left_early(body), chain),)
        self.out.extend(chain)


def _only_turn(turned: tuple[Body, list[Stmt], Expr]) -> bool:
    """Whether a `do` loop has one turn: nothing leaves that early, and the condition is known not to hold."""
    body, _, test = turned
    again = fold.value(test)
    return again is not None and not again and not any(isinstance(s, Break | Continue) for s in own_level(body))


def _left_early(body: Body) -> Body:
    """The arm of a switch; a `break` inside its branches leaves a loop of one turn."""
    if any(isinstance(s, Break) for s in own_level(body)):
        return (While(fold.TRUE, (*body, Break())),)
    return body


@dataclass
class _Case:
    """What stands under one group of labels of a switch; unless it `ends`, the next one follows."""

    labels: list[Expr] = field(default_factory=list)
    default: bool = False
    statements: list[Cursor] = field(default_factory=list)
    ends: bool = False

    @property
    def used(self) -> bool:
        """Whether it has labels."""
        return self.default or bool(self.labels)


def _run_on(cases: list[_Case]) -> list[Cursor]:
    """Statements of the first case, and of those that it falls through to."""
    found: list[Cursor] = []
    for case in cases:
        found += case.statements
        if case.ends:
            break
    return found


def _labels(cursor: Cursor) -> tuple[Cursor, list[Cursor | None]]:
    """The statement under nested `case`/`default` labels, and the labels (None for default)."""
    labels: list[Cursor | None] = []
    while cursor.kind.name in ("CASE_STMT", "DEFAULT_STMT"):
        below = cu.kids(cursor)
        labels.append(below[0] if cursor.kind.name == "CASE_STMT" else None)
        cursor = below[-1]
    return cursor, labels


def _ends_in_break(cursor: Cursor) -> bool:
    below = cu.kids(cursor)
    return cursor.kind.name == "COMPOUND_STMT" and bool(below) and below[-1].kind.name == "BREAK_STMT"


def _is_var(cursor: Cursor, var: Cursor) -> bool:
    cursor = cu.strip(cursor)
    declared = cursor.referenced if cursor.kind.name == "DECL_REF_EXPR" else None
    return declared is not None and bool(declared == var)


def _invariant(e: Expr, body: Body) -> bool:
    """Whether a loop bound keeps its value while the body runs."""
    if names_in(e) & assigned(body):
        return False
    loads = {n.buffer for n in walk(e) if isinstance(n, Load)}
    return not loads & written_buffers(body)
