"""Which declarations a piece of code changes: what isn't in here can be replaced by its initial value."""

from __future__ import annotations

from dataclasses import dataclass

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.types import kind_name


@dataclass(frozen=True)
class Mutation:
    """Hashes of declarations that are assigned, and of those whose address is taken."""

    assigned: frozenset[int]
    addressed: frozenset[int]


def root(cursor: Cursor) -> int | None:
    """Hash of the variable that an lvalue expression is a part of; None behind a pointer."""
    cursor = cu.strip(cursor)
    kind = cursor.kind.name
    if kind == "DECL_REF_EXPR":
        declared = cursor.referenced
        return None if declared is None else int(declared.hash)
    below = cu.kids(cursor)
    if kind == "MEMBER_REF_EXPR" and below and kind_name(below[0].type.get_canonical()) != "POINTER":
        return root(below[0])
    if kind == "ARRAY_SUBSCRIPT_EXPR" and kind_name(cu.strip(below[0]).type.get_canonical()) == "CONSTANTARRAY":
        return root(below[0])
    if kind.endswith("CAST_EXPR") and below:
        return root(below[-1])
    return None


def mutation(body: Cursor) -> Mutation:
    """Scan a function body, loop or statement."""
    assigned: set[int | None] = set()
    addressed: set[int | None] = set()
    for cursor in cu.subtree(body):
        kind = cursor.kind.name
        below = cu.kids(cursor)
        if kind == "COMPOUND_ASSIGNMENT_OPERATOR" or (kind == "BINARY_OPERATOR" and cu.binary_operator(cursor) == "="):
            assigned.add(root(below[0]))
        elif kind == "UNARY_OPERATOR":
            op = cu.unary_operator(cursor)
            if op.endswith(("++", "--")):
                assigned.add(root(below[0]))
            elif op == "&":
                addressed.add(root(below[0]))
        elif kind == "CALL_EXPR":
            assigned.update(_by_reference(cursor, below))
    return Mutation(frozenset(a for a in assigned if a is not None), frozenset(a for a in addressed if a is not None))


def changes_object(body: Cursor) -> bool:
    """Whether code may change members of an object other than by naming it: in its own methods, or by calling some."""
    for cursor in cu.subtree(body):
        kind = cursor.kind.name
        if kind == "CALL_EXPR" and cursor.referenced is not None and cursor.referenced.kind.name == "CXX_METHOD":
            if not cursor.referenced.is_const_method():
                return True
        elif kind == "MEMBER_REF_EXPR":
            below = cu.kids(cursor)
            if not below or cu.strip(below[0]).kind.name == "CXX_THIS_EXPR":
                return True
    return False


def _by_reference(call: Cursor, below: list[Cursor]) -> set[int | None]:
    """Arguments bound to non-const reference parameters, and overloaded assignments."""
    callee = call.referenced
    found: set[int | None] = set()
    if callee is None:
        return found
    if call.spelling.startswith("operator") and call.spelling.endswith("=") and below:
        found.add(root(below[0]))
    arguments = list(call.get_arguments())
    parameters = [k for k in callee.get_children() if k.kind.name == "PARM_DECL"]
    for parameter, argument in zip(parameters, arguments, strict=False):
        t = parameter.type.get_canonical()
        if kind_name(t) == "LVALUEREFERENCE" and not t.get_pointee().is_const_qualified():
            found.add(root(argument))
    return found
