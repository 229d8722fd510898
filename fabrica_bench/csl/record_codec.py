"""JSON form of dataclasses and NamedTuples, derived from their annotations.

A record becomes the array of its field values; the field names are written once, in a table that a reader must agree
with. A value of a union or of a class with subclasses starts with its class name. Dictionaries with integer keys become
objects with decimal keys, bytes become base64 text, floats that JSON lacks become their bit pattern. Values of the
`pooled` classes, which repeat a lot, are written once and referred to by number.

The data is untrusted: every value is checked against its annotation when it is read, and nothing is executed.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import math
import operator
import struct
import types
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

Json = Any

_hints = cache(get_type_hints)


class CodecError(ValueError):
    """A value doesn't fit its annotation; `place` is its path, such as `.images[0].functions['main']`."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message, place)
        self.message = message
        self.place = place

    def within(self, step: str) -> CodecError:
        """The same error seen from the enclosing value."""
        self.place = step + self.place
        return self

    def __str__(self) -> str:
        return f"{self.place.lstrip('.')}: {self.message}" if self.place else self.message


class Coder(NamedTuple):
    """How values of one annotation become JSON and back. Both functions raise `CodecError`."""

    encode: Callable[[Any], Json]
    decode: Callable[[Json], Any]


class RecordCodec:
    """Codec for one document. Pools fill while encoding, and must be loaded with `load_pools` before decoding.

    Args:
        classes: Every record class that may occur; a class with subclasses among them
            stands for these.
        pooled: Hashable classes whose values are shared.
    """

    def __init__(self, classes: Iterable[type], pooled: Iterable[type] = ()) -> None:
        self.classes = {cls.__name__: cls for cls in classes}
        self.fields = {name: _field_names(cls) for name, cls in self.classes.items()}
        self._coders: dict[Any, Coder] = {}
        self._plain: dict[type, Coder] = {}
        self._pools: dict[type, list[Json]] = {cls: [] for cls in pooled}
        self._numbers: dict[type, dict[Any, int]] = {cls: {} for cls in self._pools}
        self._shared: dict[type, list[Any]] = {cls: [] for cls in self._pools}

    # ---------------------------------------------------------------------------------------- whole documents

    def schema(self) -> dict[str, list[str]]:
        """Class name -> field names, in the order in which values are written."""
        return {name: list(names) for name, names in self.fields.items()}

    def check_schema(self, schema: Json) -> None:
        """Refuse a document written for other classes or fields."""
        if not isinstance(schema, dict):
            raise CodecError("the class table is not an object")
        for name, names in schema.items():
            if name not in self.fields:
                raise CodecError(f"unknown class '{name}'")
            if names != list(self.fields[name]):
                raise CodecError(_field_difference(name, names, self.fields[name]))
        for name in self.fields:
            if name not in schema:
                raise CodecError(f"class '{name}' is missing from the class table")

    def pools(self) -> dict[str, list[Json]]:
        """What the encoder shared so far, to be written into the document."""
        return {cls.__name__: items for cls, items in self._pools.items()}

    def load_pools(self, pools: Json) -> None:
        """Decode the shared values of a document; pools must be listed with those they refer to first."""
        if not isinstance(pools, dict) or list(pools) != [cls.__name__ for cls in self._pools]:
            raise CodecError("the table of shared values doesn't list the expected classes")
        for cls in self._pools:
            decode = _list_coder(self._plain_record(cls)).decode
            try:
                self._shared[cls] += decode(pools[cls.__name__])
            except CodecError as problem:
                raise problem.within(f".pools.{cls.__name__}") from None

    def encode(self, annotation: Any, value: Any) -> Json:
        return self.coder(annotation).encode(value)

    def decode(self, annotation: Any, data: Json) -> Any:
        return self.coder(annotation).decode(data)

    # ------------------------------------------------------------------------------------------- annotations

    def coder(self, annotation: Any) -> Coder:
        """The coder for an annotation: a record class, `int | None`, `list[...]`, `dict[int, ...]`, ..."""
        found = self._coders.get(annotation)
        if found is None:
            found = self._coders[annotation] = self._build(annotation)
        return found

    def _build(self, annotation: Any) -> Coder:
        if annotation in _PRIMITIVES:
            return _PRIMITIVES[annotation]
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is Literal:
            return _literal_coder(args)
        if origin in (Union, types.UnionType):
            return self._union(args)
        if origin is list:
            return _list_coder(self.coder(args[0]))
        if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
            return _tuple_coder(_list_coder(self.coder(args[0])))
        if origin is tuple:
            return _fixed_tuple_coder([self.coder(arg) for arg in args])
        if origin is dict:
            return _dict_coder(args[0], self.coder(args[1]))
        if isinstance(annotation, type) and annotation.__name__ in self.classes:
            return self._record(annotation)
        raise TypeError(f"no JSON form is defined for annotation {annotation!r}")

    def _record(self, cls: type) -> Coder:
        family = [other for other in self.classes.values() if issubclass(other, cls)]
        if cls in self._pools:
            return self._pooled(cls)
        if len(family) == 1:
            return self._plain_record(cls)
        return self._tagged([other for other in family if other is not cls])

    def _union(self, args: tuple[Any, ...]) -> Coder:
        records = [arg for arg in args if isinstance(arg, type) and arg.__name__ in self.classes]
        others = [arg for arg in args if arg not in records]
        primitives = {arg: _PRIMITIVES[arg] for arg in others if arg in (int, float, str, bool, bytes)}
        optional = type(None) in others
        if len(others) != len(primitives) + optional:
            # a single other alternative, such as a tuple or a literal, besides None
            if len(others) - optional != 1 or records:
                raise TypeError(f"no JSON form is defined for the union of {args}")
            return _optional_coder(self.coder(next(arg for arg in others if arg is not type(None))))
        if len(args) == 2 and optional:
            return _optional_coder(self.coder(next(arg for arg in args if arg is not type(None))))
        nested = None
        if records:
            nested = self._record(records[0]) if len(records) == 1 else self._tagged(records)
        return _mixed_coder(primitives, nested, tuple(records), optional)

    # --------------------------------------------------------------------------------------------- records

    def _plain_record(self, cls: type) -> Coder:
        found = self._plain.get(cls)
        if found is None:
            found = self._plain[cls] = self._build_record(cls)
        return found

    def _build_record(self, cls: type) -> Coder:
        hints = _hints(cls)
        name = cls.__name__
        names = self.fields[name]
        coders = [self.coder(hints[field]) for field in names]
        encoders = [(field, coder.encode) for field, coder in zip(names, coders, strict=True)]
        decoders = [coder.decode for coder in coders]
        count = len(names)

        def encode(value: Any) -> Json:
            if type(value) is not cls:
                raise CodecError(f"expected {name}, got {_shown(value)}")
            out = []
            field = ""
            try:
                for field, encode_field in encoders:
                    out.append(encode_field(getattr(value, field)))
            except CodecError as problem:
                raise problem.within(f".{field}") from None
            return out

        def decode(data: Json) -> Any:
            if type(data) is not list or len(data) != count:
                raise CodecError(f"expected {count} fields of {name}, got {_shown(data)}")
            values: list[Any] = []
            try:
                for decode_field, item in zip(decoders, data, strict=True):
                    values.append(decode_field(item))
            except CodecError as problem:
                raise problem.within(f".{names[len(values)]}") from None
            return cls(*values)

        return Coder(encode, decode)

    def _tagged(self, family: list[type]) -> Coder:
        """Values of several classes: the class name, then the fields."""
        expected = " or ".join(sorted(cls.__name__ for cls in family)) if len(family) <= 6 else "a known class"
        members = {cls: (cls.__name__, self._plain_record(cls).encode) for cls in family}
        readers = {cls.__name__: self._plain_record(cls).decode for cls in family}

        def encode(value: Any) -> Json:
            member = members.get(type(value))
            if member is None:
                raise CodecError(f"expected {expected}, got {_shown(value)}")
            return [member[0], *member[1](value)]

        def decode(data: Json) -> Any:
            if type(data) is not list or not data or type(data[0]) is not str:
                raise CodecError(f"expected {expected}, got {_shown(data)}")
            reader = readers.get(data[0])
            if reader is None:
                raise CodecError(f"expected {expected}, got unknown class '{data[0]}'")
            return reader(data[1:])

        return Coder(encode, decode)

    def _pooled(self, cls: type) -> Coder:
        encode_plain = self._plain_record(cls).encode
        numbers, items, shared = self._numbers[cls], self._pools[cls], self._shared[cls]

        def encode(value: Any) -> Json:
            number = numbers.get(value) if type(value) is cls else None
            if number is None:
                items.append(encode_plain(value))
                number = numbers[value] = len(items) - 1
            return number

        def decode(data: Json) -> Any:
            if type(data) is not int or not 0 <= data < len(shared):
                raise CodecError(f"expected the number of a shared {cls.__name__}, got {_shown(data)}")
            return shared[data]

        return Coder(encode, decode)


