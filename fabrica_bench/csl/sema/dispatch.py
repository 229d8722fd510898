"""Tables from syntax node to the function that analyses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fabrica_bench.csl import types as t
from fabrica_bench.csl.values import Value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame
    from fabrica_bench.csl.sema.places import Place

ExprHandler = Callable[["Frame", Any, "t.Type | None"], Value]
StmtHandler = Callable[["Frame", Any], None]
PlaceHandler = Callable[["Frame", Any], "Place"]

EXPRESSIONS: dict[type, ExprHandler] = {}
STATEMENTS: dict[type, StmtHandler] = {}
PLACES: dict[type, PlaceHandler] = {}

H = TypeVar("H", bound=Callable[..., Any])


def expression(node_type: type) -> Callable[[H], H]:
    """Register `(frame, node, hint) -> Value` for a node; `hint` is the type the context wants, if known."""

    def register(handler: H) -> H:
        EXPRESSIONS[node_type] = handler
        return handler

    return register


def statement(node_type: type) -> Callable[[H], H]:
    """Register `(frame, node) -> None`: execute at comptime, or emit code at run time."""

    def register(handler: H) -> H:
        STATEMENTS[node_type] = handler
        return handler

    return register


def place(node_type: type) -> Callable[[H], H]:
    """Register `(frame, node) -> Place` for an expression that can name a location."""

    def register(handler: H) -> H:
        PLACES[node_type] = handler
        return handler

    return register
