"""Facts from layout.csl and the timing module, read off the CSL syntax tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabrica_agent.records import ExportFact, FunctionFact, LayoutFacts, ParamFact, WindowFact
from fabrica_bench.csl import ast
from fabrica_bench.csl.diagnostics import CslError, render
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.sema.walk import walk
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.plugins import AgentGaveUp

_START_NAMES = ("start", "begin", "tic", "open")
_END_NAMES = ("end", "stop", "finish", "toc", "close")


def parse(name: str, text: str) -> ast.File:
    """The syntax tree of a visible file.

    Raises:
        AgentGaveUp: It doesn't parse.
    """
    try:
        return parse_file(virtual_source(name, text))
    except CslError as error:
        raise AgentGaveUp([f"{name} can't be parsed: {render(error.diagnostics[0])}"]) from error


def layout_facts(text: str, sizes: Mapping[str, int], name: str = "layout.csl") -> LayoutFacts:
    """Read the layout.

    Args:
        text: Text of the layout file.
        sizes: Compile-time parameters by name.
        name: Its name, for messages.

    Raises:
        AgentGaveUp: It doesn't parse, or has no `@set_tile_code` with a file.
    """
    tree = parse(name, text)
    calls = [n for n in walk(tree) if isinstance(n, ast.BuiltinCall)]
    values = _constants(tree, sizes)
    types = {
        d.name: _type_text(d.type_expr) for d in walk(tree) if isinstance(d, ast.VarDecl) and d.type_expr is not None
    }
    width = height = None
    for call in calls:
        if call.name == "set_rectangle":
            width, height = (_evaluate(a, values) for a in call.args)
    tile = next((c for c in calls if c.name == "set_tile_code" and len(c.args) >= 3), None)
    if tile is None or not isinstance(tile.args[2], ast.StringLit):
        raise AgentGaveUp([f"{name}: no @set_tile_code names the compute file"])
    params, memcpy_param = _tile_params(tree, tile, types)
    tensors: list[ExportFact] = []
    functions: list[FunctionFact] = []
    for call in calls:
        if call.name == "export_name" and isinstance(call.args[0], ast.StringLit):
            _export(call, tensors, functions)
    colors = {
        value for c in calls if c.name == "get_color" and (value := _evaluate(c.args[0], values)) is not None
    }  # fmt: skip
    return LayoutFacts(
        width=width,
        height=height,
        compute_file=tile.args[2].value.decode(),
        params=params,
        memcpy_param=memcpy_param,
        tensors=tuple(tensors),
        functions=tuple(functions),
        colors=tuple(sorted(colors)),
        routed=any(c.name in ("set_color_config", "set_local_color_config") for c in calls),
    )


def _constants(tree: ast.File, sizes: Mapping[str, int]) -> dict[str, int]:
    values = dict(sizes)
    for item in tree.items:
        if isinstance(item, ast.VarDecl) and item.init is not None and item.name not in values:
            value = _evaluate(item.init, values)
            if value is not None:
                values[item.name] = value
    return values


def _evaluate(e: ast.Expr, values: Mapping[str, int]) -> int | None:
    match e:
        case ast.IntLit(value=value):
            return value
        case ast.Ident(name=name):
            return values.get(name)
        case ast.Binary(op=op, lhs=lhs, rhs=rhs):
            a, b = _evaluate(lhs, values), _evaluate(rhs, values)
            if a is None or b is None:
                return None
            match op:
                case "+":
                    return a + b
                case "-":
                    return a - b
                case "*":
                    return a * b
                case "/" if b:
                    return a // b
        case ast.BuiltinCall(name="as", args=[_, value]):
            return _evaluate(value, values)
    return None


def tile_values(text: str, sizes: Mapping[str, int], name: str = "layout.csl") -> dict[str, int]:
    """Integer parameters of the compute file that have one known value on all PEs."""
    tree = parse(name, text)
    values = _constants(tree, sizes)
    known: dict[str, set[int | None]] = {}
    structs = [n for n in walk(tree) if isinstance(n, ast.InitList)]
    for struct in structs:
        for init in struct.inits:
            if init.name is not None:
                value = _evaluate(init.value, values)
                if value is None and isinstance(init.value, ast.Ident) and init.value.name in sizes:
                    value = sizes[init.value.name]
                known.setdefault(init.name, set()).add(value)
    found = {n: next(iter(v)) for n, v in known.items() if len(v) == 1}
    return {n: v for n, v in found.items() if v is not None}


def _tile_params(
    tree: ast.File, tile: ast.BuiltinCall, types: Mapping[str, str | None]
) -> tuple[tuple[ParamFact, ...], str]:
    struct = tile.args[3] if len(tile.args) > 3 else None
    params: list[ParamFact] = []
    memcpy_param = "memcpy_params"
    if isinstance(struct, ast.InitList):
        for init in struct.inits:
            if init.name is None:
                continue
            value = init.value
            if _is_memcpy(value, tree):
                memcpy_param = init.name
                params.append(ParamFact(name=init.name, type="comptime_struct"))
            else:
                known = types.get(value.name) if isinstance(value, ast.Ident) else None
                params.append(ParamFact(name=init.name, type=known))
    else:
        inits = (i for n in walk(tree) if isinstance(n, ast.InitList) for i in n.inits)
        memcpy_param = next((i.name for i in inits if i.name and _is_memcpy(i.value, tree)), memcpy_param)
    return tuple(params), memcpy_param


def _is_memcpy(e: ast.Expr, tree: ast.File) -> bool:
    """Whether a value is the result of the memcpy module's `get_params`, directly or through a constant."""
    if isinstance(e, ast.Call) and isinstance(e.callee, ast.FieldAccess) and e.callee.name == "get_params":
        # Other modules of the library have a function of this name too.
        return _imported(e.callee.base, tree) in (None, "<memcpy/get_params>")
    if isinstance(e, ast.Ident):
        for declaration in walk(tree):
            if isinstance(declaration, ast.VarDecl) and declaration.name == e.name and declaration.init is not None:
                return not isinstance(declaration.init, ast.Ident) and _is_memcpy(declaration.init, tree)
    return False


