"""Fresh names for variables and buffers of a program."""

from __future__ import annotations

from fabrica_agent.lowering.ir import Buffer, Expr, Program, Space, Ty, Var


class Names:
    """Adds variables and buffers to a program under names that aren't taken."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def _free(self, base: str) -> str:
        base = base.rstrip("'")
        name, count = base, 1
        while name in self.program.types or name in self.program.buffers:
            count += 1
            name = f"{base}_{count}"
        return name

    def variable(self, base: str, ty: Ty) -> Var:
        """A new scalar variable."""
        name = self._free(base)
        self.program.types[name] = ty
        return Var(name, ty)

    def buffer(self, base: str, ty: Ty, length: Expr, space: Space = Space.LOCAL) -> str:
        """A new buffer."""
        name = self._free(base)
        self.program.buffers[name] = Buffer(name, ty, length, space)
        return name
