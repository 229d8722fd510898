"""Analysis of a whole program: layout first, then each distinct PE program, then linking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins import load_all
from fabrica_bench.csl.diagnostics import CslError, Diagnostic, in_order
from fabrica_bench.csl.exhaustion import hit_own_limit
from fabrica_bench.csl.linker import PlacementError, link
from fabrica_bench.csl.pe_groups import pe_list
from fabrica_bench.csl.sema import limits, register_all, reserved
from fabrica_bench.csl.sema.calls import lower_instance, runtime_instance
from fabrica_bench.csl.sema.checks import check_images
from fabrica_bench.csl.sema.control import run_independent
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.layout import LayoutState, TileCode
from fabrica_bench.csl.sema.modules import ModuleInstance, params_key
from fabrica_bench.csl.sema.routing import Routes, check_routes
from fabrica_bench.csl.sema.session import BUDGET_SPENT, LIBRARY, MEMORY_SPENT, Session
from fabrica_bench.csl.sema.spelling import did_you_mean
from fabrica_bench.csl.sema.unit import PeState, Unit
from fabrica_bench.csl.values import Const, FnValue

if TYPE_CHECKING:
    from fabrica_bench.csl.driver import CompileOptions, CompileOutput, ParamValue, Tile

#: Distinct PE programs with errors after which no more are looked at.
MAX_FAILED_IMAGES = 4
#: Filters of a PE (Cerebras SDK docs); the number on WSE-3 is not public.
WSE2_FILTERS = 6
TOO_MUCH_CODE = "the functions of this PE program together are too large: they would fill PE memory several times"
#: Python frames that analysis may nest; expressions and comptime calls recurse.
RECURSION_LIMIT = 20_000


def analyse_program(options: CompileOptions) -> CompileOutput:
    """Compile the program of `options.file`; raises `CslError`."""
    return _analyse(options, _compile)


def analyse_tiles(
    options: CompileOptions, width: int, height: int, tiles: Mapping[tuple[int, int], Tile]
) -> CompileOutput:
    """Compile a program given PE by PE, without a layout block; no name is exported to the host. Raises `CslError`."""
    layout = LayoutState(width, height)
    empty = TileCode(LIBRARY / "empty.csl", {}, None)
    for y in range(height):
        for x in range(width):
            tile = tiles.get((x, y))
            layout.tiles[x, y] = empty if tile is None or tile.file is None else _tile_code(tile)
            if tile is not None and tile.colors:
                layout.colors[x, y] = dict(tile.colors)
    return _analyse(options, lambda session, _: _assemble(session, layout, None))


def _tile_code(tile: Tile) -> TileCode:
    assert tile.file is not None
    return TileCode(tile.file, {name: _param_const(value) for name, value in tile.params.items()}, None)


#: Characters of a source line that reports quote.
MAX_QUOTED_LINE = 200


def _param_const(value: ParamValue) -> Const:
    from fabrica_bench.csl.driver import ColorNumber

    match value:
        case ColorNumber(number):
            return Const(t.COLOR, number)
        case bool():
            return Const(t.BOOL, value)
        case int():
            return Const(t.COMPTIME_INT, value)
        case float():
            return Const(t.COMPTIME_FLOAT, value)
        case str():
            return Const(t.COMPTIME_STRING, value.encode())


def _analyse(options: CompileOptions, compile_: Callable[[Session, CompileOptions], ir.Program]) -> CompileOutput:
    from fabrica_bench.csl.driver import CompileOutput

    load_all()
    register_all()
    session = Session(options)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, RECURSION_LIMIT))
    try:
        program = compile_(session, options)
    except RecursionError:
        raise CslError([_too_deep(), *session.warnings]) from None
    except MemoryError as problem:
        if not hit_own_limit(problem):
            raise
        raise CslError([_too_big()]) from None
    except CslError as problem:
        raise CslError([*_once(problem.diagnostics), *session.warnings]) from None
    finally:
        sys.setrecursionlimit(before)
    return CompileOutput(program, in_order(session.warnings))


def _once(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """After the budget of steps or memory is spent every further part of the program fails with the same message."""
    spent = [item for item in diagnostics if item.message.startswith((BUDGET_SPENT, MEMORY_SPENT))]
    return [item for item in diagnostics if item not in spent[1:]]


def _too_big() -> Diagnostic:
    from fabrica_bench.csl.diagnostics import Severity

    return Diagnostic(Severity.ERROR, "compiling the program takes more memory than this process may use")


def _too_deep() -> Diagnostic:
    from fabrica_bench.csl.diagnostics import Severity

    return Diagnostic(Severity.ERROR, "the program nests expressions or comptime calls too deeply to be analysed")


def _compile(session: Session, options: CompileOptions) -> ir.Program:
    _, root = evaluate_layout(session, Path(options.file))
    layout = root.unit.layout
    assert layout is not None
    return _assemble(session, layout, root)


def _assemble(session: Session, layout: LayoutState, root: ModuleInstance | None) -> ir.Program:
    """The program of a complete layout; `root` is the instance of the layout block's file, if there is one."""
    options = session.options
    images, tiles = _images(session, layout)
    streams = reserved.stream_colors(root.unit) if root is not None else {}
    colors = _merged_colors(layout, images, tiles)
    if root is not None:
        if not options.memcpy:
            reserved.warn_of_missing_layer(session, [root.unit, *(compiled.unit for compiled in images)])
        linked = [(compiled.unit, compiled.image) for compiled in images]
        routes = Routes(colors, tiles, linked, layout.color_spans, streams, options.memcpy)
        _all(
            lambda: _check_names(session, layout, images),
            lambda: check_routes(routes) if options.check_routes else None,
        )
    return ir.Program(
        arch=options.arch,
        width=layout.width,
        height=layout.height,
        fabric=options.fabric_dims or _default_fabric(options, layout),
        offset=options.fabric_offsets,
        images=[compiled.image for compiled in images],
        tiles=tiles,
        colors=colors,
        exports=[name.entry for name in layout.names.values()],
        params=_resolved_params(root) if root is not None else {},
        fp16=options.fp16,
        memcpy=options.memcpy,
        channels=options.channels,
        stream_colors=streams,
        source_lines=_source_lines(images),
    )


