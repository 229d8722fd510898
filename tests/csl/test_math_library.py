"""<math> against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.csl_programs import ARCHES, PE_HEAD, Host, compile_files, uniform_layout

UNARY = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "sign": np.sign,
    "inv": lambda x: 1 / x,
    "invsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sig": lambda x: 1 / (1 + np.exp(-x)),
}
POINTS = [0.25, 0.5, 1.0, 1.5, 2.75, 3.0]
SIGNED = ("abs", "ceil", "floor", "sign", "tanh", "sig", "sin", "cos", "exp")


def program(kind: str) -> str:
    suffix = "f32" if kind == "f32" else "f16"
    loops = (
        f"""  for (@range(u16, 6)) |i| {{
    y[{6 * row} + i] = math.{name}(x[i]);
    z[{6 * row} + i] = math.{name}_{suffix}(x[i]);
  }}"""
        for row, name in enumerate(UNARY)
    )
    calls = "\n".join(loops)
    count = 6 * len(UNARY)
    return (
        PE_HEAD
        + f"""
const math = @import_module("<math>");
var x = @zeros([6]{kind});
var y = @zeros([{count}]{kind});
var z = @zeros([{count}]{kind});
var x_ptr: [*]{kind} = &x;
var y_ptr: [*]{kind} = &y;
var z_ptr: [*]{kind} = &z;
fn main() void {{
{calls}
  sys_mod.unblock_cmd_stream();
}}
comptime {{
  @export_symbol(x_ptr, "x");
  @export_symbol(y_ptr, "y");
  @export_symbol(z_ptr, "z");
  @export_symbol(main);
}}
"""
    )


@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_functions_agree_with_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, sign: float) -> None:
    monkeypatch.chdir(tmp_path)
    dtype = np.dtype(np.float32 if kind == "f32" else np.float16)
    exports = {name: f"[*]{kind}" for name in "xyz"}
    files = {"layout.csl": uniform_layout(1, 1, exports), "pe.csl": program(kind)}
    host = Host(compile_files(tmp_path, files, ARCHES[kind == "f16"], (1, 1)), (1, 1))
    points = sign * np.array(POINTS, dtype=dtype)
    host.put("x", points.view(np.uint16 if kind == "f16" else np.uint32), 8 * dtype.itemsize)
    host.launch()
    generic = host.get("y", 6 * len(UNARY), dtype).reshape(len(UNARY), 6)
    fixed = host.get("z", 6 * len(UNARY), dtype).reshape(len(UNARY), 6)
    host.stop()
    np.testing.assert_array_equal(generic, fixed)
    for row, (name, function) in zip(generic, UNARY.items(), strict=True):
        if sign > 0 or name in SIGNED:
            expected = function(points.astype(np.float64))
            tolerance = 1e-6 if kind == "f32" else 3e-3
            np.testing.assert_allclose(row.astype(np.float64), expected, rtol=tolerance, atol=tolerance, err_msg=name)
