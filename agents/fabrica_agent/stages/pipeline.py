"""The model-driven workflow: analyse, design, N candidates, bounded repair, gated optimization."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from fabrica_agent.records import Route
from fabrica_agent.stages.checks import check_design
from fabrica_agent.stages.facts import gather
from fabrica_agent.stages.library import Library
from fabrica_agent.stages.memory import History, describe
from fabrica_agent.stages.prompting import ask, clean_output, files_block, render
from fabrica_agent.stages.records import Attempt, Communication, DesignD, ReviewNote, SourceAnalysisG
from fabrica_agent.stages.review import failed_predicate, nearness, triage
from fabrica_agent.stages.settings import Mode, Settings
from fabrica_agent.stages.templates import choose_template, template_source
from fabrica_agent.stages.tuning import Tuner
from fabrica_bench.plugins import AgentGaveUp, AgentTools, Budget, Candidate, ModelError, TaskView, WorkedExample

DESIGN_ASKS = 3
"""How often a design is asked for until its checks find nothing."""


class Translation:
    """One task.

    Args:
        view: The task.
        tools: What the agent may do.
        budget: Kept by the harness; known here to end in time.
        settings: Options of the agent.
    """

    def __init__(self, view: TaskView, tools: AgentTools, budget: Budget, settings: Settings) -> None:
        self.view = view
        self.tools = tools
        self.budget = budget
        self.settings = settings
        self.model = tools.model or "none"
        self.facts = gather(view)
        self.history = History(tools)
        self.library = Library(settings, view.arch)
        self.epoch = 0
        self.evaluations = 0

    def run(self) -> Candidate:
        """Translate, repair, optimise; in W2 improve the given program.

        Raises:
            AgentGaveUp: There is no program at all.
        """
        self.tools.log("settings", **self.settings.model_dump(mode="json"))
        self.tools.log("facts", **self.facts.model_dump(mode="json"))
        notes: list[str] = []
        best: Attempt | None = None
        try:
            best = self._given() if self.view.workflow == "W2" else self._translate()
            if best is not None and best.valid and self.settings.steps:
                best = Tuner(self).improve(best)
        except ModelError as error:
            # What exists already is worth more than nothing: a budget that ends is the ordinary way to stop.
            notes.append(f"stopped: {error}")
            self.tools.log("stopped", reason=str(error))
        best = best or max(self.history.attempts, key=nearness, default=None)
        if best is None:
            raise AgentGaveUp(notes or ["no program was written"])
        best = max([a for a in self.history.attempts if a.valid] or [best], key=nearness)
        notes.insert(0, f"attempt {best.number} of {len(self.history.attempts)} ({best.origin})")
        return Candidate(files=best.files, notes=tuple(notes), model=self.model)

    # ------------------------------------------------------------------------------------------- stages 1 to 3

    def task_text(self) -> str:
        """The task as every prompt shows it."""
        view = self.view
        shown = {n: t for n, t in view.files.items() if n not in view.editable or view.workflow == "W1-C"}
        return render(
            "task.txt",
            name=view.name,
            workflow=view.workflow,
            arch=view.arch,
            sizes=json.dumps(view.size),
            editable=", ".join(view.editable),
            description=view.task_md,
            facts=self.facts.model_dump_json(indent=1, exclude={"layout": {"memcpy_param"}}),
            cuda=view.cuda,
            files=files_block(shown),
        )

    def system(self, role: str) -> str:
        """The system prompt of a role."""
        return render("system.txt", knowledge=self.library.primer(role))

    def _plan(self) -> None:
        task = self.task_text()
        self.analysis = ask(
            self.tools, "analyst", self.system("analyst"), render("analyst.txt", task=task), SourceAnalysisG
        )
        self.tools.log("analysis", **self.analysis.model_dump(mode="json"))
        user = render("communication.txt", task=task, analysis=_json(self.analysis))
        self.communication = ask(self.tools, "communication", self.system("analyst"), user, Communication)
        self.tools.log("communication", **self.communication.model_dump(mode="json"))
        self.design = self._design("")

    def _design(self, context: str) -> DesignD:
        cards = self.library.cards("architect", self._topic())
        problems: list[str] = []
        for _ in range(DESIGN_ASKS):
            shown = context
            if problems:
                shown += "\nThe last design can't be built:\n" + "\n".join(f"- {p}" for p in problems)
            user = render(
                "architect.txt",
                task=self.task_text(),
                analysis=_json(self.analysis),
                communication=_json(self.communication),
                context=shown,
                knowledge=cards,
            )
            design = ask(self.tools, "architect", self.system("architect"), user, DesignD, sample=self.epoch)
            problems = check_design(design, self.facts, self.view.arch)
            self.tools.log("design", epoch=self.epoch, problems=problems, **design.model_dump(mode="json"))
            if not problems:
                break
        return design

    def _topic(self) -> str:
        patterns = " ".join(t.pattern for t in self.communication.transfers)
        idioms = " ".join(idiom for k in self.analysis.kernels for idiom in k.idioms)
        return f"{self.analysis.summary} {patterns} {idioms} {self.communication.order}"

    # ------------------------------------------------------------------------------------------- stages 4 and 5

    def _translate(self) -> Attempt:
        self._plan()
        best: Attempt | None = None
        for sample in range(self.settings.candidates):
            attempt = self.evaluate(self._implement("", sample), "candidate")
            best = max((a for a in (best, attempt) if a is not None), key=nearness)
            if best.valid:
                return best
        assert best is not None
        redesigns = 0
        asked: Counter[int] = Counter()
        for number in range(self.settings.repairs):
            if best.valid:
                return best
            feedback, route = self._feedback(best)
            if route is Route.REDESIGN and redesigns < self.settings.redesigns:
                redesigns += 1
                self.epoch += 1
                self.design = self._design(f"The last design failed:\n{feedback}")
                # A new design starts afresh: code of the old one would pull the new one back to it.
                attempt = self.evaluate(self._implement("", 0), "redesign")
                best = attempt
                continue
            # A base that is repaired again, because its repair was a step back, must not give the same prompt.
            sample = self.settings.candidates + number if self.settings.mode is Mode.A else asked[best.number]
            asked[best.number] += 1
            attempt = self.evaluate(self._implement(feedback, sample), "repair")
            # A repair that fails earlier is a step back; the next one starts from the same program again.
            best = max((best, attempt), key=nearness)
        return best

    def _implement(self, feedback: str, sample: int) -> dict[str, str]:
        template = ""
        if self.settings.template == "auto":
            name = choose_template(self.facts, self.view.files.get("layout.csl", ""))
            if name is not None:
                template = f"Starter template (a frame that compiles; adapt it)\n---\n{template_source(name)}"
        user = render(
            "implementer.txt",
            task=self.task_text(),
            design=_json(self.design),
            analysis=_json(self.analysis),
            communication=_json(self.communication),
            starter=template,
            examples=self._examples(),
            knowledge=self.library.cards("implementer", f"{self._topic()} {' '.join(self.design.steps)}"),
            feedback=feedback,
        )
        return self.ask_files("implementer", user, sample)

    def ask_files(self, stage: str, user: str, sample: int = 0) -> dict[str, str]:
        """Ask for the complete editable files."""
        record = files_record(self.view.editable)
        answer = ask(self.tools, stage, self.system("implementer"), user, record, sample=sample)
        values: dict[str, str] = answer.model_dump(by_alias=True)["files"]
        return dict(values)

    def _examples(self) -> str:
        if not self.library.retrieves or not self.settings.examples:
            return ""
        found = self.library.nearest(self.tools.examples(), self.view.cuda, self.settings.examples)
        return "\n\n".join(_example(example) for example in found)

    def _feedback(self, attempt: Attempt) -> tuple[str, Route]:
        """What the next repair is told about an attempt, and who has to act."""
        mode = self.settings.mode
        if not mode.shows_code:
            return "", Route.REPAIR_CODE
        guess = triage(attempt)
        parts = [f"It failed {attempt.predicate}."]
        route = Route.REPAIR_CODE
        if mode.shows_output:
            parts.append(f"Messages:\n{clean_output(attempt.outcome)}")
        if mode.reviews:
            note = self._review(attempt, describe(guess))
            route = note.route
            parts.append(f"Review: {describe(note)}")
            parts.append(self.library.cards("reviewer", f"{note.kind.value} {attempt.outcome[:600]}", 3))
            if repeated := self.history.repeated():
                parts.append(
                    "These came back after earlier repairs, so their cause is elsewhere: " + "; ".join(repeated)
                )
        else:
            self.history.review(attempt.number, guess)
        if mode is Mode.T:
            parts.append(f"All attempts so far:\n{self.history.trail()}")
        else:
            parts.append(f"Its files:\n{files_block(attempt.files)}")
        return render("feedback.txt", body="\n\n".join(part for part in parts if part)), route

    def _review(self, attempt: Attempt, guess: str) -> ReviewNote:
        user = render(
            "reviewer.txt",
            task=self.task_text(),
            guess=guess,
            output=clean_output(attempt.outcome),
            code=files_block(attempt.files),
            design=_json(self.design),
            knowledge=self.library.cards("reviewer", f"{guess} {attempt.outcome[:600]}"),
        )
        note = ask(self.tools, "reviewer", self.system("reviewer"), user, ReviewNote, sample=attempt.number)
        self.history.review(attempt.number, note)
        return note

    # ------------------------------------------------------------------------------------------- evaluation

    def evaluate(self, files: dict[str, str], origin: str) -> Attempt:
        """Compile, and only if that works run on the visible inputs; the same files are never evaluated twice."""
        seen = self.history.seen(files)
        if seen is not None:
            return seen
        predicate: str | None
        cycles = None
        outcome = self.tools.compile(files)
        if not outcome.ok:
            predicate, text = "Build", "\n".join(outcome.diagnostics)
        else:
            run = self.tools.run_visible(files)
            cycles = run.cycles if run.ok else None
            predicate = None if run.ok else failed_predicate(run)
            text = run.outcome if run.ok or run.outcome in run.log else f"{run.outcome}\n{run.log}"
        number = 1 + len(self.history.attempts)
        attempt = Attempt(
            number=number,
            origin=origin,
            epoch=self.epoch,
            files=files,
            predicate=predicate,
            outcome=text,
            cycles=cycles,
        )
        self.history.add(attempt)
        return attempt

    def _given(self) -> Attempt:
        """W2: the program to improve."""
        missing = [name for name in self.view.editable if name not in self.view.files]
        if missing:
            raise AgentGaveUp([f"the program to improve lacks {', '.join(missing)}"])
        return self.evaluate({name: self.view.files[name] for name in self.view.editable}, "given")


def files_record(names: tuple[str, ...]) -> Any:
    """A record with one text per editable file."""
    from pydantic import Field, create_model

    from fabrica_agent.stages.records import Answer

    # A file name is no Python name, hence the aliases.
    fields: dict[str, Any] = {
        f"file_{index}": (str, Field(alias=name, min_length=1, description=f"complete text of {name}"))
        for index, name in enumerate(names)
    }
    files = create_model("Files", __base__=Answer, **fields)
    return create_model("Program", __base__=Answer, files=(files, Field(description="complete files by name")))


def _example(example: WorkedExample) -> str:
    return f"Worked example: {example.name}\n---\nCUDA:\n{example.cuda}\n\n{files_block(example.files)}"


def _json(record: Any) -> str:
    return str(record.model_dump_json(indent=1))
