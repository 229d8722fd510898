"""The machine's state in flat arrays, laid out as the kernel's structures."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from fabrica_bench.wse.native.kernel_language import StructLayout

Words = npt.NDArray[np.int64]
_LARGE_PAGES = 4 << 20  # bytes from which on large pages are asked for


def address_of(array: npt.NDArray[Any]) -> int:
    """Host address of an array's first byte."""
    return int(array.ctypes.data)


def lazy_words(count: int, *, dense: bool = False) -> Words:
    """Zeroed words whose pages exist once touched, without claiming the memory beforehand. `dense`: nearly all of what
    lies between the first and the last word in use will be used, so that large pages cost nothing and save misses."""
    size = max(count, 1) * 8
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    pages = mmap.mmap(-1, size, flags=flags)
    if dense and size >= _LARGE_PAGES and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype=np.int64)


class Records:
    """`count` structures in a row. `records["name"]` is a view: one value per structure, or one row for an array."""

    def __init__(self, layout: StructLayout, count: int, words: Words | None = None) -> None:
        self.layout = layout
        self.count = count
        self.words = lazy_words(layout.words * count) if words is None else words
        self._table = self.words[: layout.words * count].reshape(count, layout.words)

    @property
    def address(self) -> int:
        """Host address of the first structure."""
        return address_of(self.words)

    def address_at(self, index: int) -> int:
        """Host address of one structure."""
        return self.address + 8 * self.layout.words * index

    def addresses(self) -> Words:
        """Host addresses of all structures."""
        return self.address + 8 * self.layout.words * np.arange(self.count, dtype=np.int64)

    def __getitem__(self, name: str) -> Words:
        field = self.layout.fields[name]
        if field.is_array:
            return self._table[:, field.offset : field.offset + field.count]
        return self._table[:, field.offset]

    def __setitem__(self, name: str, value: Any) -> None:
        self[name][...] = value

    def part(self, name: str, size: int) -> npt.NDArray[np.int64]:
        """View [structure, element, word] of an array of inline structures of `size` words."""
        field = self.layout.fields[name]
        block = self._table[:, field.offset : field.offset + field.count * size]
        strides = (block.strides[0], size * 8, 8)
        return np.lib.stride_tricks.as_strided(block, (self.count, field.count, size), strides)
