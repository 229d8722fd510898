"""Check 3: the interface and the timing window of a PE program are frozen.

Compared on the syntax tree with the reference program, and agnostic of structure for the rest: a candidate may end its
work in another task, on other PEs, after other calls. What it may not do:

* change the import of the window module, or touch the module except for the two stamps and its exports;
* change the host-visible symbols, the compile-time params, or the launched functions' parameters;
* start a launched function with anything else than the start stamp, or call such a function itself;
* return to the host (`unblock_cmd_stream`) anywhere but right after the end stamp;
* touch the timestamp counter by itself.

How the stamps are called is not written here: it is read off the reference program, which the same rules must hold for.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fabrica_bench.csl import ast
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.integrity.findings import Finding, Predicate
from fabrica_bench.integrity.syntax import (
    bound_names,
    builtin_calls,
    declarations,
    export_name_of,
    functions,
    import_path,
    parse_text,
    place,
    shape,
    walk,
)

NAME: Final = "frozen"
UNBLOCK: Final = "unblock_cmd_stream"
TIME_LIBRARY: Final = "<time>"
MEMCPY_LIBRARY: Final = "<memcpy/memcpy>"


class BrokenReference(Exception):
    """The reference program itself breaks the rules, so nothing can be compared with it."""


@dataclass(frozen=True)
class WindowUse:
    """How a program uses the window module, as read off the reference.

    Attributes:
        file: File name of the window module.
        name: What the program calls the imported module.
        start, stop: Names of the two stamp functions.
        entries: Host-visible names of the functions that the host launches in this program.
    """

    file: str
    name: str
    start: str
    stop: str
    entries: tuple[str, ...]


def check_frozen(
    candidate: Mapping[str, str], reference: Mapping[str, str], *, window_file: str, launches: Sequence[str]
) -> list[Finding]:
    """Compare every candidate PE program with the reference's file of the same name.

    Args:
        candidate: Text of the candidate's files by name.
        reference: Text of the reference's files by name.
        window_file: Name of the window module in the bundle.
        launches: Host-visible names of all functions that the host launches.

    Returns:
        Violations in the order of files and places. A candidate that doesn't parse is not reported here: that is the
        compiler's business.

    Raises:
        BrokenReference: The reference breaks the rules itself.
    """
    findings: list[Finding] = []
    for name in sorted(candidate):
        if not name.endswith(".csl") or name not in reference:
            continue
        try:
            ours = parse_text(name, reference[name])
        except CslError as error:
            raise BrokenReference(f"{name} doesn't parse: {error}") from error
        try:
            theirs = parse_text(name, candidate[name])
        except CslError:
            continue
        if any(isinstance(item, ast.LayoutBlock) for item in ours.items):
            findings += check_layout(theirs, ours)
            continue
        use = window_use(ours, window_file, launches)
        if use is not None:
            findings += check_program(theirs, ours, use)
    return findings


def window_use(reference: ast.File, window_file: str, launches: Sequence[str]) -> WindowUse | None:
    """Read the names of the stamps off a reference program; None when the program doesn't import the window module.

    Raises:
        BrokenReference: An entry doesn't begin with a stamp, or a return to the host doesn't follow one.
    """
    imports = [item for item in declarations(reference) if import_path(item.init) == window_file]
    if not imports:
        return None
    name = imports[0].name
    exported = exported_functions(reference)
    entries = tuple(entry for entry in launches if entry in exported)
    starts = {stamp_name(_first_statement(exported[entry]), name) for entry in entries}
    stops = {stamp_name(before, name) for before, _ in returns(reference)}
    if len(starts) != 1 or len(stops) != 1 or None in starts or None in stops:
        raise BrokenReference(
            "a launched function must be exported and begin with a stamp, and one must precede every return to the host"
        )
    (start,), (stop,) = starts, stops
    assert start is not None
    assert stop is not None
    return WindowUse(window_file, name, start, stop, entries)


def check_program(candidate: ast.File, reference: ast.File, use: WindowUse) -> list[Finding]:
    """All rules for one PE program."""
    return [
        *_check_import(candidate, reference, use),
        *_check_params(candidate, reference),
        *_check_exports(candidate, reference),
        *_check_entries(candidate, reference, use),
        *_check_returns(candidate, use),
        *_check_window_untouched(candidate, reference, use),
        *_check_counter(candidate, reference),
    ]


def check_layout(candidate: ast.File, reference: ast.File) -> list[Finding]:
    """Rules for a layout that a candidate may change.

    The host must see the same symbols with the same types on the same rectangle, the compiler's params stay what they
    are and reach the programs unchanged, and no other file than the reference's runs on a PE.
    """
    theirs = {_first_text(call): call for call in builtin_calls(candidate, "export_name")}
    ours = {_first_text(call): call for call in builtin_calls(reference, "export_name")}
    findings = []
    for name, call in ours.items():
        if name not in theirs:
            findings.append(_contract(f"host-visible symbol {name!r} is not advertised by @export_name", candidate))
        elif shape(theirs[name]) != shape(call):
            findings.append(_contract(f"host-visible symbol {name!r} is advertised with another type", theirs[name]))
    findings += [
        _contract(f"@export_name advertises {name!r}, which the reference doesn't have", call)
        for name, call in theirs.items()
        if name not in ours
    ]
    return [*findings, *_check_params(candidate, reference), *_check_rectangle(candidate, reference)]


def _check_rectangle(candidate: ast.File, reference: ast.File) -> Iterator[Finding]:
    wanted = [shape(call) for call in builtin_calls(reference, "set_rectangle")]
    found = list(builtin_calls(candidate, "set_rectangle"))
    if [shape(call) for call in found] != wanted:
        yield _contract("@set_rectangle differs from the reference's: the host copies to that rectangle", candidate)
    files = {_text_of(argument) for call in builtin_calls(reference, "set_tile_code") for argument in call.args}
    for call in builtin_calls(candidate, "set_tile_code"):
        names = [_text_of(argument) for argument in call.args if isinstance(argument, ast.StringLit)]
        if len(names) != 1 or names[0] not in files:
            yield _contract("@set_tile_code must name the program that the reference's layout names", call)
    passed = _passed_params(reference)
    seen: set[str] = set()
    for field in walk(candidate):
        if not isinstance(field, ast.FieldInit) or field.name not in passed:
            continue
        seen.add(field.name)
        if not isinstance(field.value, ast.Ident) or field.value.name != passed[field.name]:
            yield _contract(f"param {field.name!r} of a program must be passed {passed[field.name]!r} unchanged", field)
    for name in sorted(passed.keys() - seen):
        yield _contract(f"param {name!r} of a program is not passed by a field of its name", candidate)


def _passed_params(layout: ast.File) -> dict[str, str]:
    """Fields by which a layout hands its own params to programs, with the params' names."""
    params = {item.name for item in declarations(layout) if item.kind is ast.VarKind.PARAM}
    calls = (node for call in builtin_calls(layout, "set_tile_code") for node in walk(call))
    inits = (node for node in calls if isinstance(node, ast.FieldInit) and node.name is not None)
    return {
        str(init.name): init.value.name
        for init in inits
        if isinstance(init.value, ast.Ident) and init.value.name in params
    }