def _all(*checks: Callable[[], None]) -> None:
    """Make independent checks; what all of them find is reported together."""
    errors: list[Diagnostic] = []
    for check in checks:
        try:
            check()
        except CslError as problem:
            errors.extend(problem.diagnostics)
    if errors:
        raise CslError(errors)


def _source_lines(images: list[CompiledImage]) -> dict[str, dict[int, str]]:
    """Text of the lines that run-time reports may quote."""
    quoted: dict[str, dict[int, str]] = {}
    split: dict[str, list[str]] = {}
    for compiled in images:
        for span in filter(None, compiled.unit.location_spans):
            path = span.file.path
            lines = split.get(path)
            if lines is None:
                lines = split[path] = span.file.text.split("\n")
                quoted[path] = {}
            number = span.file.position(span.start)[0]
            if number <= len(lines):
                quoted[path][number] = lines[number - 1].rstrip()[:MAX_QUOTED_LINE]
    return quoted


def _default_fabric(options: CompileOptions, layout: LayoutState) -> tuple[int, int]:
    x, y = options.fabric_offsets
    return (
        x + layout.width + (3 + options.width_east_buf if options.memcpy else 0),
        y + layout.height + options.memcpy,
    )


# ---------------------------------------------------------------------------------------------------- layout


def evaluate_layout(session: Session, path: Path) -> tuple[Unit, ModuleInstance]:
    """Evaluate the layout block of the program's file."""
    file = session.parse(path)
    blocks = [item for item in file.items if isinstance(item, ast.LayoutBlock)]
    if not blocks:
        fail(file.span, f"'{file.span.file.path}' has no layout block", "give the file that contains layout { ... }")
    if len(blocks) > 1:
        fail(blocks[1].span, "a file has only one layout block")
    unit = Unit(session, layout=LayoutState())
    root = ModuleInstance(unit, file, "", _command_line_params(session, file), 0, None)
    # A file with comptime blocks may be the code of PEs as well: what it imports may need params that only they get.
    unit.add_instance(root, with_imports=next(root.comptime_blocks(), None) is None)
    unit.attempt(lambda: run_independent(root.frame("L"), blocks[0].body.stmts))
    assert unit.layout is not None
    if not unit.errors:
        unit.layout.check_complete(blocks[0].span)
    own = {str(code.path) for code in unit.layout.tiles.values()}
    # A file that is also the code of a PE has imports and blocks that bind tasks: they belong to the PE.
    if root.source.absolute not in own:
        unit.make_imports(root)
    for instance in unit.instances:
        if instance.source.absolute not in own:
            _run_comptime_blocks(instance, "L")
    unit.raise_errors()
    return unit, root


def _command_line_params(session: Session, file: ast.File) -> dict[str, Const]:
    options = session.options
    kinds = {
        item.name: item.name_span
        for item in file.items
        if isinstance(item, ast.ColorDecl) or (isinstance(item, ast.VarDecl) and item.kind is ast.VarKind.PARAM)
    }
    bound: dict[str, Const] = {}
    for name, number in options.params.items():
        bound[name] = Const(t.COMPTIME_INT, number)
    for name, number in options.colors.items():
        if not 0 <= number <= 23:
            fail(kinds.get(name), f"--colors={name}:{number}: a color is a number from 0 to 23")
        bound[name] = Const(t.COLOR, number)
    for name in bound:
        if name not in kinds:
            text = f"'{file.span.file.path}' has no param named '{name}' (given on the command line)"
            session.warn(None, text, did_you_mean(name, sorted(kinds)))
    return bound


