"""The fixed family of wrong programs, as CSL that is built and run: a reference kernel that spoils its own results.

Each mutant is a working reference kernel with device code of its own between its start and its end stamp, so that
nothing but its results is wrong: zeros stored over them, another PE's table, inputs that were falsified before the
work and put back after it. A mutant that can't be wrong for a task (the order of one element) gives the rule instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fabrica_bench.integrity.device_facts import Program, Symbol

TABLE_WORDS: Final = 4096
"""Longest table of baked-in results, or of kept inputs; a PE has 48 KiB for all its code and data."""


@dataclass(frozen=True)
class Inapplicable:
    """Why a kind of wrong program doesn't exist for a task: the rule."""

    rule: str


Mutated = str | Inapplicable
Mutant = Callable[[Program], Mutated]

ONE_ELEMENT: Final = Inapplicable("every PE holds one element: there is no order in it")
IN_PLACE: Final = Inapplicable("the only input is the output's own array: a copy of it is the stale output")
HALF_ALREADY: Final = Inapplicable("the outputs are in half precision, the narrowest arithmetic of a PE")
EXACT_IN_HALF: Final = Inapplicable("the outputs are small whole numbers, which half precision holds exactly")


# ------------------------------------------------------------------------------------------------ splicing


def splice(program: Program, *, declare: str = "", begin: str = "", end: str = "") -> str:
    """The program with statements after each start stamp and before each end stamp, and declarations at its end."""
    edits = [(place, f"\n  {begin}\n") for place in program.begins if begin]
    edits += [(place, f"{end}\n    ") for place in program.ends if end]
    text = program.text
    for place, addition in sorted(edits, reverse=True):
        text = text[:place] + addition + text[place:]
    return f"{text}\n{declare}\n"


def _loop(count: int, body: str) -> str:
    return f"  for (@range(u16, {count})) |spoil_i| {{ {body} }}\n"


def _function(name: str, body: str) -> str:
    return f"fn {name}() void {{\n{body}}}\n"


def _at_the_end(program: Program, bodies: Iterable[str], declare: str = "") -> str:
    return splice(program, declare=declare + _function("spoil_end", "".join(bodies)), end="spoil_end();")


def _value(symbol: Symbol, number: int) -> str:
    return f"@as({symbol.dtype}, {number}.0)" if symbol.dtype[0] == "f" else f"@as({symbol.dtype}, {number})"


def _from_bits(symbol: Symbol, bits: str) -> str:
    """An expression for the element with these bits; `bits` is a u32 or u16 like the element is wide."""
    return f"@bitcast({symbol.dtype}, {bits})" if symbol.dtype[0] == "f" else bits


def _word(symbol: Symbol) -> str:
    return "u16" if symbol.dtype.endswith("16") else "u32"


PLACE: Final = 'const spoil_place = @import_module("<layout>");\n'


def _on(place: tuple[int, int], mesh: tuple[int, int], body: str) -> str:
    """Statements that only one PE executes."""
    if mesh == (1, 1):
        return body
    x, y = place
    return f"  if (spoil_place.get_x_coord() == {x} and spoil_place.get_y_coord() == {y}) {{\n{body}  }}\n"


# ------------------------------------------------------------------------------------- outputs spoiled at the end


def _stored(value: Callable[[Symbol], str]) -> Mutant:
    """Every element of every output is replaced."""

    def mutant(program: Program) -> Mutated:
        return _at_the_end(
            program, [_loop(item.per_pe, f"{item.pointer}[spoil_i] = {value(item)};") for item in program.outputs]
        )

    return mutant


def _copy(program: Program) -> Mutated:
    if not program.inputs:
        return IN_PLACE
    source = max(program.inputs, key=lambda item: item.per_pe)
    bodies = []
    for item in program.outputs:
        value = f"{source.pointer}[spoil_i % {source.per_pe}]"
        value = value if source.dtype == item.dtype else f"@as({item.dtype}, {value})"
        bodies.append(_loop(item.per_pe, f"{item.pointer}[spoil_i] = {value};"))
    return _at_the_end(program, bodies)


def _stale(program: Program) -> Mutated:
    """What was in the outputs before the launch: the host's poison, or the input of a program that works in place."""
    declare, before, after = "", "", ""
    for number, item in enumerate(program.outputs):
        declare += f"var spoil_kept{number} = @zeros([{item.per_pe}]{item.dtype});\n"
        before += _loop(item.per_pe, f"spoil_kept{number}[spoil_i] = {item.pointer}[spoil_i];")
        after += _loop(item.per_pe, f"{item.pointer}[spoil_i] = spoil_kept{number}[spoil_i];")
    declare += _function("spoil_begin", before) + _function("spoil_end", after)
    return splice(program, declare=declare, begin="spoil_begin();", end="spoil_end();")


