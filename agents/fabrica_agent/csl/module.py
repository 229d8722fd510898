"""A whole compute file: parameters, imports, arrays, descriptors, the entry function, exports.

One file may serve several sizes. Where the lowering gives the same text for all of them, the text stands once;
otherwise the entry function chooses by the size parameters, at compile time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabrica_agent.csl.exchange import Exchange, Fabric, Transfers
from fabrica_agent.csl.expressions import Expressions, float_text
from fabrica_agent.csl.functions import HELPERS, helper_text
from fabrica_agent.csl.names import Identifiers
from fabrica_agent.csl.stages import FIRST_TASK, LAST_TASK, MODULES, Round, Stages, module_import
from fabrica_agent.csl.statements import Statements, storage_type
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Buffer, For, Program, Reduce, Ty, UnsupportedError, walk_stmts
from fabrica_agent.lowering.options import Options

PE_BYTES = 48 * 1024
IMAGE_BYTES = 5 * 1024
"""Bytes to leave for code, stack and the host interface; a minimal program with memcpy takes about 4 KiB."""


@dataclass(frozen=True)
class ParamDeclaration:
    """A parameter that the layout binds; `type` is None where it isn't visible."""

    name: str
    type: str | None


@dataclass(frozen=True)
class Export:
    """An exported array: its advertised name, element type, whether the host may write it, and its length."""

    name: str
    ty: Ty
    mutable: bool
    length: int


@dataclass(frozen=True)
class ModuleShape:
    """What the visible bundle fixes about the compute file.

    Attributes:
        params: Parameters in the order of the layout.
        memcpy_param: The one that configures `<memcpy/memcpy>`.
        exports: Arrays, in the order of the layout.
        entry: Name of the function that the host launches.
        entry_args: Its arguments as (name, CSL type).
        window_file: Name of the timing module.
        window_unblock: Its parameter that takes the function returning to the host; None if it has none.
        window_start: Its function that takes the start stamp.
        window_end: Its function that takes the end stamp.
    """

    params: tuple[ParamDeclaration, ...]
    memcpy_param: str
    exports: tuple[Export, ...]
    entry: str
    entry_args: tuple[tuple[str, str], ...]
    window_file: str
    window_unblock: str | None
    window_start: str
    window_end: str


@dataclass(frozen=True)
class Variant:
    """A lowered program for one size.

    Attributes:
        program: Serial, possibly with bulk operations.
        shape: The fixed parts; only the lengths of exports may differ between variants of a file.
        sizes: Values of the size parameters that the compute file gets, and of other expressions that tell sizes apart.
        options: How it was lowered.
        exchange: Data that PEs bring each other before the program, and hand over after it.
    """

    program: Program
    shape: ModuleShape
    sizes: Mapping[str, int]
    options: Options
    exchange: Exchange | None = None


HEADER = (
    "Compiled from CUDA: blocks and threads became loops, barriers the boundaries between them, per-thread variables",
    "that live across a barrier arrays, and elementwise work DSD operations.",
)

OWN = (*MODULES, "sys_mod", "window", "math", "position", "i", *(f"i{k}" for k in range(4)), *HELPERS)
"""Names that the file uses for its own; one that a parameter, an export or the entry has is replaced."""


def write_module(variants: Sequence[Variant]) -> str:
    """The text of the compute file for all variants.

    Raises:
        UnsupportedError: Something has no CSL form, the arrays don't fit, or the parameters can't tell variants apart.
    """
    bodies = {_Module((v,)).text(checked=False) for v in variants}
    if len(bodies) == 1:
        return _Module(variants[:1]).text(sizes=[v.sizes for v in variants])
    return _Module(variants).text(sizes=[v.sizes for v in variants])


