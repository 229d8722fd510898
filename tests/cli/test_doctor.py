"""`doctor` says what is there, what isn't, and what to do; it never shows a key."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.cli_run import assert_one_clear_error

from fabrica_bench.cli import doctor
from fabrica_bench.cli.doctor import Check, State
from fabrica_bench.errors import ExitCode
from fabrica_bench.models.selection import HOSTED

NAMES = [
    "python",
    "embedded toolchain",
    "vendor SDK",
    "appliance client",
    "nvcc",
    "model keys",
    "libclang",
    "sqlite fts5",
]


def test_every_part_is_looked_at(cli):
    outcome = cli("doctor", "--json")
    checks = {check["name"]: check for check in outcome.json()["checks"]}
    assert set(NAMES) <= set(checks)
    for check in checks.values():
        assert check["remedy"] or check["state"] == "ok", check


def test_it_fails_exactly_when_something_required_is_broken(cli, monkeypatch):
    monkeypatch.setattr(
        doctor, "run_checks", lambda: [Check("x", State.OK, "1"), Check("y", State.ABSENT, "2", "get it")]
    )
    outcome = cli("doctor")
    assert outcome.code == 0
    assert "get it" in outcome.out
    assert "ready to run" in outcome.out
    monkeypatch.setattr(doctor, "run_checks", lambda: [Check("x", State.BROKEN, "1", "mend it")])
    outcome = cli("doctor")
    assert outcome.code == 4
    assert "not ready" in outcome.out


def test_a_key_is_named_and_never_shown(cli, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    outcome = cli("doctor")
    assert "OPENAI_API_KEY" in outcome.out
    assert "very-secret" not in outcome.out + outcome.err


def test_without_a_key_the_remedy_says_how_to_set_one(monkeypatch):
    names = {name for keys in HOSTED.values() for name in keys}
    for name in names:
        monkeypatch.delenv(name, raising=False)
    check = doctor.check_model_keys()
    assert all(name in check.detail for name in names)
    assert check.state is State.ABSENT
    assert check.remedy is not None
    assert "export" in check.remedy


def test_a_folder_for_keys_that_cannot_be_used_is_told_before_a_run_fails(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.setenv("FABRICA_BENCH_KEYS", str(tmp_path / "file" / "keys"))
    check = doctor.check_keys_folder()
    assert (check.state, "FABRICA_BENCH_KEYS" in str(check.remedy)) == (State.BROKEN, True)
    monkeypatch.setenv("FABRICA_BENCH_KEYS", str(tmp_path / "new" / "keys"))
    assert doctor.check_keys_folder().state is State.OK
    assert not (tmp_path / "new").exists()


def test_a_user_without_a_home_folder_is_told_what_to_set(cli, monkeypatch, tmp_path):
    """As in a container that runs under a number that its passwd doesn't have."""

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    for name in ("FABRICA_BENCH_KEYS", "XDG_STATE_HOME", "XDG_DATA_HOME", "FABRICA_AGENT_KB_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    assert doctor.check_keys_folder().state is State.BROKEN
    outcome = cli("run", "--agent", "null", "--filter", "name=ReLU-1PE", "--out", tmp_path / "run")
    assert_one_clear_error(outcome, ExitCode.ENVIRONMENT, "no home folder", "FABRICA_BENCH_KEYS")
    assert_one_clear_error(cli("kb", "list"), ExitCode.ENVIRONMENT, "no home folder", "FABRICA_AGENT_KB_FOLDER")


def test_a_missing_fts5_is_a_gap_with_a_remedy(monkeypatch):
    import sqlite3

    class NoFts:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def execute(self, _):
            raise sqlite3.OperationalError("no such module: fts5")

        def rollback(self):
            return None

        def close(self):
            return None

    monkeypatch.setattr(sqlite3, "connect", lambda _: NoFts())
    check = doctor.check_fts5()
    assert check.state is State.ABSENT
    assert "no such module" in check.detail


@pytest.mark.parametrize(
    ("tool", "text"), [("nvcc", "nvcc: NVIDIA (R)\nCuda compilation tools, release 12.4, V12.4.1")]
)
def test_nvcc_is_reported_with_its_release(monkeypatch, tmp_path, tool, text):
    script = tmp_path / tool
    script.write_text(f"#!/bin/sh\ncat <<'X'\n{text}\nX\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    check = doctor.check_nvcc()
    assert check.state is State.OK
    assert "release 12.4" in check.detail
    assert str(script) in check.detail


def test_no_nvcc_is_fine(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.check_nvcc().state is State.ABSENT