def _tile_missing(program: Program) -> Mutated:
    """One PE has no results, or where a PE holds one, a part of the input is missing; on one PE a quarter."""
    many = [item for item in program.outputs if item.per_pe > 1]
    if not many or (program.mesh != (1, 1) and len(_holders(program)) == 1):
        return _input_without(program, _quarter)
    if program.mesh == (1, 1):
        return _at_the_end(program, [_zeroed(item, *_quarter(item)) for item in many])
    place = _holders(program)[-1]
    body = "".join(_zeroed(item, 0, item.per_pe) for item in program.outputs)
    return _at_the_end(program, [_on(place, program.mesh, body)], PLACE)


def _holders(program: Program) -> list[tuple[int, int]]:
    """PEs that hold results."""
    return max((item.written for item in program.outputs), key=len)


def _quarter(item: Symbol) -> tuple[int, int]:
    length = max(1, item.per_pe // 4)
    return item.per_pe // 2, item.per_pe // 2 + length


def _zeroed(item: Symbol, first: int, last: int) -> str:
    return _loop(last - first, f"{item.pointer}[spoil_i + {first}] = {_value(item, 0)};")


def _rotated(program: Program) -> Mutated:
    many = [item for item in program.outputs if item.per_pe > 1]
    if not many:
        return _input_without(program, lambda item: (item.per_pe - 1, item.per_pe))
    bodies = []
    for number, item in enumerate(many):
        bodies.append(f"  const spoil_last{number} = {item.pointer}[{item.per_pe - 1}];\n")
        body = f"{item.pointer}[{item.per_pe - 1} - spoil_i] = {item.pointer}[{item.per_pe - 2} - spoil_i];"
        bodies.append(_loop(item.per_pe - 1, body) + f"  {item.pointer}[0] = spoil_last{number};\n")
    return _at_the_end(program, bodies)


def _last_only(program: Program) -> Mutated:
    many = [item for item in program.outputs if item.per_pe > 1]
    if not many:
        return _input_without(program, lambda item: (0, item.per_pe - 1))
    return _at_the_end(program, [_zeroed(item, 0, item.per_pe - 1) for item in many])


def _reversed(program: Program) -> Mutated:
    many = [item for item in program.outputs if item.per_pe > 1]
    if not many:
        return ONE_ELEMENT
    bodies = []
    for item in many:
        a, b = f"{item.pointer}[spoil_i]", f"{item.pointer}[{item.per_pe - 1} - spoil_i]"
        bodies.append(_loop(item.per_pe // 2, f"const spoil_value = {a}; {a} = {b}; {b} = spoil_value;"))
    return _at_the_end(program, bodies)


def _narrow_bits(word: str) -> str:
    """Bits of an f32 with the mantissa of half precision, rounded to nearest."""
    return f"(({word} + 0x1000) >> 13) << 13"


def _narrow(program: Program) -> Mutated:
    """Results in half precision; whole numbers without their low bit."""
    bodies = []
    for item in program.outputs:
        element = f"{item.pointer}[spoil_i]"
        if item.dtype == "f16":
            return HALF_ALREADY
        if item.dtype == "f32":
            value = f"@bitcast(f32, {_narrow_bits(f'@bitcast(u32, {element})')})"
        else:
            value = f"({element} >> 1) << 1"
        bodies.append(_loop(item.per_pe, f"{element} = {value};"))
    if all(_exact_in_half(item) for item in program.outputs):
        return EXACT_IN_HALF
    return _at_the_end(program, bodies)


def _exact_in_half(item: Symbol) -> bool:
    """Whether all results of an f32 output are whole numbers of at most 11 bits."""
    if item.dtype != "f32" or item.words is None:
        return False
    rows = item.words.view("float32")
    values = [rows[y, x] for x, y in item.written]
    return bool(values) and all(((array == array.round()) & (abs(array) <= 2048)).all() for array in values)


def _not_a_number(program: Program) -> Mutated:
    bodies = []
    for item in program.outputs:
        bits = {"f32": "@as(u32, 0x7fc00000)", "f16": "@as(u16, 0x7e00)"}.get(item.dtype)
        value = _from_bits(item, bits) if bits else f"@as({item.dtype}, {(1 << int(item.dtype[1:])) - 1})"
        bodies.append(f"  {item.pointer}[{item.per_pe // 2}] = {value};\n")
    return _at_the_end(program, bodies)


def _hard_coded(program: Program) -> Mutated:
    """The results of the first visible input, as a table for each PE."""
    columns, rows = program.mesh
    declare, bodies = PLACE, []
    for number, item in enumerate(program.outputs):
        assert item.words is not None
        if item.words.size > TABLE_WORDS:
            return Inapplicable(f"a table of {item.words.size} results doesn't fit a PE's memory")
        kind = _word(item)
        table = ", ".join(str(int(word)) for word in item.words.ravel())
        declare += f"const spoil_table{number} = [{item.words.size}]{kind} {{ {table} }};\n"
        value = _from_bits(item, f"spoil_table{number}[spoil_from{number} + spoil_i]")
        place = f"(spoil_place.get_y_coord() * {columns} + spoil_place.get_x_coord()) * {item.per_pe}"
        bodies.append(f"  const spoil_from{number}: u16 = {place if columns * rows > 1 else 0};\n")
        bodies.append(_loop(item.per_pe, f"{item.pointer}[spoil_i] = {value};"))
    return _at_the_end(program, bodies, declare)


def _boundary(program: Program) -> Mutated:
    """The first element, on a mesh that of a corner PE, is its neighbour's, as with a clamped halo."""
    many = [item for item in program.outputs if item.per_pe > 1]
    if not many:
        return _input_without(program, lambda item: (0, 1))
    body = "".join(f"  {item.pointer}[0] = {item.pointer}[1];\n" for item in many)
    return _at_the_end(program, [_on(_holders(program)[0], program.mesh, body)], PLACE)


# --------------------------------------------------------------------------------------- inputs falsified meanwhile


def _input_without(program: Program, part: Callable[[Symbol], tuple[int, int]]) -> Mutated:
    """Part of the largest input counts as zero while the program works; it is put back before the end."""
    if not program.inputs:
        return IN_PLACE
    item = max(program.inputs, key=lambda symbol: symbol.per_pe)
    first, last = part(item)
    if last <= first:
        return Inapplicable("every PE holds one element of the input: there is no part of it to leave out")
    return _falsified(program, [(item, first, last, lambda value: _value(item, 0))])


def _narrow_inputs(program: Program) -> Mutated:
    """The inputs in half precision while the program works; those of which a copy doesn't fit stay as they are."""
    floats, room = [], TABLE_WORDS - 1
    for item in program.inputs:
        if item.dtype == "f32" and item.per_pe <= room:
            floats.append(item)
            room -= item.per_pe
    if not floats:
        return Inapplicable("no input in single precision beside the outputs' own arrays")
    parts = [
        (item, 0, item.per_pe, lambda value: f"@bitcast(f32, {_narrow_bits(f'@bitcast(u32, {value})')})")
        for item in floats
    ]
    return _falsified(program, parts)


def _falsified(program: Program, parts: Sequence[tuple[Symbol, int, int, Callable[[str], str]]]) -> str:
    declare, before, after = "", "", ""
    for number, (item, first, last, change) in enumerate(parts):
        element = f"{item.pointer}[spoil_i + {first}]"
        declare += f"var spoil_kept{number} = @zeros([{last - first}]{item.dtype});\n"
        store = f"spoil_kept{number}[spoil_i] = {element}; {element} = {change(element)};"
        before += _loop(last - first, store)
        after += _loop(last - first, f"{element} = spoil_kept{number}[spoil_i];")
    declare += _function("spoil_begin", before) + _function("spoil_end", after)
    return splice(program, declare=declare, begin="spoil_begin();", end="spoil_end();")


FAMILY: Final[dict[str, Mutant]] = {
    "zeros": _stored(lambda item: _value(item, 0)),
    "constant": _stored(lambda item: _value(item, 1)),
    "copy of the input": _copy,
    "stale output": _stale,
    "one tile missing": _tile_missing,
    "halo off by one": _rotated,
    "last element only": _last_only,
    "wrong order": _reversed,
    "lower precision": _narrow,
    "inputs in lower precision": _narrow_inputs,
    "NaN": _not_a_number,
    "hard-coded visible seed": _hard_coded,
    "boundary wrong": _boundary,
}
"""The wrong programs by name."""
