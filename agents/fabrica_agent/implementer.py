"""Complete files, by compilation: the implementer that needs no model (`stages` has the one that asks)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fabrica_agent.analyst import analyse
from fabrica_agent.architect import alternatives, design
from fabrica_agent.csl.module import Variant, write_module
from fabrica_agent.cuda.source import CudaSource
from fabrica_agent.extractor import extract
from fabrica_agent.lowering.ir import UnsupportedError
from fabrica_agent.lowering.options import Options
from fabrica_agent.lowering.pipeline import lower
from fabrica_agent.mesh.channels import Mesh, read_mesh
from fabrica_agent.records import Design, Implementation, Review, SourceAnalysis, TaskFacts
from fabrica_bench.plugins import AgentGaveUp, TaskView


@dataclass(frozen=True)
class Plan:
    """What the earlier stages found out, for the implementer.

    Attributes:
        view: The task.
        source: Its parsed CUDA source.
        facts: Visible facts at the given size.
        analysis: Source analysis G.
        design: Design D.
    """

    view: TaskView
    source: CudaSource
    facts: TaskFacts
    analysis: SourceAnalysis
    design: Design


class Implementer(Protocol):
    """Writes the editable files."""

    def implement(self, plan: Plan, options: Options, review: Review | None) -> Implementation:
        """Complete files, taking a review of the last attempt into account.

        Raises:
            AgentGaveUp: There is nothing to offer.
        """
        ...


class LoweringImplementer:
    """Compiles the CUDA source; needs no model."""

    def implement(self, plan: Plan, options: Options, review: Review | None) -> Implementation:
        """See `Implementer`. The file serves every size that the build commands name, where that is possible."""
        try:
            main, text = self._first_design(plan, options)
        except UnsupportedError as error:
            raise AgentGaveUp([f"not understood: {error}"]) from error
        variants = [main]
        notes = list(main.program.notes)
        if main.exchange is not None:
            parts = [g.shards.array for g in main.exchange.gathers if not g.complete]
            notes += [f"the layout has no channels by which PEs get all of {array}" for array in parts]
        for name, size in plan.facts.sizes.items():
            if size == plan.view.size:
                continue
            try:
                other = self._other_size(plan, size, options, gathered=main.exchange is not None)
                text = write_module([*variants, other])
                variants.append(other)
            except UnsupportedError as error:
                notes.append(f"size {name} is left out: {error}")
            except AgentGaveUp as error:
                notes.append(f"size {name} is left out: {'; '.join(error.reasons)}")
        files = {name: plan.view.files.get(name, "") for name in plan.view.editable}
        files[plan.facts.layout.compute_file] = text
        return Implementation(files=files, strategy=options.describe(), notes=tuple(notes))

    def _first_design(self, plan: Plan, options: Options) -> tuple[Variant, str]:
        """The planned design, or, where that asks for data of other PEs, the one in which they gather it first."""
        mesh = _mesh(plan, plan.view.size, plan.design)
        reasons: list[UnsupportedError] = []
        for chosen in alternatives(plan.design):
            try:
                main = lower(plan.source, chosen, plan.facts, plan.view.size, options, mesh)
                return main, write_module([main])
            except UnsupportedError as error:
                reasons.append(error)
        raise reasons[-1]

    def _other_size(self, plan: Plan, size: dict[str, int], options: Options, *, gathered: bool) -> Variant:
        facts = extract(plan.view.model_copy(update={"size": size}))
        chosen = alternatives(design(analyse(plan.source), facts, size))[-1 if gathered else 0]
        return lower(plan.source, chosen, facts, size, options, _mesh(plan, size, chosen))


def _mesh(plan: Plan, size: Mapping[str, int], chosen: Design) -> Mesh | None:
    """The evaluated layout, where several PEs share the work or the layout hands out colors."""
    if chosen.width * chosen.height == 1 and not plan.facts.layout.routed:
        return None
    return read_mesh(plan.view.files, size, plan.view.arch)
