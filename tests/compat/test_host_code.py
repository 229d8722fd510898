"""Kept code of host scripts is what compiling them would give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import CodeType

import pytest

from fabrica_bench.compat import host_code
from fabrica_bench.compat.host_code import compiled, keep_compiled

TEXT = b"""import other
def f(x):
    return [y for y in range(x)], (lambda: 1 / 0)
f(2)[1]()
"""


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_code, "_kept", {})


def constants(code: CodeType) -> list[object]:
    """Everything of a code object that decides what it does and says, also below it."""
    own: list[object] = [code.co_filename, code.co_code, code.co_names, code.co_linetable, code.co_qualname]
    return own + [constants(item) if isinstance(item, CodeType) else item for item in code.co_consts]


@pytest.mark.parametrize("path", ["run.py", "/somewhere/else/run.py"])
def test_kept_code_equals_compiled_code(tmp_path: Path, path: str) -> None:
    (tmp_path / "run.py").write_bytes(TEXT)
    fresh = constants(compiled(TEXT, path))
    keep_compiled(tmp_path)
    kept = compiled(TEXT, path)
    assert constants(kept) == fresh == constants(compile(TEXT, path, "exec"))
    assert kept.co_filename == path


def test_another_text_or_name_is_compiled_anew(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text("x = 1\n")
    keep_compiled(tmp_path)
    assert 2 in compiled(b"x = 2\n", "run.py").co_consts
    assert compiled(b"x = 1\n", "other.py").co_filename == "other.py"


def test_a_module_that_is_no_python_is_left_to_its_import(tmp_path: Path) -> None:
    for number, text in enumerate((b"def", b"\xff\xfe\x00", b"x = '\0'", b"(" * 300)):
        (tmp_path / f"m{number}.py").write_bytes(text)
    keep_compiled(tmp_path)
    for number, text in enumerate((b"def", b"(" * 300)):
        with pytest.raises(SyntaxError):
            compiled(text, f"n{number}.py")


def test_modules_of_the_folder_are_imported_last_and_by_their_kept_code(tmp_path: Path) -> None:
    (tmp_path / "helper_of_run.py").write_text("def f():\n    raise ValueError('here')\n")
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')\n")
    program = f"""
import sys
from pathlib import Path
from fabrica_bench.compat import host_code
folder = Path({str(tmp_path)!r})
host_code.keep_compiled(folder)
host_code.compile = None  # not again
host_code.import_from(folder)
import json, traceback
import helper_of_run
assert helper_of_run.__file__ == str(folder / "helper_of_run.py")
try:
    helper_of_run.f()
except ValueError as error:
    print(traceback.extract_tb(error.__traceback__)[-1].filename, traceback.extract_tb(error.__traceback__)[-1].line)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == f"{tmp_path / 'helper_of_run.py'} raise ValueError('here')", done.stderr
    assert not (tmp_path / "__pycache__").exists()
