"""A traced program as loops: elements that are computed alike, from elements that lie evenly apart, are one loop nest.

Terms of a sum or maximum may be taken in any order, so whatever tree they were combined by, they become a loop as well.
What all elements of a result share is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Assign,
    Bin,
    Bitcast,
    Body,
    Call,
    Cast,
    Expr,
    For,
    Load,
    Op,
    Program,
    Select,
    Stmt,
    Store,
    Ty,
    Un,
    UnsupportedError,
    Var,
)
from fabrica_agent.lowering.names import Names
from fabrica_agent.lowering.trace import Argument, Leaf, Node, Tracer, Value

FEW = 4
"""Up to this many terms stay written out."""
MAX_NESTS = 40
MAX_OPERANDS = 2_000_000
"""Operands of all formulas together that are looked at, each term of a sum once for every sum that it is part of."""
MAX_FORMULA = 800
"""Operations of one formula when values that it uses several times are written out each time: a recurrence such as
`d[i] = (r[i] - d[i - 1]) / (b[i] - c[i - 1])` doubles with every step."""

_FOLDS = (Op.ADD, Op.MAX, Op.MIN)
Nest = tuple[tuple[int, tuple[int, ...]], ...]
"""For each loop, outermost first: its iterations, and by how much each index of what it contains grows."""
Fixed = tuple[int, ...]


@dataclass(frozen=True)
class _Form:
    """What is computed, without the places of the array elements in it.

    Attributes:
        what: `load`, `argument`, `const`, `fold`, or the operation of a `Node`.
        detail: Name of the buffer or argument, value of the constant, or the operation of a fold.
        parts: Forms of the operands.
        ty: Type.
        places: Array elements that it takes, those of the parts included.
        nest: Loops of a fold.
    """

    what: Op | str
    detail: str | None
    parts: tuple[int, ...]
    ty: Ty
    places: int
    nest: Nest = ()


@dataclass
class _Forms:
    """All forms that were met, by number, and the forms of nodes."""

    known: dict[_Form, int] = field(default_factory=dict)
    table: list[_Form] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    of_node: dict[int, tuple[int, Fixed]] = field(default_factory=dict)
    looked_at: int = 0

    def number(self, form: _Form) -> int:
        """The number of a form."""
        if form not in self.known:
            size = 1 + sum(self.sizes[p] for p in form.parts)
            if size > MAX_FORMULA:
                raise UnsupportedError("a formula too long to be written out")
            self.known[form] = len(self.table)
            self.table.append(form)
            self.sizes.append(size)
        return self.known[form]

    def read(self, value: Value) -> tuple[int, Fixed]:
        """Form and places of a value."""
        match value:
            case Leaf(buffer=buffer, index=index, ty=ty):
                return self.number(_Form("load", buffer, (), ty, 1)), (index,)
            case Argument(name=name, ty=ty):
                return self.number(_Form("argument", name, (), ty, 0)), ()
            case Node():
                return self._node(value)
            case bool():
                return self.number(_Form("const", repr(value), (), Ty.BOOL, 0)), ()
            case _:
                ty = Ty.F32 if isinstance(value, float) else Ty.I32
                return self.number(_Form("const", repr(value), (), ty, 0)), ()

    def _node(self, root: Node) -> tuple[int, Fixed]:
        """Operands first, without recursion over long chains."""
        todo: list[Node] = [root]
        while todo:
            node = todo[-1]
            if id(node) in self.of_node:
                todo.pop()
                continue
            operands = _terms(node) if _is_fold(node) else list(node.args)
            self.looked_at += len(operands)
            if self.looked_at > MAX_OPERANDS:
                raise UnsupportedError("the formulas are too long to be read as loops")
            missing = [x for x in operands if isinstance(x, Node) and id(x) not in self.of_node]
            if missing:
                todo += missing
                continue
            self.of_node[id(node)] = self._fold(node, operands) if _is_fold(node) else self._plain(node)
            todo.pop()
        return self.of_node[id(root)]

    def _plain(self, node: Node) -> tuple[int, Fixed]:
        return self._together(node.what, None, [self._operand(x, node) for x in node.args], node.ty)

    def _operand(self, x: Value, node: Node) -> tuple[int, Fixed]:
        """A number among the operands has the type of the operation, or of the other operand."""
        if isinstance(x, Leaf | Argument | Node):
            return self.read(x)
        tys = [y.ty for y in node.args if isinstance(y, Leaf | Argument | Node)]
        ty = node.ty if node.what == "select" or not tys else tys[-1]
        return self.number(_Form("const", repr(x), (), ty, 0)), ()

    def _together(
        self, what: Op | str, detail: str | None, parts: Sequence[tuple[int, Fixed]], ty: Ty
    ) -> tuple[int, Fixed]:
        places = tuple(p for _, fixed in parts for p in fixed)
        return self.number(_Form(what, detail, tuple(n for n, _ in parts), ty, len(places))), places

    def _fold(self, node: Node, terms: Sequence[Value]) -> tuple[int, Fixed]:
        read = [self._operand(x, node) for x in terms]
        alike: dict[int, list[Fixed]] = {}
        for number, places in read:
            alike.setdefault(number, []).append(places)
        parts: list[tuple[int, Fixed]] = []
        for number, all_places in alike.items():
            if len(all_places) <= FEW:
                parts += [(number, places) for places in all_places]
                continue
            found = fit(sorted(all_places))
            if found is None:
                raise UnsupportedError("a sum whose terms don't lie evenly apart")
            base, nest = found
            ty = self.table[number].ty
            parts.append((self.number(_Form("fold", str(node.what), (number,), ty, len(base), nest)), base))
        if len(parts) > 2 * FEW:
            raise UnsupportedError("a sum of many different terms")
        while len(parts) > 1:
            parts = [self._together(node.what, None, parts[:2], node.ty), *parts[2:]]
        return parts[0]


def _is_fold(node: Node) -> bool:
    return node.what in _FOLDS and node.ty.is_float


def _terms(node: Node) -> list[Value]:
    """Operands of a sum of sums, from left to right."""
    found: list[Value] = []
    todo: list[Value] = [node]
    while todo:
        x = todo.pop()
        if isinstance(x, Node) and x.what == node.what and x.ty is node.ty:
            todo += reversed(x.args)
        else:
            found.append(x)
    return found


def fit(points: Sequence[Fixed]) -> tuple[Fixed, Nest] | None:
    """Points as a nest of even steps from the first one; None if they aren't that."""
    first = points[0]
    if len(points) == 1:
        return first, ()
    step = _minus(points[1], first)
    length = 2
    while length < len(points) and _minus(points[length], points[length - 1]) == step:
        length += 1
    if length == len(points):
        return first, ((length, step),)
    if len(points) % length:
        return None
    for k in range(0, len(points), length):
        if any(_minus(points[k + j + 1], points[k + j]) != step for j in range(length - 1)):
            return None
    outer = fit(points[::length])
    return None if outer is None else (first, (*outer[1], (length, step)))


