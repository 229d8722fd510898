"""What all parts of one compilation share: options, parsed files, warnings, and the comptime budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fabrica_bench.csl import ast, ir, source
from fabrica_bench.csl import types as t
from fabrica_bench.csl.diagnostics import CslError, Diagnostic, Severity
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.sema import limits
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.memory import MEBIBYTE, resident_bytes
from fabrica_bench.csl.sema.spelling import closest

if TYPE_CHECKING:
    from fabrica_bench.csl.driver import CompileOptions

LIBRARY = Path(__file__).resolve().parent.parent / "lib"


BUDGET_SPENT = "comptime evaluation exceeded"
MEMORY_SPENT = "compiling the program takes more than"
_SHOWN_PATH = 200
#: How alike the name of a library must be to be suggested, from 0 to 1.
_SAME_WORD = 0.75


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


class Session:
    """State of one compilation."""

    def __init__(self, options: CompileOptions) -> None:
        self.options = options
        self.arch = options.arch
        self.fp16 = t.FloatType(options.fp16)
        self.warnings: list[Diagnostic] = []
        self.steps = 0
        self.step_limit = options.max_comptime_steps
        self.programs = 0
        self.translation_steps = 0
        self._memory_limit = resident_bytes() + options.max_comptime_memory * MEBIBYTE
        self._memory_check = 0
        self.printed_lines = 0
        self.call_depth = 0
        self.color_configs: dict[Any, ir.ColorConfig] = {}
        self._files: dict[str, ast.File | CslError] = {}
        self._imports: dict[tuple[str, str], Path] = {}
        self._warned: set[tuple[str, str]] = set()
        environment = os.environ.get("CSL_IMPORT_PATH", "")
        self._search = [*options.import_paths, *(Path(entry) for entry in environment.split(os.pathsep) if entry)]

    # ------------------------------------------------------------------------------------------- files

    def parse(self, path: Path) -> ast.File:
        """The syntax tree of a file, read at most once; each use of a file that can't be parsed fails alike."""
        key = os.path.abspath(path)
        if key not in self._files:
            is_system = Path(key).is_relative_to(LIBRARY)
            display = f"<{Path(key).relative_to(LIBRARY).with_suffix('')}>" if is_system else self._display(key)
            try:
                self._files[key] = parse_file(source.load_source(key, display=display, is_system=is_system))
            except CslError as problem:
                self._files[key] = problem
        found = self._files[key]
        if isinstance(found, CslError):
            raise CslError(found.diagnostics)
        return found

    def find_import(self, spelled: str, importer: ast.SourceFile, span: ast.Span) -> Path:
        """The file that `@import_module(spelled)` written in `importer` means."""
        key = (importer.absolute, spelled)
        if key not in self._imports:
            self._imports[key] = self._find_import(spelled, importer, span)
        return self._imports[key]

    def _find_import(self, spelled: str, importer: ast.SourceFile, span: ast.Span) -> Path:
        if spelled.startswith("<") and spelled.endswith(">"):
            name = spelled[1:-1]
            folders = [*self._search, LIBRARY]
            for folder in folders:
                candidate = folder / f"{name}.csl"
                if _is_file(candidate):
                    return self._confined(candidate, spelled, span)
            fail(span, f"unable to open module '{spelled}': no such library", self._library_hint(name))
        return self.find_file(spelled, importer, span)

    def _library_hint(self, name: str) -> str:
        """The system library with the closest name, else where libraries were looked for."""
        known = [str(path.relative_to(LIBRARY).with_suffix("")) for path in sorted(LIBRARY.rglob("*.csl"))]
        near = closest(name, known, _SAME_WORD)
        if near is not None:
            return f"did you mean '<{near}>'?"
        if not self._search:
            return "give --import-path"
        shown = [str(path) for path in self._search if self._may_name(path)]
        return "import paths searched: " + ", ".join(shown) if shown else "no import path that was given has it"

    def find_file(self, spelled: str, importer: ast.SourceFile, span: ast.Span) -> Path:
        """A file named absolutely, or relative to the one that names it, or else to the program's top-level file."""
        shown = spelled if spelled.isprintable() and len(spelled) <= _SHOWN_PATH else f"{spelled[:_SHOWN_PATH]!r}"
        tried: list[str] = []
        for folder in self._folders(importer):
            candidate = Path(os.path.normpath(folder / spelled))
            self._confined(candidate, shown, span)
            if _is_file(candidate):
                return candidate
            if self._may_name(candidate):
                tried.append(self._display(str(candidate)))
        place = " and ".join(dict.fromkeys(tried)) if tried and shown is spelled else "a file with this name"
        fail(span, f"unable to open '{shown}': no such file", f"looked for {place}")

    def _folders(self, importer: ast.SourceFile) -> tuple[Path, ...]:
        """Where relative paths start: the importing file's folder as it was named, then as it is behind symbolic links,
        then the folder of the program's top-level file."""
        near = Path(importer.absolute).parent
        if importer.is_system:
            return (near,)
        return near, Path(os.path.realpath(near)), self._program_folder

    def _confined(self, path: Path, spelled: str, span: ast.Span) -> Path:
        """The path; an error if imports are confined and it leads elsewhere, links followed."""
        if not self.options.confine_imports:
            return path
        roots = [Path(self.options.file).parent, *self._search, LIBRARY]
        try:
            real = os.path.realpath(path)
            inside = any(Path(real).is_relative_to(os.path.realpath(root)) for root in roots)
        except (OSError, ValueError):
            inside = False
        if not inside:
            fail(
                span,
                f"'{spelled}' lies outside the program's folder",
                "with --confine-imports, files must lie in the folder of the layout file, or below a search path",
            )
        return path

    def _may_name(self, path: Path) -> bool:
        """Whether a message may say where a path lies: the author of a confined program may not learn what else there
        is on this machine."""
        return not self.options.confine_imports or Path(os.path.abspath(path)).is_relative_to(self._program_folder)

    @property
    def _program_folder(self) -> Path:
        return Path(os.path.abspath(self.options.file)).parent

    def _display(self, path: str) -> str:
        """A file as messages name it: from the working directory if it lies below, else absolutely; of a confined
        program from its own folder, and elsewhere without the folder."""
        relative = os.path.relpath(path)
        if not relative.startswith(os.pardir):
            return relative
        if not self.options.confine_imports:
            return path
        return os.path.relpath(path, self._program_folder) if self._may_name(Path(path)) else os.path.basename(path)

    # ---------------------------------------------------------------------------------------- messages

    def warn(self, span: ast.Span | None, message: str, hint: str | None = None) -> None:
        """Add a warning, once per place and text."""
        key = (str(span), message)
        if key not in self._warned and len(self._warned) < limits.WARNINGS:
            self._warned.add(key)
            self.warnings.append(Diagnostic(Severity.WARNING, message, span, hint))
            if len(self._warned) == limits.WARNINGS:
                self.warnings.append(Diagnostic(Severity.WARNING, "further warnings are not shown", None))

    def remark(self, span: ast.Span | None, message: str, hint: str | None = None) -> None:
        """Add a note that no flag makes an error."""
        self.warnings.append(Diagnostic(Severity.NOTE, message, span, hint))

    def note(self, span: ast.Span, text: str) -> None:
        """Add what `@comptime_print` says."""
        self.printed_lines += 1
        if self.printed_lines > limits.PRINTED_LINES:
            fail(span, f"@comptime_print wrote more than {limits.PRINTED_LINES} lines", "print less, outside of loops")
        self.step(span, limits.bulk_steps(len(text)))
        if len(text) > limits.PRINTED_CHARACTERS:
            text = f"{text[: limits.PRINTED_CHARACTERS]} ... ({len(text)} characters)"
        self.warnings.append(Diagnostic(Severity.NOTE, text, span))

    # ------------------------------------------------------------------------------------------ budget

    def earn(self, count: int) -> None:
        """Allow more work, for what needs work of itself."""
        most = self.options.max_comptime_steps * (1 + limits.MOST_EARNED)
        self.step_limit = min(self.step_limit + count, most)

    def charge_programs(self, spans: Sequence[ast.Span | None]) -> None:
        """Count the distinct PE programs, each given by the place that asks for it, before any is compiled."""
        self.programs = len(spans)
        self.earn(self.programs * limits.STEPS_PER_PROGRAM)
        self.translate(spans[-1] if spans else None, self.programs * limits.PROGRAM_STEPS)

    def translate(self, span: ast.Span | None, count: int) -> None:
        """Count the work of translating code."""
        self.translation_steps += count
        self.step(span, count)

    def step(self, span: ast.Span | None, count: int = 1) -> None:
        """Count work."""
        self.steps += count
        if self.steps > self.step_limit:
            self._fail_budget(span)
        if self.steps >= self._memory_check:
            self.check_memory(span)
            self._memory_check = self.steps + limits.STEPS_PER_MEMORY_CHECK

    def _fail_budget(self, span: ast.Span | None) -> NoReturn:
        given = self.options.max_comptime_steps
        if self.programs > 1 and self.translation_steps > self.steps / 2:
            message = f"{BUDGET_SPENT} {self.step_limit} steps for {self.programs} distinct PE programs"
            hint = "PEs with equal params share one program: can more be equal? else raise --max-comptime-steps"
            fail(span, message, hint)
        message = f"{BUDGET_SPENT} {given} steps"
        fail(span, message, "is there a loop or a recursion that never ends? else raise --max-comptime-steps")

    def check_memory(self, span: ast.Span | None) -> None:
        """Refuse to go on if the process has grown beyond `--max-comptime-memory`."""
        if resident_bytes() > self._memory_limit:
            message = f"{MEMORY_SPENT} {self.options.max_comptime_memory} MiB of memory"
            fail(span, message, "do arrays or copies of them grow without end? else raise --max-comptime-memory")
