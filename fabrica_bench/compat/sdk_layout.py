"""Names of the Python layout API (`SdkLayout`). Every use raises: the API is not supported yet."""

from __future__ import annotations

from typing import Any, NoReturn

from fabrica_bench.compat.sessions import HostError


def _unsupported(name: str) -> NoReturn:
    raise HostError(
        f"{name} belongs to the SdkLayout API, which is not supported yet",
        remedy="describe the program with a CSL layout block and compile it with cslc",
    )


class _Unsupported:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _unsupported(type(self).__name__)


class _UnsupportedNames(type):
    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        _unsupported(f"{cls.__name__}.{name}")


class SdkLayout(_Unsupported):
    """Not supported yet."""


class Color(_Unsupported):
    """Not supported yet."""


class RoutingPosition(_Unsupported):
    """Not supported yet."""


class Edge(metaclass=_UnsupportedNames):
    """Not supported yet."""


class Route(metaclass=_UnsupportedNames):
    """Not supported yet."""


class FP16TYPE(metaclass=_UnsupportedNames):
    """Not supported yet."""


def get_edge_routing(*args: Any, **kwargs: Any) -> NoReturn:
    """Not supported yet."""
    _unsupported("get_edge_routing")