class _Section:
    """One variant's part of the file: its private arrays, descriptors and body."""

    def __init__(self, variant: Variant, identifiers: Identifiers, fabric: Fabric, own: Mapping[str, str]) -> None:
        program = variant.program
        self.variant = variant
        self.identifiers = identifiers
        types = {n: storage_type(n, ty, program.ranges) for n, ty in program.types.items()}
        for var in program.args:
            types[var.name] = var.ty
            identifiers.rename(var.name, var.name.rstrip("'"))
        buffers = {n: _element_type(b) for n, b in program.buffers.items()}
        self.expressions = Expressions(identifiers, types, buffers, program.ranges, own=own)
        self.lengths = {n: _length(b) for n, b in program.buffers.items()}
        statements = Statements(self.expressions, identifiers, program.ranges, self.lengths)
        # The target of a bulk reduction is addressed, so it lives at file level.
        statements.globals = {
            s.target: types[s.target] for s in walk_stmts(program.body) if isinstance(s, Reduce) and s.index is None
        }
        statements.counters = {s.var for s in walk_stmts(program.body) if isinstance(s, For)}
        self.body: list[str] = statements.block(program.body, 0, frozenset(v.name for v in program.args))
        self.stages: Stages | None = None
        self.statements = statements
        self.transfers = None if variant.exchange is None else Transfers(variant.exchange, fabric, identifiers, own)
        if self.transfers is not None:
            self._communicate(self.transfers)
        self._check_memory()

    def _communicate(self, transfers: Transfers) -> None:
        """Put the movements of data around the program."""
        parts = [*transfers.before, *self.body, *transfers.after]
        coordinates = transfers.coordinates()
        if not any(isinstance(part, Round) for part in parts):
            self.body = [*coordinates, *(str(part) for part in parts)]
            return
        if self.variant.shape.entry_args:
            raise UnsupportedError("collective operations in a program whose launch has arguments")
        self.stages = Stages(parts, coordinates, self.identifiers)
        self.body = self.stages.opened()

    def _check_memory(self) -> None:
        exported = {e.name: e for e in self.variant.shape.exports}
        total = sum(e.length * e.ty.bits // 8 for e in exported.values())
        for name, length in self.lengths.items():
            if name not in exported:
                total += length * self.expressions.buffers[name].bits // 8
        if total > PE_BYTES - IMAGE_BYTES:
            raise UnsupportedError(f"the arrays take {total} bytes; a PE has {PE_BYTES} for code and data together")

    def declarations(self) -> list[str]:
        """Private arrays, descriptors and accumulators."""
        exported = {e.name for e in self.variant.shape.exports}
        lines = [
            self._array(name, buffer)
            for name, buffer in self.variant.program.buffers.items() if name not in exported
        ]  # fmt: skip
        for name, text in self.statements.dsds.values():
            lines.append(f"const {name} = {text};")
        if self.transfers is not None:
            if self.stages is not None:
                taken = self.transfers.exchange.tasks
                lines += self.stages.declarations([n for n in range(FIRST_TASK, LAST_TASK + 1) if n not in taken])
            lines += self.transfers.declarations()
        for name, ty in sorted(self.statements.globals.items()):
            lines.append(f"var {self.identifiers.of(name)}: {ty.value} = 0.0;")
        return [*lines, *self.statements.functions]

    def _array(self, name: str, buffer: Buffer) -> str:
        ty = self.expressions.buffers[name]
        identifier = self.identifiers.of(name)
        if buffer.init is None:
            return array_declaration(identifier, str(self.lengths[name]), ty, self.variant.options)
        values = ", ".join(float_text(v, ty) if ty.is_float else str(int(v)) for v in buffer.init)
        return f"var {identifier} = [{self.lengths[name]}]{ty.value} {{ {values} }};"


def array_declaration(name: str, length: str, ty: Ty, options: Options) -> str:
    """An array of zeros; staggered arrays get one element more, so that the next one starts in another bank."""
    if options.stagger and ty.bits == 32:
        extent = f"{length} + 1" if not length.isdigit() else str(int(length) + 1)
        return f"var {name} = @zeros([{extent}]{ty.value});"
    return f"var {name}: [{length}]{ty.value} align(16) = @zeros([{length}]{ty.value});"


class _Module:
    def __init__(self, variants: Sequence[Variant]) -> None:
        self.shape = variants[0].shape
        self.options = variants[0].options
        given = [p.name for p in self.shape.params] + [e.name for e in self.shape.exports] + [self.shape.entry]
        given += [argument for argument, _ in self.shape.entry_args]
        given += [f"{export.name}_ptr" for export in self.shape.exports]
        root = Identifiers({*OWN} - {*given})
        for name in given:
            root.keep(name)
        self.own = {name: root.fresh(name) if name in given else name for name in OWN}
        self.root = root
        self.fabric = Fabric(root)
        self.sections = [_Section(v, root.child(), self.fabric, self.own) for v in variants]
        if len(variants) > 1 and len({tuple(sorted(v.sizes.items())) for v in variants}) < len(variants):
            raise UnsupportedError("the parameters of the compute file don't tell its sizes apart")

    def text(self, *, checked: bool = True, sizes: Sequence[Mapping[str, int]] = ()) -> str:
        """Assemble the file."""
        declarations = [line for section in self.sections for line in section.declarations()]
        helpers = {h: None for section in self.sections for h in section.expressions.helpers}
        parts = [
            "\n".join(f"// {line}" for line in HEADER),
            "\n".join(self._params()),
            "\n".join(self._imports()),
            "\n".join(self._exported_arrays()),
            "\n".join(self.fabric.declarations()),
            "\n".join(declarations),
            *(helper_text(name, self.own) for name in helpers),
            "\n".join(self._entry()),
            "\n".join(self._exports(sizes if checked else ())),
        ]
        return "\n\n".join(p for p in parts if p) + "\n"

    def _params(self) -> list[str]:
        return [f"param {p.name}: {p.type};" if p.type else f"param {p.name};" for p in self.shape.params]

    def _imports(self) -> list[str]:
        shape = self.shape
        own = self.own
        binding = (
            f", .{{ .{shape.window_unblock} = {own['sys_mod']}.unblock_cmd_stream }}" if shape.window_unblock else ""
        )
        lines = [
            f'const {own["sys_mod"]} = @import_module("<memcpy/memcpy>", {shape.memcpy_param});',
            f'const {own["window"]} = @import_module("{shape.window_file}"{binding});',
        ]
        if any(section.expressions.uses_math for section in self.sections):
            lines.append(f'const {own["math"]} = @import_module("<math>");')
        if any(section.transfers is not None for section in self.sections):
            lines.append(f'const {own["position"]} = @import_module("<layout>");')
        return [*lines, *(module_import(own[MODULES[axis]], axis, param) for axis, param in self._axes().items())]

    def _axes(self) -> dict[int, str]:
        """The axes along which the library works, with the parameter that configures it."""
        axes: dict[int, str] = {}
        for section in self.sections:
            if section.stages is not None:
                axes.update(section.stages.axes)
        if axes and (self.fabric.inputs or self.fabric.outputs):
            raise UnsupportedError("collective operations beside channels of the program's own")
        return dict(sorted(axes.items()))

    def _exported_arrays(self) -> list[str]:
        constants: list[str] = []
        arrays: list[str] = []
        pointers: list[str] = []
        for export in self.shape.exports:
            length = self._length_text(export, constants)
            arrays.append(array_declaration(export.name, length, export.ty, self.options))
            word = "var" if export.mutable else "const"
            pointers.append(f"{word} {export.name}_ptr: [*]{export.ty.value} = &{export.name};")
        return constants + arrays + pointers

    def _length_text(self, export: Export, constants: list[str]) -> str:
        """A length as the size parameter that equals it in every variant, a number, or a choice by size."""
        lengths = [next(e.length for e in s.variant.shape.exports if e.name == export.name) for s in self.sections]
        for param in self.sections[0].variant.sizes:
            if not param.startswith("@") and all(
                s.variant.sizes.get(param) == n and n > 1 for s, n in zip(self.sections, lengths, strict=True)
            ):
                return param
        if len(set(lengths)) == 1:
            return str(lengths[0])
        name = self.root.fresh(f"{export.name}_length")
        choices = "".join(
            f"if ({self._is_size(section)}) {length} else "
            for section, length in zip(self.sections[:-1], lengths, strict=False)
        )
        constants.append(f"const {name} = {choices}{lengths[-1]};")
        return name

    def _is_size(self, section: _Section) -> str:
        """A condition on the parameters that holds for this variant only."""
        mine = section.variant.sizes
        others = [s.variant.sizes for s in self.sections if s is not section]
        telling = [p for p in mine if any(o.get(p) != mine[p] for o in others)]
        single = next((p for p in telling if all(o.get(p) != mine[p] for o in others)), None)
        return " and ".join(f"{p} == {mine[p]}" for p in ([single] if single else telling))

    def _entry(self) -> list[str]:
        shape = self.shape
        arguments = ", ".join(f"{name}: {ty}" for name, ty in shape.entry_args)
        end = [f"{self.own['window']}.{shape.window_end}();", f"{self.own['sys_mod']}.unblock_cmd_stream();"]
        modules = [self.own[name] for name in MODULES]
        lines = [line for s in self.sections if s.stages is not None for line in (*s.stages.tasks(modules, end), "")]
        lines += [f"fn {shape.entry}({arguments}) void {{", f"  {self.own['window']}.{shape.window_start}();"]
        lines += [f"  {modules[axis]}.init();" for axis in self._axes()]
        if len(self.sections) == 1:
            lines += [f"  {line}" for line in self.sections[0].body]
        else:
            for index, section in enumerate(self.sections):
                last = index == len(self.sections) - 1
                opening = "else {" if last else f"if ({self._is_size(section)}) {{"
                lines.append(f"  {opening}" if index == 0 else f"  }} {'' if last else 'else '}{opening}")
                lines += [f"    {line}" for line in section.body]
            lines.append("  }")
        staged = [section.stages is not None for section in self.sections]
        if any(staged) and not all(staged):
            raise UnsupportedError("collective operations for some sizes only")
        return [*lines, *(f"  {line}" for line in (() if any(staged) else end)), "}"]

    def _exports(self, sizes: Sequence[Mapping[str, int]]) -> list[str]:
        lines = ["comptime {"]
        if sizes and sizes[0]:
            cases = [" and ".join(f"{p} == {v}" for p, v in s.items()) for s in sizes]
            cases = list(dict.fromkeys(cases))
            text = " or ".join(f"({c})" if " and " in c and len(cases) > 1 else c for c in cases)
            lines.append(f'  @comptime_assert({text}, "this program was compiled for other sizes");')
        lines += self.fabric.initialisation()
        for section in self.sections:
            if section.stages is not None:
                bindings = section.stages.bindings()
                chosen = len(self.sections) > 1
                lines += [f"  if ({self._is_size(section)}) {{"] if chosen else []
                lines += [f"    {line}" if chosen else f"  {line}" for line in bindings]
                lines += ["  }"] if chosen else []
        lines += [f'  @export_symbol({e.name}_ptr, "{e.name}");' for e in self.shape.exports]
        return [*lines, f"  @export_symbol({self.shape.entry});", "}"]


def _length(buffer: Buffer) -> int:
    length = None if buffer.length is None else fold.int_value(buffer.length)
    if length is None:
        raise UnsupportedError(f"the length of array {buffer.name} is not known")
    return max(1, length)


def _element_type(buffer: Buffer) -> Ty:
    """Element type in memory: arrays of flags hold 16-bit words."""
    return Ty.I16 if buffer.ty is Ty.BOOL else buffer.ty