# ------------------------------------------------------------------------------------------------- containers


def _list_coder(item: Coder) -> Coder:
    def convert(values: list[Any], function: Callable[[Any], Any]) -> list[Any]:
        if type(values) is not list:
            raise CodecError(f"expected a list, got {_shown(values)}")
        out: list[Any] = []
        append = out.append
        try:
            for value in values:
                append(function(value))
        except CodecError as problem:
            raise problem.within(f"[{len(out)}]") from None
        return out

    return Coder(lambda values: convert(values, item.encode), lambda data: convert(data, item.decode))


def _tuple_coder(items: Coder) -> Coder:
    def encode(value: Any) -> Json:
        if type(value) is not tuple:
            raise CodecError(f"expected a tuple, got {_shown(value)}")
        return items.encode(list(value))

    return Coder(encode, lambda data: tuple(items.decode(data)))


def _fixed_tuple_coder(coders: list[Coder]) -> Coder:
    def convert(values: Any, functions: list[Callable[[Any], Any]]) -> list[Any]:
        if len(values) != len(functions):
            raise CodecError(f"expected {len(functions)} elements, got {_shown(values)}")
        out: list[Any] = []
        try:
            for function, value in zip(functions, values, strict=True):
                out.append(function(value))
        except CodecError as problem:
            raise problem.within(f"[{len(out)}]") from None
        return out

    encoders, decoders = [coder.encode for coder in coders], [coder.decode for coder in coders]

    def encode(value: Any) -> Json:
        if type(value) is not tuple:
            raise CodecError(f"expected a tuple, got {_shown(value)}")
        return convert(value, encoders)

    def decode(data: Json) -> Any:
        if type(data) is not list:
            raise CodecError(f"expected a list, got {_shown(data)}")
        return tuple(convert(data, decoders))

    return Coder(encode, decode)


