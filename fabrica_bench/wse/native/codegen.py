"""Typed IR of one image to LLVM IR text.

A function that never suspends ("simple", as in `wse.unit`) becomes an ordinary function. The others become
`i64 f(pe, frame)`: registers are local while it runs; where it may give control back it stores the live ones in its
frame and returns why, and a switch at its entry leads back there. Cycles are counted as `wse.translate` counts them.

Every access to PE memory is checked against the 48 KiB. What the kernel cannot do or explain ends in `fb_stop`: the
machine then repeats the run on the reference executor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.csl import ir
from fabrica_bench.wse.code_cost import block_costs, branch_costs, edge_cost, predicated_arms, return_cost
from fabrica_bench.wse.memory import CALL_FRAME_BYTES
from fabrica_bench.wse.native.arithmetic_code import ArithmeticCode
from fabrica_bench.wse.native.code_writer import R_RETURN, R_STOP, llvm_of, word_literal
from fabrica_bench.wse.native.dsd_code import DsdCode
from fabrica_bench.wse.native.intrinsic_code import IntrinsicCode
from fabrica_bench.wse.native.kernel_builtins import WORD
from fabrica_bench.wse.native.map_code import MapCode
from fabrica_bench.wse.native.support import NativeUnsupported
from fabrica_bench.wse.regions import Regions, find_regions, successors
from fabrica_bench.wse.unit import registers_read

if TYPE_CHECKING:
    from fabrica_bench.wse.native.program_code import ImageContext


class FunctionCode(ArithmeticCode, IntrinsicCode, MapCode, DsdCode):
    """Writes one function: its frame and control flow here, its instructions by the classes that it is made of."""

    def __init__(self, context: ImageContext, fn: ir.Function) -> None:
        super().__init__(context, fn)
        self.regions: Regions = find_regions(fn.blocks)
        self._yields: dict[int, str] = {}
        self._late: list[str] = []
        self._live_in = self._liveness()

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

    # ------------------------------------------------------------------------------------------ liveness

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

    # ------------------------------------------------------------------------------------------ blocks

    def _block(self, number: int) -> None:
        block = self.fn.blocks[number]
        after = self._live_after(number) if not self.simple else [set()] * len(block)
        for at, (instr, live, cost) in enumerate(zip(block[:-1], after, block_costs(block, self.costs), strict=False)):
            self.at = number, at
            self.cost += cost
            self._instruction(instr, live)
        self.at = number, len(block) - 1
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
            at, self.at = self.at, (target, 0)
            self.place(name)
            self.store_time()
            self.suspend(self._live_in[target], f"b{target}")
            self._late += self.lines
            self.lines, self.at = body, at
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
        self.lines += [f"    i64 {word_literal(case)}, label %{name}" for name, case, _, _ in edges]
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

    # ------------------------------------------------------------------------------------------ instructions

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


def _zero(kind: str) -> str:
    return "0" if kind == "i64" else "0.0"
