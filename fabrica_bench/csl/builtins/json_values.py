"""`@import_comptime_value`: JSON files as comptime values."""

from __future__ import annotations

import json
import re
from typing import Any

from fabrica_bench.csl import floats
from fabrica_bench.csl import types as t
from fabrica_bench.csl.builtins.registry import Call
from fabrica_bench.csl.sema import limits
from fabrica_bench.csl.sema.names import predeclared
from fabrica_bench.csl.values import Const, Value

MAX_JSON_BYTES = 16 * 1024 * 1024
_KEY_TYPE = re.compile(r"(?:\[(?P<extents> *\d{1,8} *(?:, *\d{1,8} *)*)\] *)?(?P<element>\w+)", re.ASCII)


def load_json(call: Call, type_: t.Type, name: str) -> Value:
    """The value of a JSON file (path relative to the importing file) as `type_`."""
    session = call.frame.unit.session
    path = session.find_file(name, call.span.file, call.arg_span(1))  # a regular file: a pipe could block for ever
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            call.fail(f"'{name}' is larger than {MAX_JSON_BYTES // 2**20} MiB", 1)
        session.step(call.span, limits.bulk_steps(size))
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        call.fail(f"unable to open '{name}': {(problem.strerror or 'unreadable').lower()}", 1)
    except RecursionError:
        call.fail(f"'{name}' nests its values too deeply", 1)
    except ValueError as problem:
        call.fail(f"'{name}' is not a JSON file: {problem}", 1)
    return _convert(call, document, type_)


def _convert(call: Call, item: Any, type_: t.Type) -> Const:
    if isinstance(item, dict):
        return _struct(call, item)
    if isinstance(item, list):
        if not isinstance(type_, t.ArrayType):
            call.fail(f"a JSON array can't become a value of type '{type_.name}'", 0)
        if any(isinstance(part, list | dict) for part in item):
            call.fail("a JSON array may hold neither arrays nor objects", 1)
        if len(item) != type_.count:
            call.fail(f"expected {type_.count} elements, got {len(item)}", 1)
        return Const(type_, [_convert(call, part, type_.element).data for part in item])
    return Const(type_, _scalar(call, item, type_))


def _scalar(call: Call, item: Any, type_: t.Type) -> Any:
    if isinstance(item, bool):
        if type_ == t.BOOL:
            return item
    elif isinstance(item, int):
        if isinstance(type_, t.IntType) and type_.fits(item):
            return item
        if type_ == t.COMPTIME_INT or (type_ == t.COLOR and 0 <= item <= 23):
            return item
    if isinstance(item, int | float) and not isinstance(item, bool) and t.is_float(type_):
        return float(item) if type_ == t.COMPTIME_FLOAT else floats.round_to(type_.name, float(item))
    if isinstance(item, str) and type_ == t.COMPTIME_STRING:
        return item.encode()
    call.fail(f"the JSON value {json.dumps(item)} can't become a value of type '{type_.name}'", 1)


def _struct(call: Call, item: dict[str, Any]) -> Const:
    fields, data = [], []
    for key, part in item.items():
        name, separator, spelled = key.partition(":")
        type_ = _spelled_type(spelled.strip())
        if not separator or type_ is None:
            call.fail(f"the JSON key '{key}' must have the form 'name:type'", 1)
        value = _convert(call, part, type_)
        fields.append(t.Field(name.strip(), value.type))
        data.append(value.data)
    return Const(t.StructType("struct", "auto", tuple(fields)), data)


def _spelled_type(text: str) -> t.Type | None:
    """The type that a key names: a predeclared type, or an array of one such as `[2, 3]f32`; None if it is neither."""
    found = _KEY_TYPE.fullmatch(text)
    element = predeclared(found["element"]) if found is not None else None
    if found is None or element is None or element.type != t.TYPE:
        return None
    element_type: t.Type = element.data
    if found["extents"] is None:
        return element_type
    extents = tuple(int(extent) for extent in found["extents"].split(","))
    return t.ArrayType(extents, element_type) if all(extents) else None