def _dict_coder(key_type: Any, item: Coder) -> Coder:
    if key_type not in (int, str):
        raise TypeError(f"dictionary keys must be int or str, not {key_type!r}")
    encode_key: Callable[[Any], str] = _encode_int_key if key_type is int else _PRIMITIVES[str].encode
    decode_key: Callable[[str], Any] = _decode_int_key if key_type is int else _PRIMITIVES[str].decode

    def convert(value: Any, key_function: Callable[[Any], Any], function: Callable[[Any], Any]) -> dict[Any, Any]:
        if type(value) is not dict:
            raise CodecError(f"expected a dictionary, got {_shown(value)}")
        out = {}
        key = None
        try:
            for key, entry in value.items():
                out[key_function(key)] = function(entry)
        except CodecError as problem:
            raise problem.within(f"[{key!r}]") from None
        return out

    return Coder(
        lambda value: convert(value, encode_key, item.encode), lambda data: convert(data, decode_key, item.decode)
    )


def _optional_coder(inner: Coder) -> Coder:
    encode, decode = inner
    return Coder(
        lambda value: None if value is None else encode(value), lambda data: None if data is None else decode(data)
    )


def _mixed_coder(
    primitives: dict[type, Coder], nested: Coder | None, records: tuple[type, ...], optional: bool
) -> Coder:
    """A union of primitives (told apart by their JSON type) and records (always arrays)."""
    names = sorted(cls.__name__ for cls in (*primitives, *records))
    expected = " or ".join([*names, "None"] if optional else names)
    by_json_type: dict[type, Callable[[Json], Any]] = {}
    for cls in primitives:
        for json_type in _JSON_TYPES[cls]:
            if json_type in by_json_type:
                raise TypeError(f"{expected} can't be told apart in JSON")
            by_json_type[json_type] = primitives[cls].decode

    def encode(value: Any) -> Json:
        if value is None and optional:
            return None
        if nested is not None and isinstance(value, records):
            return nested.encode(value)
        coder = primitives.get(type(value)) or _primitive_for(value, primitives)
        if coder is None:
            raise CodecError(f"expected {expected}, got {_shown(value)}")
        return coder.encode(value)

    def decode(data: Json) -> Any:
        if data is None and optional:
            return None
        if nested is not None and type(data) is list:
            return nested.decode(data)
        reader = by_json_type.get(type(data))
        if reader is None:
            raise CodecError(f"expected {expected}, got {_shown(data)}")
        return reader(data)

    return Coder(encode, decode)


