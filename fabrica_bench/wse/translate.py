"""Reference executor: each IR function becomes one Python function over the PE's typed memory views.

Plain and direct: one IR instruction, one template. A function that contains loops, DSD operations or blocking
intrinsics becomes a generator, so that it can be suspended in the middle; others ("simple") become ordinary functions.
`t` counts the thread's cycles. See `executor` for the rules about segments.
"""

from __future__ import annotations

from collections import Counter

from fabrica_bench.csl import ir
from fabrica_bench.wse import expressions as ex
from fabrica_bench.wse.code_cost import block_costs, branch_costs, edge_cost, predicated_arms, return_cost
from fabrica_bench.wse.dsd import DsdSite
from fabrica_bench.wse.intrinsics import INTRINSIC_TABLE, Unsupported, fail_assertion, intrinsic_cost
from fabrica_bench.wse.mapping import MapSite
from fabrica_bench.wse.memory import CALL_FRAME_BYTES
from fabrica_bench.wse.regions import Regions
from fabrica_bench.wse.unit import Unit, UnsupportedIr, intrinsic_entry, registers_read

_SETTERS = {name: f"set_{name}" for name in ("length", "stride", "base", "advance")}


class _Pending:
    """An expression not yet written out because its register is read once, later in the same block."""

    __slots__ = ("reads", "reads_memory", "text")

    def __init__(self, text: str, reads: frozenset[int], reads_memory: bool) -> None:
        self.text = text
        self.reads = reads
        self.reads_memory = reads_memory


