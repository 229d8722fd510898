"""CUDA source to kernel IR: the host launcher with its kernel launches, specialised to the task's sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fabrica_agent.cuda import source as cu
from fabrica_agent.cuda.host import HostCalls
from fabrica_agent.cuda.intrinsics import HANDLERS
from fabrica_agent.cuda.mutation import Mutation, mutation
from fabrica_agent.cuda.source import CudaSource, Cursor
from fabrica_agent.cuda.state import SCALAR_NODES, is_pure
from fabrica_agent.cuda.types import ctype, is_reference, scalar_count, scalar_of
from fabrica_agent.cuda.values import (
    Aggregate,
    ArrayType,
    ArrayVar,
    Binding,
    Chosen,
    Closure,
    CType,
    Element,
    Fixed,
    Frame,
    Opaque,
    OpaqueType,
    Pointer,
    PointerType,
    PointerVar,
    ScalarType,
    StructType,
    StructVar,
    Value,
)  # fmt: skip
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    BLOCK,
    THREAD,
    Body,
    Break,
    Buffer,
    Continue,
    Expr,
    Launch,
    Op,
    Param,
    Program,
    Return,
    Space,
    Ty,
    Var,
)  # fmt: skip
from fabrica_agent.lowering.returns import eliminate_returns

MAX_DEPTH = 24


@dataclass(frozen=True)
class BufferArgument:
    """A pointer parameter of the launcher that is an exported array of `length` elements."""

    buffer: str
    ty: Ty
    length: Expr | None


@dataclass(frozen=True)
class ParamArgument:
    """An integer parameter that is a compile-time size of the bundle."""

    name: str
    value: int


@dataclass(frozen=True)
class ElementArgument:
    """A scalar parameter that the host hands over as the only element of an exported array."""

    buffer: str
    ty: Ty


@dataclass(frozen=True)
class RuntimeArgument:
    """A scalar parameter that is an argument of the device entry."""

    name: str
    ty: Ty


@dataclass(frozen=True)
class ConstArgument:
    """A scalar parameter with a fixed value."""

    value: int | float
    ty: Ty


@dataclass(frozen=True)
class IgnoredArgument:
    """A parameter without meaning for the result, e.g. a stream."""


Argument = BufferArgument | ParamArgument | ElementArgument | RuntimeArgument | ConstArgument | IgnoredArgument


class Translator(HostCalls):
    """Translates one entry function and everything it calls."""

    def __init__(self, source: CudaSource) -> None:
        super().__init__()
        self.source = source
        self.frame = Frame()
        self.out = []
        self.buffers = {}
        self.types = {}
        self.globals = {}
        self.notes: list[str] = []
        self.kernel_geometry = {}
        self.passages = []
        self.mutations = Mutation(frozenset(), frozenset())
        self._shared: dict[tuple[int, str], Binding] = {}
        self._dynamic_shared: Expr | None = None
        self._block: tuple[int, int, int] = (1, 1, 1)
        self._depth = 0

    def translate(self, entry: Cursor, arguments: Mapping[str, Argument], result: str | None = None) -> Program:
        """The program of the launcher `entry`.

        Args:
            entry: Definition of the host function.
            arguments: What each of its parameters stands for, by parameter name.
            result: Exported buffer (one element) that receives its return value, if it returns one.

        Raises:
            UnsupportedError: Names the construct and its line.
        """
        runtime: list[Var] = []
        self.bind_global_pointers()
        for parameter in parameters(entry):
            self.frame.bindings[parameter.hash] = self._argument(parameter, arguments, runtime)
        body = cu.body_of(entry)
        if body is None:
            self.fail("the launcher has no body", entry)
        self.mutations = mutation(body)
        for parameter in parameters(entry):
            self._unfix(parameter)
        if result is not None:
            self.frame.result = Element(result, fold.i32(0), ScalarType(self.buffers[result].ty))
        with self.capture() as statements:
            self.statement(body)
        whole = eliminate_returns((*self.out, *statements), lambda base, ty: self.fresh(base, ty).name)
        return Program(whole, self.buffers, self.types, tuple(runtime), self.notes)

    def export(self, name: str, ty: Ty, length: int) -> None:
        """Add an exported buffer that no parameter names, for the launcher's return value."""
        self.buffers[name] = Buffer(name, ty, fold.i32(length), Space.GLOBAL, exported=True)

    def _argument(self, parameter: Cursor, arguments: Mapping[str, Argument], runtime: list[Var]) -> Binding:
        t = ctype(parameter.type)
        given = arguments.get(parameter.spelling)
        match given:
            case BufferArgument(buffer=buffer, ty=ty, length=length) if isinstance(t, PointerType):
                self.buffers.setdefault(buffer, Buffer(buffer, ty, length, Space.GLOBAL, exported=True))
                wanted = scalar_of(t.target)
                if wanted is not None and wanted is not ty and wanted.bits != ty.bits:
                    self.fail(
                        f"parameter {parameter.spelling} is {wanted.value}, the exported {buffer} is {ty.value}",
                        parameter,
                    )
                return PointerVar(t.target, buffer)
            case ParamArgument(name=name, value=value) if isinstance(t, ScalarType):
                return Fixed(fold.cast(Param(name, value, Ty.I32), t.ty))
            case ElementArgument(buffer=buffer, ty=ty) if isinstance(t, ScalarType):
                self.buffers.setdefault(buffer, Buffer(buffer, ty, fold.i32(1), Space.GLOBAL, exported=True))
                element = Element(buffer, fold.i32(0), ScalarType(ty))
                value_now = fold.cast(self.scalar_from(self.read(element, parameter), parameter), t.ty)
                return Fixed(self.save(value_now, parameter.spelling))
            case RuntimeArgument(name=name, ty=ty) if isinstance(t, ScalarType):
                var = Var(name + "'", ty)
                self.types[var.name] = ty
                runtime.append(var)
                return Fixed(fold.cast(var, t.ty))
            case ConstArgument(value=value, ty=ty) if isinstance(t, ScalarType):
                return Fixed(fold.cast(fold.const(value, ty), t.ty))
            case IgnoredArgument():
                return Fixed(Opaque(parameter.type.spelling))
            case _:
                self.fail(f"nothing in the visible bundle corresponds to parameter {parameter.spelling}", parameter)

    def _unfix(self, parameter: Cursor) -> None:
        """Give a parameter that the body assigns a variable of its own."""
        binding = self.frame.bindings[parameter.hash]
        if parameter.hash in self.mutations.assigned and isinstance(binding, Fixed):
            t = ctype(parameter.type)
            variable = self.variable(parameter.spelling, t, parameter)
            self.frame.bindings[parameter.hash] = variable
            if not isinstance(binding.value, Opaque):
                self.write(variable, binding.value, parameter)

    def shared(self, cursor: Cursor, t: CType) -> Binding:
        """Bind a `__shared__` variable; all launches of a kernel use the same storage."""
        key = (cursor.hash, str(self._dynamic_shared))
        if key in self._shared:
            return self._shared[key]
        ty = scalar_of(t)
        if ty is None:
            self.fail(f"shared variable {cursor.spelling} has a type that is not supported", cursor)
        count = scalar_count(t)
        length: Expr
        if count is not None:
            length = fold.i32(count)
        elif self._dynamic_shared is not None and (size := fold.int_value(self._dynamic_shared)):
            length = fold.i32(-(-size * 8 // ty.bits))
        else:
            self.fail(f"the size of dynamic shared memory {cursor.spelling} is not known at compile time", cursor)
        name = self.fresh_buffer(cursor.spelling, ty, length, Space.SHARED)
        binding: Binding = ArrayVar(name, t) if isinstance(t, ArrayType) else Element(name, fold.i32(0), t)
        self._shared[key] = binding
        return binding

    # ------------------------------------------------------------------------------------------------------- calls

    def call(self, cursor: Cursor) -> Value:
        """Kernel launch, constructor, function object, API function, or a function to be inlined."""
        if cu.is_launch(cursor):
            self.launch(cursor)
            return Opaque("void")
        callee = cursor.referenced
        name = cursor.spelling
        if callee is None:
            self.fail(f"call of {name or 'an expression'} can't be resolved", cursor)
        if callee.kind.name == "CONSTRUCTOR":
            return self._construct(cursor, callee)
        if callee.kind.name == "CXX_METHOD":
            return self._method(cursor, callee)
        own = (
            callee.is_definition()
            and callee.location.file is not None
            and callee.location.file.name == self.source.name
        )
        if not own:
            definition = callee.get_definition()
            if definition is not None and definition.location.file.name == self.source.name:
                callee, own = definition, True
        arguments = list(cursor.get_arguments())
        if own:
            return self.inline(callee, arguments, cursor)
        host = self.host_call(name, arguments, cursor)
        if host is not None:
            return host
        if name.startswith("make_") and isinstance(ctype(cursor.type), StructType):
            target = ctype(cursor.type)
            assert isinstance(target, StructType)
            return self._aggregate(target, self.operands(arguments), cursor)
        if name == "__builtin_inff":
            return fold.const(float("inf"), Ty.F32)
        if name in HANDLERS:
            return self._intrinsic(name, self.operands(arguments), cursor)
        definition = callee.get_definition()
        if definition is not None and cu.body_of(definition) is not None:
            return self.inline(definition, arguments, cursor)
        self.fail(f"function {name} is not supported", cursor)

    def _intrinsic(self, name: str, values: list[Value], cursor: Cursor) -> Value:
        at = next((k for k, v in enumerate(values) if isinstance(v, Chosen)), None)
        if at is not None:
            chosen, before, after = values[at], values[:at], values[at + 1 :]
            assert isinstance(chosen, Chosen)
            return self.by_cases(chosen, lambda p: self._intrinsic(name, [*before, p, *after], cursor), cursor)
        return HANDLERS[name](self, cursor, values)

    def _construct(self, cursor: Cursor, constructor: Cursor) -> Value:
        target = ctype(cursor.type)
        arguments = list(cursor.get_arguments())
        if not isinstance(target, StructType):
            # A lambda that is copied, as when it is captured or passed on.
            value = self.value(arguments[0]) if len(arguments) == 1 else None
            if not isinstance(value, Closure):
                self.fail("constructing this type is not supported", cursor)
            return value
        if len(arguments) == 1 and isinstance(ctype(arguments[0].type), StructType):
            return self.value(arguments[0])
        if target.name == "dim3":
            values = self.operands(arguments)
            return self._aggregate(target, [*values, *[fold.const(1, Ty.U32)] * (3 - len(values))], cursor)
        body = cu.body_of(constructor.get_definition() or constructor)
        if body is None and not arguments:
            return self.zero(target, cursor)
        if body is None:
            self.fail(f"the constructor of {target.name} is not in this file", cursor)
        made = self.variable(target.name.split("::")[-1], target, cursor)
        if not isinstance(made, StructVar):
            self.fail(f"constructing a {target.name} is not supported", cursor)
        definition = constructor.get_definition() or constructor
        self.inline(definition, arguments, cursor, this=made, before=lambda: self._initialise(made, definition))
        return self.read(made, cursor)

    def _initialise(self, made: StructVar, constructor: Cursor) -> None:
        """Members with a value of their own, then those that the constructor's initialiser list names."""
        owner = constructor.semantic_parent
        for member in cu.kids(owner):
            values = [k for k in cu.kids(member) if not k.kind.name.endswith("_REF")]
            if member.kind.name == "FIELD_DECL" and values and member.spelling in made.fields:
                self._set_member(made, member, values[-1])
        below = cu.kids(constructor)
        for member, value in pairwise(below):
            if member.kind.name == "MEMBER_REF" and member.spelling in made.fields:
                self._set_member(made, member, value)

    def _set_member(self, made: StructVar, member: Cursor, value: Cursor) -> None:
        place = made.fields[member.spelling]
        self.write(place, self.convert(self.value(value), ctype(member.referenced.type), value), value)

    def _method(self, cursor: Cursor, callee: Cursor) -> Value:
        below = cu.kids(cursor)
        arguments = list(cursor.get_arguments())
        if cursor.spelling == "operator=" and len(below) >= 2:
            place = self.place(below[0])
            self.write(place, self.value(below[-1]), cursor)
            return self.read(place, cursor)
        if cursor.spelling.startswith("operator"):
            receiver, arguments = below[0], arguments[1:] if len(arguments) == len(below) - 1 else arguments
        else:
            members = cu.kids(below[0])
            receiver = members[0] if members else below[0]
        value = self.value(receiver) if receiver.kind.name != "MEMBER_REF_EXPR" or cu.kids(receiver) else Opaque("this")
        if isinstance(value, Closure):
            return self.inline(value.body, arguments, cursor, outer=value.frame)
        this = self.frame.this if isinstance(value, Opaque) else self._object(receiver, value, cursor)
        definition = callee.get_definition() or callee
        return self.inline(definition, arguments, cursor, this=this)

    def _object(self, receiver: Cursor, value: Value, cursor: Cursor) -> StructVar:
        place = self.place(receiver)
        if isinstance(place, StructVar):
            return place
        t = ctype(receiver.type)
        if isinstance(value, Aggregate) and isinstance(t, StructType):
            return StructVar({n: Fixed(v) for n, v in value.fields.items()}, t)
        self.fail("a method call on this object is not supported", cursor)

    def inline(
        self,
        function: Cursor,
        arguments: Sequence[Cursor],
        cursor: Cursor,
        *,
        outer: Frame | None = None,
        this: StructVar | None = None,
        before: Callable[[], None] | None = None,
    ) -> Value:
        """Translate a call by translating the callee's body in place; `before` is called once parameters are bound."""
        body = cu.body_of(function)
        if body is None:
            self.fail(f"the body of {function.spelling} is not in this file", cursor)
        if self._depth >= MAX_DEPTH:
            self.fail(f"recursion ({function.spelling}) is not supported", cursor)
        frame = Frame(outer=outer, this=this, in_kernel=self.frame.in_kernel)
        changes = mutation(body)
        for parameter, argument in zip(parameters(function), arguments, strict=False):
            frame.bindings[parameter.hash] = self._pass(parameter, argument, changes)
        saved = self.frame, self.mutations
        self.frame, self.mutations = (
            frame,
            Mutation(changes.assigned | saved[1].assigned, changes.addressed | saved[1].addressed),
        )
        self._depth += 1
        try:
            if before is not None:
                before()
            return self._inline_body(function, body, cursor)
        finally:
            self._depth -= 1
            self.frame, self.mutations = saved

    def _inline_body(self, function: Cursor, body: Cursor, cursor: Cursor) -> Value:
        statements = cu.kids(body)
        returns = [c for c in cu.subtree(body) if c.kind.name == "RETURN_STMT"]
        tail = statements[-1] if statements and statements[-1].kind.name == "RETURN_STMT" else None
        if len(returns) == (1 if tail is not None else 0):
            for s in statements[: len(statements) - (tail is not None)]:
                self.statement(s)
            if tail is None or not cu.kids(tail):
                return Opaque("void")
            value = self.value(cu.kids(tail)[0])
            t = ctype(cursor.type)
            return self.convert(value, t, cursor) if isinstance(t, ScalarType) else value
        result_type = ctype(cursor.type)
        if not isinstance(result_type, OpaqueType):
            # Not named after the function: a program is the same under other names.
            self.frame.result = self.variable("result", result_type, cursor)
        inner = self.called(lambda: self.block(body), cursor)
        self.forget_changes(body)
        self.out.extend(eliminate_returns(inner, lambda base, ty: self.fresh(base, ty).name))
        return self.read(self.frame.result, cursor) if self.frame.result is not None else Opaque("void")

    def _pass(self, parameter: Cursor, argument: Cursor, changes: Mutation) -> Binding:
        t = ctype(parameter.type)
        if is_reference(parameter.type):
            return self.referred(self.place(argument))
        value = self.convert(self.value(argument), t, argument)
        changed = parameter.hash in changes.assigned
        if isinstance(value, Closure) or (isinstance(value, Opaque) and not (changed and isinstance(t, PointerType))):
            return Fixed(value)
        if isinstance(value, Pointer | Chosen) and not changed:
            return Fixed(self.frozen_address(value))
        if not changed and parameter.hash not in changes.addressed:
            return Fixed(self._frozen(value, parameter.spelling))
        variable = self.variable(
            parameter.spelling,
            t,
            parameter,
            in_memory=parameter.hash in changes.addressed and isinstance(t, ScalarType),
        )
        self.write(variable, value, argument)
        return variable

    # ----------------------------------------------------------------------------------------------------- launches

    def launch(self, cursor: Cursor) -> None:
        """Translate a launch: grid and block, then the kernel body with its parameters bound to the arguments."""
        configuration = list(cu.kids(cursor)[1].get_arguments())
        grid = self._dimensions(configuration[0])
        block = self._dimensions(configuration[1])
        sizes = [fold.int_value(b) for b in block]
        if any(s is None or s < 1 for s in sizes):
            self.fail("the block size of this launch is not known at compile time", cursor)
        dynamic = self.scalar(configuration[2]) if len(configuration) > 2 else None
        kernel = cursor.referenced
        kernel = kernel.get_definition() or kernel
        body_cursor = cu.body_of(kernel)
        if body_cursor is None:
            self.fail(f"kernel {kernel.spelling} has no body in this file", cursor)
        changes = mutation(body_cursor)
        bindings: dict[int, Binding] = {}
        inside: list[tuple[Binding, Value]] = []
        for parameter, argument in zip(parameters(kernel), list(cursor.get_arguments()), strict=False):
            bindings[parameter.hash] = self._kernel_parameter(parameter, argument, changes, inside)
        self._block = tuple(int(s or 1) for s in sizes)  # type: ignore[assignment]
        body = self._kernel_body(Frame(bindings, in_kernel=True), changes, body_cursor, inside, grid, block, dynamic)
        self.out.append(Launch(kernel.spelling, grid, self._block, body, self.source.place(cursor)))

    def _kernel_parameter(
        self, parameter: Cursor, argument: Cursor, changes: Mutation, inside: list[tuple[Binding, Value]]
    ) -> Binding:
        t = ctype(parameter.type)
        value = self.convert(self.value(argument), t, argument)
        if isinstance(value, SCALAR_NODES | Aggregate):
            value = self._frozen(value, parameter.spelling)
        elif isinstance(value, Pointer | Chosen):
            value = self.frozen_address(value)
        changed = parameter.hash in changes.assigned | changes.addressed
        if not changed or isinstance(value, Closure) or (isinstance(value, Opaque) and not isinstance(t, PointerType)):
            return Fixed(value)
        variable = self.variable(parameter.spelling, t, parameter)
        inside.append((variable, value))
        return variable

    def _kernel_body(
        self,
        frame: Frame,
        changes: Mutation,
        body: Cursor,
        inside: list[tuple[Binding, Value]],
        grid: tuple[Expr, Expr, Expr],
        block: tuple[Expr, Expr, Expr],
        dynamic: Expr | None,
    ) -> Body:
        saved = self.frame, self.mutations, self.kernel_geometry, self._dynamic_shared
        self.frame, self.mutations, self._dynamic_shared = frame, changes, dynamic
        self.kernel_geometry = {
            "threadIdx": _axes(THREAD), "blockIdx": _axes(BLOCK), "blockDim": block, "gridDim": grid,
        }  # fmt: skip
        try:
            with self.passage(Break, Continue, Return), self.capture() as statements:
                for variable, value in inside:
                    self.write(variable, value, body)
                self.statement(body)
        finally:
            self.frame, self.mutations, self.kernel_geometry, self._dynamic_shared = saved
        return eliminate_returns(tuple(statements), lambda base, ty: self.fresh(base, ty).name)

    def _dimensions(self, cursor: Cursor) -> tuple[Expr, Expr, Expr]:
        value = self.value(cursor)
        if isinstance(value, Aggregate):
            x, y, z = (self.save(self.scalar_from(value.fields[axis], cursor)) for axis in "xyz")
            return x, y, z
        one = fold.const(1, Ty.U32)
        return self.save(fold.cast(self.scalar_from(value, cursor), Ty.U32)), one, one

    def block_size(self) -> int:
        """Threads per block of the launch being translated."""
        x, y, z = self._block
        return x * y * z

    def thread_index(self) -> Expr:
        """Linear index of the thread in its block, I32."""
        x, y, z = (fold.cast(Var(name, Ty.U32), Ty.I32) for name in THREAD)
        sx, sy, sz = self._block
        index = x
        if sy > 1:
            index = fold.binary(Op.ADD, index, fold.binary(Op.MUL, y, fold.i32(sx), Ty.I32), Ty.I32)
        if sz > 1:
            index = fold.binary(Op.ADD, index, fold.binary(Op.MUL, z, fold.i32(sx * sy), Ty.I32), Ty.I32)
        return index


def _axes(names: tuple[str, ...]) -> tuple[Expr, Expr, Expr]:
    x, y, z = (Var(name, Ty.U32) for name in names)
    return x, y, z


def parameters(function: Cursor) -> list[Cursor]:
    """Parameter declarations of a function or lambda."""
    return [k for k in function.get_children() if k.kind.name == "PARM_DECL"]


__all__ = ["Return", "Translator", "is_pure", "parameters"]