def exported_functions(tree: ast.File) -> dict[str, ast.FnDecl]:
    """The functions that `@export_symbol` makes host-visible, by host-visible name."""
    known = functions(tree)
    found: dict[str, ast.FnDecl] = {}
    for call in builtin_calls(tree, "export_symbol"):
        name = export_name_of(call)
        exported = call.args[0] if call.args else None
        if name is not None and isinstance(exported, ast.Ident) and exported.name in known:
            found[name] = known[exported.name]
    return found


# ------------------------------------------------------------------------------------------------- rules


def _check_import(candidate: ast.File, reference: ast.File, use: WindowUse) -> Iterator[Finding]:
    for item in declarations(reference):
        if import_path(item.init) == MEMCPY_LIBRARY and shape(item) not in map(shape, declarations(candidate)):
            yield _contract(f"the import of {MEMCPY_LIBRARY} as {item.name!r} is missing or differs", candidate)
    wanted = [shape(item) for item in declarations(reference) if import_path(item.init) == use.file]
    found = [item for item in declarations(candidate) if import_path(item.init) == use.file]
    if not found:
        wish = f'const {use.name} = @import_module("{use.file}", ...)'
        yield _timing(f"the timing window is not imported: keep `{wish}`", candidate)
    elif [shape(item) for item in found] != wanted:
        yield _timing(f"the import of {use.file} differs from the reference's", found[0])
    top_level = {id(item.init) for item in found}
    for call in builtin_calls(candidate, "import_module"):
        if import_path(call) == use.file and id(call) not in top_level:
            yield _timing(f"{use.file} is imported a second time", call)
    for name, node in bound_names(candidate):
        if name == use.name and not any(node is item for item in found):
            yield _timing(f"{use.name!r} is the name of the timing window and can't name anything else", node)


