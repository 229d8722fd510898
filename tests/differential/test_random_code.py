"""Random well-typed code on one PE: both executors compute the same memory in the same cycles, or fault alike."""

from __future__ import annotations

import os
from typing import Any

from helpers.ir_programs import Fn, image, mem, program
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from differential.replay import compare
from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import BOOL, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64
from fabrica_bench.wse.commands import Launch, Limits

INTEGERS = (I8, U8, I16, U16, I32, U32, I64, U64, ir.int_type(5, True), ir.int_type(12, False))
FLOATS = (F32, F16)
TYPES = (*INTEGERS, *FLOATS)
SCRATCH = 1024  # bytes that the code reads and writes
RESULTS = 8192
MATH = ("sqrt", "exp", "log", "sin", "cos", "tanh", "inv", "invsqrt", "ceil", "floor", "sig", "abs", "pow")
LAUNCH = [("submit", Launch("main")), ("wait", 0), ("drain",)]
BOUNDS = settings(
    max_examples=int(os.environ.get("FABRICA_DIFFERENTIAL_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def number(draw: Any, type_: ir.ScalarType) -> int | float:
    """A constant of a type; the ends of the range are likely."""
    if type_.kind == "float":
        width = 32 if type_.bits == 32 else 16
        return draw(st.one_of(st.floats(width=width), st.sampled_from([0.0, -0.0, 1.0, -1.5, 65504.0])))
    low = -(1 << (type_.bits - 1)) if type_.signed else 0
    high = (1 << (type_.bits - int(type_.signed))) - 1
    return draw(st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1, min(3, high)])))