class FunctionTranslator:
    """Writes the Python text of one function; `lines[i]` came from location `locations[i]`."""

    def __init__(self, unit: Unit, fn: ir.Function) -> None:
        self.unit = unit
        self.fn = fn
        self.costs = unit.costs
        self.simple = fn.name in unit.simple
        self.regions: Regions = unit.regions[fn.name]
        self._rank = self.regions.rank
        self.lines: list[str] = []
        self.locations: list[int] = []
        self._loc = fn.loc
        self._level = 0
        self._cost = 0
        self._charges: Counter[int] = Counter()  # of `_cost`, by location
        self._pending: dict[int, _Pending] = {}
        self._single_use = self._find_single_uses()
        self._free_jumps: set[int] = set()
        self._temp = 0
        calls = any(isinstance(i, ir.Call | ir.CallIndirect | ir.MapOp) for b in fn.blocks for i in b)
        framed = any(isinstance(i, ir.FrameAddr) for b in fn.blocks for i in b)
        needs_stack = fn.frame_size > 0 or calls or framed
        self._frame = (fn.frame_size + 3) // 4 * 4 + CALL_FRAME_BYTES if needs_stack else 0

    # ------------------------------------------------------------------------------------------ text

    def _emit(self, text: str) -> None:
        self.lines.append("\t" * self._level + text)
        self.locations.append(self._loc)

    def translate(self) -> None:
        """Fill `lines`."""
        parameters = "".join(f",r{i}" for i in range(self.fn.param_count))
        self._emit(f"def f{self.unit.index[self.fn.name]}(pe{parameters}):")
        self._level = 1
        self._emit("M=pe.memory;B=M.u8;b=M.i8;H=M.u16;h=M.i16;I=M.u32;i=M.i32;F=M.f32")
        if self._frame:
            self._emit(f"sp=pe.sp-{self._frame}")
            self._emit("if sp<pe.stack_floor: raise StackOverflow(sp)")
            self._emit("pe.sp=sp")
        if not self.simple:
            self._emit("t=pe.t;L=pe.limit")
        if self.unit.by_line:
            self._emit("Q=pe.line_cycles")
        self._body()
        if not self.simple:
            self._level = 1
            self._emit("yield")  # unreachable; makes this a generator

    def _body(self) -> None:
        entries = self.regions.entries
        if not entries:
            self._block(0)
            return
        if 0 not in entries:
            self._block(0)
        elif len(entries) > 1:
            self._emit("n=0")
        self._emit("while True:")
        self._level = 2
        if len(entries) == 1:
            self._block(entries[0])
            return
        for position, block in enumerate(entries):
            self._emit(f"{'el' if position else ''}if n=={block}:")
            self._level = 3
            self._block(block)
            self._level = 2

    # ------------------------------------------------------------------------------------------ blocks

    def _find_single_uses(self) -> set[int]:
        """Registers assigned once and read once, in the same block: their expression can move to the reader."""
        defs: Counter[int] = Counter()
        uses: Counter[int] = Counter()
        def_place: dict[int, tuple[int, int]] = {}
        use_place: dict[int, tuple[int, int]] = {}
        for number, block in enumerate(self.fn.blocks):
            for position, instr in enumerate(block):
                for reg in registers_read(instr):
                    uses[reg] += 1
                    use_place[reg] = (number, position)
                dst = getattr(instr, "dst", None) or getattr(instr, "result", None)
                if isinstance(dst, ir.Reg):
                    defs[dst.index] += 1
                    def_place[dst.index] = (number, position)
        return {
            reg
            for reg, count in defs.items()
            if count == 1
            and uses[reg] == 1
            and def_place[reg][0] == use_place[reg][0]
            and def_place[reg][1] < use_place[reg][1]
            and reg >= self.fn.param_count
        }

    def _block(self, number: int) -> None:
        block = self.fn.blocks[number]
        for instr, cost in zip(block[:-1], block_costs(block, self.costs), strict=True):
            self._loc = instr.loc or self._loc
            self._charge(cost)
            try:
                self._instruction(instr)
            except (Unsupported, UnsupportedIr) as problem:
                # Only a program that gets here fails, with the reason and its source line.
                self._settle_all()
                self._emit(f"raise Stop({self.unit.constant(f'not supported: {problem}')})")
        last = block[-1]
        self._loc = last.loc or self._loc
        self._terminator(number, last)

    def _charge(self, cycles: int) -> None:
        self._cost += cycles
        self._charges[self._loc] += cycles

    def _restore(self, cost: int, charges: Counter[int]) -> None:
        self._cost = cost
        self._charges = charges.copy()

    def _flush_cost(self) -> None:
        if self._cost:
            self._emit(f"{'pe.t' if self.simple else 't'}+={self._cost}")
        self._flush_charges()

    def _flush_charges(self) -> None:
        if self.unit.by_line:
            for loc, cycles in self._charges.items():
                if cycles:
                    self._emit(f"Q[{loc}]+={cycles}")
        self._restore(0, Counter())

    def _goto(self, source: int, target: int) -> None:
        """Continue at `target`; the caller is at the end of everything that follows `source`."""
        if target not in self.regions.entries:
            self._block(target)
            return
        self._settle_all()
        self._flush_cost()
        if len(self.regions.entries) > 1:
            self._emit(f"n={target}")
        if self._rank[target] <= self._rank[source]:
            self._emit("if t>L:")
            self._level += 1
            self._emit("pe.t=t")
            self._emit("yield")
            self._emit("t=pe.t;L=pe.limit")
            self._level -= 1
        elif len(self.regions.entries) == 1:
            self._emit("pass")

    def _terminator(self, number: int, instr: ir.Instr) -> None:
        match instr:
            case ir.Jump(target=target):
                if number not in self._free_jumps:
                    self._charge(edge_cost(self._rank[number], self._rank[target], self.costs))
                self._goto(number, target)
            case ir.Branch():
                self._branch(number, instr)
            case ir.SwitchInt():
                self._switch(number, instr)
            case ir.Ret(value=value):
                self._return(value)
            case ir.Unreachable(text=text):
                self._settle_all()
                self._flush_cost()
                self._emit(f"raise Stop({self.unit.constant(text)})")
            case _:
                raise UnsupportedIr(f"terminator {type(instr).__name__}")

    def _branch(self, number: int, instr: ir.Branch) -> None:
        arms = predicated_arms(self.fn.blocks, instr, self.regions.predecessors, self._rank)
        if arms:
            self._charge(self.costs["branch.predicated"])
            then_cost = otherwise_cost = 0
            self._free_jumps.update(arms)
        else:
            rank = self._rank
            ranks = rank[number], rank[instr.then], rank[instr.otherwise]
            then_cost, otherwise_cost = branch_costs(*ranks, self.costs)
        condition = self._read(instr.cond, as_condition=True)
        self._settle_all()
        cost, charges, loc = self._cost, self._charges, self._loc
        for keyword, target, extra in (
            (f"if {condition}:", instr.then, then_cost),
            ("else:", instr.otherwise, otherwise_cost),
        ):
            self._emit(keyword)
            self._level += 1
            self._loc = loc
            self._restore(cost, charges)
            self._charge(extra)
            self._goto(number, target)
            self._level -= 1
        self._restore(0, Counter())

    def _switch(self, number: int, instr: ir.SwitchInt) -> None:
        value = self._read(instr.value)
        self._settle_all()
        self._charge(self.costs["branch.switch_base"])
        base, charges, loc = self._cost, self._charges, self._loc
        self._emit(f"s={value}")
        step = self.costs["branch.switch_case"]
        for position, (case, target) in enumerate(instr.cases):
            self._emit(f"{'el' if position else ''}if s=={int(case)}:")
            self._level += 1
            self._loc = loc
            self._restore(base, charges)
            self._charge(step * (position + 1))
            self._goto(number, target)
            self._level -= 1
        self._emit("else:" if instr.cases else "if 1:")
        self._level += 1
        self._loc = loc
        self._restore(base, charges)
        self._charge(step * len(instr.cases))
        self._goto(number, instr.default)
        self._level -= 1
        self._restore(0, Counter())

    def _return(self, value: ir.Operand | None) -> None:
        text = self._read(value) if value is not None else "None"
        if not text.isidentifier() and value is not None:
            self._settle_all()
            self._emit(f"v={text}")
            text = "v"
        self._pending.clear()
        self._charge(return_cost(self.fn, self.fn.name in self.unit.inlined, self.costs))
        if self._frame:
            self._emit(f"pe.sp=sp+{self._frame}")
        if self.simple:
            self._emit(f"pe.t+={self._cost}")
        else:
            self._emit(f"pe.t=t+{self._cost}")
        self._flush_charges()
        self._emit(f"return {text}")

    # ------------------------------------------------------------------------------------------ operands

    def _read(self, operand: ir.Operand, as_condition: bool = False) -> str:
        """Text of an operand; a pending expression is consumed."""
        if isinstance(operand, ir.Reg):
            pending = self._pending.pop(operand.index, None)
            if pending is not None:
                return _condition(pending.text) if as_condition else pending.text
            return f"r{operand.index:d}"
        if isinstance(operand, ir.FnAddr):
            if operand.name not in self.unit.index:
                raise UnsupportedIr(f"pointer to unknown function {operand.name!r}")
            return str(self.unit.index[operand.name] + 1)
        if isinstance(operand, ir.Imm):
            if isinstance(operand.value, int | float):
                return ex.constant(operand.value) or self.unit.constant(operand.value)
            return self.unit.constant(operand.value)
        raise UnsupportedIr(f"operand {operand!r} was not resolved by the linker")

    def _settle(self, registers: set[int]) -> None:
        """Write out the pending expressions of `registers`, in order of definition."""
        for reg in [r for r in self._pending if r in registers]:
            self._emit(f"r{reg}={self._pending.pop(reg).text}")

    def _settle_all(self) -> None:
        self._settle(set(self._pending))

    def _settle_memory(self) -> None:
        """Before memory changes: pending loads must happen now."""
        self._settle({reg for reg, pending in self._pending.items() if pending.reads_memory})

    def _define(self, dst: ir.Reg, text: str, instr: ir.Instr, used: list[_Pending], memory: bool = False) -> None:
        """Assign an expression, or keep it for its only reader."""
        reads = set(registers_read(instr))
        reads_memory = memory
        for pending in used:
            reads |= pending.reads
            reads_memory = reads_memory or pending.reads_memory
        stale = {reg for reg, pending in self._pending.items() if dst.index in pending.reads}
        if stale:
            self._settle(stale)
        if dst.index in self._single_use and len(text) < 400:
            self._pending[dst.index] = _Pending(text, frozenset(reads), reads_memory)
        else:
            self._emit(f"r{dst.index}={text}")

    def _take(self, *operands: ir.Operand) -> tuple[list[str], list[_Pending]]:
        used = [self._pending[op.index] for op in operands if isinstance(op, ir.Reg) and op.index in self._pending]
        return [self._read(op) for op in operands], used

    # ------------------------------------------------------------------------------------------ instructions

    def _instruction(self, instr: ir.Instr) -> None:
        match instr:
            case ir.Move(dst=dst, src=src):
                (text,), used = self._take(src)
                self._define(dst, text, instr, used)
            case ir.Bin():
                self._binary(instr)
            case ir.Neg(dst=dst, type=type_, a=a):
                (text,), used = self._take(a)
                self._define(dst, f"(-{text})" if type_.kind == "float" else ex.wrap(f"-{text}", type_), instr, used)
            case ir.Not(dst=dst, type=type_, a=a):
                (text,), used = self._take(a)
                self._define(dst, f"(1-{text})" if type_.bits == 1 else ex.wrap(f"~{text}", type_), instr, used)
            case ir.Cmp(dst=dst, op=op, a=a, b=b):
                (left, right), used = self._take(a, b)
                self._define(dst, f"(1 if {ex.compare(op, left, right)} else 0)", instr, used)
            case ir.Cast(dst=dst, to=to, from_=from_, a=a):
                (text,), used = self._take(a)
                self._define(dst, self._cast(text, to, from_), instr, used)
            case ir.Bitcast(dst=dst, to=to, from_=from_, a=a):
                (text,), used = self._take(a)
                self._define(dst, self._bitcast(text, to, from_), instr, used)
            case ir.Load():
                self._load(instr)
            case ir.Store():
                self._store(instr)
            case ir.CopyMem(dst_addr=to_, src_addr=from__, size=size):
                (dst_text, src_text), _ = self._take(to_, from__)
                self._settle_memory()
                self._emit(f"M.write({dst_text},M.read({src_text},{int(size)}))")
            case ir.FrameAddr(dst=dst, offset=offset):
                self._define(dst, f"(sp+{CALL_FRAME_BYTES + int(offset)})", instr, [])
            case ir.Call(dst=dst, fn=name, args=args):
                self._call(instr, dst, name, args)
            case ir.CallIndirect(dst=dst, pointer=pointer, args=args):
                self._call_indirect(instr, dst, pointer, args)
            case ir.MakeDsd(dst=dst, template=template, fields=fields, element_bytes=size):
                (*texts,), used = self._take(*(value for _, value in fields))
                keys = tuple(key for key, _ in fields)
                name = self.unit.constant((template, keys, int(size)))
                self._define(dst, f"make_dsd({name},{','.join(texts)})" if texts else f"{name}[0]", instr, used)
            case ir.SetDsd(dst=dst, src=src, field=field, value=value):
                (source, text), used = self._take(src, value)
                self._define(dst, f"{_SETTERS[field]}({source},{text})", instr, used)
            case ir.DsdOp():
                site = DsdSite(self.unit.image, self.unit.half, self.costs, instr)
                self._blocking(self.unit.constant(site), site.dynamic_operands(), instr.result, generator=False)
            case ir.MapOp():
                map_site = MapSite(self.unit.image, self.unit.half, self.costs, instr)
                self._blocking(self.unit.constant(map_site), map_site.dynamic_operands(), None, generator=True)
            case ir.LoadDsr(dsr=dsr, dsd=dsd):
                self._load_dsr(instr, dsr, dsd)
            case ir.Intrinsic():
                self._intrinsic(instr)
            case _:
                raise UnsupportedIr(f"instruction {type(instr).__name__}")

    def _binary(self, instr: ir.Bin) -> None:
        (a, b), used = self._take(instr.a, instr.b)
        type_ = instr.type
        if type_.kind == "int":
            if instr.op == "shl" and not b.isalnum():
                self._emit(f"s={b}")
                b = "s"
                self._define_now(instr.dst, ex.binary_int("shl", type_, a, b))
                return
            self._define(instr.dst, ex.binary_int(instr.op, type_, a, b), instr, used)
            return
        value = ex.binary_float(instr.op, a, b)
        if type_.bits == 32:
            self._emit(f"S[0]={value}")
            self._define_now(instr.dst, "S[0]")
        else:
            self._define(instr.dst, f"round16({value})", instr, used)

    def _define_now(self, dst: ir.Reg, text: str) -> None:
        stale = {reg for reg, pending in self._pending.items() if dst.index in pending.reads}
        self._settle(stale)
        self._emit(f"r{dst.index}={text}")

    def _cast(self, text: str, to: ir.ScalarType, from_: ir.ScalarType) -> str:
        if to.bits == 1 and to.kind == "int":
            return f"(1 if {text}!=0 else 0)"
        if to.kind == "int":
            if from_.kind == "float":
                return f"float_to_int({text},{self.unit.constant(to)})"
            contained = from_.bits < to.bits and (to.signed or not from_.signed)
            same = from_.bits == to.bits and from_.signed == to.signed
            return text if contained or same else ex.wrap(text, to)
        if from_.kind == "int":
            exact = f"int_to_odd({text})" if from_.bits > 32 else f"float({text})"
            return f"round32({exact})" if to.bits == 32 else f"round16({exact})"
        if to.bits >= from_.bits and to.bits == 32:
            return text
        return text if to == from_ else f"round16({text})"

    def _bitcast(self, text: str, to: ir.ScalarType, from_: ir.ScalarType) -> str:
        if to.kind == from_.kind == "int":
            return ex.wrap(text, to) if to.signed != from_.signed else text
        if to.kind == from_.kind:
            return text
        return f"from_bits(to_bits({text},{self.unit.constant(from_)}),{self.unit.constant(to)})"

    def _load(self, instr: ir.Load) -> None:
        (base,), used = self._take(instr.addr)
        type_, where = instr.type, ex.address(base, instr.offset)
        view = ex.view_of(type_)
        if type_.kind == "dsd":
            text = f"load_dsd(M,{where})"
        elif view is not None:
            text = ex.element(view, type_.size, where)
        elif type_.kind == "float":
            text = f"T16[{ex.element('H', 2, where)}]"
        elif type_.bits == 1:
            text = f"(1 if B[{where}] else 0)"
        else:
            text = ex.wrap(f"M.read_int({where},{type_.size})", type_)
        self._define(instr.dst, text, instr, used, memory=True)

    def _store(self, instr: ir.Store) -> None:
        (base, value), _ = self._take(instr.addr, instr.value)
        self._settle_memory()
        type_, where = instr.type, ex.address(base, instr.offset)
        view = ex.view_of(type_)
        if type_.kind == "dsd":
            self._emit(f"store_dsd(M,{where},{value})")
        elif type_.kind == "float" and type_.bits == 32:
            if not value.isidentifier():
                self._emit(f"v={value}")
                value = "v"
            self._emit(f"{ex.element('F', 4, where)}={value} if {value}=={value} else NAN")
        elif view is not None:
            self._emit(f"{ex.element(view, type_.size, where)}={value}")
        elif type_.kind == "float":
            self._emit(f"{ex.element('H', 2, where)}=encode16({value})")
        elif type_.bits == 1:
            self._emit(f"B[{where}]={value}")
        else:
            self._emit(f"M.write_int({where},{value},{type_.size})")

    # ------------------------------------------------------------------------------------------ calls

    def _call(self, instr: ir.Instr, dst: ir.Reg | None, name: str, args: tuple[ir.Operand, ...]) -> None:
        if name not in self.unit.index:
            raise UnsupportedIr(f"call of unknown function {name!r}")
        texts, _ = self._take(*args)
        self._settle_memory()
        self._charge(0 if name in self.unit.inlined else self.costs["branch.call"])
        self._flush_cost()
        call = f"f{self.unit.index[name]}(pe{''.join(',' + text for text in texts)})"
        if name in self.unit.simple:
            if not self.simple:
                self._emit("pe.t=t")
            self._result(dst, call)
            if not self.simple:
                self._emit("t=pe.t")
            return
        self._emit("pe.t=t")
        self._result(dst, f"(yield from {call})")
        self._emit("t=pe.t;L=pe.limit")

    def _call_indirect(
        self, instr: ir.Instr, dst: ir.Reg | None, pointer: ir.Operand, args: tuple[ir.Operand, ...]
    ) -> None:
        (where, *texts), _ = self._take(pointer, *args)
        self._settle_memory()
        self._charge(self.costs["branch.call"])
        self._flush_cost()
        self._emit("pe.t=t")
        self._emit(f"g=function_at(pe,{where},{len(texts)})(pe{''.join(',' + text for text in texts)})")
        self._result(dst, "((yield from g) if type(g) is Gen else g)")
        self._emit("t=pe.t;L=pe.limit")

    def _result(self, dst: ir.Reg | None, text: str) -> None:
        if dst is None:
            self._emit(text)
        else:
            self._define_now(dst, text)

    def _blocking(self, site: str, operands: list[ir.Operand], result: ir.Reg | None, generator: bool) -> None:
        texts, _ = self._take(*operands)
        self._settle_memory()
        self._flush_cost()
        arguments = "".join("," + text for text in texts)
        self._emit("pe.t=t")
        if generator:
            self._emit(f"yield from {site}.run(pe{arguments})")
        else:
            self._emit(f"if {site}(pe{arguments}): yield")
        self._emit("t=pe.t;L=pe.limit")
        if result is not None:
            self._define_now(result, "pe.result")

    def _load_dsr(self, instr: ir.LoadDsr, dsr: ir.DsrRef, dsd: ir.Operand) -> None:
        wake_ids = [wake.id if wake else ir.Imm(0) for wake in (instr.config.on_done, instr.config.on_control)]
        (value, done, control), _ = self._take(dsd, *wake_ids)
        static = self.unit.constant((dsr, instr.config, instr.save_address, instr.single_step))
        self._emit(f"pe.load_dsr({static},{value},{done},{control})")

    def _intrinsic(self, instr: ir.Intrinsic) -> None:
        if instr.name not in INTRINSIC_TABLE:
            raise UnsupportedIr(f"intrinsic {instr.name!r}")
        entry = intrinsic_entry(instr.name)
        texts, _ = self._take(*instr.args)
        self._settle_memory()
        if instr.shown:
            self._settle_all()  # the report reads registers
        cost = intrinsic_cost(instr, self.costs)
        call = f"{self.unit.constant(entry.run)}(pe{''.join(',' + text for text in texts)}"
        call += f",{self.unit.constant(instr.text)})" if entry.takes_text else ")"
        if entry.prepare is not None:
            call = f"{self.unit.constant(entry.prepare(instr.text, self.unit.half))}({','.join(texts)})"
        if instr.shown:
            failing = f"{self.unit.constant(fail_assertion)}({self.unit.constant(instr)},locals())"
            call = f"({texts[0]}) or {failing}"
        self._flush_cost()
        if not self.simple:
            self._emit("pe.t=t")
        if entry.synchronizes:
            self._emit("if t>pe.fabric.now: yield")
        self._result(instr.dst, call)
        if entry.synchronizes:
            self._emit("t=pe.t;L=pe.limit")
        self._charge(cost)


def _condition(text: str) -> str:
    """`x<y` for `(1 if x<y else 0)`."""
    before, after = "(1 if ", " else 0)"
    return text[len(before) : -len(after)] if text.startswith(before) and text.endswith(after) else text
