"""The agent: stages in order, within the budget, with bounded repair."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from fabrica_agent.analyst import analyse
from fabrica_agent.architect import design
from fabrica_agent.cuda.source import parse
from fabrica_agent.extractor import compute_file, compute_sizes, extract
from fabrica_agent.implementer import Implementer, LoweringImplementer, Plan
from fabrica_agent.lowering.ir import UnsupportedError
from fabrica_agent.lowering.options import Options
from fabrica_agent.optimizer import Scored, optimise
from fabrica_agent.records import Implementation, Review
from fabrica_agent.reviewer import review_run
from fabrica_agent.rewrite.measured import hot_lines
from fabrica_agent.rewrite.search import search
from fabrica_bench.plugins import AgentGaveUp, AgentTools, Budget, Candidate, TaskView

MARGIN_S = 5.0
"""Wall-clock seconds to keep for handing over the candidate."""

ATTEMPTS = (Options(), Options(bulk=False), Options(traced=True))
"""Forms to try until one is valid: the fast one, the plain one, the one that needs no array of what threads hold."""


@dataclass
class Spending:
    """What is left of a budget."""

    budget: Budget
    evaluations: int = 0
    started: float = field(default_factory=time.monotonic)
    asked: float = 0.0
    longest: float = 0.0

    def allows(self) -> bool:
        """Whether another evaluation is within the budget: in time if it takes no longer than the longest so far."""
        spent = time.monotonic() - self.started
        if self.evaluations:
            self.longest = max(self.longest, spent - self.asked)
        self.asked = spent
        in_time = spent + self.longest < self.budget.wall_s - MARGIN_S
        return in_time and self.evaluations < self.budget.evaluations


class FabricaAgent:
    """Fabrica-Bench's reference agent.

    Without a model it translates by compilation; with one, in six stages (`fabrica_agent.stages`).
    """

    name = "fabrica"
    control = False

    @property
    def model(self) -> str:
        """What records say about the model."""
        return os.environ.get("FABRICA_AGENT_MODEL", "deterministic")

    @property
    def option_names(self) -> tuple[str, ...]:
        """What `--option` may name; only the stages with a model go by it."""
        from fabrica_agent.stages.settings import Settings

        return tuple(Settings.model_fields)

    def translate(self, view: TaskView, tools: AgentTools, budget: Budget) -> Candidate:
        """See `fabrica_bench.plugins.Agent`."""
        if getattr(tools, "model", None) is not None:
            from fabrica_agent.stages.pipeline import Translation
            from fabrica_agent.stages.settings import read_settings

            return Translation(view, tools, budget, read_settings(os.environ)).run()
        try:
            return _Translation(view, tools, Spending(budget), LoweringImplementer(), self.model).run()
        except UnsupportedError as error:
            raise AgentGaveUp([f"not understood: {error}"]) from error


class _Translation:
    """One task."""

    def __init__(
        self, view: TaskView, tools: AgentTools, spending: Spending, implementer: Implementer, model: str
    ) -> None:
        self.view = view
        self.tools = tools
        self.spending = spending
        self.implementer = implementer
        self.model = model

    def run(self) -> Candidate:
        """Translate, repair, optimise."""
        given = self._given_program()
        if given is not None and given.cycles >= 0:
            return self._candidate(self._rewritten(given))
        plan = self._plan()
        best = self._first_valid(plan)
        if best.cycles >= 0:
            best, steps = optimise(best, lambda o: self._build(plan, o), self._measure)
            for step in steps:
                self.tools.log("accepted", **step.model_dump())
            return self._candidate(self._rewritten(best))
        return self._candidate(best.implementation)

    def _rewritten(self, given: Scored) -> Implementation:
        """A valid program after the rewrites that make it faster."""
        implementation = given.implementation
        name = compute_file(self.view)
        if name not in implementation.files:
            return implementation

        def measure(text: str, rewrite: str) -> int | None:
            files = {**implementation.files, name: text}
            return self._measure(Implementation(files=files, strategy=rewrite))

        def profile(text: str) -> dict[int, float]:
            if not self.spending.allows():
                return {}
            self.spending.evaluations += 1
            return hot_lines(self.tools.profile({**implementation.files, name: text}), name)

        sizes = compute_sizes(self.view)
        found = search(implementation.files[name], given.cycles, sizes, measure, profile=profile)
        for step in found.steps:
            self.tools.log("accepted", **step.model_dump())
        strategy = ", then ".join([implementation.strategy, *(s.name for s in found.steps)])
        files = {**implementation.files, name: found.text}
        return Implementation(files=files, strategy=strategy, notes=implementation.notes)

    def _candidate(self, implementation: Implementation, *remarks: str) -> Candidate:
        notes = (implementation.strategy, *implementation.notes, *remarks)
        return Candidate(files=implementation.files, notes=notes, model=self.model)

    def _plan(self) -> Plan:
        facts = extract(self.view)
        self.tools.log("facts", **facts.model_dump(mode="json"))
        source = parse(self.view.cuda)
        analysis = analyse(source)
        self.tools.log("analysis", **analysis.model_dump(mode="json"))
        chosen = design(analysis, facts, self.view.size)
        self.tools.log("design", **chosen.model_dump(mode="json"))
        return Plan(self.view, source, facts, analysis, chosen)

    def _first_valid(self, plan: Plan) -> Scored:
        """The first form that is valid; if none is, the first that could be made, with cycles -1."""
        fallback: Scored | None = None
        review: Review | None = None
        seen: set[str] = set()
        refusal: AgentGaveUp | None = None
        for options in ATTEMPTS:
            try:
                implementation = self.implementer.implement(plan, options, review)
            except AgentGaveUp as error:
                refusal = refusal or error
                continue
            text = repr(sorted(implementation.files.items()))
            if text in seen:
                continue
            seen.add(text)
            fallback = fallback or Scored(implementation, options, -1)
            if not self.spending.allows():
                break
            cycles, review = self._evaluate(implementation)
            if cycles is not None:
                return Scored(implementation, options, cycles)
        if fallback is None:
            assert refusal is not None
            raise refusal
        if review is not None:
            failure = f"the translation fails ({review.kind.value}): {review.reason}"
            raise AgentGaveUp([failure, *fallback.implementation.notes])
        return fallback

    def _build(self, plan: Plan, options: Options) -> Implementation | None:
        if not self.spending.allows():
            return None
        try:
            return self.implementer.implement(plan, options, None)
        except AgentGaveUp as error:
            self.tools.log("variant impossible", options=options.describe(), reasons=error.reasons)
            return None

    def _measure(self, implementation: Implementation) -> int | None:
        return self._evaluate(implementation)[0] if self.spending.allows() else None

    def _evaluate(self, implementation: Implementation) -> tuple[int | None, Review | None]:
        """Compile, then run on the visible inputs: cycles of a valid run, else the review."""
        self.spending.evaluations += 1
        run = self.tools.run_visible(implementation.files)
        self.tools.log("visible run", strategy=implementation.strategy, outcome=run.outcome, cycles=run.cycles)
        if run.ok and run.cycles is not None:
            return run.cycles, None
        review = review_run(run)
        self.tools.log("review", **review.model_dump(mode="json"))
        return None, review

    def _given_program(self) -> Scored | None:
        """In W2, the program to beat."""
        if self.view.workflow != "W2" or not all(n in self.view.files for n in self.view.editable):
            return None
        files = {n: self.view.files[n] for n in self.view.editable}
        implementation = Implementation(files=files, strategy="the given program")
        cycles = self._measure(implementation)
        return Scored(implementation, Options(bulk=False), -1 if cycles is None else cycles)
