"""Terse construction of IR functions and programs for simulator tests."""

from __future__ import annotations

from typing import Any

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import I16, RAMP, U16, Dsd, DsdArg, DsdConfig, Imm, Reg

Value = Reg | int | float | Dsd | ir.FnAddr


def operand(value: Any) -> Any:
    """An `Imm` around a plain number or DSD."""
    return value if isinstance(value, Reg | Imm | ir.Sym | ir.FnAddr) else Imm(value)


class Fn:
    """Builds one function. Methods that compute return the new register; block 0 is current at the start."""

    def __init__(
        self, name: str, *params: ir.ScalarType, result: ir.ScalarType | None = None, task: bool = False
    ) -> None:
        self.function = ir.Function(
            name, "task" if task else "fn", len(params), result, list(params), [[]], frame_size=0, loc=0
        )
        self.params = [Reg(i) for i in range(len(params))]
        self._block = 0
        self.line = 0

    # -- structure

    def reg(self, type_: ir.ScalarType) -> Reg:
        self.function.registers.append(type_)
        return Reg(len(self.function.registers) - 1)

    def block(self) -> int:
        """A new, empty block (does not become current)."""
        self.function.blocks.append([])
        return len(self.function.blocks) - 1

    def at(self, block: int) -> None:
        self._block = block

    def add(self, instr: ir.Instr) -> None:
        self.function.blocks[self._block].append(instr)

    # -- scalars

    def move(self, dst: Reg, value: Value) -> None:
        self.add(ir.Move(self.line, dst, operand(value)))

    def bin(self, op: Any, type_: ir.ScalarType, a: Value, b: Value, dst: Reg | None = None) -> Reg:
        dst = dst or self.reg(type_)
        self.add(ir.Bin(self.line, dst, op, type_, operand(a), operand(b)))
        return dst

    def cmp(self, op: Any, type_: ir.ScalarType, a: Value, b: Value) -> Reg:
        dst = self.reg(ir.BOOL)
        self.add(ir.Cmp(self.line, dst, op, type_, operand(a), operand(b)))
        return dst

    def cast(self, to: ir.ScalarType, from_: ir.ScalarType, a: Value) -> Reg:
        dst = self.reg(to)
        self.add(ir.Cast(self.line, dst, to, from_, operand(a)))
        return dst

    def load(self, type_: ir.ScalarType, address: Value, offset: int = 0) -> Reg:
        dst = self.reg(type_)
        self.add(ir.Load(self.line, dst, type_, operand(address), offset))
        return dst

    def store(self, type_: ir.ScalarType, address: Value, value: Value, offset: int = 0) -> None:
        self.add(ir.Store(self.line, type_, operand(address), operand(value), offset))

    def call(self, name: str, *args: Value, result: ir.ScalarType | None = None) -> Reg | None:
        dst = self.reg(result) if result else None
        self.add(ir.Call(self.line, dst, name, tuple(operand(a) for a in args)))
        return dst

    # -- control

    def jump(self, target: int) -> None:
        self.add(ir.Jump(self.line, target))

    def branch(self, cond: Value, then: int, otherwise: int) -> None:
        self.add(ir.Branch(self.line, operand(cond), then, otherwise))

    def ret(self, value: Value | None = None) -> ir.Function:
        self.add(ir.Ret(self.line, None if value is None else operand(value)))
        return self.function

    def loop(self, count: Value, body: Any) -> None:
        """`for i in 0..count: body(i)` with an i16 counter; afterwards the exit block is current."""
        i = self.reg(I16)
        self.move(i, 0)
        head, inside, out = self.block(), self.block(), self.block()
        self.jump(head)
        self.at(head)
        self.branch(self.cmp("lt", I16, i, count), inside, out)
        self.at(inside)
        body(i)
        self.bin("add", I16, i, 1, dst=i)
        self.jump(head)
        self.at(out)

    # -- DSDs and the machine

    def dsd(self, op: str, dest: Any, *sources: Any, **config: Any) -> Reg:
        result = self.reg(ir.BOOL)
        self.add(ir.DsdOp(self.line, result, op, arg(dest), tuple(arg(s) for s in sources), DsdConfig(**config)))
        return result

    def do(self, name: str, *args: Value, text: str = "", result: ir.ScalarType | None = None) -> Reg | None:
        dst = self.reg(result) if result else None
        self.add(ir.Intrinsic(self.line, dst, name, tuple(operand(a) for a in args), text))
        return dst


def arg(value: Any) -> DsdArg | None:
    """A DSD operand: `Dsd`, `DsrRef`, `("pointer", address, type)`, `("scalar", value, type)` or `("fifo", index)`."""
    match value:
        case None:
            return None
        case Dsd():
            return DsdArg("dsd", Imm(value))
        case ir.DsrRef():
            return DsdArg("dsr", value)
        case ("fifo", index):
            return DsdArg("fifo", index)
        case (kind, content, type_):
            return DsdArg(kind, operand(content), type_)
    return DsdArg("dsd", value)