def _minus(a: Fixed, b: Fixed) -> Fixed:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def reroll(program: Program) -> Program:
    """A serial program with the same results, from what a trace of this one shows.

    Raises:
        UnsupportedError: Control depends on data, or the formulas don't show loops.
    """
    results = Tracer(program).results()
    copy = replace(program, buffers={n: b for n, b in program.buffers.items() if b.exported}, types={})
    copy.types = {v.name: v.ty for v in program.args}
    writer = _Writer(copy)
    for buffer, elements in results.items():
        writer.result(buffer, elements, frozenset(results))
    copy.body = tuple(writer.top.statements)
    return copy


class _Writer:
    """Writes the loops of all results."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = Names(program)
        self.forms = _Forms()
        self.top = _Level()

    def result(self, buffer: str, elements: dict[int, Value], changed: frozenset[str]) -> None:
        """The loops that compute an array's elements."""
        groups: dict[int, list[Fixed]] = {}
        for index in sorted(elements):
            number, places = self.forms.read(elements[index])
            form = self.forms.table[number]
            if (form.what, form.detail, places) == ("load", buffer, (index,)):
                continue
            self._check_order(number, places, buffer, index, changed)
            groups.setdefault(number, []).append((index, *places))
        nests = [(number, part) for number, points in groups.items() for part in _even(points)]
        if len(nests) > MAX_NESTS:
            raise UnsupportedError("the elements of a result have too little in common")
        for number, (base, nest) in nests:
            self._nest(buffer, number, base, nest)

    def _check_order(self, number: int, places: Fixed, buffer: str, index: int, changed: frozenset[str]) -> None:
        """Loops may take the elements in any order only if none of them reads what another one replaces."""
        for name, place in zip(self._buffers(number), places, strict=True):
            if name in changed and (name, place) != (buffer, index):
                raise UnsupportedError("a result that is computed from what it replaces")

    def _buffers(self, number: int) -> Iterator[str]:
        form = self.forms.table[number]
        if form.what == "load":
            yield str(form.detail)
        for part in form.parts:
            yield from self._buffers(part)

    def _nest(self, buffer: str, number: int, base: Fixed, nest: Nest) -> None:
        loops = self._loops(nest)
        indices = [_plus(fold.i32(b), [(x.var, x.steps[j]) for x in loops]) for j, b in enumerate(base)]
        levels = [self.top, *(_Level() for _ in loops)]
        value = self._build(number, _Taken(indices[1:], [x.steps[1:] for x in loops]), levels)
        store = Store(buffer, indices[0], fold.cast(value, self.program.buffers[buffer].ty))
        self.top.statements += _wrapped(store, loops, levels[1:])

    def _loops(self, nest: Nest) -> list[_Loop]:
        return [_Loop(self.names.variable("k", Ty.I32), count, steps) for count, steps in nest]

    def _build(self, number: int, taken: _Taken, levels: list[_Level]) -> Expr:
        """The expression of a form.

        Args:
            number: The form.
            taken: Places of its array elements.
            levels: Statements before everything, then before the body of each loop around: there go the folds that the
                expression needs, each as far out as it can.
        """
        form = self.forms.table[number]
        match form.what:
            case "load":
                return Load(form.detail or "", taken.next(), form.ty)
            case "argument":
                return Var(form.detail or "", form.ty)
            case "const":
                return fold.const(_number(form.detail or ""), form.ty)
            case "fold":
                return self._fold(number, form, taken, levels)
        return _operation(form, [self._build(p, taken, levels) for p in form.parts])

    def _fold(self, number: int, form: _Form, taken: _Taken, levels: list[_Level]) -> Expr:
        indices, steps = taken.several(form.places)
        depth = max((d + 1 for d, s in enumerate(steps) if any(s)), default=0)
        around = levels[: depth + 1]
        known = around[-1].known
        if (number, tuple(indices)) in known:
            return known[number, tuple(indices)]
        operation = Op(form.detail or "")
        total = self.names.variable("total", form.ty)
        loops = self._loops(form.nest)
        start: Expr = fold.const(0, form.ty)
        if operation is not Op.ADD:
            start = self._build(form.parts[0], _Taken(list(indices), steps[:depth]), around)
        inside = [_Level() for _ in loops]
        places = [_plus(e, [(x.var, x.steps[j]) for x in loops]) for j, e in enumerate(indices)]
        moves = [*steps[:depth], *(x.steps for x in loops)]
        term = self._build(form.parts[0], _Taken(places, moves), [*around, *inside])
        more = Assign(total.name, fold.binary(operation, total, term, form.ty))
        around[-1].statements += [Assign(total.name, start), *_wrapped(more, loops, inside)]
        known[number, tuple(indices)] = total
        return total


