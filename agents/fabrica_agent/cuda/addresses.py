"""Addresses as values: what one may point to, and how it is told by the buffer and offset of a pointer variable."""

from __future__ import annotations

from collections.abc import Callable

from fabrica_agent.cuda.values import BufferName, Chosen, CType, Opaque, Pointer, Selector, Which
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import Expr, Op, Ty


def each(address: Pointer | Chosen, change: Callable[[Pointer], Pointer]) -> Pointer | Chosen:
    """Every pointer that an address may be, changed; null stays null."""
    if isinstance(address, Pointer):
        return change(address)
    yes, no = (a if isinstance(a, Opaque) else each(a, change) for a in (address.yes, address.no))
    return Chosen(address.cond, yes, no)


def is_set(address: Pointer | Chosen | Opaque) -> Expr:
    """Whether a pointer is not null."""
    if isinstance(address, Chosen):
        yes, no = is_set(address.yes), is_set(address.no)
        return (
            yes
            if yes == no
            else fold.logical_or(
                fold.logical_and(address.cond, yes), fold.logical_and(fold.logical_not(address.cond), no)
            )
        )
    return fold.TRUE if isinstance(address, Pointer) else fold.FALSE


def buffer_of(address: Pointer | Chosen | Opaque) -> BufferName:
    """What an address points into; None for null."""
    if isinstance(address, Chosen):
        yes, no = buffer_of(address.yes), buffer_of(address.no)
        return yes if yes == no else Which(address.cond, yes, no)
    return address.buffer if isinstance(address, Pointer) else None


def offset_of(address: Pointer | Chosen | Opaque) -> Expr:
    """The offset in whatever an address points into, I32; of null, any."""
    if isinstance(address, Chosen):
        if isinstance(address.yes, Opaque) or isinstance(address.no, Opaque):
            return offset_of(address.no if isinstance(address.yes, Opaque) else address.yes)
        return fold.select(address.cond, offset_of(address.yes), offset_of(address.no))
    return address.offset if isinstance(address, Pointer) else fold.i32(0)


def pointing_into(buffer: BufferName, offset: Expr, target: CType) -> Pointer | Chosen | Opaque:
    """The address with this offset in whatever a pointer variable points into."""
    if isinstance(buffer, Which):
        yes, no = (pointing_into(b, offset, target) for b in (buffer.yes, buffer.no))
        return Chosen(buffer.cond, yes, no)
    return Opaque("null") if buffer is None else Pointer(buffer, offset, target)


def buffers_in(buffer: BufferName) -> tuple[str | None, ...]:
    """What a pointer variable may point into."""
    if isinstance(buffer, Which):
        return (*buffers_in(buffer.yes), *buffers_in(buffer.no))
    return (buffer,)


def number_of(buffer: BufferName, among: tuple[str | None, ...]) -> Expr:
    """The number of the buffer in a list, I32."""
    if isinstance(buffer, Which):
        return fold.select(buffer.cond, number_of(buffer.yes, among), number_of(buffer.no, among))
    return fold.i32(among.index(buffer))


def selected(selector: Selector) -> BufferName:
    """The buffer that a selector says."""
    buffer: BufferName = selector.among[-1]
    for k in range(len(selector.among) - 2, -1, -1):
        buffer = Which(fold.binary(Op.EQ, selector.number, fold.i32(k), Ty.BOOL), selector.among[k], buffer)
    return buffer


def filled(earlier: BufferName, later: BufferName) -> BufferName:
    """`earlier`, with `later` where that is null."""
    if isinstance(earlier, Which):
        yes, no = filled(earlier.yes, later), filled(earlier.no, later)
        return yes if yes == no else Which(earlier.cond, yes, no)
    return later if earlier is None else earlier