def _imported(e: ast.Expr, tree: ast.File) -> str | None:
    """The module that an expression names, as far as the text shows it."""
    for d in walk(tree):
        if isinstance(d, ast.VarDecl) and isinstance(e, ast.Ident) and d.name == e.name:
            match d.init:
                case ast.BuiltinCall(name="import_module", args=[ast.StringLit(value=value), *_]):
                    return value.decode()
    return None


def _export(call: ast.BuiltinCall, tensors: list[ExportFact], functions: list[FunctionFact]) -> None:
    name_expr, kind = call.args[0], call.args[1]
    assert isinstance(name_expr, ast.StringLit)
    name = name_expr.value.decode()
    if isinstance(kind, ast.FnTypeExpr):
        functions.append(FunctionFact(name=name, args=tuple(_type_text(p) or "?" for p in kind.params)))
    elif isinstance(kind, ast.PointerType):
        mutable = len(call.args) > 2 and isinstance(call.args[2], ast.BoolLit) and call.args[2].value
        tensors.append(ExportFact(name=name, element=_type_text(kind.element) or "?", mutable=mutable))


def _type_text(e: ast.Expr | None) -> str | None:
    return e.name if isinstance(e, ast.Ident) else None


def window_facts(files: Mapping[str, str], functions: tuple[FunctionFact, ...]) -> WindowFact:
    """Find the timing module among the visible files: the one that reads time stamps.

    Raises:
        AgentGaveUp: There is none with a start and an end function.
    """
    for name, text in sorted(files.items()):
        if not name.endswith(".csl") or "get_timestamp" not in text:
            continue
        tree = parse(name, text)
        exports = tuple(_exported_names(tree))
        stamps = [
            f.name for f in tree.items
            if isinstance(f, ast.FnDecl) and not f.params and f.name not in exports
            and any(isinstance(n, ast.FieldAccess) and n.name == "get_timestamp" for n in walk(f))
        ]  # fmt: skip
        start = _named_like(stamps, _START_NAMES)
        end = _named_like(stamps, _END_NAMES)
        unblock = next(
            (i.name for i in tree.items if isinstance(i, ast.VarDecl) and i.kind is ast.VarKind.PARAM
             and isinstance(i.type_expr, ast.FnTypeExpr)),
            None,
        )  # fmt: skip
        if start is not None and end is not None:
            return WindowFact(file=name, unblock=unblock, start=start, end=end, exports=exports)
    raise AgentGaveUp(["no visible module with a start and an end time stamp was found"])


def _exported_names(tree: ast.File) -> Iterator[str]:
    for call in walk(tree):
        if isinstance(call, ast.BuiltinCall) and call.name == "export_symbol":
            if len(call.args) > 1 and isinstance(call.args[1], ast.StringLit):
                yield call.args[1].value.decode()
            elif isinstance(call.args[0], ast.Ident):
                yield call.args[0].name


def _named_like(names: list[str], patterns: tuple[str, ...]) -> str | None:
    return next((n for pattern in patterns for n in names if pattern in n.lower()), None)