# ------------------------------------------------------------------------------------------------- primitives


def _encode_int(value: Any) -> int:
    if type(value) is int:
        return value
    try:
        return int(operator.index(value))
    except TypeError:
        raise CodecError(f"expected an integer, got {_shown(value)}") from None


def _encode_bool(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise CodecError(f"expected a bool, got {_shown(value)}")


def _encode_float(value: Any) -> Json:
    if not isinstance(value, float) and type(value) is not int:
        raise CodecError(f"expected a float, got {_shown(value)}")
    number = float(value)
    return number if math.isfinite(number) else struct.pack(">d", number).hex()


def _decode_float(data: Json) -> float:
    if type(data) is float:
        return data
    if type(data) is str and len(data) == 16:
        try:
            return float(struct.unpack(">d", bytes.fromhex(data))[0])
        except ValueError:
            pass
    raise CodecError(f"expected a float, got {_shown(data)}")


def _encode_bytes(value: Any) -> str:
    if not isinstance(value, bytes | bytearray):
        raise CodecError(f"expected bytes, got {_shown(value)}")
    return base64.b64encode(value).decode("ascii")


def _decode_bytes(data: Json) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise CodecError(f"expected base64 text, got {_shown(data)}") from None


def _exact(cls: type, name: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not cls:
            raise CodecError(f"expected {name}, got {_shown(value)}")
        return value

    return check


def _encode_int_key(value: Any) -> str:
    return str(_encode_int(value))


def _decode_int_key(data: str) -> int:
    try:
        number = int(data)
    except ValueError:
        number = 0
    if str(number) != data:
        raise CodecError(f"expected an integer key, got {_shown(data)}")
    return number


_PRIMITIVES: dict[Any, Coder] = {
    int: Coder(_encode_int, _exact(int, "an integer")),
    bool: Coder(_encode_bool, _exact(bool, "a bool")),
    float: Coder(_encode_float, _decode_float),
    str: Coder(_exact(str, "a string"), _exact(str, "a string")),
    bytes: Coder(_encode_bytes, _decode_bytes),
    type(None): Coder(_exact(type(None), "None"), _exact(type(None), "null")),
}
_JSON_TYPES: dict[type, tuple[type, ...]] = {
    int: (int,),
    bool: (bool,),
    float: (float, str),
    str: (str,),
    bytes: (str,),
}


def _primitive_for(value: Any, primitives: dict[type, Coder]) -> Coder | None:
    """The coder for a value of a subclass or look-alike of a primitive: bool as int, NumPy scalars."""
    if isinstance(value, float):
        return primitives.get(float)
    return primitives.get(int) if hasattr(value, "__index__") else None


def _literal_coder(values: tuple[Any, ...]) -> Coder:
    allowed = set(values)

    def check(value: Any) -> Any:
        if type(value) is not str or value not in allowed:
            raise CodecError(f"expected one of {', '.join(map(repr, values))}, got {_shown(value)}")
        return value

    return Coder(check, check)


# ------------------------------------------------------------------------------------------------------ helpers


def _field_names(cls: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    names = getattr(cls, "_fields", None)
    if names is None:
        raise TypeError(f"{cls.__name__} is neither a dataclass nor a NamedTuple")
    return cast("tuple[str, ...]", names)


def _field_difference(name: str, found: Json, known: tuple[str, ...]) -> str:
    if isinstance(found, list):
        for field in found:
            if field not in known:
                return f"unknown field {_shown(field)} of class '{name}'"
        for field in known:
            if field not in found:
                return f"field '{field}' of class '{name}' is missing"
    return f"the fields of class '{name}' are {_shown(found)}, expected {list(known)}"


def _shown(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{type(value).__name__} {text}"
