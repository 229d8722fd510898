"""Translation of statements and declarations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.expressions import SCALAR_NODES, buffers_in, is_pure, number_of, selected
from fabrica_agent.cuda.mutation import Mutation, mutation
from fabrica_agent.cuda.operators import Operators, PointerChoiceError, Pointing, moved, now, repoint
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.types import ctype, is_reference, scalar_count, scalar_of
from fabrica_agent.cuda.values import (
    Aggregate,
    ArrayType,
    ArrayVar,
    Binding,
    BufferName,
    Chosen,
    ChosenPlace,
    Closure,
    CType,
    Element,
    Fixed,
    Opaque,
    OpaqueType,
    Pointer,
    PointerType,
    PointerVar,
    RawMemory,
    Reinterpreted,
    ScalarType,
    ScalarVar,
    Selector,
    StructType,
    StructVar,
    Value,
    Which,
)  # fmt: skip
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Assign,
    Bitcast,
    Body,
    Break,
    Continue,
    Expr,
    For,
    If,
    Load,
    Op,
    Return,
    Space,
    Stmt,
    Store,
    Ty,
    Var,
    While,
    assigned,
    names_in,
    own_level,
    walk,
    walk_stmts,
    written_buffers,
)  # fmt: skip

T = TypeVar("T")
MAX_RETRIES = 16
MAX_ARRAYS = 4
"""Arrays between which a loop may move a pointer."""


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


class Statements(Operators):
    """Statement half of the translator."""

    mutations: Mutation

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

    # ---------------------------------------------------------------------------------------------- declarations

    def declare(self, cursor: Cursor) -> None:
        """Bind a local variable."""
        initial = self._initialiser(cursor)
        t = ctype(cursor.type)
        if cu.has_attribute(cursor, "CUDASHARED"):
            self.frame.bindings[cursor.hash] = self.shared(cursor, t)
            return
        if is_reference(cursor.type) and initial is not None:
            self.frame.bindings[cursor.hash] = self.referred(self.place(initial))
            return
        if isinstance(t, ArrayType):
            self.frame.bindings[cursor.hash] = self._local_array(cursor, t, initial)
            return
        value = self._initial_value(cursor, t, initial)
        if isinstance(value, RawMemory):
            value = self.convert(value, t, cursor)
        known = value is not None and not isinstance(value, Opaque)
        addressed = cursor.hash in self.mutations.addressed and not isinstance(t, PointerType | OpaqueType)
        if known and value is not None and cursor.hash not in self.mutations.assigned and not addressed:
            self.frame.bindings[cursor.hash] = Fixed(self._frozen(value, cursor.spelling))
            return
        binding = self.variable(cursor.spelling, t, cursor, in_memory=addressed)
        self.frame.bindings[cursor.hash] = binding
        if value is not None and not (isinstance(value, Opaque) and isinstance(binding, PointerVar)):
            self.write(binding, value, cursor)

    def _initial_value(self, cursor: Cursor, t: CType, initial: Cursor | None) -> Value | None:
        if initial is None:
            return None
        if initial.kind.name == "CALL_EXPR" and isinstance(t, StructType) and not list(initial.get_arguments()):
            # Default construction: `S s;` leaves fields unset, `dim3 d;` sets its defaults.
            return self.value(initial) if t.name == "dim3" else None
        return self.convert(self.value(initial), t, cursor)

    def _initialiser(self, cursor: Cursor) -> Cursor | None:
        below = [k for k in cu.kids(cursor) if k.kind.is_expression()]
        if not below:
            return None
        if isinstance(ctype(cursor.type), ArrayType):
            return below[-1] if below[-1].kind.name in ("INIT_LIST_EXPR", "STRING_LITERAL") else None
        return below[-1]

    def _frozen(self, value: Value, name: str) -> Value:
        """A value that later code can't change: impure scalars and offsets are saved in variables."""
        if isinstance(value, SCALAR_NODES):
            if is_pure(value):
                return value
            var = self.fresh(name, value.ty)
            self.out.append(Assign(var.name, value))
            return var
        if isinstance(value, Aggregate):
            return Aggregate({n: self._frozen(v, f"{name}_{n}") for n, v in value.fields.items()})
        if isinstance(value, Pointer | Chosen):
            return self.frozen_address(value, f"{name}_offset")
        return value

    def referred(self, place: Binding) -> Binding:
        """What a reference to a place is bound to: an element keeps its index."""
        if isinstance(place, Element):
            return Element(place.buffer, self.save(place.offset), place.type)
        if isinstance(place, ChosenPlace):
            return ChosenPlace(place.cond, self.referred(place.yes), self.referred(place.no))
        return place

    def variable(self, name: str, t: CType, cursor: Cursor, *, in_memory: bool = False) -> Binding:
        """A new mutable variable of a type."""
        match t:
            case ScalarType(ty=ty):
                if in_memory:
                    return Element(self.fresh_buffer(name, ty, fold.i32(1), Space.LOCAL), fold.i32(0), t)
                return ScalarVar(self.fresh(name, ty))
            case StructType(union=True):
                return self._union(name, t, cursor)
            case StructType(fields=fields):
                ty_ = scalar_of(t)
                if in_memory and ty_ is not None:
                    size = fold.i32(scalar_count(t) or 1)
                    return Element(self.fresh_buffer(name, ty_, size, Space.LOCAL), fold.i32(0), t)
                return StructVar({n: self.variable(f"{name}_{n}", f, cursor) for n, f in fields}, t)
            case PointerType(target=target):
                return PointerVar(target)
            case OpaqueType():
                return Fixed(Opaque(t.name))
            case _:
                self.fail(f"a variable of this type ({cursor.type.spelling}) is not supported", cursor)

    def _union(self, name: str, t: StructType, cursor: Cursor) -> StructVar:
        """One variable of unsigned bits for all fields."""
        types = [f.ty for _, f in t.fields if isinstance(f, ScalarType)]
        if len(types) != len(t.fields) or {f.bits for f in types} not in ({32}, {16}):
            self.fail("a union is supported if its fields are numbers of the same width", cursor)
        held = ScalarVar(self.fresh(name, Ty.U32 if types[0].bits == 32 else Ty.U16))
        fields: dict[str, Binding] = {n: Reinterpreted(held, f) for (n, _), f in zip(t.fields, types, strict=True)}
        return StructVar(fields, t)

    def _local_array(self, cursor: Cursor, t: ArrayType, initial: Cursor | None) -> ArrayVar:
        ty, count = scalar_of(t), scalar_count(t)
        if ty is None or count is None:
            self.fail("a local array needs a constant length and one scalar element type", cursor)
        space = Space.LOCAL if self.frame.in_kernel else Space.GLOBAL
        name = self.fresh_buffer(cursor.spelling, ty, fold.i32(count), space)
        if initial is not None:
            for index, element in enumerate(self._flat_initialisers(initial, t, count, ty)):
                self.out.append(Store(name, fold.i32(index), element))
        return ArrayVar(name, t)

    def _flat_initialisers(self, initial: Cursor, t: ArrayType, count: int, ty: Ty) -> list[Expr]:
        values: list[Expr] = []
        for kid in cu.kids(initial):
            inner = ctype(kid.type)
            if kid.kind.name == "INIT_LIST_EXPR" and isinstance(inner, ArrayType):
                values += self._flat_initialisers(kid, inner, scalar_count(inner) or 0, ty)
            elif isinstance(t.element, StructType):
                values += self._flat_value(self.convert(self.value(kid), t.element, kid), ty, kid)
            else:
                values.append(fold.cast(self.scalar(kid), ty))
        return values + [fold.const(0, ty)] * (count - len(values))

    def _flat_value(self, value: Value, ty: Ty, cursor: Cursor) -> list[Expr]:
        """The numbers of a value in the order of memory, as elements of type `ty`."""
        if isinstance(value, Aggregate):
            return [e for field_value in value.fields.values() for e in self._flat_value(field_value, ty, cursor)]
        number = self.scalar_from(value, cursor)
        return [number if number.ty is ty else Bitcast(number, ty)]

    def shared(self, cursor: Cursor, t: CType) -> Binding:
        """Bind a `__shared__` variable (the kernel half knows the dynamic size)."""
        raise NotImplementedError

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
        _restart(before)
        other = self.block(below[2]) if len(below) > 2 else ()
        if len(below) > 2:
            self.forget_changes(below[2])
        if moved(after):
            cond = self.chosen_by(cond, cursor)
            then, other = self._meet(cond, after, then, other)
        if then:
            self.out.append(If(cond, then, other))
        elif other:
            self.out.append(If(fold.logical_not(cond), other))

    def _meet(self, cond: Expr, after: list[Pointing], then: Body, other: Body) -> tuple[Body, Body]:
        """Let pointer variables that two branches leave different be chosen from there on, their offsets in one place.

        Args:
            cond: Where it holds, the first branch was taken.
            after: How the first branch left them; the second one has just been translated.
            then: The first branch.
            other: The second branch.
        """
        for p in after:
            variable = p.variable
            if variable.offset != p.offset:
                shared = p.offset or variable.offset
                assert shared is not None
                zero = fold.i32(0)
                if p.offset is None and p.buffer is not None:
                    then = (*then, Assign(shared.name, zero))
                if variable.offset != shared and variable.buffer is not None:
                    other = (*other, Assign(shared.name, variable.offset or zero))
                variable.offset = shared
            if variable.buffer != p.buffer:
                variable.buffer, variable.selector = Which(cond, p.buffer, variable.buffer), None
        return then, other

    def looped(self, turn: Callable[[], T], cursor: Cursor) -> T:
        """Translate the body of a loop; pointers that it moves to other arrays get a selector before it."""
        for _ in range(MAX_RETRIES):
            before = self.pointing()
            translated = turn()
            if not self._number(before, cursor):
                return translated
            self.forget(None)
        self.fail("where the pointers of this loop point is not understood", cursor)

    def numbers_pointers(self) -> bool:
        """Whether loops give selectors to the pointers that they move."""
        return True

    def _number(self, before: list[Pointing], cursor: Cursor) -> bool:
        """Give selectors to the pointers that are not where they were before; False when there are none.

        What had no array yet may get one. An offset that starts to be kept in a variable is there from the beginning.
        """
        moving: list[tuple[Pointing, tuple[str | None, ...]]] = []
        for p in before:
            variable = p.variable
            fresh = p.buffer is None and isinstance(variable.buffer, str)
            if not fresh and (variable.buffer, variable.offset) != (p.buffer, p.offset):
                moving.append((p, tuple(dict.fromkeys((*buffers_in(p.buffer), *buffers_in(variable.buffer))))))
        if not moving or (not self.numbers_pointers() and not self._by_turns(cursor)):
            return False
        repoint(before)
        for p, among in moving:
            if len(among) > MAX_ARRAYS:
                self.fail(f"a pointer that moves between more than {MAX_ARRAYS} arrays is not supported", cursor)
            if p.variable.offset is None:
                p.variable.offset = self.fresh("offset", Ty.I32)
                self.out.append(Assign(p.variable.offset.name, fold.i32(0)))
            if len(among) > 1:
                selector = Selector(self.fresh("array", Ty.I32), among)
                self.out.append(Assign(selector.number.name, number_of(p.buffer, among)))
                p.variable.buffer, p.variable.selector = selected(selector), selector
        return True

    def _by_turns(self, cursor: Cursor) -> bool:
        """Whether this is no counted loop, which could be written out by turns: then give up for now."""
        if cursor.kind.name == "FOR_STMT":
            return False
        what = "a pointer that is in another array after each turn is not supported in this loop"
        raise PointerChoiceError(what, self.source.place(cursor))

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
        before = self.pointing()

        def turn() -> tuple[Body, list[Stmt], Expr]:
            translated = self.block(body)
            with self.capture() as effects:
                test = self.condition(cond)
            return translated, effects, test

        translated, effects, test = turn()
        again = fold.value(test)
        leaves = any(isinstance(s, Break | Continue) for s in own_level(translated))
        if again is not None and not again and not leaves:
            self.out.extend(translated)
            return
        if self._number(before, cursor):
            self.forget(None)
            translated, effects, test = self.looped(turn, cursor)
        if any(isinstance(s, Continue) for s in own_level(translated)):
            # `continue` goes to the condition, so that is what is computed between two iterations.
            another = self.fresh("another", Ty.BOOL)
            self.out.append(Assign(another.name, fold.TRUE))
            self.out.append(While(another, translated, (*effects, Assign(another.name, test))))
            return
        leave: Body = (*effects, If(fold.logical_not(test), (Break(),)))
        self.out.append(While(fold.TRUE, translated + leave))

    def _break_stmt(self, cursor: Cursor) -> None:
        self.out.append(Break())

    def _continue_stmt(self, cursor: Cursor) -> None:
        self.out.append(Continue())

    def _return_stmt(self, cursor: Cursor) -> None:
        below = cu.kids(cursor)
        if below:
            value = self.value(below[0])
            if isinstance(self.frame.result, PointerVar):
                self._return_pointer(self.frame.result, value, cursor)
            elif self.frame.result is not None and not isinstance(value, Opaque | Closure):
                self.write(self.frame.result, value, cursor)
        self.out.append(Return())

    def _return_pointer(self, result: PointerVar, value: Value, cursor: Cursor) -> None:
        """One of several returns: it is reached where no earlier one was, so it takes what has no array yet."""
        if not isinstance(value, Pointer | Chosen):
            self.fail("returning a null pointer at one of several places is not supported", cursor)
        earlier = result.buffer
        if result.offset is None:
            result.offset = self.fresh("offset", Ty.I32)
        self.write(result, value, cursor)
        result.buffer, result.selector = _filled(earlier, result.buffer), None

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
        arms = self.looped(lambda: [(None if c.default else c.labels, a) for c, a in self._arms(used)], cursor)
        self._emit_switch(subject, arms)

    def _arms(self, cases: list[tuple[_Case, list[Cursor]]]) -> list[tuple[_Case, Body]]:
        """The arms of a switch; a pointer variable is left with everything that they let it point into."""
        before = self.pointing()
        arms: list[tuple[_Case, Body]] = []
        ends: list[list[Pointing]] = []
        for case, statements in cases:
            _restart(before)
            arms.append((case, self._arm(statements)))
            ends.append(now(before))
        for k, p in enumerate(before):
            for end in ends:
                p.variable.offset = p.variable.offset or end[k].offset
                if end[k].buffer != p.variable.buffer:
                    p.variable.buffer, p.variable.selector = Which(fold.TRUE, p.variable.buffer, end[k].buffer), None
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


def _restart(before: list[Pointing]) -> None:
    """Let another branch start where the first one did; the offset of a pointer without array is kept in one place."""
    for p in before:
        p.variable.buffer, p.variable.selector = p.buffer, p.selector
        if p.buffer is not None:
            p.variable.offset = p.offset


def _filled(earlier: BufferName, later: BufferName) -> BufferName:
    if isinstance(earlier, Which):
        yes, no = _filled(earlier.yes, later), _filled(earlier.no, later)
        return yes if yes == no else Which(earlier.cond, yes, no)
    return later if earlier is None else earlier


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


__all__ = ["Counted", "ForParts", "Statements", "walk_stmts"]
