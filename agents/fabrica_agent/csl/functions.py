"""Mathematical functions: what `<math>` offers, and small CSL functions for the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping

LIBRARY = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "invsqrt", "sin": "sin", "cos": "cos", "tanh": "tanh",
    "floor": "floor", "ceil": "ceil", "pow": "pow", "abs": "abs",
}  # fmt: skip
"""C name to name in the SDK's `<math>` library."""

HELPERS: dict[str, str] = {
    "exp2": """fn exp2(x: f32) f32 {
  return math.exp(x * 0.6931471805599453);
}""",
    "expm1": """// exp(x) - 1 without cancellation near zero.
fn expm1(x: f32) f32 {
  if (x > -0.125 and x < 0.125) {
    return x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * 0.008333334))));
  }
  return math.exp(x) - 1.0;
}""",
    "log2": """fn log2(x: f32) f32 {
  return math.log(x) * 1.4426950408889634;
}""",
    "log10": """fn log10(x: f32) f32 {
  return math.log(x) * 0.4342944819032518;
}""",
    "log1p": """// log(1 + x) without cancellation near zero.
fn log1p(x: f32) f32 {
  if (x > -0.0625 and x < 0.0625) {
    return x * (1.0 - x * (0.5 - x * (0.33333334 - x * (0.25 - x * (0.2 - x * 0.16666667)))));
  }
  return math.log(1.0 + x);
}""",
    "cbrt": """fn cbrt(x: f32) f32 {
  if (x == 0.0) { return x; }
  if (x < 0.0) { return -math.exp(math.log(-x) * 0.33333334); }
  return math.exp(math.log(x) * 0.33333334);
}""",
    "tan": """fn tan(x: f32) f32 {
  return math.sin(x) / math.cos(x);
}""",
    "sinh": """fn sinh(x: f32) f32 {
  if (x > -0.25 and x < 0.25) {
    const square = x * x;
    return x * (1.0 + square * (0.16666667 + square * (0.008333334 + square * 0.0001984127)));
  }
  const e = math.exp(x);
  return 0.5 * (e - 1.0 / e);
}""",
    "cosh": """fn cosh(x: f32) f32 {
  const e = math.exp(x);
  return 0.5 * (e + 1.0 / e);
}""",
    "trunc": """fn trunc(x: f32) f32 {
  if (x < 0.0) { return -math.floor(-x); }
  return math.floor(x);
}""",
    "round": """fn round(x: f32) f32 {
  if (x < 0.0) { return -math.floor(0.5 - x); }
  return math.floor(x + 0.5);
}""",
    "rint": """// To the nearest integer, halfway cases to even.
fn rint(x: f32) f32 {
  const low = math.floor(x);
  const part = x - low;
  if (part < 0.5) { return low; }
  if (part > 0.5) { return low + 1.0; }
  const half = math.floor(low * 0.5);
  if (half + half == low) { return low; }
  return low + 1.0;
}""",
    "erf": """// Error function: a series near zero, else formula 7.1.26 of Abramowitz and Stegun, error below 1.5e-7.
fn erf(x: f32) f32 {
  const size = math.abs(x);
  if (size < 0.25) {
    const square = x * x;
    return x * (1.1283792 - square * (0.37612638 - square * (0.11283792 - square * 0.026866171)));
  }
  const t = 1.0 / (1.0 + 0.3275911 * size);
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const value = 1.0 - sum * math.exp(-size * size);
  if (x < 0.0) { return -value; }
  return value;
}""",
    "erfc": """fn erfc(x: f32) f32 {
  return 1.0 - erf(x);
}""",
    "popc": """fn popc(x: u32) i32 {
  var count: i32 = 0;
  var rest = x;
  while (rest != 0) : (rest = rest & (rest - 1)) {
    count += 1;
  }
  return count;
}""",
    "clz": """fn clz(x: u32) i32 {
  var count: i32 = 32;
  var rest = x;
  while (rest != 0) : (rest = rest >> 1) {
    count -= 1;
  }
  return count;
}""",
    "ffs": """fn ffs(x: u32) i32 {
  var place: i32 = 0;
  if (x == 0) { return place; }
  var rest = x;
  place = 1;
  while (rest & 1 == 0) : (rest = rest >> 1) {
    place += 1;
  }
  return place;
}""",
    "brev": """fn brev(x: u32) i32 {
  var result: u32 = 0;
  var rest = x;
  for (@range(u16, 32)) |bit| {
    result = (result << 1) | (rest & 1);
    rest = rest >> 1;
  }
  return @as(i32, result);
}""",
}
"""C name to a CSL function of the same name; they may use `math` and each other."""

USES_MATH = frozenset(name for name, text in HELPERS.items() if "math." in text or name == "erfc")
DEPENDS = {"erfc": ("erf",)}


def helper_text(name: str, own: Mapping[str, str]) -> str:
    """The text of a helper, with the names that the output gives to helpers and to the `math` module."""
    return re.sub(r"(?<![.@\w])[A-Za-z_]\w*", lambda m: own.get(m[0], m[0]), HELPERS[name])