def _check_params(candidate: ast.File, reference: ast.File) -> Iterator[Finding]:
    theirs = {item.name: item for item in declarations(candidate) if item.kind is ast.VarKind.PARAM}
    for item in declarations(reference):
        if item.kind is not ast.VarKind.PARAM:
            continue
        if item.name not in theirs:
            yield _contract(f"param {item.name!r} is missing", candidate)
        elif shape(theirs[item.name]) != shape(item):
            yield _contract(f"param {item.name!r} differs from the reference's declaration", theirs[item.name])
    ours = {item.name for item in declarations(reference) if item.kind is ast.VarKind.PARAM}
    for name, node in bound_names(candidate):
        if name in ours and node is not theirs.get(name):
            yield _contract(f"{name!r} is a param of the task and can't be declared again", node)


def _check_exports(candidate: ast.File, reference: ast.File) -> Iterator[Finding]:
    theirs = [(export_name_of(call), call) for call in builtin_calls(candidate, "export_symbol")]
    ours = {export_name_of(call) for call in builtin_calls(reference, "export_symbol")}
    names = [name for name, _ in theirs]
    for missing in sorted(name for name in ours if name is not None and name not in names):
        yield _contract(f"host-visible symbol {missing!r} is not exported", candidate)
    for position, (name, call) in enumerate(theirs):
        if name is None:
            yield _contract("@export_symbol needs a name that can be read: a declaration or a string", call)
        elif name not in ours:
            yield _contract(f"@export_symbol exports {name!r}, which the reference doesn't have", call)
        elif name in names[:position]:
            yield _contract(f"host-visible symbol {name!r} is exported twice", call)


def _check_entries(candidate: ast.File, reference: ast.File, use: WindowUse) -> Iterator[Finding]:
    theirs, ours = exported_functions(candidate), exported_functions(reference)
    exports = {id(call.args[0]) for call in builtin_calls(candidate, "export_symbol") if call.args}
    for entry in use.entries:
        function = theirs.get(entry)
        if function is None:
            yield _contract(f"launched function {entry!r} is not an exported fn of this file", candidate)
            continue
        if [shape(p.type_expr) for p in function.params] != [shape(p.type_expr) for p in ours[entry].params]:
            yield _contract(f"launched function {entry!r} has other parameters than the reference's", function)
        if stamp_name(_first_statement(function), use.name) != use.start:
            yield _timing(f"launched function {entry!r} must begin with `{use.name}.{use.start}();`", function)
        for found in walk(candidate):
            if isinstance(found, ast.Ident) and found.name == function.name and id(found) not in exports:
                yield _timing(f"{function.name!r} is launched by the host and must not be used by the program", found)


def _check_returns(candidate: ast.File, use: WindowUse) -> Iterator[Finding]:
    # The window gets the function handed over by its import, which is compared as a whole elsewhere.
    imports = [item for item in declarations(candidate) if import_path(item.init) == use.file]
    accepted = {id(node) for item in imports for node in walk(item)}
    for before, call in returns(candidate):
        accepted.add(id(call.callee))
        if stamp_name(before, use.name) != use.stop:
            yield _timing(f"`{use.name}.{use.stop}();` must stand right before this return to the host", call)
    for found in walk(candidate):
        if isinstance(found, ast.FieldAccess) and found.name == UNBLOCK and id(found) not in accepted:
            yield _timing(f"{UNBLOCK} may only be called, as a statement of its own in a block", found)
        elif isinstance(found, ast.StringLit) and found.value == UNBLOCK.encode():
            yield _timing(f"{UNBLOCK} may not be named indirectly", found)