@dataclass(frozen=True)
class _Loop:
    """A loop to write; `steps`: by how much each place in it grows."""

    var: Var
    count: int
    steps: Fixed


@dataclass
class _Level:
    """Statements before the body of a loop, and the folds that they compute."""

    statements: list[Stmt] = field(default_factory=list)
    known: dict[tuple[int, tuple[Expr, ...]], Var] = field(default_factory=dict)


@dataclass
class _Taken:
    """The places of array elements in the order in which a form takes them, and how they grow in each loop around."""

    indices: list[Expr]
    steps: list[Fixed]
    used: int = 0

    def next(self) -> Expr:
        """The next one."""
        self.used += 1
        return self.indices[self.used - 1]

    def several(self, count: int) -> tuple[list[Expr], list[Fixed]]:
        """The next few, and how they grow."""
        part = slice(self.used, self.used + count)
        self.used += count
        return self.indices[part], [s[part] for s in self.steps]


def _even(points: list[Fixed]) -> Iterator[tuple[Fixed, Nest]]:
    """Points as few nests of even steps."""
    whole = fit(points)
    if whole is not None:
        yield whole
        return
    start = 0
    while start < len(points):
        end = start + 1
        if end < len(points):
            step = _minus(points[end], points[start])
            while end < len(points) and _minus(points[end], points[end - 1]) == step:
                end += 1
        found = fit(points[start:end])
        assert found is not None
        yield found
        start = end


def _wrapped(last: Stmt, loops: Sequence[_Loop], levels: Sequence[_Level]) -> Body:
    body: Body = (last,)
    for x, level in reversed(list(zip(loops, levels, strict=True))):
        body = (For(x.var.name, Ty.I32, fold.i32(0), fold.i32(x.count), 1, (*level.statements, *body)),)
    return body


def _plus(e: Expr, terms: Sequence[tuple[Var, int]]) -> Expr:
    for var, step in terms:
        if step:
            e = fold.binary(Op.ADD, fold.binary(Op.MUL, var, fold.i32(step), Ty.I32), e, Ty.I32)
    return e


def _number(text: str) -> int | float | bool:
    if text in ("True", "False"):
        return text == "True"
    return float(text) if any(c in text for c in ".einf") else int(text)


def _operation(form: _Form, parts: Sequence[Expr]) -> Expr:
    what = form.what
    if isinstance(what, Op):
        return Bin(what, parts[0], parts[1], form.ty)
    word, _, name = what.partition(" ")
    make: dict[str, Callable[[], Expr]] = {
        "un": lambda: Un(name, parts[0], form.ty),
        "cast": lambda: Cast(parts[0], form.ty),
        "bits": lambda: Bitcast(parts[0], form.ty),
        "select": lambda: Select(parts[0], parts[1], parts[2], form.ty),
        "call": lambda: Call(name, tuple(parts), form.ty),
    }
    return make[word]()


__all__ = ["fit", "reroll"]
