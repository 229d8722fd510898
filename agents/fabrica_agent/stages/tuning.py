"""Stage 6: edits of the catalogue, by the deterministic engine first, then a model; kept only if valid and faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import create_model

from fabrica_agent.extractor import compute_sizes
from fabrica_agent.records import Accepted
from fabrica_agent.rewrite.measured import hot_lines
from fabrica_agent.rewrite.search import search
from fabrica_agent.stages.edits import parses, ranked, rewrites
from fabrica_agent.stages.prompting import ask, files_block, render
from fabrica_agent.stages.records import Attempt, EditChoice

if TYPE_CHECKING:
    from fabrica_agent.stages.pipeline import Translation


class Tuner:
    """Optimization of one valid program.

    Args:
        work: The translation whose tools, history and settings it uses.
    """

    def __init__(self, work: Translation) -> None:
        self._work = work
        self._tried: list[str] = []

    def improve(self, best: Attempt) -> Attempt:
        """The deterministic rewrites, then the model's steps until `patience` of them in a row gained nothing.

        `Accept` on held-out inputs is the harness's: it judges what is handed in.
        """
        settings = self._work.settings
        best = self._rewrite(best)
        idle = 0
        profile = self._profile(best)
        for step in range(settings.steps):
            if idle >= settings.patience:
                break
            choice, files = self._ask(best, profile, step)
            attempt = self._work.evaluate(files, f"optimization: {choice.edit}")
            if self._accepted(best, attempt, choice.edit):
                best, idle = attempt, 0
                profile = self._profile(best)
            else:
                idle += 1
                what = (
                    f"{attempt.cycles} cycles"
                    if attempt.valid
                    else f"failed {attempt.predicate}: {_line(attempt.outcome)}"
                )
                self._tried.append(f"{choice.edit}: {what}, dropped")
        return best

    def _accepted(self, best: Attempt, attempt: Attempt, name: str) -> bool:
        """Whether an attempt is valid and faster; says so in the records."""
        assert best.cycles is not None
        if attempt.cycles is None or attempt.cycles >= best.cycles:
            return False
        self._work.tools.log("accepted", **Accepted(name=name, before=best.cycles, after=attempt.cycles).model_dump())
        self._tried.append(f"{name}: {best.cycles} -> {attempt.cycles} cycles, kept")
        return True

    def _rewrite(self, best: Attempt) -> Attempt:
        """The deterministic rewrites, as many as the settings allow."""
        work, name = self._work, self._compute_file
        if not work.settings.rewrites or not parses(best.files.get(name, "")):
            return best
        assert best.cycles is not None
        tried: list[Attempt] = []

        def measure(text: str, rewrite: str) -> int | None:
            if len(tried) >= work.settings.rewrites:
                return None
            tried.append(work.evaluate({**best.files, name: text}, f"optimization: {rewrite}"))
            return tried[-1].cycles

        def profile(text: str) -> dict[int, float]:
            if not work.settings.profile or len(tried) >= work.settings.rewrites:
                return {}
            return hot_lines(work.tools.profile({**best.files, name: text}), name)

        found = search(best.files[name], best.cycles, compute_sizes(work.view), measure, profile=profile)
        for step in found.steps:
            work.tools.log("accepted", **step.model_dump())
            self._tried.append(f"{step.name}: {step.before} -> {step.after} cycles, kept")
        return min((a for a in [best, *tried] if a.cycles is not None), key=lambda a: a.cycles or 0)

    @property
    def _compute_file(self) -> str:
        layout = self._work.facts.layout
        return "pe.csl" if layout is None else layout.compute_file

    def _ask(self, best: Attempt, profile: str, step: int) -> tuple[EditChoice, dict[str, str]]:
        work = self._work
        compute = self._compute_file
        hot = hot_lines(profile, compute)
        lines = rewrites(best.files.get(compute, ""), compute_sizes(work.view), hot)
        lines += [f"{edit.name}: {edit.text}" for edit in ranked(best.files, compute, hot)]
        catalogue = "\n".join(f"- {line}" for line in lines)
        user = render(
            "optimizer.txt",
            task=work.task_text(),
            cycles=str(best.cycles),
            catalogue=catalogue,
            profile=profile,
            tried="\n".join(f"- {line}" for line in self._tried) or "nothing",
            knowledge=work.library.cards("optimizer", f"{profile[:400]} {' '.join(self._tried[-2:])} performance"),
            code=files_block(best.files),
        )
        from fabrica_agent.stages.pipeline import files_record

        program = files_record(work.view.editable)
        record: Any = create_model("EditedProgram", __base__=program, edit=(str, ...), reason=(str, ""))
        answer = ask(work.tools, "optimizer", work.system("optimizer"), user, record, sample=step)
        values = answer.model_dump(by_alias=True)
        files = dict(values["files"])
        choice = EditChoice(edit=values["edit"], reason=values["reason"], files=files)
        work.tools.log("edit", edit=choice.edit, reason=choice.reason)
        return choice, files

    def _profile(self, best: Attempt) -> str:
        if not self._work.settings.profile:
            return "not asked for"
        return self._work.tools.profile(best.files)


def _line(text: str) -> str:
    return text.strip().splitlines()[0][:200] if text.strip() else "no message"