class Writer:
    """Grows a function. `pool`: registers by type that hold a value on every path."""

    def __init__(self, draw: Any, fn: Fn) -> None:
        self.draw = draw
        self.fn = fn
        self.pool: dict[ir.ScalarType, list[ir.Reg]] = {type_: [] for type_ in (*TYPES, BOOL)}

    def some(self, type_: ir.ScalarType) -> Any:
        """A register or constant."""
        held = self.pool[type_]
        if held and self.draw(st.booleans()):
            return self.draw(st.sampled_from(held))
        return number(self.draw, type_)

    def keep(self, type_: ir.ScalarType, register: ir.Reg | None) -> None:
        if register is not None:
            self.pool[type_].append(register)

    def statements(self, depth: int, callees: list[tuple[str, tuple[ir.ScalarType, ...], ir.ScalarType]]) -> None:
        kinds = ["bin", "bin", "bin", "cmp", "cast", "bitcast", "neg", "not", "load", "store", "store", "math", "dsd"]
        kinds += (
            ["random", "time", "print"] + (["call"] if callees else []) + (["if", "loop", "switch"] if depth else [])
        )
        for _ in range(self.draw(st.integers(1, 8))):
            getattr(self, f"_{self.draw(st.sampled_from(kinds))}")(depth, callees)

    def _bin(self, *_: Any) -> None:
        type_ = self.draw(st.sampled_from(TYPES))
        ops = ["add", "sub", "mul", "div", "rem"]
        op = self.draw(st.sampled_from(ops if type_.kind == "float" else [*ops, "and", "or", "xor", "shl", "shr"]))
        a, b = self.some(type_), self.some(type_)
        if op in ("shl", "shr"):
            b = self.draw(st.integers(0, min(70, (1 << (type_.bits - 1)) - 1)))
        if type_.kind == "int" and op in ("div", "rem") and self.draw(st.integers(0, 9)):
            b = number(self.draw, type_) or 1  # a division by zero now and then
        self.keep(type_, self.fn.bin(op, type_, a, b))

    def _cmp(self, *_: Any) -> None:
        type_ = self.draw(st.sampled_from(TYPES))
        op = self.draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]))
        self.keep(BOOL, self.fn.cmp(op, type_, self.some(type_), self.some(type_)))

    def _cast(self, *_: Any) -> None:
        from_ = self.draw(st.sampled_from((*TYPES, BOOL)))
        to = self.draw(st.sampled_from((*TYPES, BOOL)))
        if from_.bits > 32 and to == F16:
            return  # left to the reference executor as a whole
        value = self.some(from_)
        self.keep(to, self.fn.cast(to, from_, value))

    def _bitcast(self, *_: Any) -> None:
        from_, to = self.draw(st.sampled_from([(F32, U32), (U32, F32), (F16, U16), (I16, F16), (I32, U32), (F32, I32)]))
        register = self.fn.reg(to)
        value = self.some(from_)
        self.fn.add(ir.Bitcast(0, register, to, from_, value if isinstance(value, ir.Reg) else ir.Imm(value)))
        self.keep(to, register)

    def _neg(self, *_: Any) -> None:
        type_ = self.draw(st.sampled_from(TYPES))
        register, value = self.fn.reg(type_), self.some(type_)
        self.fn.add(ir.Neg(0, register, type_, value if isinstance(value, ir.Reg) else ir.Imm(value)))
        self.keep(type_, register)

    def _not(self, *_: Any) -> None:
        type_ = self.draw(st.sampled_from((*INTEGERS, BOOL)))
        register, value = self.fn.reg(type_), self.some(type_)
        self.fn.add(ir.Not(0, register, type_, value if isinstance(value, ir.Reg) else ir.Imm(value)))
        self.keep(type_, register)

    def _address(self, type_: ir.ScalarType) -> Any:
        """Mostly an even constant; now and then any 16-bit number."""
        if not self.draw(st.integers(0, 19)):
            return self.some(U16)
        place = self.draw(st.integers(0, SCRATCH // 8)) * (2 if type_.size > 1 else 1)
        if self.pool[U16] and self.draw(st.booleans()):
            masked = self.fn.bin("and", U16, self.draw(st.sampled_from(self.pool[U16])), 0x1FE)
            return self.fn.bin("add", U16, masked, place)
        return place

    def _load(self, *_: Any) -> None:
        type_ = self.draw(st.sampled_from((*TYPES, BOOL)))
        self.keep(type_, self.fn.load(type_, self._address(type_), self.draw(st.sampled_from([0, 0, 2, 64]))))

    def _store(self, *_: Any) -> None:
        type_ = self.draw(st.sampled_from((*TYPES, BOOL)))
        self.fn.store(type_, self._address(type_), self.some(type_), self.draw(st.sampled_from([0, 0, 4])))

    def _math(self, *_: Any) -> None:
        type_ = self.draw(st.sampled_from(FLOATS))
        name = self.draw(st.sampled_from(MATH))
        args = [self.some(type_) for _ in range(2 if name == "pow" else 1)]
        self.keep(type_, self.fn.do("math", *args, text=f"{name}:{type_.name}", result=type_))

    def _dsd(self, *_: Any) -> None:
        memory_operation(self.draw, self.fn)

    def _random(self, *_: Any) -> None:
        self.keep(U16, self.fn.do("random16", result=U16))

    def _time(self, *_: Any) -> None:
        self.fn.do(self.draw(st.sampled_from(["tsc_enable", "tsc_disable", "tsc_reset"])))
        self.fn.do("tsc_read", self.draw(st.integers(0, 100)) * 2)

    def _print(self, *_: Any) -> None:
        self.fn.do("print_text", text=self.draw(st.sampled_from(["a", "b\n", "line\nmore"])))

    def _call(self, _: int, callees: list[tuple[str, tuple[ir.ScalarType, ...], ir.ScalarType]]) -> None:
        name, params, result = self.draw(st.sampled_from(callees))
        self.keep(result, self.fn.call(name, *(self.some(type_) for type_ in params), result=result))

    def _inner(self, depth: int, callees: Any) -> None:
        """Statements on one path: what they define is forgotten afterwards."""
        before = {type_: list(held) for type_, held in self.pool.items()}
        self.statements(depth - 1, callees)
        self.pool = before

    def _if(self, depth: int, callees: Any) -> None:
        fn = self.fn
        then, otherwise, after = fn.block(), fn.block(), fn.block()
        fn.branch(self.some(BOOL), then, otherwise)
        for block in (then, otherwise):
            fn.at(block)
            if self.draw(st.booleans()):
                self._inner(depth, callees)
            fn.jump(after)
        fn.at(after)

    def _switch(self, depth: int, callees: Any) -> None:
        fn = self.fn
        targets = [fn.block() for _ in range(3)]
        after = fn.block()
        value = self.some(U8)
        operand = value if isinstance(value, ir.Reg) else ir.Imm(value)
        fn.add(ir.SwitchInt(0, operand, ((0, targets[0]), (1, targets[1])), targets[2]))
        for block in targets:
            fn.at(block)
            self._inner(depth, callees)
            fn.jump(after)
        fn.at(after)

    def _loop(self, depth: int, callees: Any) -> None:
        def body(i: ir.Reg) -> None:
            self.pool[I16].append(i)
            self._inner(depth, callees)
            self.pool[I16].remove(i)

        self.fn.loop(self.draw(st.integers(0, 5)), body)


def memory_operation(draw: Any, fn: Fn, half_type: ir.ScalarType = F16) -> None:
    """A DSD operation on memory: any operation, overlapping operands, strides, several dimensions, reductions."""
    single = ("fadds", "fsubs", "fmuls", "fmaxs")
    half = ("faddh", "fsubh", "fmulh", "fmaxh")
    integers = ("add16", "sub16", "and16", "or16", "xor16", "sll16", "slr16", "sar16", "addc16")
    unary = ("mov16", "mov32", "fmovh", "fmovs", "fabss", "fabsh", "fnegs", "fnegh", "clz", "ctz", "popcnt")
    converts = ("fh2s", "fs2h", "fh2xp16", "fs2xp16", "xp162fh", "xp162fs")
    op = draw(st.sampled_from((*single, *half, *integers, *unary, *converts, "fmacs", "fmach", "fmachs", "faddhs")))
    sources = 1 if op in (*unary, *converts) else 3 if op.startswith("fmac") else 2
    scalar = F32 if op in single else half_type if op in half else U16
    length = draw(st.integers(0, 12))

    def operand() -> Any:
        if draw(st.integers(0, 5)) == 0:
            rows = draw(st.integers(1, 3))
            return ir.Dsd("mem4d", (rows, 4), 2 * draw(st.integers(64, 200)), (1, draw(st.integers(-3, 6))))
        return mem(2 * draw(st.integers(64, 200)), length, draw(st.integers(-3, 4)))

    first: Any = operand()
    args = [operand() for _ in range(sources)]
    if sources == 2 and draw(st.integers(0, 3)) == 0 and op not in ("addc16", "faddhs"):
        value = number(draw, scalar)
        args[draw(st.integers(0, 1))] = ("scalar", value, scalar)
        if args[0][0] == "scalar" and draw(st.booleans()):
            first = ("pointer", 2 * draw(st.integers(64, 200)), scalar)
    if draw(st.integers(0, 3)) == 0 and isinstance(first, ir.Dsd):
        args[0] = first
    fn.dsd(op, first, *args)


@st.composite
def programs(draw: Any) -> ir.Program:
    """A launched function, with two helpers and a task; some call loops, so that they can be suspended."""
    helpers = []
    callees: list[tuple[str, tuple[ir.ScalarType, ...], ir.ScalarType]] = []
    for name in ("helper", "other"):
        params = tuple(draw(st.lists(st.sampled_from(TYPES), max_size=3)))
        result = draw(st.sampled_from(TYPES))
        fn = Fn(name, *params, result=result)
        writer = Writer(draw, fn)
        for type_, register in zip(params, fn.params, strict=True):
            writer.pool[type_].append(register)
        writer.statements(draw(st.integers(0, 2)), list(callees))
        fn.ret(writer.some(result))
        helpers.append(fn)
        callees.append((name, params, result))
    later = Fn("later", task=True)
    Writer(draw, later).statements(1, callees)
    later.do("unblock_cmd_stream")
    later.ret()
    main = Fn("main")
    main.do("activate", 20)
    writer = Writer(draw, main)
    writer.statements(2, callees)
    place = RESULTS
    for type_, held in writer.pool.items():
        for register in held:
            main.store(type_, place, register)
            place += 8
    main.ret()
    target = image(main, later, *helpers, exports=("main",), tasks=[ir.TaskBinding("local", 20, "later")])
    seed = draw(st.binary(min_size=SCRATCH, max_size=SCRATCH))
    target.globals["data"] = ir.Global("data", 0, SCRATCH, seed, "[1024]u8")
    return program(target, arch=draw(st.sampled_from(["wse2", "wse3"])))


@BOUNDS
@given(programs())
def test_random_code_gives_the_same_memory_cycles_and_faults(code: ir.Program) -> None:
    event(f"run to its end by {compare(code, LAUNCH, Limits(max_cycles=300_000)).executor}")


@st.composite
def memory_programs(draw: Any) -> ir.Program:
    main = Fn("main")
    half = draw(st.sampled_from([F16, ir.BF16, ir.CB16]))
    for _ in range(draw(st.integers(1, 12))):
        memory_operation(draw, main, half)
    main.do("unblock_cmd_stream")
    main.ret()
    target = image(main, exports=("main",))
    target.globals["data"] = ir.Global(
        "data", 0, SCRATCH, draw(st.binary(min_size=SCRATCH, max_size=SCRATCH)), "[1024]u8"
    )
    return program(target, arch=draw(st.sampled_from(["wse2", "wse3"])), fp16=half.name)


@BOUNDS
@given(memory_programs())
def test_random_dsd_operations_on_memory_give_the_same_bits_and_cycles(code: ir.Program) -> None:
    event(f"run to its end by {compare(code, LAUNCH).executor}")