def _resolved_params(root: ModuleInstance) -> dict[str, str]:
    """Top-level params as text: what `out.json` shows. A param that nothing used and that has no value is left out."""
    from fabrica_bench.csl.builtins.general import show

    found: dict[str, str] = {}
    for name, entry in root.entries.items():
        decl = entry.decl
        if not isinstance(decl, ast.VarDecl) or decl.kind is not ast.VarKind.PARAM:
            continue
        if entry.state == "new" and (name in root.params or decl.init is not None):
            root.unit.attempt(lambda name=name: root.find(name))  # type: ignore[misc]
        if entry.value is not None:
            found[name] = show(entry.value)
    root.unit.raise_errors()
    return found


# ---------------------------------------------------------------------------------------------------- images


@dataclass(slots=True)
class CompiledImage:
    """One PE program with what the analyser knows beyond the image."""

    unit: Unit
    image: ir.Image
    code: TileCode


def _images(session: Session, layout: LayoutState) -> tuple[list[CompiledImage], list[list[int]]]:
    """Compile each distinct (file, params) once; which one each PE runs."""
    numbers: dict[Any, int] = {}
    codes: list[TileCode] = []
    by_params: dict[int, tuple[Any, Mapping[str, Const]]] = {}
    tiles = [[0] * layout.width for _ in range(layout.height)]
    for (x, y), code in layout.tiles.items():
        if id(code.params) not in by_params:
            by_params[id(code.params)] = (params_key(code.params), code.params)
        key = (code.path, by_params[id(code.params)][0], _filter_key(layout, x, y))
        if key not in numbers:
            numbers[key] = len(codes)
            codes.append(code)
        tiles[y][x] = numbers[key]
    session.charge_programs([code.span for code in codes])
    layout_colors: dict[int, dict[int, ir.ColorConfig]] = {}
    for (x, y), configs in layout.colors.items():
        layout_colors.setdefault(tiles[y][x], configs)
    errors: list[Diagnostic] = []
    unplaced: dict[Diagnostic, list[int]] = {}
    images: list[CompiledImage] = []
    failed = 0
    for number, code in enumerate(codes):
        try:
            images.append(compile_image(session, layout, code, number, layout_colors.get(number, {})))
        except PlacementError as problem:
            for diagnostic in problem.diagnostics:
                unplaced.setdefault(diagnostic, []).append(number)
            failed += 1
        except CslError as problem:
            errors.extend(problem.diagnostics)
            failed += 1
        if failed >= MAX_FAILED_IMAGES:
            break
    errors += [
        _naming_pes(diagnostic, set(which), tiles, number + 1 == len(codes)) for diagnostic, which in unplaced.items()
    ]
    if errors or failed:
        raise CslError(errors)
    for path in dict.fromkeys(code.path for code in codes):
        try:
            check_images([(compiled.unit, compiled.image) for compiled in images if compiled.code.path == path])
        except CslError as problem:
            errors.extend(problem.diagnostics)
    if errors:
        raise CslError(errors)
    return images, tiles


def _naming_pes(diagnostic: Diagnostic, programs: set[int], tiles: list[list[int]], is_complete: bool) -> Diagnostic:
    """The diagnostic of these programs, with the PEs that have them. `is_complete`: all programs were looked at."""
    pes = pe_list((x, y) for y, row in enumerate(tiles) for x, number in enumerate(row) if number in programs)
    rest = "" if is_complete else ", perhaps also of others"
    return replace(diagnostic, message=f"{diagnostic.message}; it is the program of {pes}{rest}")


def _filter_key(layout: LayoutState, x: int, y: int) -> Any:
    """PEs that share an image must agree on which colors are filtered: `@get_filter_id` depends on it."""
    configs = layout.colors.get((x, y))
    if not configs:
        return ()
    return tuple(sorted(color for color, config in configs.items() if config.filter is not None))


def compile_image(
    session: Session, layout: LayoutState, code: TileCode, number: int, colors: dict[int, ir.ColorConfig]
) -> CompiledImage:
    """Analyse and link the program of a PE."""
    state = PeState(width=layout.width, height=layout.height, layout_colors=dict(colors))
    state.symbol_ids = {name: advertised.entry.id for name, advertised in layout.names.items()}
    unit = Unit(session, pe=state)
    session.check_memory(code.span)
    file = session.parse(code.path)
    root = ModuleInstance(unit, file, "", code.params, 0, code.span)
    known = root.param_names()
    for name in code.params:
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            session.warn(code.span, f"'{file.span.file.path}' has no param named '{name}'", hint)
    unit.add_instance(root)
    analyse_unit(unit)
    unit.raise_errors()
    image = link(unit, root, name=f"{file.span.file.path}#{number}", file=file.span.file.path)
    return CompiledImage(unit, image, code)


