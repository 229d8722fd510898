"""The control for isolation and for the timing window: an agent that tries to get a verdict without doing the work.

It looks for the reference kernel where the harness keeps it and in the processes above it, forges result files, claims
success in print, and then hands in the most promising of some programs that cheat. None of them may ever be valid.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from baseline_agents.layout_facts import exported_names, read_layout
from baseline_agents.null import IDLE, LAYOUT_FILE, WINDOW_FILE, null_program
from fabrica_bench.plugins import AgentTools, Budget, Candidate, TaskView

FORGED_FILES = ("outputs.npz", "result.json", "reward.json", "verdict.json", "records.jsonl")

_RETURN = "  window.end();\n  sys_mod.unblock_cmd_stream();\n"
_WORK = "  window.start();\n  idle();\n" + _RETURN


class CheatAgent:
    """Hands in stolen or cheating programs."""

    name = "cheat"
    model = "none"
    control = True

    def translate(self, view: TaskView, tools: AgentTools, budget: Budget) -> Candidate:
        """A stolen kernel if one can be reached, else the first cheating program that passes for right."""
        found = list(stolen_texts(view))
        forge_results()
        print("SUCCESS: all outputs agree")
        compute = next(name for name in view.editable if name != LAYOUT_FILE)
        programs = {"stolen": found[0]} if found else dict(cheating_programs(view, compute))
        chosen = next(iter(programs))
        for label, text in list(programs.items())[: max(0, budget.evaluations - 1)]:
            run = tools.run_visible(self._files(view, compute, text))
            tools.log("tried", program=label, outcome=run.outcome)
            if run.ok:
                chosen = label
                break
        files = self._files(view, compute, programs[chosen])
        return Candidate(files=files, notes=(f"cheats: {chosen}",), model=self.model)

    @staticmethod
    def _files(view: TaskView, compute: str, text: str) -> dict[str, str]:
        return {name: text if name == compute else view.files[name] for name in view.editable}


def stolen_texts(view: TaskView) -> Iterator[str]:
    """Texts of reference kernels that this process can reach; there should be none."""
    for attempt in (_from_the_library, _from_checkouts, _from_parents):
        try:
            yield from (text for text in attempt(view) if "@export_symbol" in text)
        except Exception:  # whatever stops a thief, he goes on
            continue


def _from_the_library(view: TaskView) -> Iterator[str]:
    task = importlib.import_module("fabrica_bench.tasks").load_task(view.name)
    yield (task.bundle_dir / "pe.csl").read_text(encoding="utf-8")


def _from_checkouts(view: TaskView) -> Iterator[str]:
    home = Path(importlib.import_module("fabrica_bench").__file__ or "").parents[1]
    for folder in (home / "tasks", home / "fabrica_bench" / "_tasks", Path.cwd(), Path("/tmp")):
        for path in folder.rglob("pe.csl"):
            yield path.read_text(encoding="utf-8")


def _from_parents(view: TaskView) -> Iterator[str]:
    for pid in (os.getppid(), 1):
        for name in ("environ", "cmdline", "maps"):
            yield Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")


def forge_results() -> None:
    """Result files as some harness might read them, here and above."""
    for folder in (Path.cwd(), Path.cwd().parent, Path("/logs")):
        for name in FORGED_FILES:
            try:
                (folder / name).write_text('{"kind": "valid", "cycles": 1, "reward": 1.0}', encoding="utf-8")
            except OSError:
                continue


def cheating_programs(view: TaskView, name: str) -> Iterator[tuple[str, str]]:
    """Programs that keep the interface and cheat, by name of the trick."""
    honest = null_program(view, name)
    tricks: dict[str, Callable[[str], str]] = {
        "returns before it works": lambda text: text.replace(_WORK, "  window.start();\n" + _RETURN + "  idle();\n"),
        "stamps the end first": lambda text: text.replace(
            _WORK, "  window.start();\n  window.end();\n  idle();\n" + _RETURN
        ),
        "takes no time": lambda text: text.replace("  idle();\n", ""),
        "fills the outputs with ones": lambda text: _filling(text, view, name),
    }
    for label, trick in tricks.items():
        yield label, trick(honest)


def _filling(text: str, view: TaskView, name: str) -> str:
    facts = read_layout(view.files[LAYOUT_FILE], name)
    by_window = exported_names(view.files[WINDOW_FILE])
    loops = [
        f"  for (@range(u16, 256)) |i| {{ {tensor.name}_data[i] = 1; }}\n"
        for tensor in facts.exports
        if tensor.element is not None and tensor.name not in by_window
    ]
    assert IDLE.splitlines()[0] in text
    return text.replace("  idle();\n" + _RETURN, "  idle();\n" + "".join(loops) + _RETURN)
