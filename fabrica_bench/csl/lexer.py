"""Lexer: CSL text to tokens and comments, in one pass of one regular expression (linear time).

Lexical errors become diagnostics; the token list stays usable, so that the parser can report its own errors in the same
go. A faulty literal still yields a literal token, a stray character yields none.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from fabrica_bench.csl.ast import Comment, SourceFile, Span
from fabrica_bench.csl.diagnostics import Diagnostic, Severity

#: Words that can't name a declaration. Type words (`f32`, `color`) and directions are ordinary identifiers.
KEYWORDS: Final = frozenset(
    (
        *("const", "var", "param", "fn", "task", "layout", "comptime", "export", "extern", "inline", "linkname"),
        *("linksection", "align", "struct", "union", "enum", "packed", "if", "else", "for", "while", "switch", "break"),
        *("continue", "return", "and", "or", "anytype", "asm", "volatile", "true", "false"),
    )
)

#: Literals longer than this are refused: converting a decimal number takes quadratic time.
MAX_NUMBER_LENGTH: Final = 1000
#: A text with this many errors is not CSL; further ones are not recorded.
MAX_LEXICAL_ERRORS: Final = 50


class Token(NamedTuple):
    """`kind` is `ident`, `int`, `float`, `char`, `string`, `builtin` or `eof`; for keywords and punctuation it is their
    text. `value` is the value of a literal, or the name of a builtin without `@`."""

    kind: str
    text: str
    start: int
    end: int
    value: int | float | bytes | str | None = None


class Lexed(NamedTuple):
    """`tokens` always ends with one `eof`."""

    tokens: list[Token]
    comments: list[Comment]
    diagnostics: list[Diagnostic]


_PATTERN: Final = re.compile(
    r"""
      (?P<space>    [ \t\r\n]+ )
    | (?P<comment>  //[^\n]* )
    | (?P<block>    /\*.*?(?:\*/|\Z) )
    | (?P<ident>    [A-Za-z_][A-Za-z0-9_]* )
    | (?P<builtin>  @[A-Za-z_][A-Za-z0-9_]* )
    | (?P<number>   0[xXbBoO][A-Za-z0-9_]* (?: \.[0-9][A-Za-z0-9_]* )?
                    | [0-9][0-9_]* (?: \.[0-9][0-9_]* )? (?: [eE][+-]?[0-9][0-9_]* )? [A-Za-z0-9_]* )
    | (?P<string>   "(?: [^"\\\n] | \\[^\n] )*"? )
    | (?P<char>     '(?: [^'\\\n] | \\[^\n] )*'? )
    | (?P<op>       \.\* | <<= | >>= | -> | => | == | != | <= | >= | << | >> | \+= | -= | \*= | /= | %= | &= | \|= | \^=
                    | [-+*/%&|^~!<>=(){}\[\],;:.] )
    | (?P<bad>      . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SIMPLE_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", '"': b'"', "'": b"'"}
_DECIMAL: Final = re.compile(r"[0-9]+")
_FLOAT: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PREFIXED: Final = {"0x": (16, re.compile(r"[0-9a-fA-F]+"), "hexadecimal"), "0b": (2, re.compile("[01]+"), "binary")}


def tokenize(source: SourceFile) -> Lexed:
    """Split a source text. Never raises; what is wrong is in `diagnostics`."""
    return _Lexer(source).run()


class _Lexer:
    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.tokens: list[Token] = []
        self.comments: list[Comment] = []
        self.diagnostics: list[Diagnostic] = []

    def run(self) -> Lexed:
        text = self.source.text
        append = self.tokens.append
        bad_end = -1  # neighbouring stray characters are one error
        for match in _PATTERN.finditer(text):
            group = match.lastgroup
            if group == "space":
                continue
            word = match[0]
            start, end = match.span()
            if group == "ident":
                append(Token(word if word in KEYWORDS else "ident", word, start, end))
            elif group == "op":
                append(Token(word, word, start, end))
            elif group == "builtin":
                append(Token("builtin", word, start, end, word[1:]))
            elif group == "number":
                self.number(word, start, end)
            elif group == "comment":
                self.comments.append(Comment(Span(self.source, start, end), word.rstrip("\r")))
            elif group == "string":
                self.string(word, start, end)
            elif group == "char":
                self.char(word, start, end)
            elif group == "block":
                self.error("CSL has no block comments", start, start + 2, "start each line with '//'")
            else:
                if start != bad_end:
                    self.stray(word, start, end)
                bad_end = end
        append(Token("eof", "", len(text), len(text)))
        return Lexed(self.tokens, self.comments, self.diagnostics)

    def error(self, message: str, start: int, end: int, hint: str | None = None) -> None:
        if len(self.diagnostics) >= MAX_LEXICAL_ERRORS:
            return
        span = Span(self.source, start, end)
        self.diagnostics.append(Diagnostic(Severity.ERROR, message, span, hint))

    def stray(self, word: str, start: int, end: int) -> None:
        hints = {
            "@": "a builtin is spelled '@name(...)'",
            "#": "comments start with '//'; use '@import_module' to use other files",
            "?": "CSL has no optional types and no '?:'; write `if (c) a else b`",
            "$": "names have letters, digits and '_'",
        }
        name = f"'{word}'" if word.isprintable() else f"U+{ord(word):04X}"
        hint = hints.get(word, "names have ASCII letters, digits and '_'" if not word.isascii() else None)
        self.error(f"unexpected character {name}", start, end, hint)

    # ---------------------------------------------------------------------------------------------- numbers

    def number(self, word: str, start: int, end: int) -> None:
        if len(word) > MAX_NUMBER_LENGTH:
            self.error(f"number literal of {len(word)} characters is too long", start, end)
            self.tokens.append(Token("int", word, start, end, 0))
            return
        prefix = word[:2].lower()
        if prefix in _PREFIXED:
            self.prefixed(word, prefix, start, end)
        elif _DECIMAL.fullmatch(word):
            if len(word) > 1 and word[0] == "0":
                self.error(f"decimal literal '{word}' has a leading zero", start, end, self.zero_hint(word))
            self.tokens.append(Token("int", word, start, end, int(word)))
        elif _FLOAT.fullmatch(word):
            value = float(word)
            if math.isinf(value):
                self.error(f"float literal '{word}' is too large for 64 bits", start, end)
            self.tokens.append(Token("float", word, start, end, value))
        else:
            self.error(f"invalid number literal '{word}'", start, end, self.number_hint(word))
            is_float = "." in word
            self.tokens.append(Token("float" if is_float else "int", word, start, end, 0.0 if is_float else 0))

    def prefixed(self, word: str, prefix: str, start: int, end: int) -> None:
        base, digits, name = _PREFIXED[prefix]
        if digits.fullmatch(word, 2) and word[1].islower():
            value = int(word[2:], base)
        else:
            hint = self.number_hint(word) if "_" in word or "." in word else None
            if not word[1].islower():
                hint = f"write '{prefix}{word[2:]}'"
            self.error(f"invalid {name} literal '{word}'", start, end, hint)
            value = 0
        self.tokens.append(Token("int", word, start, end, value))

    @staticmethod
    def number_hint(word: str) -> str | None:
        if "_" in word:
            return f"CSL has no digit separators; write '{word.replace('_', '')}'"
        if word[:2] in ("0o", "0O") and set(word[2:]) and set(word[2:]) <= set("01234567"):
            return f"CSL has no octal literals; write '{hex(int(word[2:], 8))}'"
        if word[:2] in ("0x", "0b") and "." in word:
            return "float literals are decimal"
        if re.fullmatch("[0-9.]+[eE]", word):
            return "an exponent needs digits"
        suffix = re.fullmatch(r"([0-9.]+)(?:f|F|u|U|l|L|ul|UL|[fiu](?:8|16|32|64))", word)
        if suffix:
            return f"CSL literals have no type suffix; write '{suffix[1]}' or `@as(T, {suffix[1]})`"
        return "a name can't start with a digit"

    @staticmethod
    def zero_hint(word: str) -> str:
        digits = word.lstrip("0") or "0"
        if set(digits) <= set("01234567"):
            return f"write '{digits}', or '{hex(int(digits, 8))}' if it was meant as octal"
        return f"write '{digits}'"

    # ---------------------------------------------------------------------------------------------- strings

    def string(self, word: str, start: int, end: int) -> None:
        if len(word) < 2 or word[-1] != '"' or self.ends_in_escape(word):
            hint = "close it with '\"' on the same line; write a line break as '\\n'"
            self.error("unterminated string literal", start, end, hint)
            self.tokens.append(Token("string", word, start, end, b""))
            return
        self.tokens.append(Token("string", word, start, end, self.unescape(word[1:-1], start + 1)))

    def char(self, word: str, start: int, end: int) -> None:
        value = 0
        if len(word) < 2 or word[-1] != "'" or self.ends_in_escape(word):
            self.error("unterminated character literal", start, end, 'close it with "\'" on the same line')
        else:
            count = len(self.diagnostics)
            content = self.unescape(word[1:-1], start + 1)
            if len(content) == 1:
                value = content[0]
            elif len(self.diagnostics) == count:
                hint = "a string is written in double quotes" if len(content) > 1 else None
                self.error(f"character literal {word} is {len(content)} bytes long, not 1", start, end, hint)
        self.tokens.append(Token("char", word, start, end, value))

    @staticmethod
    def ends_in_escape(word: str) -> bool:
        """Whether the last character, a quote, belongs to an escape."""
        body = word[1:-1]
        return (len(body) - len(body.rstrip("\\"))) % 2 == 1

    def unescape(self, body: str, start: int) -> bytes:
        if "\\" not in body:
            return body.encode("utf-8", "replace")
        out = bytearray()
        position = 0
        for match in _ESCAPE.finditer(body):
            out += body[position : match.start()].encode("utf-8", "replace")
            position = match.end()
            code, simple = match[1], match[2]
            if code is not None:
                out.append(int(code, 16))
            elif simple in _SIMPLE_ESCAPES:
                out += _SIMPLE_ESCAPES[simple]
            else:
                known = "known escapes: \\n \\r \\t \\\\ \\\" \\' and \\xHH with two hexadecimal digits"
                self.error(f"unknown escape '\\{simple}'", start + match.start(), start + match.end(), known)
        out += body[position:].encode("utf-8", "replace")
        return bytes(out)
