"""Small CSL programs compiled and run in this process, the way `cslc` and a host script would."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat import cslc
from fabrica_bench.compat.platforms import MemcpyDataType, MemcpyOrder
from fabrica_bench.compat.runtime import SdkRuntime

ARCHES = ("wse2", "wse3")


def compile_files(folder: Path, files: Mapping[str, str], arch: str, size: tuple[int, int], *flags: str) -> Path:
    """Write the files, compile `layout.csl` for a program of `size` (width, height) PEs, and return the artefact."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    out = folder / f"out_{arch}"
    dims = f"--fabric-dims={size[0] + 7},{size[1] + 2}"
    arguments = [str(folder / "layout.csl"), f"--arch={arch}", dims, "--fabric-offsets=4,1", "--memcpy", *flags]
    status = cslc.main([*arguments, "-o", str(out)])
    assert status == 0, f"cslc failed with status {status}"
    return out


def uniform_layout(width: int, height: int, exports: Mapping[str, str], functions: tuple[str, ...] = ("main",)) -> str:
    """A layout whose PEs all run `pe.csl`. `exports`: name of each exported tensor and its pointer type."""
    names = "".join(f'  @export_name("{name}", {kind}, true);\n' for name, kind in exports.items())
    names += "".join(f'  @export_name("{name}", fn()void);\n' for name in functions)
    return f"""
const memcpy = @import_module("<memcpy/get_params>", .{{ .width = {width}, .height = {height} }});
layout {{
  @set_rectangle({width}, {height});
  for (@range(i16, {width})) |x| {{
    for (@range(i16, {height})) |y| {{
      @set_tile_code(x, y, "pe.csl", .{{ .memcpy_params = memcpy.get_params(x) }});
    }}
  }}
{names}}}
"""


PE_HEAD = """
param memcpy_params: comptime_struct;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
"""


class Host:
    """A running program on PE rectangle `size`, with copies by name."""

    def __init__(self, artifact: Path, size: tuple[int, int]) -> None:
        self.runtime = SdkRuntime(artifact)
        self.width, self.height = size
        self.runtime.load()
        self.runtime.run()

    def put(self, name: str, data: npt.NDArray[Any], bits: int = 32) -> None:
        """Copy data[h, w, l] to all PEs."""
        words = data.astype(np.uint32) if bits == 16 else np.ascontiguousarray(data)
        count = data.size // (self.width * self.height)
        self.runtime.memcpy_h2d(
            self.runtime.get_id(name), words.ravel(), 0, 0, self.width, self.height, count, **self._mode(bits)
        )

    def get(self, name: str, count: int, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """Copy an array [h, w, count] from all PEs; 2-byte dtypes use 16-bit copies."""
        kind = np.dtype(dtype)
        bits = 8 * kind.itemsize
        words = np.zeros(self.width * self.height * count, dtype=np.uint32)
        self.runtime.memcpy_d2h(
            words, self.runtime.get_id(name), 0, 0, self.width, self.height, count, **self._mode(bits)
        )
        raw = words.astype(np.uint16) if bits == 16 else words
        return raw.view(kind).reshape(self.height, self.width, count)

    def launch(self, name: str = "main", *args: Any) -> None:
        self.runtime.launch(name, *args, nonblock=False)

    def stop(self) -> None:
        self.runtime.stop()

    @staticmethod
    def _mode(bits: int) -> dict[str, Any]:
        kind = MemcpyDataType.MEMCPY_16BIT if bits == 16 else MemcpyDataType.MEMCPY_32BIT
        return {"streaming": False, "data_type": kind, "order": MemcpyOrder.ROW_MAJOR, "nonblock": False}
