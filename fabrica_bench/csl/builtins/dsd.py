"""`@get_dsd` and the builtins that change one property of a DSD."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.registry import Call, builtin
from fabrica_bench.csl.sema import access, places
from fabrica_bench.csl.sema.coerce import cast, coerce
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.frame import Frame
from fabrica_bench.csl.sema.tensor import reach
from fabrica_bench.csl.values import Agg, Const, Ref, Rt, Value

PRIORITIES = ("low", "medium", "high")
SIMD_MODES = {"simd_off": "off", "simd_32": "32", "simd_64": "64", "simd_32_or_64": "32_or_64", "simd_max": "max"}
_TENSOR_FIELDS = ("base_address", "extent", "stride", "offset")
_FIELDS = {
    "mem1d": ("tensor_access", *_TENSOR_FIELDS, "wavelet_index_offset"),
    "mem4d": ("tensor_access", *_TENSOR_FIELDS, "wavelet_index_offset"),
    "circbuf": ("base_address", "extent", "wraparound"),
    "fabin": ("extent", "input_queue", "fabric_color", "priority", "control_transform", "simd_mode"),
    "fabout": (
        "extent",
        "output_queue",
        "fabric_color",
        "priority",
        "control_transform",
        "simd_mode",
        "control",
        "wavelet_index_offset",
        "advance_switch",
        "zero",
    ),
}


class Properties:
    """The fields of a struct argument, known at comptime or not."""

    def __init__(self, frame: Frame, value: Value, span: ast.Span, what: str, known: Iterable[str]) -> None:
        self.frame, self.span, self.what = frame, span, what
        self.values: dict[str, Value] = {}
        allowed = tuple(known)
        type_ = value.type
        if not isinstance(type_, t.StructType) or not isinstance(value, Const | Agg):
            fail(span, f"{what} must be a struct, got: '{type_.name}'")
        parts = value.fields if isinstance(value, Agg) else None
        for position, entry in enumerate(type_.fields):
            if entry.name is None:
                fail(span, f"{what} must have named fields", "write .{ .name = value }")
            if entry.name not in allowed:
                fail(span, f"unknown field '{entry.name}' in {what}", f"known fields: {', '.join(allowed)}")
            part = Const(entry.type, value.data[position]) if isinstance(value, Const) else parts[position]  # type: ignore[index]
            self.values[entry.name] = part

    def get(self, name: str) -> Value | None:
        return self.values.get(name)

    def const(self, name: str) -> Const | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, Const):
            fail(self.span, f"field '{name}' in {self.what} must be comptime-known")
        return value

    def flag(self, name: str) -> bool:
        value = self.const(name)
        if value is not None and value.type != t.BOOL:
            fail(self.span, f"field '{name}' in {self.what}: expected type 'bool', got: '{value.type.name}'")
        return value is not None and bool(value.data)

    def typed(self, name: str, type_: t.Type) -> Value | None:
        value = self.values.get(name)
        return None if value is None else coerce(self.frame, unwrap(value), type_, self.span)

    def one_of(self, name: str, options: Iterable[str]) -> str:
        """A field that is a struct with exactly one of `options` set to true; empty if absent."""
        value = self.const(name)
        if value is None:
            return ""
        chosen = Properties(self.frame, value, self.span, f"'{name}'", options)
        true = [option for option in chosen.values if chosen.flag(option)]
        if len(true) != 1:
            fail(self.span, f"'{name}' in {self.what} must have exactly one field that is true")
        return true[0]


def unwrap(value: Value) -> Value:
    """A tuple of one stands for its element in extents and strides."""
    if isinstance(value.type, t.StructType) and value.type.is_tuple and len(value.type.fields) == 1:
        if isinstance(value, Const):
            return Const(value.type.fields[0].type, value.data[0])
        if isinstance(value, Agg):
            return value.fields[0]
    return value


class _Builder:
    """A descriptor under construction: what is known goes to `template`, the rest to `fields` of `ir.MakeDsd`."""

    def __init__(self, call: Call, type_: t.DsdType) -> None:
        self.call = call
        self.type = type_
        self.settings: dict[str, Any] = {"kind": type_.kind, "extents": (0,)}
        self.fields: list[tuple[str, ir.Operand]] = []
        self.element_bytes = 2

    def operand(self, name: str, value: Value) -> None:
        self.fields.append((name, self.call.frame.operand(value, self.call.span)))

    def finish(self) -> Value:
        template = ir.Dsd(**self.settings)
        if not self.fields:
            return Const(self.type, template)
        frame, span = self.call.frame, self.call.span
        if frame.comptime:
            self.call.fail("expected comptime-known properties")
        from fabrica_bench.csl.sema.lower import mark_used

        mark_used(frame, template)
        dst = frame.code(span).register(ir.DSD)
        self.call.emit(ir.MakeDsd(0, dst, template, tuple(self.fields), self.element_bytes))
        return Rt(self.type, dst)


# ------------------------------------------------------------------------------------------------------ creation


@builtin("get_dsd", args=2)
def get_dsd(call: Call) -> Value:
    type_ = call.type(0)
    if not isinstance(type_, t.DsdType):
        call.fail(f"expected a DSD type, got: '{type_.name}'", 0, "mem1d_dsd, mem4d_dsd, fabin_dsd, fabout_dsd")
    what = f"the properties of a '{type_.name}'"
    given = Properties(call.frame, call.value(1), call.arg_span(1), what, _FIELDS[type_.kind])
    if type_.kind in ("fabin", "fabout"):
        return _fabric(call, type_, given)
    if type_.kind == "circbuf":
        return _circular(call, given)
    _merge_tensor_access(given)
    return _mem1d(call, given) if type_.kind == "mem1d" else _mem4d(call, given)


def _merge_tensor_access(given: Properties) -> None:
    """Spread the struct of a tensor access over the properties."""
    access = given.values.pop("tensor_access", None)
    if access is None:
        return
    inner = Properties(given.frame, access, given.span, "'tensor_access'", _TENSOR_FIELDS)
    for name, value in inner.values.items():
        if name in given.values:
            fail(given.span, f"property '{name}' is given by the tensor access and on its own")
        given.values[name] = value


def element_of(pointer: Value, span: ast.Span) -> t.Type:
    """Element type of the tensor that a pointer points to; only 16-bit and 32-bit elements can be described."""
    type_ = pointer.type
    if not isinstance(type_, t.PointerType):
        fail(span, f"expected a pointer to a tensor, got: '{type_.name}'", "take the address of the tensor: &A")
    element = type_.pointee.element if isinstance(type_.pointee, t.ArrayType) else type_.pointee
    width = t.bit_width(element)
    if width not in (16, 32) or isinstance(element, t.PointerType):
        fail(span, f"a memory DSD needs elements of 16 or 32 bits, got: '{element.name}'")
    return element


def _base(build: _Builder, given: Properties, *, comptime: bool) -> int:
    """Set the base address and offset; returns the element size in bytes."""
    pointer = given.get("base_address")
    if pointer is None:
        build.call.fail("the DSD has no 'base_address' and no 'tensor_access'", 1)
    element = element_of(pointer, given.span)
    build.type = t.DsdType(build.type.kind, element)
    size = build.element_bytes = t.size_of(element)
    offset = given.typed("offset", t.I16) if "offset" in given.values else Const(t.I16, 0)
    assert offset is not None
    known_offset = offset.data * size if isinstance(offset, Const) else 0
    if not isinstance(offset, Const):
        build.operand("offset", offset)
    if isinstance(pointer, Const) and isinstance(pointer.data, Ref):
        root = pointer.data.root
        build.settings["base"] = ir.Sym(root.name, pointer.data.offset + known_offset)
    elif isinstance(pointer, Const):
        build.settings["base"] = pointer.data + known_offset
    else:
        if comptime:
            fail(given.span, f"the base address of a '{build.type.name}' must be comptime-known")
        build.operand("base", pointer)
        if known_offset:
            build.fields.append(("offset", ir.Imm(known_offset // size)))
    return size


def _mem1d(call: Call, given: Properties) -> Value:
    build = _Builder(call, t.MEM1D)
    _base(build, given, comptime=False)
    for name in ("extent", "stride"):
        part = given.get(name)
        if part is not None and isinstance(unwrap(part).type, t.StructType):
            fail(given.span, "a mem1d_dsd has one dimension", "use mem4d_dsd for more")
    extent = given.typed("extent", t.U16)
    if extent is None:
        call.fail("the DSD has no 'extent' and no 'tensor_access'", 1)
    if isinstance(extent, Const):
        build.settings["extents"] = (extent.data,)
    else:
        build.operand("extent", extent)
    stride = _stride(given)
    if isinstance(stride, Const):
        build.settings["strides"] = (stride.data,)
    else:
        build.operand("stride", stride)
    build.settings["wavelet_index_offset"] = given.flag("wavelet_index_offset")
    if isinstance(extent, Const) and isinstance(stride, Const):
        _warn_beyond(call, given, (extent.data,), (stride.data,))
    return build.finish()


def _warn_beyond(call: Call, given: Properties, extents: Sequence[int], strides: Sequence[int]) -> None:
    """Warn of elements outside of the array that the DSD is defined over.

    No error: a run-time address or length may come later. Official programs describe the shape of such a vector on an
    array of one element, which is left alone; the system libraries know what they do.
    """
    pointer, offset = given.get("base_address"), given.get("offset") or Const(t.I16, 0)
    if (
        given.span.file.is_system
        or pointer is None
        or not isinstance(pointer.type, t.PointerType)
        or not isinstance(offset, Const)
    ):
        return
    array = pointer.type.pointee
    if not isinstance(array, t.ArrayType) or array.count == 1 or 0 in extents:
        return
    lowest, highest = reach(extents, strides)
    first, last = offset.data + lowest, offset.data + highest
    if first < 0 or last >= array.count:
        call.frame.unit.session.warn(
            call.arg_span(1),
            f"the DSD reaches element {first if first < 0 else last} of an array of {array.count} elements",
            "shorten its extent; a shape whose address is set at run time can be described on an array of one element",
        )


def _stride(given: Properties) -> Value:
    value = given.get("stride")
    if value is None:
        return Const(t.I8, 1)
    value = unwrap(value)
    if isinstance(value, Const) and t.is_integer(value.type):
        # The documented type is i8; a tensor access may step over wider rows.
        return coerce(given.frame, value, t.I16, given.span)
    return coerce(given.frame, value, t.I8, given.span)


def _mem4d(call: Call, given: Properties) -> Value:
    build = _Builder(call, t.MEM4D)
    _base(build, given, comptime=True)
    extents = _numbers(given, "extent", t.U16)
    if extents is None:
        call.fail("the DSD has no 'extent' and no 'tensor_access'", 1)
    strides = _numbers(given, "stride", t.I16)
    if strides is None:
        strides = [1] * len(extents)
    if not 1 <= len(extents) <= 4:
        call.fail(f"a mem4d_dsd has 1 to 4 dimensions, got {len(extents)}", 1)
    if len(strides) != len(extents):
        call.fail(f"expected {len(extents)} strides, got {len(strides)}", 1)
    build.settings["extents"] = tuple(extents)
    build.settings["strides"] = tuple(strides)
    _warn_beyond(call, given, extents, strides)
    build.settings["wavelet_index_offset"] = given.flag("wavelet_index_offset")
    return build.finish()


def _numbers(given: Properties, name: str, type_: t.Type) -> list[int] | None:
    value = given.const(name)
    if value is None:
        return None
    items: list[tuple[t.Type, Any]]
    if isinstance(value.type, t.StructType):
        items = [(entry.type, data) for entry, data in zip(value.type.fields, value.data, strict=True)]
    elif isinstance(value.type, t.ArrayType):
        items = [(value.type.element, data) for data in value.data]
    else:
        items = [(value.type, value.data)]
    numbers = []
    for item_type, data in items:
        item = coerce(given.frame, Const(item_type, data), type_, given.span)
        assert isinstance(item, Const)
        numbers.append(int(item.data))
    return numbers


def _circular(call: Call, given: Properties) -> Value:
    build = _Builder(call, t.CIRCBUF)
    _base(build, given, comptime=True)
    extent = given.typed("extent", t.U16)
    if not isinstance(extent, Const):
        call.fail("a 'circbuf_dsd' needs a comptime-known 'extent'", 1)
    pointer = given.get("base_address")
    assert pointer is not None
    assert isinstance(pointer.type, t.PointerType)
    size = pointer.type.pointee.count if isinstance(pointer.type.pointee, t.ArrayType) else None
    wraparound = given.typed("wraparound", t.U16)
    if wraparound is None:
        if size is None:
            call.fail("'wraparound' is needed when the base is not a pointer to a tensor", 1)
        wraparound = Const(t.U16, size)
    if not isinstance(wraparound, Const):
        call.fail("field 'wraparound' must be comptime-known", 1)
    if size is not None and wraparound.data > size:
        call.fail(f"wraparound {wraparound.data} is larger than the tensor, which has {size} elements", 1)
    build.settings |= {"extents": (extent.data,), "strides": (1,), "wraparound": wraparound.data}
    return build.finish()


def _fabric(call: Call, type_: t.DsdType, given: Properties) -> Value:
    build = _Builder(call, type_)
    is_input = type_.kind == "fabin"
    extent = given.typed("extent", t.U16)
    if extent is None:
        call.fail("a fabric DSD needs an 'extent'", 1)
    if isinstance(extent, Const):
        build.settings["extents"] = (extent.data,)
    else:
        build.operand("extent", extent)
    queue_name, queue_type = ("input_queue", t.INPUT_QUEUE) if is_input else ("output_queue", t.OUTPUT_QUEUE)
    for key, name, wanted in (("queue", queue_name, queue_type), ("color", "fabric_color", t.COLOR)):
        value = given.typed(name, wanted)
        if isinstance(value, Const):
            build.settings[key] = value.data
        elif value is not None:
            build.operand(key, value)
    _check_fabric(call, given, queue_name)
    build.settings |= {
        "control_transform": given.flag("control_transform"),
        "simd_mode": SIMD_MODES.get(given.one_of("simd_mode", SIMD_MODES), "off"),
        "priority": _priority(call, given),
        "strides": (),
    }
    if not is_input:
        zero = given.one_of("zero", ("first_source", "second_source"))
        build.settings |= {
            "control": given.flag("control"),
            "wavelet_index_offset": given.flag("wavelet_index_offset"),
            "advance_switch": given.flag("advance_switch"),
            "zero_first": zero == "first_source",
            "zero_second": zero == "second_source",
        }
    return build.finish()


def _check_fabric(call: Call, given: Properties, queue_name: str) -> None:
    arch = call.frame.unit.session.arch
    if arch == "wse3" and queue_name not in given.values:
        call.fail(f"a fabric DSD needs '{queue_name}' on wse3", 1)
    if arch == "wse2" and "fabric_color" not in given.values and queue_name not in given.values:
        call.fail("a fabric DSD needs 'fabric_color'", 1)
    if arch == "wse2" and queue_name == "output_queue" and "fabric_color" not in given.values:
        call.fail("a fabout_dsd needs 'fabric_color' on wse2", 1)


def _priority(call: Call, given: Properties) -> str:
    chosen = given.one_of("priority", PRIORITIES)
    if chosen and call.frame.unit.session.arch == "wse2":
        call.fail("the priority of a fabric DSD can't be set on wse2", 1, "give it to the DSD operation")
    return chosen


# -------------------------------------------------------------------------------------------------- modification


def _dsd(call: Call, legal: tuple[str, ...]) -> tuple[Value, t.DsdType]:
    value = call.value(0)
    if not isinstance(value.type, t.DsdType):
        call.fail(f"expected a DSD, got: '{value.type.name}'", 0)
    if value.type.kind not in legal:
        call.fail(f"@{call.name} does not apply to '{value.type.name}'", 0)
    return value, value.type


def _set(call: Call, source: Value, type_: t.DsdType, field: Any, value: ir.Operand) -> Value:
    operand = call.frame.operand(source, call.arg_span(0))
    dst = call.frame.code(call.span).register(ir.DSD)
    call.emit(ir.SetDsd(0, dst, operand, field, value))
    return Rt(type_, dst)


def _moved(base: int | ir.Sym, offset: int) -> int | ir.Sym:
    return ir.Sym(base.name, base.offset + offset) if isinstance(base, ir.Sym) else base + offset


@builtin("increment_dsd_offset", args=3)
def increment_dsd_offset(call: Call) -> Value:
    source, type_ = _dsd(call, ("mem1d", "mem4d"))
    offset = call.value(1)
    if not t.is_integer(offset.type):
        call.fail(f"the offset must be an integer, got: '{offset.type.name}'", 1)
    size = t.size_of(call.type(2))
    if size not in (2, 4):
        call.fail(f"a memory DSD has elements of 16 or 32 bits, got: '{call.type(2).name}'", 2)
    if isinstance(offset, Const):
        if isinstance(source, Const):
            return Const(type_, source.data._replace(base=_moved(source.data.base, offset.data * size)))
        return _set(call, source, type_, "advance", ir.Imm(offset.data * size))
    wide = cast(call.frame, offset, t.I32, call.arg_span(1))
    code = call.frame.code(call.span)
    scaled = code.register(ir.I32)
    code.emit(ir.Bin(0, scaled, "mul", ir.I32, call.frame.operand(wide, call.span), ir.Imm(size)))
    return _set(call, source, type_, "advance", scaled)


@builtin("set_dsd_base_addr", args=2)
def set_dsd_base_addr(call: Call) -> Value:
    source, type_ = _dsd(call, ("mem1d", "mem4d", "circbuf"))
    place = places.place_of(call.frame, call.node.args[1])
    if isinstance(place.type, t.PointerType):
        pointer = access.load(call.frame, place, call.arg_span(1))
    else:
        pointer = access.pointer_to(call.frame, place, call.arg_span(1))
    type_ = t.DsdType(type_.kind, element_of(pointer, call.arg_span(1)))
    if isinstance(source, Const) and isinstance(pointer, Const):
        data = pointer.data
        base = ir.Sym(data.root.name, data.offset) if isinstance(data, Ref) else data
        return Const(type_, source.data._replace(base=base))
    return _set(call, source, type_, "base", call.frame.operand(pointer, call.arg_span(1)))


@builtin("set_dsd_length", args=2)
def set_dsd_length(call: Call) -> Value:
    source, type_ = _dsd(call, ("mem1d", "circbuf", "fabin", "fabout"))
    length = call.typed(1, t.U16)
    if isinstance(source, Const) and isinstance(length, Const):
        return Const(type_, source.data._replace(extents=(length.data,)))
    return _set(call, source, type_, "length", call.frame.operand(length, call.arg_span(1)))


@builtin("set_dsd_stride", args=2)
def set_dsd_stride(call: Call) -> Value:
    source, type_ = _dsd(call, ("mem1d",))
    stride = call.typed(1, t.I8)
    if isinstance(stride, Const) and isinstance(source, Const):
        return Const(type_, source.data._replace(strides=(stride.data,)))
    wide = call.frame.operand(cast(call.frame, stride, t.I16, call.arg_span(1)), call.span)
    return _set(call, source, type_, "stride", wide)