def _check_window_untouched(candidate: ast.File, reference: ast.File, use: WindowUse) -> Iterator[Finding]:
    """Every mention of the window is a stamp in its place, or something that the reference has too (its exports)."""
    theirs = exported_functions(candidate)
    starts = [_first_statement(theirs[entry]) for entry in use.entries if entry in theirs]
    stops = [before for before, _ in returns(candidate)]
    allowed: set[int] = set()
    for statement in [*starts, *stops]:
        if statement is not None and stamp_name(statement, use.name) in (use.start, use.stop):
            allowed |= {id(node) for node in walk(statement)}
    known = {shape(call) for call in _window_mentions(reference, use.name)}
    for call in _window_mentions(candidate, use.name):
        if shape(call) in known:
            allowed |= {id(node) for node in walk(call)}
    places = {
        use.start: "may stand only at the beginning of a launched function",
        use.stop: f"may stand only right before a return to the host: `{UNBLOCK}();` must follow it at once",
    }
    stamps: dict[int, str] = {}
    for found in walk(candidate):
        stamp = stamp_name(found, use.name) if isinstance(found, ast.ExprStmt) else None
        if stamp in places:
            stamps |= {id(node): f"`{use.name}.{stamp}();` {places[stamp]}" for node in walk(found)}
    for found in walk(candidate):
        if isinstance(found, ast.Ident) and found.name == use.name and id(found) not in allowed:
            general = f"{use.name!r} may be used for nothing but its stamps and exports"
            yield _timing(stamps.get(id(found), general), found)


def _window_mentions(tree: ast.File, name: str) -> list[ast.Node]:
    """Declarations and comptime statements outside functions that mention the window module, e.g. its exports."""
    found: list[ast.Node] = []
    for item in tree.items:
        if isinstance(item, ast.ComptimeBlock):
            found += [statement for statement in item.body.stmts if _mentions(statement, name)]
        elif isinstance(item, ast.VarDecl) and _mentions(item, name):
            found.append(item)
    return found


def _check_counter(candidate: ast.File, reference: ast.File) -> Iterator[Finding]:
    known = {shape(item) for item in declarations(reference)}
    own = {id(item.init) for item in declarations(candidate) if shape(item) in known}
    for call in builtin_calls(candidate, "import_module"):
        path = import_path(call)
        if path is None:
            yield _contract("@import_module needs a literal file name", call)
        elif _library(path) == TIME_LIBRARY and id(call) not in own:
            yield _timing(f"{TIME_LIBRARY} may be imported by the timing window only", call)


# ----------------------------------------------------------------------------------------------- helpers


def _first_statement(function: ast.FnDecl) -> ast.Stmt | None:
    return function.body.stmts[0] if function.body is not None and function.body.stmts else None


def stamp_name(statement: ast.Stmt | None, window: str) -> str | None:
    """`f` for the statement `window.f();`, None for any other."""
    if not isinstance(statement, ast.ExprStmt) or not isinstance(statement.expr, ast.Call):
        return None
    callee = statement.expr.callee
    if statement.expr.args or not isinstance(callee, ast.FieldAccess) or not isinstance(callee.base, ast.Ident):
        return None
    return callee.name if callee.base.name == window else None


def returns(tree: ast.File) -> Iterator[tuple[ast.Stmt | None, ast.Call]]:
    """Every statement `x.unblock_cmd_stream();` of a block, with the statement before it in that block."""
    for node in walk(tree):
        if not isinstance(node, ast.Block):
            continue
        for position, statement in enumerate(node.stmts):
            call = statement.expr if isinstance(statement, ast.ExprStmt) else None
            if isinstance(call, ast.Call) and isinstance(call.callee, ast.FieldAccess) and call.callee.name == UNBLOCK:
                yield (node.stmts[position - 1] if position else None), call


def _library(path: str) -> str:
    """The import path of a library in its one normal spelling: `<./time>` is `<time>`."""
    return f"<{posixpath.normpath(path[1:-1])}>" if path.startswith("<") and path.endswith(">") else path


def _mentions(node: ast.Node, name: str) -> bool:
    return any(isinstance(found, ast.Ident) and found.name == name for found in walk(node))


def _first_text(call: ast.BuiltinCall) -> str:
    return _text_of(call.args[0]) if call.args else ""


def _text_of(node: ast.Expr) -> str:
    return node.value.decode("utf-8", errors="replace") if isinstance(node, ast.StringLit) else ""


def _contract(message: str, node: ast.Node) -> Finding:
    return Finding(NAME, Predicate.CONTRACT, message, _place(node))


def _timing(message: str, node: ast.Node) -> Finding:
    return Finding(NAME, Predicate.TIMING, message, _place(node))


def _place(node: ast.Node) -> str:
    # Something that is missing has no place of its own: the file is named.
    return node.span.file.path if isinstance(node, ast.File) else place(node)