def mem(base: int, count: int, stride: int = 1) -> Dsd:
    """`mem1d` over `count` elements."""
    return Dsd("mem1d", (count,), base, (stride,))


def fabin(queue: int, color: int, count: int, **fields: Any) -> Dsd:
    return Dsd("fabin", (count,), queue=queue, color=color, **fields)


def fabout(queue: int, color: int, count: int, **fields: Any) -> Dsd:
    return Dsd("fabout", (count,), queue=queue, color=color, **fields)


def activate(id_: int) -> ir.Wake:
    return ir.Wake("activate", "task", Imm(id_))


def unblock(id_: int) -> ir.Wake:
    return ir.Wake("unblock", "task", Imm(id_))


def image(*functions: ir.Function | Fn, exports: tuple[str, ...] = (), **fields: Any) -> ir.Image:
    """An image whose functions named in `exports` are host-callable, with memory [0, 16384) for data."""
    found = {}
    for item in functions:
        function = item.function if isinstance(item, Fn) else item
        found[function.name] = function
    symbols = {
        name: ir.ExportedSymbol(name, "fn", name, "fn() void", tuple(found[name].registers[: found[name].param_count]))
        for name in exports
    }
    locations = [("", 0, 0), *(("pe.csl", line, 1) for line in range(1, 200))]
    memory = {"data_end": 16384, "stack_top": 49152}
    return ir.Image("test", "pe.csl", found, exports=symbols, locations=locations, **memory, **fields)


def tensor(target: ir.Image, name: str, address: int, pointer_at: int, type_name: str = "[*]f32") -> None:
    """Export the array at `address` through a pointer variable at `pointer_at`."""
    target.globals[name] = ir.Global(name, pointer_at, 2, address.to_bytes(2, "little"), type_name, is_export=True)
    target.exports[name] = ir.ExportedSymbol(name, "var", name, type_name)


def program(
    images: list[ir.Image] | ir.Image,
    tiles: list[list[int]] | None = None,
    colors: list[list[dict[int, ir.ColorConfig]]] | None = None,
    arch: Any = "wse3",
    **fields: Any,
) -> ir.Program:
    """A program; one PE by default."""
    images = images if isinstance(images, list) else [images]
    tiles = tiles or [[0]]
    height, width = len(tiles), len(tiles[0])
    colors = colors or [[{} for _ in range(width)] for _ in range(height)]
    return ir.Program(
        arch, width, height, (width + 7, height + 2), (4, 1), images, tiles, colors, exports=[], params={}, **fields
    )


def ping_pong() -> ir.Program:
    """Two PEs send each other counters over two colors by data tasks, computing between; the left one starts."""

    def player(first: bool) -> ir.Image:
        main = Fn("main")
        if first:
            main.dsd("mov16", fabout(3, 4, 1), ("scalar", 0, U16))
        else:
            main.do("unblock_cmd_stream")
        main.ret()
        ball = Fn("ball", U16, task=True)
        total = ball.reg(U16)
        ball.move(total, ball.params[0])
        ball.loop(9, lambda i: ball.bin("add", U16, total, 1, dst=total))
        count = ball.load(U16, 0)
        ball.store(U16, 0, ball.bin("add", U16, count, 1))
        ball.store(U16, ball.bin("add", U16, ball.bin("mul", U16, count, 2), 2), total)
        again, stop = ball.block(), ball.block()
        # The left player serves and keeps the ball after 20 returns.
        ball.branch(ball.cmp("lt", U16, count, 19 if first else 99), again, stop)
        ball.at(again)
        ball.dsd("mov16", fabout(3, 4 if first else 5, 1), ("scalar", total, U16), is_async=True)
        ball.dsd("mov16", mem(128, 8), mem(2, 8))
        ball.ret()
        ball.at(stop)
        if first:
            ball.do("unblock_cmd_stream")
        ball.ret()
        into, out = (5, 4) if first else (4, 5)
        queues = [ir.QueueInit("input", 2, into), ir.QueueInit("output", 3, out)]
        return image(main, ball, exports=("main",), queues=queues, tasks=[ir.TaskBinding("data", 2, "ball")])

    left = {4: ir.ColorConfig(rx=RAMP, tx=ir.EAST), 5: ir.ColorConfig(rx=ir.EAST, tx=RAMP)}
    right = {4: ir.ColorConfig(rx=ir.WEST, tx=RAMP), 5: ir.ColorConfig(rx=RAMP, tx=ir.WEST)}
    return program([player(True), player(False)], [[0, 1]], [[left, right]])
