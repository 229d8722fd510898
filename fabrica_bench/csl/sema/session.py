"""What all parts of one compilation share: options, parsed files, warnings, and the comptime budget."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabrica_bench.csl import ast, ir, source
from fabrica_bench.csl import types as t
from fabrica_bench.csl.diagnostics import Diagnostic, Severity
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.sema.errors import fail

if TYPE_CHECKING:
    from fabrica_bench.csl.driver import CompileOptions

LIBRARY = Path(__file__).resolve().parent.parent / "lib"

#: Statements executed at comptime before the compiler gives up on a program that does not seem to end.
STEP_BUDGET = 100_000_000
#: Elements of the largest array that may exist at comptime; PE memory holds at most 49152.
MAX_COMPTIME_ELEMENTS = 1 << 20


class Session:
    """State of one compilation."""

    def __init__(self, options: CompileOptions) -> None:
        self.options = options
        self.arch = options.arch
        self.fp16 = t.FloatType(options.fp16)
        self.warnings: list[Diagnostic] = []
        self.steps = 0
        self.call_depth = 0
        self.color_configs: dict[Any, ir.ColorConfig] = {}
        self._files: dict[str, ast.File] = {}
        self._imports: dict[tuple[str, str], Path] = {}
        self._warned: set[tuple[str, str]] = set()
        environment = os.environ.get("CSL_IMPORT_PATH", "")
        self._search = [*options.import_paths, *(Path(entry) for entry in environment.split(os.pathsep) if entry)]

    # ------------------------------------------------------------------------------------------- files

    def parse(self, path: Path) -> ast.File:
        """The syntax tree of a file, read at most once."""
        key = os.path.abspath(path)
        if key not in self._files:
            is_system = Path(key).is_relative_to(LIBRARY)
            display = f"<{Path(key).relative_to(LIBRARY).with_suffix('')}>" if is_system else self._display(key)
            self._files[key] = parse_file(source.load_source(key, display=display, is_system=is_system))
        return self._files[key]

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
                if candidate.is_file():
                    return candidate
            fail(
                span,
                f"unable to open module '{spelled}': no such library",
                "import paths searched: " + ", ".join(map(str, self._search)) if self._search else "give --import-path",
            )
        candidate = Path(os.path.normpath(Path(importer.absolute).parent / spelled))
        if not candidate.is_file():
            fail(span, f"unable to open '{spelled}': no such file", f"looked for {self._display(str(candidate))}")
        return candidate

    @staticmethod
    def _display(path: str) -> str:
        relative = os.path.relpath(path)
        return path if relative.startswith(os.pardir) else relative

    # ---------------------------------------------------------------------------------------- messages

    def warn(self, span: ast.Span | None, message: str, hint: str | None = None) -> None:
        """Add a warning, once per place and text."""
        key = (str(span), message)
        if key not in self._warned:
            self._warned.add(key)
            self.warnings.append(Diagnostic(Severity.WARNING, message, span, hint))

    def note(self, span: ast.Span, text: str) -> None:
        """Add what `@comptime_print` says."""
        self.warnings.append(Diagnostic(Severity.NOTE, text, span))

    # ------------------------------------------------------------------------------------------ budget

    def step(self, span: ast.Span) -> None:
        """Count one statement executed at comptime."""
        self.steps += 1
        if self.steps > STEP_BUDGET:
            fail(span, f"comptime evaluation exceeded {STEP_BUDGET} steps", "is there a loop that never ends?")
