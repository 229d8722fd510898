"""Typed IR of one image to LLVM IR text.

A function that never suspends ("simple", as in `wse.unit`) becomes an ordinary function. The others become
`i64 f(pe, frame)`: registers are local while it runs; where it may give control back it stores the live ones in its
frame and returns why, and a switch at its entry leads back there. Cycles are counted as `wse.translate` counts them.

Every access to PE memory is checked against the 48 KiB. What the kernel cannot do or explain ends in `fb_stop`: the
machine then repeats the run on the reference executor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabrica_bench.csl import ir
from fabrica_bench.wse.code_cost import block_costs, branch_costs, edge_cost, predicated_arms, return_cost
from fabrica_bench.wse.intrinsics import INTRINSIC_TABLE, intrinsic_cost
from fabrica_bench.wse.memory import CALL_FRAME_BYTES, MEMORY_BYTES
from fabrica_bench.wse.native.intrinsic_code import IntrinsicCode
from fabrica_bench.wse.native.kernel_language import WORD
from fabrica_bench.wse.native.map_code import MapCode
from fabrica_bench.wse.native.support import NativeUnsupported
from fabrica_bench.wse.regions import Regions, find_regions, successors
from fabrica_bench.wse.unit import registers_read

if TYPE_CHECKING:
    from fabrica_bench.wse.native.program_code import ImageContext

R_RETURN, R_CALL, R_YIELD, R_STOP = 0, 1, 2, 3
_CMP = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def float_literal(value: float) -> str:
    """LLVM's hexadecimal form, the same for `float` and `double`."""
    if value != value:
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def round_single(value: float) -> float:
    """`value` as an f32."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def llvm_of(type_: ir.ScalarType) -> str:
    """Register type. Halves are doubles; DSDs live in memory."""
    if type_.kind == "dsd":
        return "ptr"
    if type_.kind == "int":
        if type_.bits > 64:
            raise NativeUnsupported(f"integers of {type_.bits} bits")
        return "i64"
    return "float" if type_.bits == 32 else "double"


class FunctionCode(IntrinsicCode, MapCode):
    """Writes one function."""

    def __init__(self, context: ImageContext, fn: ir.Function) -> None:
        self.context = context
        self.fn = fn
        self.costs = context.costs
        self.half = context.program.fp16
        self.simple = fn.name in context.simple
        self.regions: Regions = find_regions(fn.blocks)
        self.declared: set[str] = set()
        self.callees: list[str] = [fn.name]
        self.lines: list[str] = []
        self.cost = 0
        self._temp = 0
        self._label = 0
        self._resumes: list[str] = []
        self._yields: dict[int, str] = {}
        self._late: list[str] = []
        calls = any(isinstance(i, ir.Call | ir.CallIndirect | ir.MapOp) for b in fn.blocks for i in b)
        framed = any(isinstance(i, ir.FrameAddr) for b in fn.blocks for i in b)
        needs_stack = fn.frame_size > 0 or calls or framed
        self._stack = (fn.frame_size + 3) // 4 * 4 + CALL_FRAME_BYTES if needs_stack else 0
        self._slots = self.slot_table(fn)
        self._live_in = self._liveness()

    def symbol(self, name: str, simple: bool = False) -> str:
        """Stand-in for the LLVM name of a function: `<sN>` the direct form of a simple one, `<fN>` the form with a
        frame; N numbers `callees`."""
        if name not in self.callees:
            self.callees.append(name)
        return f"<{'s' if simple else 'f'}{self.callees.index(name)}>"

    # ------------------------------------------------------------------------------------------ frames

    @staticmethod
    def slot_table(fn: ir.Function) -> list[int]:
        """Frame word of each register: behind the header and one word per parameter."""
        at = 4 + fn.param_count
        slots = []
        for type_ in fn.registers:
            slots.append(at)
            at += 23 if type_.kind == "dsd" else 1
        slots.append(at)
        return slots

    @classmethod
    def measure(cls, fn: ir.Function) -> int:
        """Words of a frame."""
        return cls.slot_table(fn)[-1] + 4

    # ------------------------------------------------------------------------------------------ text

    def emit(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def temp(self) -> str:
        self._temp += 1
        return f"%v{self._temp}"

    def value(self, text: str) -> str:
        """Emit an instruction with a result."""
        name = self.temp()
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, stem: str) -> str:
        self._label += 1
        return f"{stem}{self._label}"

    def place(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def field(self, name: str) -> str:
        """Address of a field of the PE."""
        offset = self.context.pe[name] * WORD
        return "%pe" if offset == 0 else self.value(f"getelementptr i8, ptr %pe, i64 {offset}")

    def load_field(self, name: str, type_: str = "i64") -> str:
        return self.value(f"load {type_}, ptr {self.field(name)}")

    def store_field(self, name: str, value: str, type_: str = "i64") -> None:
        self.emit(f"store {type_} {value}, ptr {self.field(name)}")

    def machine_field(self, name: str, type_: str = "i64") -> str:
        machine = self.load_field("machine", "ptr")
        offset = self.context.structs["M"][name] * WORD
        return self.value(f"load {type_}, ptr {self.value(f'getelementptr i8, ptr {machine}, i64 {offset}')}")

    def frame_place(self, word: int, base: str = "%fr") -> str:
        return self.value(f"getelementptr i8, ptr {base}, i64 {word * WORD}")

    def call(self, name: str, result: str, *args: str) -> str:
        """Call a kernel or C function; `args` with their types."""
        types = ", ".join(arg.split(" ", 1)[0] for arg in args)
        self.declared.add(f"declare {result} @{name}({types})")
        text = f"call {result} @{name}({', '.join(args)})"
        if result == "void":
            self.emit(text)
            return ""
        return self.value(text)

    # ------------------------------------------------------------------------------------------ whole functions

    def generate(self) -> str:
        if self.simple:
            self._simple_function()
            self._wrapper()
        else:
            self._suspendable()
        return "\n".join(self.lines)

    def _allocate(self) -> None:
        self.emit("%t = alloca i64")
        self.emit("%sp = alloca i64")
        for number, type_ in enumerate(self.fn.registers):
            if type_.kind != "dsd":
                self.emit(f"%r{number} = alloca {llvm_of(type_)}")
            elif self.simple:
                self.emit(f"%r{number} = alloca [23 x i64]")
            else:
                self.emit(f"%r{number} = getelementptr i8, ptr %fr, i64 {self._slots[number] * WORD}")
        self.emit(f"%memory = load ptr, ptr {self.field('memory')}")

    def _enter(self) -> None:
        """Take stack space and the cycle."""
        self.emit(f"store i64 {self.load_field('t')}, ptr %t")
        if self._stack:
            sp = self.value(f"sub i64 {self.load_field('sp')}, {self._stack}")
            low = self.value(f"icmp slt i64 {sp}, {self.load_field('stack_floor')}")
            self._guard(low)
            self.store_field("sp", sp)
            self.emit(f"store i64 {sp}, ptr %sp")
            if not self.simple:
                self.emit(f"store i64 {sp}, ptr {self.frame_place(3)}")

    def _guard(self, bad: str) -> None:
        """Stop if a condition holds."""
        after = self.label("ok")
        self.emit(f"br i1 {bad}, label %stop, label %{after}, !prof !0")
        self.place(after)

    def _simple_function(self) -> None:
        fn = self.fn
        result = llvm_of(fn.result) if fn.result is not None and fn.result.kind != "dsd" else "void"
        self._result_type = result
        params = "".join(f", {llvm_of(fn.registers[i])} %a{i}" for i in range(fn.param_count))
        self.lines.append(f"define internal {result} @{self.symbol(fn.name, True)}(ptr %pe{params}) {{")
        self.place("entry")
        self._allocate()
        for i in range(fn.param_count):
            if fn.registers[i].kind == "dsd":
                self._copy(f"%r{i}", f"%a{i}")
            else:
                self.emit(f"store {llvm_of(fn.registers[i])} %a{i}, ptr %r{i}")
        self._enter()
        self._blocks()
        self.place("stop")
        self.call("fb_stop", "void", "ptr %pe")
        self.emit("ret void" if result == "void" else f"ret {result} {_zero(result)}")
        self.lines.append("}")

    def _wrapper(self) -> None:
        """The form with a frame of a simple function, for tasks, launches and pointers."""
        fn = self.fn
        self.lines.append(f"define i64 @{self.symbol(fn.name)}(ptr %pe, ptr %fr) {{")
        self.place("entry")
        args = ["ptr %pe"]
        for i in range(fn.param_count):
            type_ = fn.registers[i]
            word = self.value(f"load {'ptr' if type_.kind == 'dsd' else 'i64'}, ptr {self.frame_place(4 + i)}")
            args.append(f"{llvm_of(type_)} {word if type_.kind == 'dsd' else self.from_word(word, type_)}")
        call = f"call {self._result_type} @{self.symbol(fn.name, True)}({', '.join(args)})"
        if self._result_type == "void":
            self.emit(call)
        else:
            assert fn.result is not None
            self.store_field("value", self.to_word(self.value(call), fn.result))
        self.emit(f"ret i64 {R_RETURN}")
        self.lines.append("}")

    def _suspendable(self) -> None:
        fn = self.fn
        self.lines.append(f"define i64 @{self.symbol(fn.name)}(ptr %pe, ptr %fr) {{")
        self.place("entry")
        self._allocate()
        resume = self.value(f"load i64, ptr {self.frame_place(1)}")
        self.emit(f"switch i64 {resume}, label %start [")
        cases_at = len(self.lines)
        self.emit("]")
        self.place("start")
        for i in range(fn.param_count):
            type_ = fn.registers[i]
            if type_.kind == "dsd":
                self._copy(f"%r{i}", self.value(f"load ptr, ptr {self.frame_place(4 + i)}"))
            else:
                word = self.value(f"load i64, ptr {self.frame_place(4 + i)}")
                self.emit(f"store {llvm_of(type_)} {self.from_word(word, type_)}, ptr %r{i}")
        self._enter()
        self._blocks()
        self.lines += self._late
        self.place("stop")
        self.call("fb_stop", "void", "ptr %pe")
        self.emit(f"ret i64 {R_STOP}")
        self.lines[cases_at:cases_at] = [f"    i64 {i + 1}, label %{name}" for i, name in enumerate(self._resumes)]
        self.lines.append("}")

    def _blocks(self) -> None:
        fn, rank = self.fn, self.regions.rank
        self._free_jumps: set[int] = set()
        reached = [number for number in range(len(fn.blocks)) if rank[number] < len(fn.blocks)]
        self._arms: dict[int, tuple[int, ...]] = {}
        for number in reached:
            last = fn.blocks[number][-1]
            if isinstance(last, ir.Branch):
                arms = predicated_arms(fn.blocks, last, self.regions.predecessors, rank)
                self._arms[number] = arms
                self._free_jumps.update(arms)
        self.emit("br label %b0")
        for number in sorted(reached, key=lambda block: rank[block]):
            self.place(f"b{number}")
            self._block(number)

    # ------------------------------------------------------------------------------------------ liveness, suspension

    def _liveness(self) -> list[set[int]]:
        blocks = self.fn.blocks
        live: list[set[int]] = [set() for _ in blocks]
        changed = not self.simple
        while changed:
            changed = False
            for number in range(len(blocks) - 1, -1, -1):
                alive: set[int] = set()
                for target in successors(blocks[number]):
                    alive |= live[target]
                for instr in reversed(blocks[number]):
                    self._step_back(alive, instr)
                if alive != live[number]:
                    live[number] = alive
                    changed = True
        return live

    @staticmethod
    def _step_back(alive: set[int], instr: ir.Instr) -> None:
        dst = getattr(instr, "dst", None) or getattr(instr, "result", None)
        if isinstance(dst, ir.Reg):
            alive.discard(dst.index)
        alive.update(registers_read(instr))

    def _live_after(self, number: int) -> list[set[int]]:
        """Registers alive after each instruction of a block."""
        block = self.fn.blocks[number]
        alive: set[int] = set()
        for target in successors(block):
            alive |= self._live_in[target]
        result: list[set[int]] = []
        for instr in reversed(block):
            result.append(set(alive))
            self._step_back(alive, instr)
        return result[::-1]

    def _spill(self, live: set[int]) -> None:
        for number in sorted(live):
            type_ = self.fn.registers[number]
            if type_.kind != "dsd":
                kind = llvm_of(type_)
                value = self.value(f"load {kind}, ptr %r{number}")
                self.emit(f"store {kind} {value}, ptr {self.frame_place(self._slots[number])}")

    def _reload(self, live: set[int]) -> None:
        for number in sorted(live):
            type_ = self.fn.registers[number]
            if type_.kind != "dsd":
                kind = llvm_of(type_)
                value = self.value(f"load {kind}, ptr {self.frame_place(self._slots[number])}")
                self.emit(f"store {kind} {value}, ptr %r{number}")
        if self._stack:
            self.emit(f"store i64 {self.value(f'load i64, ptr {self.frame_place(3)}')}, ptr %sp")
        self.load_time()

    def suspend(self, live: set[int], then: str, code: int = R_YIELD) -> None:
        """Give control back; later go on at label `then`. Ends the current LLVM block."""
        self._spill(live)
        number = len(self._resumes) + 1
        self.emit(f"store i64 {number}, ptr {self.frame_place(1)}")
        self.emit(f"ret i64 {code}")
        name = f"resume{number}"
        self._resumes.append(name)
        self.place(name)
        self._reload(live)
        self.emit(f"br label %{then}")

    def load_time(self) -> None:
        self.emit(f"store i64 {self.load_field('t')}, ptr %t")

    def store_time(self) -> None:
        self.store_field("t", self.value("load i64, ptr %t"))

    def flush_cost(self) -> None:
        if self.cost:
            now = self.value("load i64, ptr %t")
            self.emit(f"store i64 {self.value(f'add i64 {now}, {self.cost}')}, ptr %t")
            self.cost = 0

    # ------------------------------------------------------------------------------------------ blocks

    def _block(self, number: int) -> None:
        block = self.fn.blocks[number]
        after = self._live_after(number) if not self.simple else [set()] * len(block)
        for instr, live, cost in zip(block[:-1], after, block_costs(block, self.costs), strict=False):
            self.cost += cost
            self._instruction(instr, live)
        self._terminator(number, block[-1])

    def _goto(self, source: int, target: int) -> None:
        self.flush_cost()
        rank = self.regions.rank
        if self.simple or rank[target] > rank[source]:
            self.emit(f"br label %b{target}")
            return
        late = self.value(f"icmp sgt i64 {self.value('load i64, ptr %t')}, {self.load_field('limit')}")
        self.emit(f"br i1 {late}, label %{self._yield_to(target)}, label %b{target}, !prof !0")

    def _yield_to(self, target: int) -> str:
        """Label of the code that suspends before block `target`."""
        name = self._yields.get(target)
        if name is None:
            name = self._yields[target] = f"yield{target}"
            body, self.lines = self.lines, []
            self.place(name)
            self.store_time()
            self.suspend(self._live_in[target], f"b{target}")
            self._late += self.lines
            self.lines = body
        return name

    def _terminator(self, number: int, instr: ir.Instr) -> None:
        rank = self.regions.rank
        match instr:
            case ir.Jump(target=target):
                if number not in self._free_jumps:
                    self.cost += edge_cost(rank[number], rank[target], self.costs)
                self._goto(number, target)
            case ir.Branch():
                self._branch(number, instr)
            case ir.SwitchInt():
                self._switch(number, instr)
            case ir.Ret(value=value):
                self._return(value)
            case ir.Unreachable():
                self.cost = 0
                self.emit("br label %stop")
            case _:
                raise NativeUnsupported(f"terminator {type(instr).__name__}")

    def _branch(self, number: int, instr: ir.Branch) -> None:
        rank = self.regions.rank
        then_cost = otherwise_cost = 0
        if self._arms[number]:
            self.cost += self.costs["branch.predicated"]
        else:
            then_cost, otherwise_cost = branch_costs(rank[number], rank[instr.then], rank[instr.otherwise], self.costs)
        condition = self.value(f"icmp ne i64 {self.operand(instr.cond, 'i64')}, 0")
        cost = self.cost
        labels = self.label("then"), self.label("else")
        self.emit(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        for name, target, extra in zip(labels, (instr.then, instr.otherwise), (then_cost, otherwise_cost), strict=True):
            self.place(name)
            self.cost = cost + extra
            self._goto(number, target)
        self.cost = 0

    def _switch(self, number: int, instr: ir.SwitchInt) -> None:
        value = self.operand(instr.value, "i64")
        base = self.cost + self.costs["branch.switch_base"]
        step = self.costs["branch.switch_case"]
        edges = []
        seen = set()
        for position, (case, target) in enumerate(instr.cases):
            if int(case) not in seen:
                seen.add(int(case))
                edges.append((self.label("case"), int(case), target, base + step * (position + 1)))
        default = self.label("default")
        self.emit(f"switch i64 {value}, label %{default} [")
        self.lines += [f"    i64 {_word(case)}, label %{name}" for name, case, _, _ in edges]
        self.emit("]")
        edges.append((default, 0, instr.default, base + step * len(instr.cases)))
        for name, _, target, cost in edges:
            self.place(name)
            self.cost = cost
            self._goto(number, target)
        self.cost = 0

    def _return(self, value: ir.Operand | None) -> None:
        self.cost += return_cost(self.fn, self.fn.name in self.context.inlined, self.costs)
        self.flush_cost()
        self.store_time()
        if self._stack:
            self.store_field("sp", self.value(f"add i64 {self.value('load i64, ptr %sp')}, {self._stack}"))
        type_ = self.fn.result
        if type_ is not None and value is None:
            raise NativeUnsupported("a return without value")
        if value is None or type_ is None:
            self.emit("ret void" if self.simple else f"ret i64 {R_RETURN}")
            return
        if type_.kind == "dsd":
            self._copy(self.field("dsd_value"), self.dsd_operand(value))
            self.emit("ret void" if self.simple else f"ret i64 {R_RETURN}")
            return
        text = self.operand(value, llvm_of(type_))
        if self.simple:
            self.emit(f"ret {llvm_of(type_)} {text}")
        else:
            self.store_field("value", self.to_word(text, type_))
            self.emit(f"ret i64 {R_RETURN}")

    # ------------------------------------------------------------------------------------------ operands

    def operand(self, operand: ir.Operand, want: str) -> str:
        """Value of a scalar operand as LLVM type `want`."""
        if isinstance(operand, ir.Reg):
            have = llvm_of(self.fn.registers[operand.index])
            if have != want:
                raise NativeUnsupported(f"a register of {have} used as {want}")
            return self.value(f"load {have}, ptr %r{operand.index}")
        if isinstance(operand, ir.FnAddr):
            if operand.name not in self.context.index or want != "i64":
                raise NativeUnsupported("pointer to an unknown function")
            return str(self.context.index[operand.name] + 1)
        if isinstance(operand, ir.Imm) and isinstance(operand.value, int | float):
            value = operand.value
            if want == "i64":
                if isinstance(value, float):
                    raise NativeUnsupported("a float constant used as an integer")
                return str(_word(int(value)))
            number = float(value)
            return float_literal(round_single(number) if want == "float" else number)
        raise NativeUnsupported(f"operand {type(operand).__name__}")

    def type_of(self, operand: ir.Operand) -> ir.ScalarType | None:
        return self.fn.registers[operand.index] if isinstance(operand, ir.Reg) else None

    def dsd_operand(self, operand: ir.Operand) -> str:
        """Address of a DSD value."""
        if isinstance(operand, ir.Reg):
            if self.fn.registers[operand.index].kind != "dsd":
                raise NativeUnsupported("a scalar register used as a DSD")
            return f"%r{operand.index}"
        if isinstance(operand, ir.Imm) and isinstance(operand.value, ir.Dsd):
            return self.context.sites.dsd(operand.value)
        raise NativeUnsupported(f"DSD operand {type(operand).__name__}")

    def _copy(self, to: str, source: str) -> None:
        self.declared.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
        self.emit(f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {source}, i64 {23 * WORD}, i1 false)")

    def define(self, dst: ir.Reg, value: str, kind: str) -> None:
        have = llvm_of(self.fn.registers[dst.index])
        if have != kind:
            raise NativeUnsupported(f"a register of {have} gets {kind}")
        self.emit(f"store {kind} {value}, ptr %r{dst.index}")

    def from_word(self, word: str, type_: ir.ScalarType) -> str:
        """Register value of its frame form."""
        kind = llvm_of(type_)
        if kind == "i64":
            return word
        double = self.value(f"bitcast i64 {word} to double")
        return double if kind == "double" else self.value(f"fptrunc double {double} to float")

    def to_word(self, value: str, type_: ir.ScalarType) -> str:
        kind = llvm_of(type_)
        if kind == "i64":
            return value
        if kind == "float":
            value = self.value(f"fpext float {value} to double")
        return self.value(f"bitcast double {value} to i64")

    # ------------------------------------------------------------------------------------------ arithmetic

    def wrap(self, value: str, type_: ir.ScalarType) -> str:
        """Reduce to the range of an integer type."""
        if type_.bits >= 64:
            return value
        if not type_.signed:
            return self.value(f"and i64 {value}, {(1 << type_.bits) - 1}")
        shift = 64 - type_.bits
        return self.value(f"ashr i64 {self.value(f'shl i64 {value}, {shift}')}, {shift}")

    def round_half(self, value: str) -> str:
        return self.call("fb_round_half", "double", "ptr %pe", f"double {value}")

    def _instruction(self, instr: ir.Instr, live: set[int]) -> None:
        match instr:
            case ir.Move(dst=dst, src=src):
                type_ = self.fn.registers[dst.index]
                if type_.kind == "dsd":
                    self._copy(f"%r{dst.index}", self.dsd_operand(src))
                else:
                    self.define(dst, self.operand(src, llvm_of(type_)), llvm_of(type_))
            case ir.Bin():
                self._binary(instr)
            case ir.Neg(dst=dst, type=type_, a=a):
                kind = llvm_of(type_)
                value = self.operand(a, kind)
                if kind == "i64":
                    self.define(dst, self.wrap(self.value(f"sub i64 0, {value}"), type_), kind)
                else:
                    self.define(dst, self.value(f"fneg {kind} {value}"), kind)
            case ir.Not(dst=dst, type=type_, a=a):
                value = self.operand(a, "i64")
                if type_.bits == 1:
                    self.define(dst, self.value(f"sub i64 1, {value}"), "i64")
                else:
                    self.define(dst, self.wrap(self.value(f"xor i64 {value}, -1"), type_), "i64")
            case ir.Cmp(dst=dst, op=op, type=type_, a=a, b=b):
                self._compare(dst, op, type_, a, b)
            case ir.Cast(dst=dst, to=to, from_=from_, a=a):
                self.define(dst, self._cast(self.operand(a, llvm_of(from_)), to, from_), llvm_of(to))
            case ir.Bitcast(dst=dst, to=to, from_=from_, a=a):
                self.define(dst, self._bitcast(self.operand(a, llvm_of(from_)), to, from_), llvm_of(to))
            case ir.Load():
                self._load(instr)
            case ir.Store():
                self._store(instr)
            case ir.CopyMem():
                self._copy_memory(instr)
            case ir.FrameAddr(dst=dst, offset=offset):
                sp = self.value("load i64, ptr %sp")
                self.define(dst, self.value(f"add i64 {sp}, {CALL_FRAME_BYTES + int(offset)}"), "i64")
            case ir.Call():
                self._call(instr, live)
            case ir.CallIndirect():
                self._call_indirect(instr, live)
            case ir.MakeDsd():
                self._make_dsd(instr)
            case ir.SetDsd():
                self._set_dsd(instr)
            case ir.DsdOp():
                self._dsd_operation(instr, live)
            case ir.MapOp():
                self._map(instr, live)
            case ir.LoadDsr():
                self._load_dsr(instr)
            case ir.Intrinsic():
                self._intrinsic(instr, live)
            case _:
                raise NativeUnsupported(f"{type(instr).__name__}")

    def _binary(self, instr: ir.Bin) -> None:
        type_, op = instr.type, instr.op
        kind = llvm_of(type_)
        a, b = self.operand(instr.a, kind), self.operand(instr.b, kind)
        if kind == "i64":
            self.define(instr.dst, self._binary_int(op, type_, a, b), kind)
            return
        if op == "rem":
            if kind == "float":
                a, b = (self.value(f"fpext float {x} to double") for x in (a, b))
            value = self.call("fb_float_remainder", "double", f"double {a}", f"double {b}")
            if kind == "float":
                value = self.value(f"fptrunc double {value} to float")
        else:
            name = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}.get(op)
            if name is None:
                raise NativeUnsupported(f"{op} on floats")
            value = self.value(f"{name} {kind} {a}, {b}")
        self.define(instr.dst, value if kind == "float" else self.round_half(value), kind)

    def _binary_int(self, op: str, type_: ir.ScalarType, a: str, b: str) -> str:
        if op in ("and", "or", "xor"):
            return self.value(f"{op} i64 {a}, {b}")
        if op in ("add", "sub", "mul"):
            return self.wrap(self.value(f"{op} i64 {a}, {b}"), type_)
        if op == "shl":
            self._guard(self.value(f"icmp slt i64 {b}, 0"))
            fits = self.value(f"icmp ult i64 {b}, {type_.bits}")
            count = self.value(f"select i1 {fits}, i64 {b}, i64 0")
            shifted = self.value(f"shl i64 {a}, {count}")
            return self.wrap(self.value(f"select i1 {fits}, i64 {shifted}, i64 0"), type_)
        if op == "shr":
            self._guard(self.value(f"icmp slt i64 {b}, 0"))
            small = self.value(f"icmp ult i64 {b}, 63")
            name = "lshr" if type_.bits == 64 and not type_.signed else "ashr"
            if name == "lshr":
                fits = self.value(f"icmp ult i64 {b}, 64")
                count = self.value(f"select i1 {fits}, i64 {b}, i64 0")
                return self.value(f"select i1 {fits}, i64 {self.value(f'lshr i64 {a}, {count}')}, i64 0")
            count = self.value(f"select i1 {small}, i64 {b}, i64 63")
            return self.value(f"ashr i64 {a}, {count}")
        self._guard(self.value(f"icmp eq i64 {b}, 0"))
        if not type_.signed:
            return self.value(f"{'udiv' if op == 'div' else 'urem'} i64 {a}, {b}")
        if type_.bits == 64:  # the one quotient that does not fit
            least = self.value(f"icmp eq i64 {a}, {-(1 << 63)}")
            bad = self.value(f"and i1 {least}, {self.value(f'icmp eq i64 {b}, -1')}")
            self._guard(bad)
        value = self.value(f"{'sdiv' if op == 'div' else 'srem'} i64 {a}, {b}")
        return self.wrap(value, type_) if op == "div" else value

    def _compare(self, dst: ir.Reg, op: str, type_: ir.ScalarType, a: ir.Operand, b: ir.Operand) -> None:
        kind = llvm_of(type_)
        left, right = self.operand(a, kind), self.operand(b, kind)
        if kind == "i64":
            sign = "" if op in ("eq", "ne") else "u" if type_.bits == 64 and not type_.signed else "s"
            bit = self.value(f"icmp {sign}{op} i64 {left}, {right}")
        else:
            bit = self.value(f"fcmp {'u' if op == 'ne' else 'o'}{op} {kind} {left}, {right}")
        self.define(dst, self.value(f"zext i1 {bit} to i64"), "i64")

    def _cast(self, value: str, to: ir.ScalarType, from_: ir.ScalarType) -> str:
        have, want = llvm_of(from_), llvm_of(to)
        if to.kind == "int" and to.bits == 1:
            test = f"icmp ne i64 {value}, 0" if have == "i64" else f"fcmp une {have} {value}, 0.0"
            return self.value(f"zext i1 {self.value(test)} to i64")
        if to.kind == "int":
            if from_.kind == "float":
                return self._to_int(value, have, to)
            contained = from_.bits < to.bits and (to.signed or not from_.signed)
            same = from_.bits == to.bits and from_.signed == to.signed
            return value if contained or same else self.wrap(value, to)
        if from_.kind == "int":
            name = "uitofp" if from_.bits == 64 and not from_.signed else "sitofp"
            if want == "float":
                return self.value(f"{name} i64 {value} to float")
            if from_.bits > 53:
                raise NativeUnsupported("a 64-bit integer converted to a 16-bit float")
            return self.round_half(self.value(f"{name} i64 {value} to double"))
        if want == "float":
            return value if have == "float" else self.value(f"fptrunc double {value} to float")
        if to == from_:
            return value
        return self.round_half(value if have == "double" else self.value(f"fpext float {value} to double"))

    def _to_int(self, value: str, have: str, to: ir.ScalarType) -> str:
        name = "fptoui" if to.bits == 64 and not to.signed else "fptosi"
        suffix = "f32" if have == "float" else "f64"
        result = self.call(f"llvm.{name}.sat.i64.{suffix}", "i64", f"{have} {value}")
        if to.bits < 64:
            low = -(1 << (to.bits - 1)) if to.signed else 0
            high = (1 << (to.bits - int(to.signed))) - 1
            result = self.call("llvm.smax.i64", "i64", f"i64 {result}", f"i64 {low}")
            result = self.call("llvm.smin.i64", "i64", f"i64 {result}", f"i64 {high}")
        return result

    def single_bits(self, value: str) -> str:
        """Bits of an f32, NaNs made canonical, as i32."""
        bits = self.value(f"bitcast float {value} to i32")
        nan = self.value(f"fcmp uno float {value}, {value}")
        return self.value(f"select i1 {nan}, i32 2143289344, i32 {bits}")

    def half_of_bits(self, bits: str) -> str:
        """Value of a 16-bit float pattern."""
        table = self.machine_field("half_values", "ptr")
        place = self.value(f"getelementptr double, ptr {table}, i64 {bits}")
        return self.value(f"load double, ptr {place}")

    def _bitcast(self, value: str, to: ir.ScalarType, from_: ir.ScalarType) -> str:
        if to.kind == from_.kind == "int":
            return self.wrap(value, to) if to.signed != from_.signed else value
        if to.kind == from_.kind:
            return value
        if to.kind == "int":
            if llvm_of(from_) == "float":
                return self.wrap(self.value(f"zext i32 {self.single_bits(value)} to i64"), to)
            return self.wrap(self.call("fb_half_bits", "i64", "ptr %pe", f"double {value}"), to)
        bits = self.value(f"and i64 {value}, {(1 << to.bits) - 1}")
        if llvm_of(to) == "float":
            return self.value(f"bitcast i32 {self.value(f'trunc i64 {bits} to i32')} to float")
        return self.half_of_bits(bits)

    # ------------------------------------------------------------------------------------------ memory

    def address(self, operand: ir.Operand, offset: int, size: int, aligned: bool = True) -> str:
        """Checked host address of `size` bytes at a PE address plus an offset."""
        base = self.operand(operand, "i64")
        where = base
        if offset:
            where = self.value(f"add i64 {base}, {offset}")
            if offset < 0:
                where = self.value(f"and i64 {where}, 65535")
        bad = self.value(f"icmp ugt i64 {where}, {MEMORY_BYTES - size}")
        if size > 1 and aligned:
            odd = self.value(f"trunc i64 {where} to i1")
            bad = self.value(f"or i1 {bad}, {odd}")
        self._guard(bad)
        return self.value(f"getelementptr i8, ptr %memory, i64 {where}")

    def _load(self, instr: ir.Load) -> None:
        type_ = instr.type
        if type_.kind == "dsd":
            where = self._plain_address(instr.addr, instr.offset)
            self.call("fb_fetch_dsd", "void", "ptr %pe", f"i64 {where}", f"ptr %r{instr.dst.index}")
            return
        place = self.address(instr.addr, instr.offset, type_.size)
        align = 2 if type_.size > 1 else 1
        if llvm_of(type_) == "float":
            self.define(instr.dst, self.value(f"load float, ptr {place}, align 2"), "float")
            return
        width = type_.size * 8
        raw = self.value(f"load i{width}, ptr {place}, align {align}")
        if type_.kind == "float":
            self.define(instr.dst, self.half_of_bits(self.value(f"zext i16 {raw} to i64")), "double")
            return
        if type_.bits == 1:
            bit = self.value(f"icmp ne i8 {raw}, 0")
            self.define(instr.dst, self.value(f"zext i1 {bit} to i64"), "i64")
            return
        word = raw
        if width < 64:
            word = self.value(f"{'sext' if type_.signed else 'zext'} i{width} {raw} to i64")
        self.define(instr.dst, word if width == type_.bits else self.wrap(word, type_), "i64")

    def _plain_address(self, operand: ir.Operand, offset: int) -> str:
        base = self.operand(operand, "i64")
        if not offset:
            return base
        where = self.value(f"add i64 {base}, {offset}")
        return where if offset > 0 else self.value(f"and i64 {where}, 65535")

    def _store(self, instr: ir.Store) -> None:
        type_ = instr.type
        if type_.kind == "dsd":
            where = self._plain_address(instr.addr, instr.offset)
            self.call("fb_store_dsd", "void", "ptr %pe", f"i64 {where}", f"ptr {self.dsd_operand(instr.value)}")
            return
        kind = llvm_of(type_)
        value = self.operand(instr.value, kind)
        place = self.address(instr.addr, instr.offset, type_.size)
        align = 2 if type_.size > 1 else 1
        if kind == "float":
            self.emit(f"store i32 {self.single_bits(value)}, ptr {place}, align 2")
            return
        if kind == "double":
            value = self.call("fb_half_bits", "i64", "ptr %pe", f"double {value}")
        width = type_.size * 8
        if width < 64:
            value = self.value(f"trunc i64 {value} to i{width}")
        self.emit(f"store i{width} {value}, ptr {place}, align {align}")

    def _copy_memory(self, instr: ir.CopyMem) -> None:
        size = int(instr.size)
        if size > MEMORY_BYTES:
            raise NativeUnsupported("a copy larger than the memory")
        source = self.address(instr.src_addr, 0, size, aligned=False)
        to = self.address(instr.dst_addr, 0, size, aligned=False)
        self.declared.add("declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
        self.emit(f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")

    # ------------------------------------------------------------------------------------------ calls

    def _call(self, instr: ir.Call, live: set[int]) -> None:
        context, name = self.context, instr.fn
        if name not in context.index:
            raise NativeUnsupported(f"call of unknown function {name!r}")
        callee = context.image.functions[name]
        if len(instr.args) != callee.param_count:
            raise NativeUnsupported(f"call of {name!r} with {len(instr.args)} arguments")
        self.cost += 0 if name in context.inlined else self.costs["branch.call"]
        self.flush_cost()
        self.store_time()
        if name in context.simple:
            self._call_simple(instr, callee)
            return
        frame = self._new_frame(str(context.frame_words[name] * WORD))
        self.emit(f"store ptr @{self.symbol(name)}, ptr {frame}")
        types = callee.registers[: callee.param_count]
        self._enter_frame(frame, instr.args, types, instr.dst, callee.result, live)

    def _call_simple(self, instr: ir.Call, callee: ir.Function) -> None:
        args = ["ptr %pe"]
        for arg, type_ in zip(instr.args, callee.registers, strict=False):
            kind = llvm_of(type_)
            args.append(f"{kind} {self.dsd_operand(arg) if kind == 'ptr' else self.operand(arg, kind)}")
        result = callee.result
        kind = llvm_of(result) if result is not None and result.kind != "dsd" else "void"
        text = f"call {kind} @{self.symbol(instr.fn, True)}({', '.join(args)})"
        if kind == "void":
            self.emit(text)
            if instr.dst is not None:
                self._take_dsd(instr.dst, result)
        else:
            value = self.value(text)
            if instr.dst is not None:
                self.define(instr.dst, value, kind)
        self.load_time()

    def _take_dsd(self, dst: ir.Reg, result: ir.ScalarType | None) -> None:
        if result is None or result.kind != "dsd":
            raise NativeUnsupported("the result of a function without one")
        self._copy(f"%r{dst.index}", self.field("dsd_value"))

    def _new_frame(self, size: str) -> str:
        """Frame of a callee of `size` bytes, behind this one."""
        frame = self.frame_place(self.context.frame_words[self.fn.name])
        end = self.value(f"add i64 {self.value(f'ptrtoint ptr {frame} to i64')}, {size}")
        self._guard(self.value(f"icmp ugt i64 {end}, {self.load_field('frame_end')}"))
        return frame

    def _enter_frame(
        self,
        frame: str,
        args: tuple[ir.Operand, ...],
        types: list[ir.ScalarType],
        dst: ir.Reg | None,
        result: ir.ScalarType | None,
        live: set[int],
    ) -> None:
        """Fill a callee's frame, suspend until it returns, take its result."""
        self.emit(f"store i64 0, ptr {self.frame_place(1, frame)}")
        self.emit(f"store ptr %fr, ptr {self.frame_place(2, frame)}")
        for position, (arg, type_) in enumerate(zip(args, types, strict=True)):
            slot = self.frame_place(4 + position, frame)
            if type_.kind == "dsd":
                self.emit(f"store ptr {self.dsd_operand(arg)}, ptr {slot}")
            else:
                word = self.to_word(self.operand(arg, llvm_of(type_)), type_)
                self.emit(f"store i64 {word}, ptr {slot}")
        self.store_field("frame", frame, "ptr")
        after = self.label("back")
        self.suspend(live - ({dst.index} if dst is not None else set()), after, R_CALL)
        self.place(after)
        if dst is None:
            return
        type_ = self.fn.registers[dst.index]
        if type_.kind == "dsd":
            self._take_dsd(dst, result or type_)
        else:
            self.define(dst, self.from_word(self.load_field("value"), type_), llvm_of(type_))

    def _call_indirect(self, instr: ir.CallIndirect, live: set[int]) -> None:
        self.cost += self.costs["branch.call"]
        self.flush_cost()
        self.store_time()
        pointer = self.value(f"sub i64 {self.operand(instr.pointer, 'i64')}, 1")
        count = len(self.context.names)
        self._guard(self.value(f"icmp uge i64 {pointer}, {count}"))
        layout = self.context.structs["Fn"]
        image_offset = self.context.structs["Image"]["functions"] * WORD
        image = self.load_field("image", "ptr")
        table = self.value(f"load ptr, ptr {self.value(f'getelementptr i8, ptr {image}, i64 {image_offset}')}")
        entry_offset = self.value(f"mul i64 {pointer}, {layout.words * WORD}")
        entry = self.value(f"getelementptr i8, ptr {table}, i64 {entry_offset}")
        params = self.value(f"load i64, ptr {self.frame_place(layout['param_count'], entry)}")
        self._guard(self.value(f"icmp ne i64 {params}, {len(instr.args)}"))
        words = self.value(f"load i64, ptr {self.frame_place(layout['frame_words'], entry)}")
        frame = self._new_frame(self.value(f"mul i64 {words}, {WORD}"))
        address = self.value(f"load i64, ptr {self.frame_place(layout['address'], entry)}")
        self.emit(f"store i64 {address}, ptr {frame}")
        self._enter_frame(frame, instr.args, self._indirect_types(instr), instr.dst, None, live)

    def _indirect_types(self, instr: ir.CallIndirect) -> list[ir.ScalarType]:
        """Parameter types of the possible callees; all of them must agree on how arguments travel."""
        fitting = [
            fn.registers[: fn.param_count]
            for fn in self.context.image.functions.values()
            if fn.param_count == len(instr.args)
        ]
        types = []
        for position, arg in enumerate(instr.args):
            known = self.type_of(arg)
            if known is None:
                kinds = {llvm_of(candidate[position]) for candidate in fitting}
                if isinstance(arg, ir.Imm) and isinstance(arg.value, ir.Dsd):
                    known = ir.DSD
                elif len(kinds) == 1:
                    known = fitting[0][position]
                elif isinstance(arg, ir.Imm) and isinstance(arg.value, float):
                    known = ir.F32
                else:
                    known = ir.I64
            types.append(known)
        return types

    # ------------------------------------------------------------------------------------------ DSDs

    def _dsd_field(self, base: str, name: str) -> str:
        return self.frame_place(self.context.structs["Dsd"][name], base)

    def _make_dsd(self, instr: ir.MakeDsd) -> None:
        target = f"%r{instr.dst.index}"
        self._copy(target, self.context.sites.dsd(instr.template))
        names = {"base": "base", "extent": "extents", "stride": "strides", "queue": "queue", "color": "color"}
        late = None
        for key, operand in instr.fields:
            value = self.operand(operand, "i64")
            if key == "offset":
                late = value
                continue
            if key == "extent":
                value = self.value(f"and i64 {value}, 65535")
                self._at_least_one(target, "rank", len(instr.template.extents))
            if key == "stride":
                self._at_least_one(target, "stride_count", len(instr.template.strides))
            self.emit(f"store i64 {value}, ptr {self._dsd_field(target, names[key])}")
        if late is not None:
            place = self._dsd_field(target, "base")
            step = self.value(f"mul i64 {late}, {int(instr.element_bytes)}")
            base = self.value(f"load i64, ptr {place}")
            self.emit(f"store i64 {self.value(f'add i64 {base}, {step}')}, ptr {place}")

    def _at_least_one(self, target: str, name: str, count: int) -> None:
        if count == 0:
            self.emit(f"store i64 1, ptr {self._dsd_field(target, name)}")

    def _set_dsd(self, instr: ir.SetDsd) -> None:
        target = f"%r{instr.dst.index}"
        value = self.operand(instr.value, "i64")
        self._copy(target, self.dsd_operand(instr.src))
        if instr.field == "length":
            value = self.value(f"and i64 {value}, 65535")
            place = self._dsd_field(target, "extents")
        elif instr.field == "stride":
            place = self._dsd_field(target, "strides")
        else:
            place = self._dsd_field(target, "base")
            if instr.field == "advance":
                value = self.value(f"add i64 {self.value(f'load i64, ptr {place}')}, {value}")
        self.emit(f"store i64 {value}, ptr {place}")

    def _dsd_operation(self, instr: ir.DsdOp, live: set[int]) -> None:
        site = self.context.sites.site(instr, self.context.image)
        offset = self.context.pe["values"]
        for position, text in enumerate(self._dsd_values(instr, site.scalars)):
            self.emit(f"store i64 {text}, ptr {self.frame_place(offset + position, '%pe')}")
        self.flush_cost()
        self.store_time()
        result = self.call("fb_dsd_operation", "i64", "ptr %pe", f"ptr {site.name}")
        after, wait = self.label("done"), self.label("wait")
        self.emit(f"br i1 {self.value(f'icmp ne i64 {result}, 0')}, label %{wait}, label %{after}")
        self.place(wait)
        dst = instr.result
        self.suspend(live - ({dst.index} if dst is not None else set()), after)
        self.place(after)
        self.load_time()
        if dst is not None:
            self.define(dst, self.load_field("result"), "i64")

    def _dsd_values(self, instr: ir.DsdOp, scalars: dict[int, str]) -> Iterator[str]:
        """Run-time operands in the kernel's order, as words. `scalars`: how a scalar source becomes a bit pattern."""
        for position, arg in enumerate((instr.dest, *instr.sources)):
            if arg is None or arg.kind not in ("dsd", "scalar", "pointer"):
                continue
            operand: ir.Operand = arg.value  # type: ignore[assignment]
            if arg.kind == "dsd":
                yield self.value(f"ptrtoint ptr {self.dsd_operand(operand)} to i64")
            elif arg.kind == "pointer":
                yield self.operand(operand, "i64")
            else:
                yield self._scalar_bits(operand, arg, scalars[position])
        config = instr.config
        for wake in (config.on_done, config.on_control):
            if wake is not None:
                yield self.operand(wake.id, "i64")
        if config.index is not None:
            yield self.operand(config.index, "i64")

    def _scalar_bits(self, operand: ir.Operand, arg: ir.DsdArg, type_: str) -> str:
        """As `DsdSite._scalar_bits`. `type_`: element type of the operation, `moves` for the source of `@fmovs`."""
        register = self.type_of(operand)
        if register is not None:
            is_int = register.kind == "int"
        else:
            is_int = isinstance(operand, ir.Imm) and isinstance(operand.value, int)
        if is_int and type_ not in ("h", "s") and (arg.type is None or arg.type.kind == "int"):
            mask = 0xFFFFFFFF if type_ in ("u32", "moves") else 0xFFFF
            return self.value(f"and i64 {self.operand(operand, 'i64')}, {mask}")
        number = self._as_double(operand, register)
        if arg.type is not None and arg.type.kind == "float":
            single = arg.type.bits == 32
            if not single and arg.type.name != self.half:
                raise NativeUnsupported(f"a scalar of {arg.type.name} in a program of {self.half}")
        elif arg.type is not None and is_int:
            single = type_ in ("s", "moves")
        else:
            single = type_ in ("s", "moves")
        if single:
            bits = self.single_bits(self.value(f"fptrunc double {number} to float"))
            return self.value(f"zext i32 {bits} to i64")
        return self.call("fb_half_bits", "i64", "ptr %pe", f"double {number}")

    def _as_double(self, operand: ir.Operand, register: ir.ScalarType | None) -> str:
        if register is None:
            return self.operand(operand, "double")
        kind = llvm_of(register)
        value = self.operand(operand, kind)
        if kind == "i64":
            return self.value(f"sitofp i64 {value} to double")
        return value if kind == "double" else self.value(f"fpext float {value} to double")

    def _load_dsr(self, instr: ir.LoadDsr) -> None:
        ids = [
            self.operand(wake.id, "i64") if wake else "0" for wake in (instr.config.on_done, instr.config.on_control)
        ]
        number = self.context.sites.dsr(instr.dsr)
        config = self.context.sites.config(instr.config)
        args = f"i64 {number}", f"ptr {config}", f"i64 {int(instr.save_address)}", f"ptr {self.dsd_operand(instr.dsd)}"
        self.call("fb_load_dsr", "void", "ptr %pe", *args, f"i64 {ids[0]}", f"i64 {ids[1]}")

    # ------------------------------------------------------------------------------------------ intrinsics

    def _intrinsic(self, instr: ir.Intrinsic, live: set[int]) -> None:
        entry = INTRINSIC_TABLE.get(instr.name)
        if entry is None:
            raise NativeUnsupported(f"intrinsic {instr.name!r}")
        cost = intrinsic_cost(instr, self.costs)
        self.flush_cost()
        self.store_time()
        if entry.synchronizes:
            now = self.machine_field("now")
            ahead = self.value(f"icmp sgt i64 {self.value('load i64, ptr %t')}, {now}")
            go, wait = self.label("go"), self.label("sync")
            self.emit(f"br i1 {ahead}, label %{wait}, label %{go}")
            self.place(wait)
            needed = (live - ({instr.dst.index} if instr.dst is not None else set())) | set(registers_read(instr))
            self.suspend(needed, go)
            self.place(go)
        value = self.run_intrinsic(instr)
        if instr.dst is not None and value is not None:
            self.define(instr.dst, *value)
        elif instr.dst is not None:
            raise NativeUnsupported(f"the result of {instr.name}")
        if entry.synchronizes:
            self.load_time()
        self.cost += cost


def _word(value: int) -> int:
    """`value` as a signed 64-bit constant."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _zero(kind: str) -> str:
    return "0" if kind == "i64" else "0.0"
