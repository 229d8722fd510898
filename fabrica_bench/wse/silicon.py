"""What a profiled run's memory operations might take on hardware: an estimate from published factors.

The simulator reproduces the vendor's simulator. Hardware throttles long vector operations; the factors are in the cost
tables (`silicon.*`). Nothing of this enters a score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fabrica_bench.wse.costs import load_costs

if TYPE_CHECKING:
    from fabrica_bench.wse.profile import Profile


class SiliconEstimate(NamedTuple):
    """Cycles of the main threads' DSD operations over all PEs: as simulated, and as estimated for hardware."""

    simulated: int
    operations: int
    factor: float


def estimate(profile: Profile) -> SiliconEstimate:
    """Scale each operation by its factor; what has none counts as simulated."""
    costs = load_costs(profile.arch)
    simulated = estimated = 0.0
    for operation in profile.operations:
        if not operation.microthread:
            simulated += operation.cycles
            estimated += operation.cycles * costs.factor(operation.op)
    return SiliconEstimate(round(simulated), round(estimated), round(estimated / simulated, 3) if simulated else 1.0)
