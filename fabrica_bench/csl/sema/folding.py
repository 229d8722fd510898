"""Calls with a known result: a pure function of known arguments is evaluated by the compiler, not by the PE.

The vendor's compiler optimises: `encode_payload` of `<control>` costs a PE nothing if its arguments are constants. What
is folded here is what any optimising compiler folds: integer functions that touch nothing but their own locals, given
arguments that are known. The body is analysed all the same, so that its errors are found; it takes no memory unless
another call needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fabrica_bench.csl import ast
from fabrica_bench.csl import types as t
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.sema import walk
from fabrica_bench.csl.values import Const, FnValue, Value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.session import Session

#: Steps after which the call is left to the PE: long loops with a known result are rare, and slow to evaluate here.
FOLD_STEPS: Final = 5_000
#: Builtins that depend on their operands only.
_PURE_BUILTINS: Final = frozenset(
    {"as", "bitcast", "get_int", "is_same_type", "type_of", "range", "comptime_assert", "zeros", "constants"}
)


def is_known(function: FnValue, values: Sequence[Value], result: t.Type) -> bool:
    """Whether a comptime call of the function with these arguments gives what the PE would compute."""
    if not _is_plain(result) or not all(isinstance(value, Const) and _is_plain(value.type) for value in values):
        return False
    return is_pure(function)


def fold(session: Session, evaluate: Callable[[], Value]) -> Value | None:
    """The result of `evaluate`; None if it fails or takes too long."""
    with _allowance(session):
        try:
            return evaluate()
        except CslError:
            return None


@contextmanager
def _allowance(session: Session) -> Iterator[None]:
    begun, limit = session.steps, session.step_limit
    session.step_limit = min(limit, begun + FOLD_STEPS)
    try:
        yield
    finally:
        session.step_limit = limit


def _is_plain(type_: t.Type) -> bool:
    """Integers, booleans, enums, arrays of them, and what exists at comptime only."""
    if isinstance(type_, t.ArrayType):
        return _is_plain(type_.element)
    if isinstance(type_, t.PointerType):
        return False
    scalar = t.scalar_type(type_)
    return scalar.kind == "int" if scalar is not None else type_ in (t.VOID, t.TYPE, t.COMPTIME_INT)


def is_pure(function: FnValue, _callers: tuple[ast.FnDecl, ...] = ()) -> bool:
    """Whether a function reads only its arguments and constants, and changes only its own variables."""
    decl = function.decl
    if decl.body is None or decl.kind != "fn" or decl in _callers:
        return False
    owned = {node.name for node in walk.walk(decl.body) if isinstance(node, ast.VarDecl)}
    local = owned | {param.name for param in decl.params if param.name is not None}
    for node in walk.walk(decl.body):
        if isinstance(node, ast.For):
            local |= {node.item} | ({node.index} if node.index is not None else set())
    called = {id(node.callee) for node in walk.walk(decl.body) if isinstance(node, ast.Call)}
    for node in walk.walk(decl.body):
        match node:
            case ast.Unary(op="&") | ast.Deref() | ast.AsmExpr() | ast.TensorAccess():
                return False
            case ast.BuiltinCall(name=name) if name not in _PURE_BUILTINS:
                return False
            case ast.Assign(target=target) if not _is_owned(target, owned):
                return False
            case ast.Call(callee=callee) if not isinstance(callee, ast.Ident) or callee.name in local:
                return False
            case ast.Ident(name=name) if name not in local:
                if not _is_constant(function, name, id(node) in called, (*_callers, decl)):
                    return False
            case _:
                pass
    return True


def _is_owned(target: ast.Expr, owned: set[str]) -> bool:
    while isinstance(target, ast.Index | ast.FieldAccess):
        target = target.base
    return isinstance(target, ast.Ident) and target.name in owned


def _is_constant(function: FnValue, name: str, is_called: bool, callers: tuple[ast.FnDecl, ...]) -> bool:
    """A global that a pure function may mention: a constant or param of plain value, or a pure function it calls."""
    entry = function.module.entries.get(name)
    if entry is None:
        return True  # predeclared
    decl = entry.decl
    if isinstance(decl, ast.FnDecl):
        return is_called and is_pure(FnValue(function.module, decl), callers)
    if isinstance(decl, ast.ColorDecl) or decl.kind is ast.VarKind.VAR or decl.storage == "extern":
        return False
    try:
        found = function.module.find(name)
    except CslError:
        return False
    return found is not None and isinstance(found.value, Const) and _is_plain(found.value.type)
