"""Loops of a CSL function as bulk operations, by way of the kernel IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fabrica_agent.csl.expressions import Expressions
from fabrica_agent.csl.module import PE_BYTES, array_declaration
from fabrica_agent.csl.names import Identifiers
from fabrica_agent.csl.statements import Statements, storage_type
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.cost import cost
from fabrica_agent.lowering.forward import forward, propagate, remove_dead
from fabrica_agent.lowering.grids import grids, uses_bulk
from fabrica_agent.lowering.intervals import variable_ranges
from fabrica_agent.lowering.ir import (
    For,
    Program,
    Reduce,
    Ty,
    UnsupportedError,
    read_buffers,
    walk_stmts,
    written_buffers,
)
from fabrica_agent.lowering.normalise import normalise
from fabrica_agent.lowering.options import Options
from fabrica_agent.lowering.rows import columns_for_rows
from fabrica_agent.lowering.sections import optimise_sections
from fabrica_agent.lowering.simplify import simplify, tidy
from fabrica_agent.lowering.unroll import unroll
from fabrica_agent.lowering.vectorise import vectorise
from fabrica_agent.rewrite.reader import Locals, Region, locals_after, parameters, read_region
from fabrica_agent.rewrite.scope import Scope, UnreadableError, scope_of
from fabrica_agent.rewrite.text import Edit, apply, before_comments, identifiers, indentation, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

CODE_BYTES = 8 * 1024
"""Memory to leave for code, stack and libraries when arrays are added."""

Transform = Callable[[Program], Program]


@dataclass(frozen=True)
class Site:
    """Consecutive statements of a function that hold a loop and can be read.

    Attributes:
        function: The function or task.
        statements: The statements.
        region: What they mean.
        line: Line of the first one.
    """

    function: ast.FnDecl
    statements: tuple[ast.Stmt, ...]
    region: Region
    line: int


def sites(tree: ast.File, scope: Scope) -> list[Site]:
    """Every maximal run of readable statements with a loop, in source order."""
    found: list[Site] = []
    for item in tree.items:
        if isinstance(item, ast.FnDecl) and item.body is not None:
            found += _in_block(item, item.body.stmts, scope, parameters(item), set())
    return found


def _in_block(
    fn: ast.FnDecl, statements: Sequence[ast.Stmt], scope: Scope, known: Locals, after: set[str]
) -> Iterator[Site]:
    index = 0
    while index < len(statements):
        end, region = _longest(statements, index, scope, known, after)
        if region is None:
            s = statements[index]
            for inner, extra in _blocks(s):
                inside = _names(statements[index + 1 :]) | after | (_names([s]) if extra is not None else set())
                yield from _in_block(fn, inner, scope, _with(known, extra, s), inside)
            known = locals_after([s], scope, known)
            index += 1
            continue
        run = statements[index:end]
        if any(isinstance(n, ast.For | ast.While) for n in walk(list(run))):
            yield Site(fn, tuple(run), region, run[0].span.file.position(run[0].span.start)[0])
        known = locals_after(run, scope, known)
        index = end


def _longest(
    statements: Sequence[ast.Stmt], index: int, scope: Scope, known: Locals, after: set[str]
) -> tuple[int, Region | None]:
    """The end of the longest readable run from `index` on, and what it means."""
    end = index
    while end < len(statements) and _readable(statements[index : end + 1], scope, known, set()) is not None:
        end += 1
    # A counter that is used again after the run can't be one of its loops' own.
    for stop in range(end, index, -1):
        region = _readable(statements[index:stop], scope, known, _names(statements[stop:]) | after)
        if region is not None:
            return stop, region
    return index, None


def _readable(statements: Sequence[ast.Stmt], scope: Scope, known: Locals, after: set[str]) -> Region | None:
    try:
        return read_region(statements, scope, known, after)
    except UnreadableError:
        return None


def _blocks(s: ast.Stmt) -> Iterator[tuple[Sequence[ast.Stmt], str | None]]:
    """Statement lists directly inside a statement, with the loop variable that they see (None outside loops)."""
    match s:
        case ast.ExprStmt(expr=expr):
            yield from _expression_blocks(expr)
        case ast.For(body=body, item=item):
            yield from ((b, item) for b, _ in _body_blocks(body))
        case ast.While(body=body):
            yield from ((b, "") for b, _ in _body_blocks(body))


def _body_blocks(body: ast.Stmt | ast.Expr) -> Iterator[tuple[Sequence[ast.Stmt], str | None]]:
    if isinstance(body, ast.ExprStmt):
        body = body.expr
    if isinstance(body, ast.Block):
        yield body.stmts, None
    elif isinstance(body, ast.Stmt):
        yield [body], None


def _expression_blocks(e: ast.Expr) -> Iterator[tuple[Sequence[ast.Stmt], str | None]]:
    match e:
        case ast.Block(stmts=stmts):
            yield stmts, None
        case ast.If(then=then, otherwise=otherwise):
            for side in (then, otherwise):
                if isinstance(side, ast.If):
                    yield from _expression_blocks(side)
                elif side is not None:
                    yield from _body_blocks(side)


def _with(known: Locals, item: str | None, s: ast.Stmt) -> Locals:
    if not item or not isinstance(s, ast.For):
        return known
    inner = known.copy()
    if isinstance(s.iterable, ast.BuiltinCall) and s.iterable.args and isinstance(s.iterable.args[0], ast.Ident):
        ty = {t.value: t for t in Ty}.get(s.iterable.args[0].name)
        if ty is not None and s.iterable.name == "range":
            inner.types[item] = ty
            inner.values.pop(item, None)
            inner.mutable.discard(item)
    return inner


def _names(statements: Sequence[ast.Stmt]) -> set[str]:
    return {n.name for n in walk(list(statements)) if isinstance(n, ast.Ident)}


# ----------------------------------------------------------------------------------------------------- rewriting


def plain_form(program: Program) -> Program:
    """Folded and forwarded, loops untouched."""
    current = replace(program, buffers=dict(program.buffers), types=dict(program.types))
    for _ in range(4):
        before = current.body
        current.ranges = variable_ranges(current)
        current.body = normalise(current.body, current.ranges)
        current.body = forward(propagate(current.body), frozenset())
        current.body = remove_dead(current)
        if current.body == before:
            break
    current.ranges = variable_ranges(current)
    return current


def as_boxes(program: Program) -> Program:
    """Whole nests first, then single loops."""
    return tidy(vectorise(tidy(grids(plain_form(program)))))


def as_vectors(program: Program) -> Program:
    """Single loops, with everything that the lowering does for serialised threads."""
    program = simplify(program)
    program = tidy(grids(program))
    program = vectorise(tidy(unroll(vectorise(program))))
    return tidy(columns_for_rows(tidy(optimise_sections(program))))


@dataclass(frozen=True)
class Rewritten:
    """A rewritten text, and the cycles that a rough estimate expects it to save."""

    text: str
    gain: float


def rewrite_site(
    text: str, tree: ast.File, scope: Scope, site: Site, transform: Transform, *, registers: bool
) -> Rewritten | None:
    """One site in another form.

    Returns:
        None if the form has no bulk operations, isn't expected to be faster, or needs more memory than there is.
    """
    try:
        program = transform(site.region.program)
        if not uses_bulk(program.body):
            return None
        before = plain_form(site.region.program)
        gain = cost(before.body, before.ranges) - cost(program.body, program.ranges)
        new = _emit(text, tree, scope, site, program, registers=registers) if gain > 0 else None
        return None if new is None else Rewritten(new, gain)
    except UnsupportedError:
        return None


def _emit(text: str, tree: ast.File, scope: Scope, site: Site, program: Program, *, registers: bool) -> str | None:
    region = site.region
    names = Identifiers(identifiers(tree))
    for var in program.args:
        names.rename(var.name, var.name)
    own = {a for a in program.buffers if a in scope.arrays or a in region.cells}
    for name in own:
        names.rename(name, name)
    types = {n: storage_type(n, ty, program.ranges) for n, ty in program.types.items()}
    for var in program.args:
        types[var.name] = var.ty
    buffers = {n: Ty.I16 if b.ty is Ty.BOOL else b.ty for n, b in program.buffers.items()}
    expressions = Expressions(names, types, buffers, program.ranges, cells=frozenset(region.cells))
    for param in {n for n in scope.values}:
        names.rename(param, param)
    lengths = {n: max(1, fold.int_value(b.length or fold.i32(1)) or 1) for n, b in program.buffers.items()}
    used = read_buffers(program.body) | written_buffers(program.body)
    added = [n for n in program.buffers if n not in own and n in used]
    total = sum(a.length * a.ty.bits // 8 for a in scope.arrays.values())
    if total + sum(lengths[n] * buffers[n].bits // 8 for n in added) > PE_BYTES - CODE_BYTES:
        return None
    statements = Statements(expressions, names, program.ranges, lengths, registers=registers)
    statements.globals = {
        s.target: types[s.target] for s in walk_stmts(program.body) if isinstance(s, Reduce) and s.index is None
    }
    statements.counters = {s.var for s in walk_stmts(program.body) if isinstance(s, For)}
    lines = [f"var {n}: {region.cells[n].value} = {_zero(region.cells[n])};" for n in region.declared]
    lines += statements.block(program.body, 0, frozenset(v.name for v in program.args))
    top: list[str] = [
        array_declaration(names.of(n), str(lengths[n]), buffers[n], Options()) for n in added
    ]  # fmt: skip
    top += [f"const {name} = {dsd};" for name, dsd in statements.dsds.values()]
    top += [f"var {names.of(n)}: {ty.value} = {_zero(ty)};" for n, ty in sorted(statements.globals.items())]
    top += statements.functions
    if expressions.helpers:
        return None
    math = next((n for n, what in scope.modules.items() if what == "<math>"), None)
    if expressions.uses_math and math != "math":
        return None
    first, last = site.statements[0].span, site.statements[-1].span
    stop = last.end + (text[last.end : last.end + 1] == ";")
    pad = indentation(text, first.start)
    body = f"\n{pad}".join(lines)
    where = before_comments(text, site.function.span.start)
    return apply(text, [Edit(where, where, "\n".join(top) + "\n\n" if top else ""), Edit(first.start, stop, body)])


def _zero(ty: Ty) -> str:
    return "0.0" if ty.is_float else "0"


def rewrite_all(text: str, sizes: Mapping[str, int], transform: Transform, *, registers: bool) -> list[Rewritten]:
    """Rewrite every site, one after the other.

    Returns:
        An element per site that changed; each has the changes of those before, so that the last has all.
    """
    changed: list[Rewritten] = []
    skipped = 0
    while True:
        tree = parse(text)
        scope = scope_of(tree, sizes)
        for site in sites(tree, scope)[skipped:]:
            new = rewrite_site(text, tree, scope, site, transform, registers=registers)
            if new is None:
                skipped += 1
                continue
            text = new.text
            changed.append(new)
            break
        else:
            return changed


__all__ = ["Rewritten", "as_boxes", "as_vectors", "rewrite_all", "rewrite_site", "sites"]
