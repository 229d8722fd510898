"""What the compute element needs from an executor of the typed IR.

A *segment* is what a thread does without giving others a look: it starts at cycle `pe.t`, all its effects on memory and
flags happen at that cycle, and `pe.t` then advances by its cost. Segments end

    - at a jump to a block whose rank is not larger than the current one's (a loop's back edge, see `regions`),
    - after a DSD operation or an element of `@map`,
    - before and after an intrinsic that touches queues, routers or the host.

At the end of a segment the activation gives control back if `pe.t > pe.limit`; before such an intrinsic, if `pe.t` lies
after the fabric's clock. The element sets `pe.limit` to the current cycle while microthreads run beside the main
thread, and well ahead of it otherwise: nobody else then sees the difference. An executor must keep these rules exactly,
because they decide cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from fabrica_bench.csl.ir import Image

if TYPE_CHECKING:
    from fabrica_bench.wse.costs import CostTable
    from fabrica_bench.wse.faults import Fault
    from fabrica_bench.wse.pe import ProcessingElement


class ImageCode(Protocol):
    """Executable form of one image, shared by all PEs that use it."""

    image: Image

    def call(self, pe: ProcessingElement, function: str, args: tuple[int | float, ...]) -> Iterator[None]:
        """Begin a call of a function by name. `next` runs it until it gives control back or a blocking operation was
        left in `pe.pending`; `StopIteration` means that it returned, with `pe.t` the cycle at which it did."""

    def function(self, name: str) -> Callable[..., Any]:
        """For calls from `@map`: `function(pe, *args)` gives the result, or a generator that returns it."""

    def place_of(self, activation: Iterator[None]) -> int:
        """Source location at which an activation gave control back, for reports; 0 if unknown."""

    def fault_of(self, pe: ProcessingElement, error: BaseException) -> Fault | None:
        """The fault behind an exception that `next` raised; None if it is an error of the simulator itself."""


class Executor(Protocol):
    """Factory of executable images."""

    name: str

    def prepare(self, image: Image, costs: CostTable, half: str) -> ImageCode:
        """Make `image` executable. `half` is the 16-bit float format."""
