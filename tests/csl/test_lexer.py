"""Tokens, comments, literal values, and what the lexer says about text that isn't CSL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.csl.lexer import MAX_NUMBER_LENGTH, tokenize
from fabrica_bench.csl.source import virtual_source


def kinds(text: str) -> list[str]:
    lexed = tokenize(virtual_source("t", text))
    assert not lexed.diagnostics
    return [token.kind for token in lexed.tokens[:-1]]


def value(text: str) -> object:
    lexed = tokenize(virtual_source("t", text))
    assert not lexed.diagnostics
    token, _ = lexed.tokens
    return token.value


def messages(text: str) -> list[str]:
    return [f"{d.message} | {d.hint}" if d.hint else d.message for d in tokenize(virtual_source("t", text)).diagnostics]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("42", 42),
        ("0x7e00", 0x7E00),
        ("0xFf", 255),
        ("0b1010", 10),
        ("1.0", 1.0),
        ("0.001", 0.001),
        ("1e5", 1e5),
        ("2.5e-3", 2.5e-3),
        ("1e+2", 100.0),
        ("'a'", 97),
        (r"'\n'", 10),
        (r"'\x0a'", 10),
        (r"'\''", 39),
        ('"abc"', b"abc"),
        (r'"a\n\x00\\\""', b'a\n\x00\\"'),
        ('"é"', "é".encode()),
        ("@get_color", "get_color"),
    ],
)
def test_literal_values(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_longest_operator_wins() -> None:
    text = "a<<=b>>c<=d->e=>f==g.*=h"
    operators = ["<<=", ">>", "<=", "->", "=>", "==", ".*", "="]
    assert [kind for kind in kinds(text) if kind != "ident"] == operators


def test_a_hexadecimal_literal_has_no_exponent() -> None:
    assert kinds("0x1e+5") == ["int", "+", "int"]


def test_keywords_are_tokens_of_their_own_and_type_words_are_names() -> None:
    assert kinds("const color f32 comptime_int NORTH task") == ["const", "ident", "ident", "ident", "ident", "task"]


def test_comments_are_kept_with_their_places() -> None:
    text = "a // one\r\n/// two\nb"
    lexed = tokenize(virtual_source("t", text))
    assert [comment.text for comment in lexed.comments] == ["// one", "/// two"]
    assert [text[comment.span.start :][:4] for comment in lexed.comments] == ["// o", "/// "]
    assert [token.text for token in lexed.tokens] == ["a", "b", ""]


def test_comment_marks_in_strings_are_text() -> None:
    assert value('"// no"') == b"// no"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1_000", "invalid number literal '1_000' | CSL has no digit separators; write '1000'"),
        ("0o17", "invalid number literal '0o17' | CSL has no octal literals; write '0xf'"),
        ("017", "decimal literal '017' has a leading zero | write '17', or '0xf' if it was meant as octal"),
        ("089", "decimal literal '089' has a leading zero | write '89'"),
        ("1.0f", "invalid number literal '1.0f' | CSL literals have no type suffix; write '1.0' or `@as(T, 1.0)`"),
        ("10u32", "invalid number literal '10u32' | CSL literals have no type suffix; write '10' or `@as(T, 10)`"),
        ("2x", "invalid number literal '2x' | a name can't start with a digit"),
        ("1e", "invalid number literal '1e' | an exponent needs digits"),
        ("0x", "invalid hexadecimal literal '0x'"),
        ("0b12", "invalid binary literal '0b12'"),
        ("0X1F", "invalid hexadecimal literal '0X1F' | write '0x1F'"),
        ("0x1.8", "invalid hexadecimal literal '0x1.8' | float literals are decimal"),
        ("1e999", "float literal '1e999' is too large for 64 bits"),
        ("9" * (MAX_NUMBER_LENGTH + 1), f"number literal of {MAX_NUMBER_LENGTH + 1} characters is too long"),
        ('"abc', "unterminated string literal | close it with '\"' on the same line; write a line break as '\\n'"),
        ('"abc\\"', "unterminated string literal | close it with '\"' on the same line; write a line break as '\\n'"),
        ("'", 'unterminated character literal | close it with "\'" on the same line'),
        ("'ab'", "character literal 'ab' is 2 bytes long, not 1 | a string is written in double quotes"),
        ("''", "character literal '' is 0 bytes long, not 1"),
        ("'é'", "character literal 'é' is 2 bytes long, not 1 | a string is written in double quotes"),
        (
            r'"\q"',
            "unknown escape '\\q' | known escapes: \\n \\r \\t \\\\ \\\" \\' and \\xHH with two hexadecimal digits",
        ),
        ("/* a */", "CSL has no block comments | start each line with '//'"),
        ("$", "unexpected character '$' | names have letters, digits and '_'"),
        ("é", "unexpected character 'é' | names have ASCII letters, digits and '_'"),
        ("???", "unexpected character '?' | CSL has no optional types and no '?:'; write `if (c) a else b`"),
        ("\x07", "unexpected character U+0007"),
    ],
)
def test_faulty_text_gives_one_message(text: str, expected: str) -> None:
    assert messages(text) == [expected]


def test_a_faulty_literal_is_still_a_literal() -> None:
    lexed = tokenize(virtual_source("t", '"open\n1_0 2.0f'))
    assert [token.kind for token in lexed.tokens] == ["string", "int", "float", "eof"]
    assert len(lexed.diagnostics) == 3


@given(st.text())
def test_any_text_is_split_without_loss(text: str) -> None:
    lexed = tokenize(virtual_source("t", text))
    assert [token.kind for token in lexed.tokens].count("eof") == 1
    covered = {i for token in lexed.tokens for i in range(token.start, token.end)}
    covered |= {i for comment in lexed.comments for i in range(comment.span.start, comment.span.end)}
    for token in lexed.tokens:
        assert text[token.start : token.end] == token.text
    if not lexed.diagnostics:
        assert not "".join(char for i, char in enumerate(text) if i not in covered).strip(" \t\r\n")


@given(st.binary())
def test_any_bytes_can_be_written_as_a_string(data: bytes) -> None:
    assert value('"' + "".join(f"\\x{byte:02x}" for byte in data) + '"') == data


@given(st.integers(0, 2**200))
def test_integers_in_every_base(number: int) -> None:
    assert value(str(number)) == value(hex(number)) == value(bin(number)) == number