def analyse_unit(unit: Unit) -> None:
    """Run the comptime blocks of all modules, then lower everything that run-time code can reach."""
    position = 0
    while position < len(unit.instances):
        instance = unit.instances[position]
        position += 1
        _run_comptime_blocks(instance, "T")
        _request_exports(instance)
    for task in unit.pe_state.tasks:
        unit.attempt(lambda task=task: runtime_instance(unit, task.function, task.span))  # type: ignore[misc]
    drain(unit)
    reserved.check_program(unit)


def drain(unit: Unit) -> None:
    """Lower queued functions until none is left."""
    size = 0
    while unit.worklist:
        instance = unit.worklist.pop(0)
        unit.attempt(lambda instance=instance: lower_instance(unit, instance))  # type: ignore[misc]
        if instance.lowered is not None:
            size += sum(map(len, instance.lowered.blocks))
        if size > limits.PROGRAM_INSTRUCTIONS:
            unit.attempt(lambda instance=instance: fail(instance.origin, TOO_MUCH_CODE))  # type: ignore[misc]
            return


def _run_comptime_blocks(instance: ModuleInstance, context: str) -> None:
    for block in instance.comptime_blocks():
        instance.unit.attempt(
            lambda block=block: run_independent(instance.frame(context), block.body.stmts)  # type: ignore[misc]
        )


def _request_exports(instance: ModuleInstance) -> None:
    unit = instance.unit
    for item in instance.file.items:
        if isinstance(item, ast.VarDecl) and item.storage == "export":
            unit.attempt(lambda item=item: instance.find(item.name))  # type: ignore[misc]
        elif isinstance(item, ast.FnDecl) and item.storage == "export":
            function = FnValue(instance, item)
            unit.attempt(
                lambda function=function, item=item: runtime_instance(unit, function, item.name_span)  # type: ignore[misc]
            )


# --------------------------------------------------------------------------------------------- whole program


def _check_names(session: Session, layout: LayoutState, images: list[CompiledImage]) -> None:
    """Exported symbols agree with the names that the layout advertises."""
    errors: list[Diagnostic] = []
    for compiled in images:
        for name, export in compiled.unit.pe_state.exports.items():
            advertised = layout.names.get(name)
            try:
                if advertised is None:
                    fail(
                        export.span,
                        f"symbol '{name}' has no @export_name in the layout",
                        f'add @export_name("{name}", {export.type.name}, ...) to the layout block',
                    )
                if advertised.type != export.type:
                    note = (("declared here", advertised.span),)
                    fail(
                        export.span,
                        f"symbol '{name}': expected type '{advertised.type.name}', got: '{export.type.name}'",
                        notes=note,
                    )
                if export.variable is not None and export.variable.is_const and advertised.entry.mutable:
                    fail(
                        export.span,
                        f"symbol '{name}' is a constant, but the layout exports it as mutable",
                        "declare it with 'var', or export the name with false",
                    )
            except CslError as problem:
                errors.extend(problem.diagnostics)
    if errors:
        raise CslError(errors)
    for name, advertised in layout.names.items():
        if not any(name in compiled.unit.pe_state.exports for compiled in images):
            hint = f'a PE program must call @export_symbol(..., "{name}")'
            session.warn(advertised.span, f"no PE exports the symbol '{name}'", hint)


def _merged_colors(
    layout: LayoutState, images: list[CompiledImage], tiles: list[list[int]]
) -> list[list[dict[int, ir.ColorConfig]]]:
    merged: list[list[dict[int, ir.ColorConfig]]] = []
    for y in range(layout.height):
        row = []
        for x in range(layout.width):
            configs = layout.colors.get((x, y), {})
            compiled = images[tiles[y][x]]
            local = compiled.image.local_colors
            twice = configs.keys() & local.keys()
            if twice:
                fail(
                    compiled.code.span,
                    f"color {min(twice)} of PE ({x}, {y}) is configured in the layout and by @set_local_color_config",
                )
            all_configs = {**configs, **local} if local else configs
            filters = sum(config.filter is not None for config in all_configs.values())
            if filters > WSE2_FILTERS and compiled.unit.session.arch == "wse2":
                fail(compiled.code.span, f"PE ({x}, {y}) has {filters} filters, but a PE has {WSE2_FILTERS}")
            row.append(all_configs)
        merged.append(row)
    return merged
