"""Loops of multiply-adds over a moving column, as one `@map` over the factors.

    for (@range(u16, n)) |k| {
      @fmacs(sums, sums, column, x[k]);
      column = @increment_dsd_offset(column, rows, f32);
    }

Every turn of such a loop loads three registers and moves a descriptor. When the column moves by its own length, a
register with `save_address` moves by itself, and the three are loaded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabrica_agent.rewrite.scope import Scope, comptime_int, scope_of
from fabrica_agent.rewrite.text import Edit, apply, before_comments, identifiers, indentation, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

TURN = 25.0
"""Cycles that a turn of the loop is expected to save: three register loads, the offset, the way back."""

REGISTERS = """// Registers of a multiply-add of columns; that of the column moves to the next one by itself.
const walk_dest = @get_dsr(dsr_dest, 1);
const walk_source = @get_dsr(dsr_src0, 1);
const walk_column = @get_dsr(dsr_src1, 1);
"""


@dataclass(frozen=True)
class _Walk:
    """A loop of the described form.

    Attributes:
        loop: The loop.
        dest: Text of the destination.
        column: Name of the moving descriptor.
        cases: For each choice of the factors: its condition (None if there is only one), text of the first factor,
            stride of the factors.
        count: Text of the number of turns.
        turns: Their number.
        negative: Whether the factors are subtracted.
    """

    loop: ast.For
    dest: str
    column: str
    cases: tuple[tuple[str | None, str, int], ...]
    count: str
    turns: int
    negative: bool


def walked(text: str, sizes: Mapping[str, int]) -> tuple[str, float] | None:
    """The text with all loops of the form rewritten, and the cycles that this is expected to save."""
    tree = parse(text)
    scope = scope_of(tree, sizes)
    lengths = _descriptor_lengths(tree, scope)
    edits: list[Edit] = []
    needed: set[bool] = set()
    gain = 0.0
    first: ast.FnDecl | None = None
    for fn in tree.items:
        if not isinstance(fn, ast.FnDecl) or fn.body is None:
            continue
        for block in walk(fn):
            if not isinstance(block, ast.Block):
                continue
            for position, s in enumerate(block.stmts):
                found = _walk(text, s, scope, lengths) if isinstance(s, ast.For) else None
                if found is None or _mentions(block.stmts[position + 1 :], found.column):
                    continue
                edits.append(Edit(s.span.start, s.span.end, _replacement(text, found)))
                needed.add(found.negative)
                gain += TURN * found.turns
                first = first or fn
    if not edits or first is None:
        return None
    names = identifiers(tree)
    top = "" if "walk_dest" in names else REGISTERS
    for negative in sorted(needed):
        name = _step(negative)
        if name not in names:
            sign = "-" if negative else ""
            top += f"fn {name}(factor: f32) void {{\n  @fmacs(walk_dest, walk_source, walk_column, {sign}factor);\n}}\n"
    where = before_comments(text, first.span.start)
    return apply(text, [Edit(where, where, top + "\n" if top else ""), *edits]), gain


def _step(negative: bool) -> str:
    return "walk_back" if negative else "walk_step"


def _replacement(text: str, w: _Walk) -> str:
    pad = indentation(text, w.loop.span.start)
    lines = [
        f"@load_to_dsr(walk_dest, {w.dest});",
        f"@load_to_dsr(walk_source, {w.dest});",
        f"@load_to_dsr(walk_column, {w.column}, .{{ .save_address = true }});",
    ]
    for position, (condition, start, stride) in enumerate(w.cases):
        factors = f"@get_dsd(mem1d_dsd, .{{ .base_address = &{start}, .extent = {w.count}, .stride = {stride} }})"
        call = f"@map({_step(w.negative)}, {factors});"
        if condition is None:
            lines.append(call)
        elif position == 0:
            lines += [f"if ({condition}) {{", f"  {call}"]
        else:
            lines += ["} else {", f"  {call}", "}"]
    return f"\n{pad}".join(lines)


def _descriptor_lengths(tree: ast.File, scope: Scope) -> dict[str, int]:
    """Elements of one-dimensional descriptors of stride one, and of variables that start as one of them."""
    found: dict[str, int] = {}
    for d in walk(tree):
        if isinstance(d, ast.VarDecl) and d.init is not None:
            length = _length(d.init, found, scope)
            if length is not None:
                found[d.name] = length
    return found


def _length(e: ast.Expr, known: Mapping[str, int], scope: Scope) -> int | None:
    match e:
        case ast.Ident(name=name):
            return known.get(name)
        case ast.BuiltinCall(name="increment_dsd_offset" | "set_dsd_base_addr", args=[base, *_]):
            return _length(base, known, scope)
        case ast.BuiltinCall(name="get_dsd", args=[ast.Ident(name="mem1d_dsd"), ast.InitList(inits=inits)]):
            access = next((i.value for i in inits if i.name == "tensor_access"), None)
            if not isinstance(access, ast.TensorAccess) or len(access.variables) != 1 or len(access.indices) != 1:
                return None
            at = [
                comptime_int(access.indices[0], Scope(values={**scope.values, access.variables[0]: v})) for v in (0, 1)
            ]
            if at[0] is None or at[1] is None or at[1] - at[0] != 1:
                return None
            return comptime_int(access.extents[0], scope)
        case _:
            return None


def _walk(text: str, loop: ast.For, scope: Scope, lengths: Mapping[str, int]) -> _Walk | None:
    e = loop.iterable
    if loop.index is not None or not isinstance(e, ast.BuiltinCall) or e.name != "range" or len(e.args) != 2:
        return None
    turns = comptime_int(e.args[1], scope)
    body = loop.body.expr if isinstance(loop.body, ast.ExprStmt) else loop.body
    if turns is None or turns < 2 or not isinstance(body, ast.Block) or not 2 <= len(body.stmts) <= 3:
        return None
    named: dict[str, ast.Expr] = {}
    statements = list(body.stmts)
    if isinstance(statements[0], ast.VarDecl) and statements[0].init is not None:
        named[statements[0].name] = statements[0].init
        statements = statements[1:]
    if len(statements) != 2:
        return None
    add, move = statements
    if not isinstance(add, ast.ExprStmt) or not isinstance(add.expr, ast.BuiltinCall) or add.expr.name != "fmacs":
        return None
    if len(add.expr.args) != 4 or not isinstance(move, ast.Assign) or not isinstance(move.target, ast.Ident):
        return None
    dest, source, column, factor = add.expr.args
    if not all(isinstance(x, ast.Ident) for x in (dest, source, column)):
        return None
    assert isinstance(dest, ast.Ident)
    assert isinstance(source, ast.Ident)
    assert isinstance(column, ast.Ident)
    length = lengths.get(column.name)
    moved = _moved(move, column.name, scope)
    if dest.name != source.name or dest.name == column.name or length is None or moved != length:
        return None
    negative = isinstance(factor, ast.Unary) and factor.op == "-"
    if isinstance(factor, ast.Unary) and factor.op == "-":
        factor = factor.operand
    if isinstance(factor, ast.Ident) and factor.name in named:
        factor = named[factor.name]
    cases = _factors(text, factor, loop.item, scope)
    if cases is None:
        return None
    count = text[e.args[1].span.start : e.args[1].span.end]
    return _Walk(loop, dest.name, column.name, cases, count, turns, negative)


def _moved(s: ast.Assign, column: str, scope: Scope) -> int | None:
    """By how many elements a statement moves a descriptor on."""
    match s:
        case ast.Assign(
            op="=",
            target=ast.Ident(name=name),
            value=ast.BuiltinCall(name="increment_dsd_offset", args=[ast.Ident(name=base), by, _]),
        ) if name == base == column:
            return comptime_int(by, scope)
        case _:
            return None


def _factors(text: str, e: ast.Expr, item: str, scope: Scope) -> tuple[tuple[str | None, str, int], ...] | None:
    match e:
        case ast.If(cond=cond, then=ast.Expr() as then, otherwise=ast.Expr() as otherwise):
            if _mentions([cond], item):
                return None
            yes, no = _element(text, then, item, scope), _element(text, otherwise, item, scope)
            if yes is None or no is None:
                return None
            return (text[cond.span.start : cond.span.end], *yes), ("", *no)
        case _:
            only = _element(text, e, item, scope)
            return None if only is None else ((None, *only),)


def _element(text: str, e: ast.Expr, item: str, scope: Scope) -> tuple[str, int] | None:
    """`array[a + item * b]` as the text of its first element and the stride b."""
    if not isinstance(e, ast.Index) or not isinstance(e.base, ast.Ident) or len(e.indices) != 1:
        return None
    index = e.indices[0]
    stride = _coefficient(index, item, scope)
    if stride is None or not 1 <= stride <= 127:
        return None
    start = _without(text, index, item)
    return f"{e.base.name}[{start}]", stride


def _coefficient(e: ast.Expr, item: str, scope: Scope) -> int | None:
    """The factor of a variable in an index; None if the index isn't linear in it."""
    match e:
        case ast.Ident(name=name):
            return int(name == item)
        case ast.IntLit():
            return 0
        case ast.Binary(op="+", lhs=lhs, rhs=rhs):
            a, b = _coefficient(lhs, item, scope), _coefficient(rhs, item, scope)
            return None if a is None or b is None else a + b
        case ast.Binary(op="*", lhs=lhs, rhs=rhs):
            for x, y in ((lhs, rhs), (rhs, lhs)):
                number, inner = comptime_int(x, scope), _coefficient(y, item, scope)
                if number is not None and inner is not None:
                    return number * inner
            return 0 if not _mentions([e], item) else None
        case _:
            return 0 if not _mentions([e], item) else None


def _without(text: str, e: ast.Expr, item: str) -> str:
    """An index for the first turn: terms with the variable left out."""
    if isinstance(e, ast.Binary) and e.op == "+":
        parts = [x for x in (e.lhs, e.rhs) if _without(text, x, item) != "0"]
        return " + ".join(_without(text, x, item) for x in parts) or "0"
    return "0" if _mentions([e], item) else text[e.span.start : e.span.end]


def _mentions(nodes: object, name: str) -> bool:
    return any(isinstance(n, ast.Ident) and n.name == name for n in walk(nodes))
