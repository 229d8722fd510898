"""Names of the program as CSL identifiers."""

from __future__ import annotations

from collections.abc import Iterable

RESERVED = frozenset(
    [
        "const",
        "var",
        "param",
        "fn",
        "task",
        "layout",
        "comptime",
        "export",
        "extern",
        "inline",
        "linkname",
        "linksection",
        "align",
        "struct",
        "union",
        "enum",
        "packed",
        "if",
        "else",
        "for",
        "while",
        "switch",
        "break",
        "continue",
        "return",
        "and",
        "or",
        "anytype",
        "asm",
        "volatile",
        "true",
        "false",
        "void",
        "bool",
        "type",
        "anyopaque",
        "comptime_int",
        "comptime_float",
        "comptime_string",
        "comptime_struct",
        "color",
        "direction",
        "data_task_id",
        "local_task_id",
        "control_task_id",
        "input_queue",
        "output_queue",
        "ut_id",
        "mem1d_dsd",
        "mem4d_dsd",
        "circbuf_dsd",
        "fabin_dsd",
        "fabout_dsd",
        "dsr_dest",
        "dsr_src0",
        "dsr_src1",
        "dsr_fifo_dest",
        "dsr_fifo_src1",
        "xdsr",
        "sr",
        "imported_module",
        "NORTH",
        "SOUTH",
        "EAST",
        "WEST",
        "RAMP",
        "i8",
        "i16",
        "i32",
        "i64",
        "u8",
        "u16",
        "u32",
        "u64",
        "f16",
        "f32",
        "bf16",
        "cb16",
        "undefined",
    ]
)


class Identifiers:
    """Gives every IR name one valid identifier that no other name has.

    Args:
        taken: Identifiers that the output uses for something else.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken) | RESERVED
        self._given: dict[str, str] = {}

    def child(self) -> Identifiers:
        """A scope that knows the names kept so far, and shares nothing else but what is taken."""
        scope = Identifiers(())
        scope._taken = self._taken
        scope._given = dict(self._given)
        return scope

    def rename(self, name: str, identifier: str) -> None:
        """Give a name an identifier that was kept before."""
        self._given[name] = identifier

    def of(self, name: str) -> str:
        """The identifier of an IR name."""
        if name not in self._given:
            self._given[name] = self.fresh(name)
        return self._given[name]

    def keep(self, name: str) -> None:
        """Give a name itself as its identifier, e.g. that of an exported symbol."""
        self._given[name] = name
        self._taken.add(name)

    def fresh(self, base: str) -> str:
        """An identifier that nothing else has."""
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in base).strip("_") or "value"
        if clean[0].isdigit():
            clean = "v" + clean
        candidate, count = clean, 1
        while candidate in self._taken:
            count += 1
            candidate = f"{clean}_{count}"
        self._taken.add(candidate)
        return candidate
