"""Calls with known arguments: evaluated by the compiler where nothing else can be meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.csl_eval import compile_body, errors_of, run_body

FUNCTION = """
fn gcd(a: u16, b: u16) u16 {
  var x = a;
  var y = b;
  while (y != 0) {
    const rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}
"""


def functions(tmp_path: Path, body: str) -> set[str]:
    return set(compile_body(tmp_path, body).program.images[0].functions)


def result_of(tmp_path: Path, body: str) -> int:
    ran = run_body(tmp_path, body.rstrip().removesuffix("}") + "done(); }")
    return int(ran.value("result", np.uint16))


def test_a_pure_function_of_constants_is_no_code(tmp_path: Path) -> None:
    body = FUNCTION + "var result: u16; fn main() void { result = gcd(84, 36); }"
    assert functions(tmp_path, body) == {"main"}
    assert result_of(tmp_path, body) == 12


def test_an_unknown_argument_needs_the_code(tmp_path: Path) -> None:
    body = FUNCTION + "var n: u16 = 84; var result: u16; fn main() void { result = gcd(n, 36) + gcd(9, 6); }"
    assert functions(tmp_path, body) == {"main", "gcd"}
    assert result_of(tmp_path, body) == 15


def test_what_a_folded_function_calls_is_needed_once_it_is_called_itself(tmp_path: Path) -> None:
    body = """
    fn inner(x: u16) u16 { var y = x; while (y > 100) { y -= 7; } return y; }
    fn outer(x: u16) u16 { return inner(x + 1) * 2; }
    var n: u16 = 200; var result: u16;
    fn main() void { result = outer(300) + outer(n); }
    """
    assert functions(tmp_path, body) == {"main", "inner", "outer"}
    expected = 2 * (301 - 7 * 29) + 2 * (201 - 7 * 15)
    assert result_of(tmp_path, body) == expected


@pytest.mark.parametrize(
    "function",
    [
        "fn f(x: u16) u16 { seen += 1; return x; }",  # writes a global
        "fn f(x: u16) u16 { return x + seen; }",  # reads one
        "fn f(x: u16) u16 { @block(@get_local_task_id(9)); return x; }",  # acts on the PE
        "fn f(x: u16) u16 { g(); return x; } fn g() void { seen += 1; }",  # calls what is not pure
    ],
)
def test_effects_stay(tmp_path: Path, function: str) -> None:
    body = f"var seen: u16 = 3; var result: u16; {function} fn main() void {{ result = f(5); }}"
    assert "f" in functions(tmp_path, body)


def test_a_long_loop_is_left_to_the_pe(tmp_path: Path) -> None:
    body = """
    fn count(n: u16) u16 { var x: u16 = 0; while (x < n) { x += 1; } return x; }
    var result: u16; fn main() void { result = count(60000); }
    """
    assert "count" in functions(tmp_path, body)
    assert result_of(tmp_path, body) == 60000


def test_a_call_that_fails_at_comptime_fails_on_the_pe(tmp_path: Path) -> None:
    body = FUNCTION.replace("y != 0", "true") + "var result: u16; fn main() void { result = gcd(4, 2); }"
    assert "gcd" in functions(tmp_path, body)


def test_errors_of_a_folded_function_are_found(tmp_path: Path) -> None:
    body = """
    fn f(x: u16) u16 { if (x > 2) { return 1; } else { return "text"; } }
    var result: u16; fn main() void { result = f(5); }
    """
    assert any("u16" in message for message in errors_of(tmp_path, body))
