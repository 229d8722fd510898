"""Places globals in PE memory and makes every address absolute.

Memory map, low to high: code (an estimate, the real instruction set is not public), data in order of alignment, free
space, stack. Sections with a given address lie there, other data around them. Everything must fit in the 48 KiB of a
PE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.descriptors import encode_dsd
from fabrica_bench.csl.diagnostics import CslError, error
from fabrica_bench.csl.sema import lower
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.places import PE_MEMORY
from fabrica_bench.csl.values import GlobalVar

if TYPE_CHECKING:
    from fabrica_bench.csl.ast import Span
    from fabrica_bench.csl.sema.modules import ModuleInstance
    from fabrica_bench.csl.sema.unit import Unit

#: SRAM of a PE in bytes (Cerebras SDK docs).
MEMORY_BYTES = PE_MEMORY
#: Estimates: a scalar instruction, the run-time system that every program has, and a stack frame's overhead.
BYTES_PER_INSTRUCTION = 4
RUNTIME_BYTES = 1024
CALL_OVERHEAD_BYTES = 4
MIN_STACK_BYTES = 256
#: Stack given to programs with recursion, whose depth is unknown.
RECURSIVE_STACK_BYTES = 2048
#: Alignment of FIFO buffers in bytes (an estimate; the documented constant's value is not public).
FIFO_ALIGNMENT = 16
LARGEST_SHOWN = 5


class PlacementError(CslError):
    """What a program needs has no room in the memory of a PE."""


def link(unit: Unit, root: ModuleInstance, *, name: str, file: str) -> ir.Image:
    """Build the image of an analysed PE program.

    Raises:
        PlacementError: It does not fit.
        CslError: A symbol or task that it needs isn't there.
    """
    return _Linker(unit, root).link(name, file)


class _Linker:
    def __init__(self, unit: Unit, root: ModuleInstance) -> None:
        self.unit = unit
        self.state = unit.pe_state
        self.frame = root.frame()
        self.span = root.file.span
        #: place of the instruction whose operands are being resolved
        self.at = self.span
        self.addresses: dict[str, int] = {}
        self.images: dict[str, Any] = {}
        self.task_ids: dict[str, int] = {}
        self.task_kinds: dict[str, str] = {}
        self.function_index: dict[str, int] = {}

    def link(self, name: str, file: str) -> ir.Image:
        variables = self._collect()
        functions = {
            instance.name: instance.lowered for instance in self.unit.needed_functions() if instance.lowered is not None
        }
        self.function_index = {function: number for number, function in enumerate(functions)}
        for task in self.state.tasks:
            for instance in self.unit.needed_functions():
                if instance.function == task.function:
                    self.task_ids[instance.name] = task.id
                    self.task_kinds[instance.name] = task.kind
        code_bytes = RUNTIME_BYTES + BYTES_PER_INSTRUCTION * sum(
            len(block) for function in functions.values() for block in function.blocks
        )
        data_end = self._place(variables, code_bytes)
        stack = self._stack_bytes(functions)
        if data_end + stack > MEMORY_BYTES:
            raise self._overflow(variables, code_bytes, data_end, stack)
        for function in functions.values():
            function.blocks = [[self._resolve_instr(instr) for instr in block] for block in function.blocks]
        image = ir.Image(
            name=name,
            file=file,
            functions=functions,
            globals={variable.name: self._global(variable) for variable in variables},
            locations=self.unit.locations,
            data_end=data_end,
            code_bytes=code_bytes,
            stack_top=MEMORY_BYTES,
        )
        self._fill_state(image)
        return image

    # ------------------------------------------------------------------------------------------ placement

    def _collect(self) -> list[GlobalVar]:
        """Variables that the program uses, found by following initial values too."""
        from fabrica_bench.csl.sema.program import drain

        done: dict[str, GlobalVar] = {}
        total = 0
        progress = True
        while progress:
            progress = False
            drain(self.unit)
            self.unit.raise_errors()
            for variable in list(self.unit.globals.values()):
                wanted = variable.is_runtime_used or variable.is_export
                if not wanted or variable.name in done:
                    continue
                if variable.is_extern:
                    fail(variable.span, f"undefined symbol '{variable.name}': no module exports this variable")
                done[variable.name] = variable
                span = variable.span or self.span
                total += t.size_of(variable.type)
                if total > MEMORY_BYTES:
                    self.images[variable.name] = bytearray(), [], []  # the program does not fit, and is refused later
                    continue
                self.images[variable.name] = lower.memory_image(self.frame, variable, span)
                progress = True
        return sorted(done.values(), key=lambda variable: -variable.alignment)

    def _place(self, variables: list[GlobalVar], start: int) -> int:
        """Give every variable its address; the end of the data."""
        taken = self._place_sections(variables, start)
        at = start
        for variable in variables:
            if variable.name in self.addresses:
                continue
            at = _first_gap(at, max(variable.alignment, 2), t.size_of(variable.type), taken)
            self.addresses[variable.name] = at
            at += t.size_of(variable.type)
        return t.align_up(max([at, *(end for _, end, _ in taken)]), 4)

    def _place_sections(self, variables: list[GlobalVar], start: int) -> list[tuple[int, int, str]]:
        """Place the sections whose addresses were given; their (start, end, name) in the order of addresses."""
        taken: list[tuple[int, int, str]] = []
        for section, address in sorted(self.unit.session.options.section_addresses.items(), key=lambda item: item[1]):
            inside = [variable for variable in variables if variable.section == section]
            at = address
            for variable in inside:
                at = t.align_up(at, max(variable.alignment, 2))
                self.addresses[variable.name] = at
                at += t.size_of(variable.type)
            if not inside:
                continue
            hint = "change --link-section-start-address-bytes"
            if address < start:
                message = f"section '{section}' at {address} overlaps the code, which ends at {start}"
                raise _no_room(inside[0].span, message, hint)
            if taken and taken[-1][1] > address:
                message = f"section '{section}' at {address} overlaps section '{taken[-1][2]}'"
                raise _no_room(inside[0].span, message, hint)
            taken.append((address, at, section))
        return taken

    def _stack_bytes(self, functions: dict[str, ir.Function]) -> int:
        depth: dict[str, int | None] = {}

        def need(name: str) -> int:
            if name in depth:
                known = depth[name]
                return RECURSIVE_STACK_BYTES if known is None else known
            depth[name] = None
            function = functions.get(name)
            if function is None:
                return 0
            below = [
                need(instr.fn) for block in function.blocks for instr in block if isinstance(instr, ir.Call | ir.MapOp)
            ]
            depth[name] = function.frame_size + CALL_OVERHEAD_BYTES + max(below, default=0)
            return depth[name] or 0

        return max(MIN_STACK_BYTES, *(need(name) for name in functions)) if functions else MIN_STACK_BYTES

    def _overflow(self, variables: list[GlobalVar], code: int, data_end: int, stack: int) -> PlacementError:
        """Memory map: what takes how much, the largest first; the place is that of the largest."""
        sized = [(t.size_of(variable.type), variable.name, variable.span) for variable in variables]
        for instance in self.unit.needed_functions():
            if instance.lowered is not None and instance.lowered.frame_size:
                name = f"frame of {instance.name}"
                sized.append((instance.lowered.frame_size, name, instance.function.decl.name_span))
        largest = sorted(sized, key=lambda entry: -entry[0])[:LARGEST_SHOWN]
        listing = ", ".join(f"'{name}' {size} bytes" for size, name, _ in largest)
        spans = [span for _, _, span in largest if span is not None]
        return _no_room(
            spans[0] if spans else self.span,
            f"the program needs {data_end + stack} bytes of PE memory, but a PE has {MEMORY_BYTES}: "
            f"code {code} (estimate), data {data_end - code}, stack {stack}",
            f"the largest parts: {listing}",
        )

    # ----------------------------------------------------------------------------------------- resolution

    def _address(self, symbol: ir.Sym) -> int:
        return self.addresses[symbol.name] + symbol.offset

    def _dsd(self, dsd: ir.Dsd) -> ir.Dsd:
        return dsd._replace(base=self._address(dsd.base)) if isinstance(dsd.base, ir.Sym) else dsd

    def _resolve(self, item: Any) -> Any:
        """`item` with symbols and function addresses replaced, in operands nested to any depth."""
        if isinstance(item, ir.Sym):
            return ir.Imm(self._address(item))
        if isinstance(item, ir.FnAddr):
            return ir.Imm(self.function_index[item.name] + 1)
        if isinstance(item, ir.Dsd):
            return self._dsd(item)
        if isinstance(item, ir.Wake):
            return self._wake(item)
        if isinstance(item, tuple):
            parts = [self._resolve(part) for part in item]
            return item._make(parts) if hasattr(item, "_make") else tuple(parts)
        return item

    def _wake(self, wake: ir.Wake) -> ir.Wake:
        """A task named in `.activate` or `.unblock` means the id it is bound to."""
        if isinstance(wake.id, ir.FnAddr):
            name = wake.id.name
            if name not in self.task_ids:
                hint = "bind it in a comptime block, e.g. with @bind_local_task"
                fail(self.at, f"task '{name}' is activated or unblocked, but not bound to an id", hint)
            kind = self.task_kinds[name]
            if wake.action == "activate" and kind != "local":
                fail(self.at, f"{kind} task '{name}' can't be activated", "only local tasks can")
            space: Any = wake.space
            if wake.action == "unblock" and kind == "data":
                space = "color" if self.unit.session.arch == "wse2" else "input_queue"
            return wake._replace(id=ir.Imm(self.task_ids[wake.id.name]), space=space)
        return wake._replace(id=self._resolve(wake.id))

    def _resolve_instr(self, instr: ir.Instr) -> ir.Instr:
        self.at = self.unit.location_spans[instr.loc] or self.span
        for name in _operand_fields(type(instr)):
            setattr(instr, name, self._resolve(getattr(instr, name)))
        return instr

    def _global(self, variable: GlobalVar) -> ir.Global:
        image, relocations, descriptors = self.images[variable.name]
        for relocation in relocations:
            if isinstance(relocation.target, ir.Sym):
                word = self._address(relocation.target)
            else:
                word = self.function_index[relocation.target.name] + 1
            image[relocation.offset : relocation.offset + 2] = (word & 0xFFFF).to_bytes(2, "little")
        for offset, dsd in descriptors:
            image[offset : offset + ir.DSD_BYTES] = encode_dsd(self._dsd(dsd))
        return ir.Global(
            variable.name,
            self.addresses[variable.name],
            len(image),
            bytes(image) if any(image) else None,
            variable.type.name,
            is_const=variable.is_const,
            is_export=variable.is_export,
            loc=self.unit.location(variable.span) if variable.span is not None else 0,
        )

    # ---------------------------------------------------------------------------------------------- state

    def _id(self, operand: ir.Operand | None) -> int:
        """A task id known at link time; -1 if there is none."""
        if operand is None:
            return -1
        if isinstance(operand, ir.FnAddr):
            if operand.name not in self.task_ids:
                fail(self.span, f"task '{operand.name}' is activated, but not bound to an id")
            return self.task_ids[operand.name]
        assert isinstance(operand, ir.Imm)
        assert isinstance(operand.value, int)
        return operand.value

    def _fill_state(self, image: ir.Image) -> None:
        state = self.state
        names = {instance.function: instance.name for instance in self.unit.needed_functions()}
        image.tasks = [
            ir.TaskBinding(task.kind, task.id, names[task.function])  # type: ignore[arg-type]
            for task in state.tasks
        ]
        image.activated = [self._id(operand) for operand in state.activated]
        image.blocked = [(space, self._id(operand)) for space, operand in state.blocked]
        image.unblocked = [(space, self._id(operand)) for space, operand in state.unblocked]
        image.queues = [init for init, _ in state.queues.values()]
        image.fifos = [
            fifo._replace(address=self.addresses[buffer.name], activate_push=self._id(push), activate_pop=self._id(pop))
            for fifo, buffer, push, pop in state.fifos
        ]
        for load in state.dsr_loads:
            self.at = self.unit.location_spans[load.loc] or self.span
            load.dsd = self._resolve(load.dsd)
            load.config = self._resolve(load.config)
        image.dsr_loads = state.dsr_loads
        image.teardown_handlers = {color: handler for color, (handler, _) in state.teardown.items()}
        image.empty_queue_handlers = [
            (direction, queue, handler) for (direction, queue), (handler, _) in state.empty_queue.items()
        ]
        image.control_table = state.control_table
        image.rotating_tasks = state.rotating
        image.local_colors = state.local_colors
        image.config_words = state.config_words
        image.settings = state.settings
        image.exports = {
            name: ir.ExportedSymbol(
                name,
                "var" if export.function is None else "fn",
                export.variable.name
                if export.variable is not None
                else ""
                if export.function is None
                else export.function.name,
                export.type.name,
                () if export.function is None else export.function.scalars(),
            )
            for name, export in state.exports.items()
        }


def _no_room(span: Span | None, message: str, hint: str) -> PlacementError:
    return PlacementError(error(message, span, hint=hint).diagnostics)


def _first_gap(at: int, alignment: int, size: int, taken: list[tuple[int, int, str]]) -> int:
    """The lowest aligned address from `at` on where `size` bytes touch nothing that is taken."""
    at = t.align_up(at, alignment)
    for start, end, _ in taken:
        if at < end and at + size > start:
            at = t.align_up(end, alignment)
    return at


def _operand_fields(instr: type[ir.Instr]) -> tuple[str, ...]:
    """Fields of an instruction that can hold operands."""
    skip = {"loc", "op", "type", "to", "from_", "offset", "size", "fn", "text", "name", "target", "then", "otherwise"}
    return tuple(name for name in instr.__dataclass_fields__ if name not in skip)
