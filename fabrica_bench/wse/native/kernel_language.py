"""Compiler of the kernel language: a small typed subset of Python syntax, translated to LLVM.

The event loop, the routers and the DSD operations of the native executor are written in it (`kernel/*.py`). These files
are data for this module: they are parsed, never imported. What the language has

    constants    NAME = 3
    structures   class Name: field: "i64" | "f64" | "Other" (pointer) | "Other[4]" (inline) | "i64[16]" | "ptr_u8" ...
                 name: "align" begins a cache line
    functions    def name(a: i64, p: Name) -> i64: while, for-range, if, assignments, calls
    numbers      i64 (wrapping) and f64; comparisons and `and`/`or`/`not` give 0 or 1; `//` and `%` truncate (as in C)
    pointers     to structures or to arrays of u8, u16, u32, i64, f32, f64; `p.field`, `p.array[i]`, `pointer[i]`,
                 `cast(Type, address)`, `addr(pointer)`; `words_of(Type)` is the size of a structure; `place(p.field)`
                 is the address of a field, on which `atomic_load`, `atomic_store` and `atomic_add` work

Every field takes 8 bytes, so a structure is an array of 64-bit words for the Python side (`StructLayout`). A variable
has the type of its first assignment. Nothing checks indexes: kernel code must.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir

from fabrica_bench.wse.native.kernel_builtins import (
    BUILTINS,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    WORD,
    Typed,
    llvm_type,
)

LINE = 8  # words of a cache line

#: element name -> (LLVM type, bytes)
ELEMENTS: dict[str, tuple[Any, int]] = {
    "u8": (I8, 1),
    "u16": (I16, 2),
    "u32": (I32, 4),
    "i64": (I64, 8),
    "f32": (F32, 4),
    "f64": (F64, 8),
}


class KernelError(Exception):
    """The kernel source is not in the language; carries the place."""


@dataclass(frozen=True)
class FieldLayout:
    """`offset` and `count` in words. `type`: `i64`, `f64`, `ptr_*`, or a structure's name; `inline`: the structure
    itself lies here, else a pointer to it."""

    offset: int
    type: str
    count: int = 1
    inline: bool = False
    is_array: bool = False


@dataclass
class StructLayout:
    """Offsets of the fields of a structure, in 64-bit words."""

    name: str
    words: int = 0
    fields: dict[str, FieldLayout] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        """Word offset of a field."""
        return self.fields[name].offset


@dataclass
class Signature:
    """Types of a kernel function."""

    params: list[tuple[str, str]]
    result: str
    node: ast.FunctionDef
    value: Any = None


class Kernel:
    """Parsed kernel sources, and their LLVM module after `compile`."""

    def __init__(self, sources: list[tuple[str, str]]) -> None:
        self.constants: dict[str, int | float] = {}
        self.structs: dict[str, StructLayout] = {}
        self.functions: dict[str, Signature] = {}
        self.module: Any = None
        for name, text in sources:
            self._declare(name, ast.parse(text, name))

    def _declare(self, name: str, tree: ast.Module) -> None:
        for node in tree.body:
            match node:
                case ast.Expr() | ast.ImportFrom() | ast.Import() | ast.If():
                    continue
                case ast.Assign(targets=[ast.Name(id=target)], value=value):
                    self.constants[target] = self._constant(value)
                case ast.ClassDef():
                    self._struct(node)
                case ast.FunctionDef():
                    params = [(arg.arg, _annotation(arg.annotation)) for arg in node.args.args]
                    self.functions[node.name] = Signature(params, _annotation(node.returns), node)
                case _:
                    raise KernelError(f"{name}:{node.lineno}: not in the kernel language")

    def _constant(self, node: ast.expr) -> int | float:
        code = compile(ast.Expression(node), "<kernel constant>", "eval")
        value: int | float = eval(code, {"__builtins__": {}}, self.constants)  # our own files only
        return value

    def _struct(self, node: ast.ClassDef) -> None:
        layout = StructLayout(node.name)
        for item in node.body:
            if isinstance(item, ast.Expr):
                continue
            if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
                raise KernelError(f"{node.name}:{item.lineno}: a structure holds fields only")
            text = _annotation(item.annotation)
            if text == "align":
                layout.words = -(-layout.words // LINE) * LINE
                continue
            base, _, rest = text.partition("[")
            count = self._constant(ast.parse(rest.rstrip("]"), mode="eval").body) if rest else 1
            pointer = base.endswith("*")
            base = base.rstrip("*")
            inline = base in self.structs and not pointer
            size = self.structs[base].words if inline else 1
            layout.fields[item.target.id] = FieldLayout(layout.words, base, int(count), inline, bool(rest))
            layout.words += size * int(count)
        self.structs[node.name] = layout

    def compile(self, triple: str, externals: dict[str, tuple[str, list[str]]]) -> Any:
        """LLVM module of all functions. `externals`: name -> (result type, parameter types) of C functions."""
        self.module = ir.Module("kernel")
        self.module.triple = triple
        for name, (result, params) in externals.items():
            signature = Signature([(f"a{i}", t) for i, t in enumerate(params)], result, None)  # type: ignore[arg-type]
            signature.value = ir.Function(self.module, self._type_of(signature), name)
            self.functions.setdefault(name, signature)
        for name, signature in self.functions.items():
            if signature.value is None:
                signature.value = ir.Function(self.module, self._type_of(signature), f"fb_{name}")
        for signature in self.functions.values():
            if signature.node is not None:
                _FunctionCompiler(self, signature).compile()
        return self.module

    def _type_of(self, signature: Signature) -> Any:
        result = ir.VoidType() if signature.result == "None" else llvm_type(signature.result)
        return ir.FunctionType(result, [llvm_type(type_) for _, type_ in signature.params])


def _annotation(node: ast.expr | None) -> str:
    if node is None:
        return "None"
    if isinstance(node, ast.Constant):
        return str(node.value)
    return ast.unparse(node)


_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


class _FunctionCompiler:
    """Translates one function."""

    def __init__(self, kernel: Kernel, signature: Signature) -> None:
        self.kernel = kernel
        self.signature = signature
        self.node = signature.node
        self.builder: Any = ir.IRBuilder()
        self.variables: dict[str, Typed] = {}
        self.loops: list[tuple[Any, Any]] = []
        self.entry: Any = None

    def compile(self) -> None:
        function = self.signature.value
        if any(isinstance(d, ast.Name) and d.id == "inline" for d in self.node.decorator_list):
            function.attributes.add("alwaysinline")
            function.linkage = "internal"
        self.entry = function.append_basic_block("entry")
        start = function.append_basic_block("start")
        self.builder.position_at_end(start)
        for (name, type_), value in zip(self.signature.params, function.args, strict=True):
            self._set(name, (value, type_))
        self._body(self.node.body)
        if not self.builder.block.is_terminated:
            if self.signature.result == "None":
                self.builder.ret_void()
            else:
                self.builder.ret(
                    ir.Constant(llvm_type(self.signature.result), 0 if self.signature.result == "i64" else None)
                )
        with self.builder.goto_block(self.entry):
            self.builder.position_at_end(self.entry)
            self.builder.branch(start)

    def fail(self, node: ast.AST, text: str) -> KernelError:
        return KernelError(f"{self.node.name}:{getattr(node, 'lineno', 0)}: {text}")

    # ------------------------------------------------------------------------------------------ statements

    def _set(self, name: str, value: Typed) -> None:
        if name not in self.variables:
            current = self.builder.block
            self.builder.position_at_end(self.entry)
            slot = self.builder.alloca(llvm_type(value[1]))
            self.builder.position_at_end(current)
            self.variables[name] = (slot, value[1])
        slot, type_ = self.variables[name]
        if llvm_type(type_) != llvm_type(value[1]):
            raise KernelError(f"{self.node.name}: {name} is {type_}, not {value[1]}")
        self.builder.store(value[0], slot)

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if self.builder.block.is_terminated:
                return
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Pass():
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.Expr(value=value):
                self._expression(value)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._expression(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self._assign(target, self._binary(node, op, self._expression(target), self._expression(value)))
            case ast.If():
                self._if(node)
            case ast.While(test=test, body=body):
                self._loop(lambda: self._truth(test), body, lambda: None)
            case ast.For():
                self._for(node)
            case ast.Return(value=None):
                self.builder.ret_void()
            case ast.Return(value=value):
                assert value is not None
                self.builder.ret(self._expression(value)[0])
            case ast.Break():
                self.builder.branch(self.loops[-1][1])
            case ast.Continue():
                self.builder.branch(self.loops[-1][0])
            case _:
                raise self.fail(node, f"{type(node).__name__} is not in the kernel language")

    def _assign(self, target: ast.expr, value: Typed) -> None:
        if isinstance(target, ast.Name):
            self._set(target.id, value)
            return
        place, type_ = self._place(target)
        element = type_[3:] if type_.startswith("el_") else type_
        raw = value[0]
        if element in ("u8", "u16", "u32"):
            raw = self.builder.trunc(raw, ELEMENTS[element][0])
        elif element == "f32":
            raw = self.builder.fptrunc(raw, F32)
        elif llvm_type(element) != llvm_type(value[1]):
            raise self.fail(target, f"{value[1]} stored in {element}")
        store = self.builder.store(raw, place)
        if element in ELEMENTS:
            store.align = ELEMENTS[element][1] if element != "u32" and element != "f32" else 2

    def _if(self, node: ast.If) -> None:
        condition = self._truth(node.test)
        function = self.builder.function
        then, after = function.append_basic_block(), function.append_basic_block()
        otherwise = function.append_basic_block() if node.orelse else after
        self.builder.cbranch(condition, then, otherwise)
        self.builder.position_at_end(then)
        self._body(node.body)
        if not self.builder.block.is_terminated:
            self.builder.branch(after)
        if node.orelse:
            self.builder.position_at_end(otherwise)
            self._body(node.orelse)
            if not self.builder.block.is_terminated:
                self.builder.branch(after)
        self.builder.position_at_end(after)

    def _loop(self, test: Callable[[], Any], body: list[ast.stmt], step: Callable[[], None]) -> None:
        function = self.builder.function
        head, inside, next_, after = (function.append_basic_block() for _ in range(4))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.builder.cbranch(test(), inside, after)
        self.builder.position_at_end(inside)
        self.loops.append((next_, after))
        self._body(body)
        self.loops.pop()
        if not self.builder.block.is_terminated:
            self.builder.branch(next_)
        self.builder.position_at_end(next_)
        step()
        self.builder.branch(head)
        self.builder.position_at_end(after)

    def _for(self, node: ast.For) -> None:
        call = node.iter
        if not isinstance(call, ast.Call) or not isinstance(node.target, ast.Name):
            raise self.fail(node, "for needs range()")
        bounds = [self._expression(arg)[0] for arg in call.args]
        low, high = (ir.Constant(I64, 0), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        name = node.target.id
        self._set(name, (low, "i64"))
        slot = self.variables[name][0]

        def test() -> Any:
            return self.builder.icmp_signed("<", self.builder.load(slot, typ=I64), high)

        def step() -> None:
            self.builder.store(self.builder.add(self.builder.load(slot, typ=I64), ir.Constant(I64, 1)), slot)

        self._loop(test, node.body, step)

    # ------------------------------------------------------------------------------------------ places

    def _offset(self, base: Any, offset: Any) -> Any:
        return self.builder.gep(base, [offset], source_etype=I8)

    def _place(self, node: ast.expr) -> Typed:
        """Address of a field or element, and its type (`el_X` for an array element of type X)."""
        if isinstance(node, ast.Attribute):
            base, struct = self._expression(node.value)
            layout = self.kernel.structs.get(struct)
            if layout is None or node.attr not in layout.fields:
                raise self.fail(node, f"{struct} has no field {node.attr}")
            found = layout.fields[node.attr]
            place = self._offset(base, ir.Constant(I64, found.offset * WORD))
            return place, found.type
        if isinstance(node, ast.Subscript):
            index = self._expression(node.slice)[0]
            if isinstance(node.value, ast.Attribute):
                base, struct = self._expression(node.value.value)
                array = self.kernel.structs[struct].fields.get(node.value.attr)
                if array is None:
                    raise self.fail(node, f"{struct} has no field {node.value.attr}")
                if array.is_array:
                    size = self.kernel.structs[array.type].words if array.inline else 1
                    start = self._offset(base, ir.Constant(I64, array.offset * WORD))
                    place = self._offset(start, self.builder.mul(index, ir.Constant(I64, size * WORD)))
                    return place, array.type
            pointer, type_ = self._expression(node.value)
            if type_.startswith("ptr_"):
                size = ELEMENTS[type_[4:]][1]
                return self._offset(pointer, self.builder.mul(index, ir.Constant(I64, size))), f"el_{type_[4:]}"
            if type_ in self.kernel.structs:
                size = self.kernel.structs[type_].words * WORD
                return self._offset(pointer, self.builder.mul(index, ir.Constant(I64, size))), type_
            raise self.fail(node, f"{type_} cannot be indexed")
        raise self.fail(node, "not a place")

    def _inline(self, node: ast.expr) -> bool:
        """The place holds a structure, so its address is the value."""
        if isinstance(node, ast.Attribute):
            return self._field_of(node).inline
        assert isinstance(node, ast.Subscript)
        if isinstance(node.value, ast.Attribute):
            found = self._field_of(node.value)
            if found.is_array:
                return found.inline
            return found.type in self.kernel.structs
        return True

    def _field_of(self, node: ast.Attribute) -> FieldLayout:
        return self.kernel.structs[self._type(node.value)].fields[node.attr]

    def _type(self, node: ast.expr) -> str:
        """Type of an expression without generating code for it."""
        match node:
            case ast.Name(id=name):
                return self.variables[name][1]
            case ast.Attribute():
                return self._field_of(node).type
            case ast.Subscript(value=ast.Attribute() as inner):
                return self._field_of(inner).type
            case ast.Subscript(value=value):
                return self._type(value)
            case ast.Call(func=ast.Name(id="cast"), args=[ast.Name(id=name), _]):
                return name
            case ast.Call(func=ast.Name(id=name)):
                return self.kernel.functions[name].result
        raise self.fail(node, "type not known here")

    def _load(self, node: ast.expr) -> Typed:
        place, type_ = self._place(node)
        if type_.startswith("el_"):
            element = type_[3:]
            loaded = self.builder.load(place, typ=ELEMENTS[element][0])
            loaded.align = 2 if element in ("u32", "f32") else ELEMENTS[element][1]
            if element in ("u8", "u16", "u32"):
                return self.builder.zext(loaded, I64), "i64"
            if element == "f32":
                return self.builder.fpext(loaded, F64), "f64"
            return loaded, element
        if type_ in self.kernel.structs and self._inline(node):
            return place, type_
        return self.builder.load(place, typ=llvm_type(type_)), type_

    # ------------------------------------------------------------------------------------------ expressions

    def _truth(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            return self._short_circuit(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.builder.not_(self._truth(node.operand))
        if isinstance(node, ast.Compare):
            return self._compare(node)
        value, type_ = self._expression(node)
        if type_ == "f64":
            raise self.fail(node, "a float is no condition")
        if type_ != "i64":
            value = self.builder.ptrtoint(value, I64)
        return self.builder.icmp_signed("!=", value, ir.Constant(I64, 0))

    def _short_circuit(self, node: ast.BoolOp) -> Any:
        function = self.builder.function
        after = function.append_basic_block()
        incoming = []
        is_and = isinstance(node.op, ast.And)
        for position, operand in enumerate(node.values):
            value = self._truth(operand)
            if position == len(node.values) - 1:
                incoming.append((value, self.builder.block))
                self.builder.branch(after)
                continue
            next_ = function.append_basic_block()
            incoming.append((ir.Constant(I1, 0 if is_and else 1), self.builder.block))
            if is_and:
                self.builder.cbranch(value, next_, after)
            else:
                self.builder.cbranch(value, after, next_)
            self.builder.position_at_end(next_)
        self.builder.position_at_end(after)
        phi = self.builder.phi(I1)
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi

    def _compare(self, node: ast.Compare) -> Any:
        operands = [node.left, *node.comparators]
        values = [self._expression(operand) for operand in operands]
        result = None
        for op, (a, type_a), (b, type_b) in zip(node.ops, values, values[1:], strict=False):
            sign = _SIGNS[type(op)]
            if type_a == "f64" or type_b == "f64":
                a, b = self._as_float((a, type_a)), self._as_float((b, type_b))
                one = self.builder.fcmp_unordered(sign, a, b) if sign == "!=" else self.builder.fcmp_ordered(sign, a, b)
            else:
                one = self.builder.icmp_signed(sign, self._as_word((a, type_a)), self._as_word((b, type_b)))
            result = one if result is None else self.builder.and_(result, one)
        return result

    def _as_word(self, value: Typed) -> Any:
        return value[0] if value[1] == "i64" else self.builder.ptrtoint(value[0], I64)

    def _as_float(self, value: Typed) -> Any:
        return value[0] if value[1] == "f64" else self.builder.sitofp(value[0], F64)

    def _expression(self, node: ast.expr) -> Typed:
        match node:
            case ast.Constant(value=bool(value)):
                return ir.Constant(I64, int(value)), "i64"
            case ast.Constant(value=int(value)):
                return ir.Constant(I64, value), "i64"
            case ast.Constant(value=float(value)):
                return ir.Constant(F64, value), "f64"
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Attribute() | ast.Subscript():
                return self._load(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, op, self._expression(left), self._expression(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value, type_ = self._expression(operand)
                return (self.builder.fneg(value), type_) if type_ == "f64" else (self.builder.neg(value), type_)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self.builder.not_(self._expression(operand)[0]), "i64"
            case ast.BoolOp() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return self.builder.zext(self._truth(node), I64), "i64"
            case ast.IfExp():
                return self._conditional(node)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._call(node, name, args)
        raise self.fail(node, f"{ast.unparse(node)} is not in the kernel language")

    def _name(self, node: ast.expr, name: str) -> Typed:
        if name in self.variables:
            slot, type_ = self.variables[name]
            return self.builder.load(slot, typ=llvm_type(type_)), type_
        if name in self.kernel.constants:
            value = self.kernel.constants[name]
            return (ir.Constant(F64, value), "f64") if isinstance(value, float) else (ir.Constant(I64, value), "i64")
        raise self.fail(node, f"unknown name {name}")

    def _conditional(self, node: ast.IfExp) -> Typed:
        function = self.builder.function
        then, otherwise, after = (function.append_basic_block() for _ in range(3))
        self.builder.cbranch(self._truth(node.test), then, otherwise)
        incoming = []
        type_ = ""
        for block, operand in ((then, node.body), (otherwise, node.orelse)):
            self.builder.position_at_end(block)
            value, type_ = self._expression(operand)
            incoming.append((value, self.builder.block))
            self.builder.branch(after)
        self.builder.position_at_end(after)
        phi = self.builder.phi(llvm_type(type_))
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi, type_

    def _binary(self, node: ast.AST, op: ast.operator, a: Typed, b: Typed) -> Typed:
        build = self.builder
        if a[1] == "f64" or b[1] == "f64":
            floats = {ast.Add: build.fadd, ast.Sub: build.fsub, ast.Mult: build.fmul, ast.Div: build.fdiv}
            return floats[type(op)](self._as_float(a), self._as_float(b)), "f64"
        if a[1] != "i64" or b[1] != "i64":
            raise self.fail(node, f"arithmetic on {a[1]} and {b[1]}")
        integers = {
            ast.Add: build.add,
            ast.Sub: build.sub,
            ast.Mult: build.mul,
            ast.FloorDiv: build.sdiv,
            ast.Mod: build.srem,
            ast.BitAnd: build.and_,
            ast.BitOr: build.or_,
            ast.BitXor: build.xor,
            ast.LShift: build.shl,
            ast.RShift: build.ashr,
        }
        return integers[type(op)](a[0], b[0]), "i64"

    # ------------------------------------------------------------------------------------------ calls

    def _call(self, node: ast.Call, name: str, args: list[ast.expr]) -> Typed:
        if name == "cast":
            assert isinstance(args[0], ast.Name)
            value, type_ = self._expression(args[1])
            target = args[0].id
            return (value if type_ != "i64" else self.builder.inttoptr(value, PTR)), target
        if name == "place":  # address of a field or element
            return self.builder.ptrtoint(self._place(args[0])[0], I64), "i64"
        if name == "words_of":
            assert isinstance(args[0], ast.Name)
            return ir.Constant(I64, self.kernel.structs[args[0].id].words), "i64"
        values = [self._expression(arg) for arg in args]
        if name in BUILTINS:
            return BUILTINS[name](self.builder, values)
        signature = self.kernel.functions.get(name)
        if signature is None:
            raise self.fail(node, f"unknown function {name}")
        if len(values) != len(signature.params):
            raise self.fail(node, f"{name} takes {len(signature.params)} arguments")
        for (_, type_), (parameter, wanted) in zip(values, signature.params, strict=True):
            if type_ != wanted and (llvm_type(type_) != PTR or llvm_type(wanted) != PTR):
                raise self.fail(node, f"{parameter} of {name} is {wanted}, not {type_}")
        return self.builder.call(signature.value, [value for value, _ in values]), signature.result
