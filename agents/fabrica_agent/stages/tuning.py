"""Stage 6: a model proposes edits of the catalogue; each is kept only if it is valid and takes fewer cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import create_model

from fabrica_agent.records import Accepted
from fabrica_agent.stages.edits import ranked
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
        """Steps until they are used up, or `patience` of them in a row gained nothing.

        `Accept` on held-out inputs is the harness's: it judges what is handed in.
        """
        settings = self._work.settings
        idle = 0
        profile = self._profile(best)
        for step in range(settings.steps):
            if idle >= settings.patience:
                break
            choice, files = self._ask(best, profile, step)
            attempt = self._work.evaluate(files, f"optimization: {choice.edit}")
            assert best.cycles is not None
            if attempt.cycles is not None and attempt.cycles < best.cycles:
                step_taken = Accepted(name=choice.edit, before=best.cycles, after=attempt.cycles)
                self._work.tools.log("accepted", **step_taken.model_dump())
                self._tried.append(f"{choice.edit}: {best.cycles} -> {attempt.cycles} cycles, kept")
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

    def _ask(self, best: Attempt, profile: str, step: int) -> tuple[EditChoice, dict[str, str]]:
        work = self._work
        compute = "pe.csl" if work.facts.layout is None else work.facts.layout.compute_file
        catalogue = "\n".join(f"- {edit.name}: {edit.text}" for edit in ranked(best.files, compute))
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
