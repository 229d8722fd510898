"""Mutations of CSL text: of characters, of tokens and of lines, some taken from another text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_TOKEN = re.compile(r'[A-Za-z_@][A-Za-z0-9_]*|\d[\w.]*|"[^"\n]*"|//[^\n]*|[-+*/%&|^<>=!.]+|\s+|.', re.DOTALL)
_WORD_LIST = """\
0 1 2 255 65535 65536 0xffffffff -1 1.5 1e30 0x7fff i8 u8 i16 u16 i32 u32 i64 f16 f32 bool void type color direction
comptime_int comptime_float comptime_string comptime_struct anytype true false null undefined var const param fn
task inline comptime layout export extern struct enum union packed if else while for switch break continue return
and or &x x.* x[0] .{} .{1,2} .{.a=1} [4]u16 [*]u16 *u16 *const NORTH RAMP @as(u16,1) @zeros([4]u16) @range(u16,4)
@get_color(3) @get_dsd @bitcast @ptrcast @set_tile_code @set_rectangle @activate @block @unblock @map @fadds @mov32
@import_module @get_input_queue(2) @get_output_queue(2) @initialize_queue @allocate_fifo @constants @strcat
"""
_WORDS = tuple(_WORD_LIST.split())
_CHARACTERS = "(){}[]<>.,;:=&|*@\"'\\/\n\t 0aZ_\0\x7f\xa0\u00e9\U0001f600"


def _spot(rng: random.Random, parts: Sequence[str]) -> int:
    return rng.randrange(len(parts)) if parts else 0


def _characters(rng: random.Random, text: str, other: str) -> str:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        cut = rng.choice((0, 0, 1, 1, 3, 40))
        text = text[:at] + rng.choice((*_CHARACTERS, "")) + text[at + cut :]
    return text


def _tokens(rng: random.Random, text: str, other: str) -> str:
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randint(1, 6)):
        at = _spot(rng, tokens)
        match rng.randrange(5):
            case 0:
                tokens[at : at + 1] = [rng.choice(_WORDS)]
            case 1:
                tokens[at:at] = [" ", rng.choice(_WORDS), " "]
            case 2:
                del tokens[at : at + rng.randint(1, 4)]
            case 3:
                to = _spot(rng, tokens)
                tokens[at : at + 1], tokens[to : to + 1] = tokens[to : to + 1], tokens[at : at + 1]
            case 4:
                tokens[at:at] = tokens[at : at + rng.randint(1, 8)]
    return "".join(tokens)


def _same_kind(rng: random.Random, text: str, other: str) -> str:
    """Replace words by words of the same text: the result often still parses."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randint(1, 5)):
        at = _spot(rng, tokens)
        alike = [token for token in tokens if token[:1].isalnum() == tokens[at][:1].isalnum() and not token.isspace()]
        if alike and not tokens[at].isspace():
            tokens[at] = rng.choice(alike)
    return "".join(tokens)


def _numbers(rng: random.Random, text: str, other: str) -> str:
    def change(match: re.Match[str]) -> str:
        if rng.random() < 0.8:
            return match.group()
        return str(
            rng.choice((0, 1, 2, 7, 31, 32, 255, 256, 4095, 32767, 32768, 65535, 65536, 2**31, 2**32, 2**63, -1))
        )

    return re.sub(r"\b\d+\b", change, text)


def _lines(rng: random.Random, text: str, other: str) -> str:
    lines, source = text.split("\n"), other.split("\n")
    for _ in range(rng.randint(1, 3)):
        at = _spot(rng, lines)
        match rng.randrange(3):
            case 0:
                del lines[at : at + rng.randint(1, 3)]
            case 1:
                start = _spot(rng, source)
                lines[at:at] = source[start : start + rng.randint(1, 4)]
            case 2:
                lines[at:at] = lines[at : at + rng.randint(1, 3)]
    return "\n".join(lines)


MUTATIONS: tuple[Callable[[random.Random, str, str], str], ...] = (
    _characters,
    _tokens,
    _same_kind,
    _same_kind,
    _numbers,
    _lines,
)


def mutate(rng: random.Random, text: str, other: str) -> str:
    """`text` with one to three mutations; `other` is a text to steal from."""
    for _ in range(rng.randint(1, 3)):
        text = rng.choice(MUTATIONS)(rng, text, other)
    return text
