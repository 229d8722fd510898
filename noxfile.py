"""Sessions for developers: `nox` runs lint and tests, `nox -s NAME` one of them."""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types and import directions."""
    session.install("-e", ".[test]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """The default suite; further arguments go to pytest."""
    session.install("-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """The tests that take more than a minute each."""
    session.install("-e", ".[test]")
    session.run("pytest", "-m", "slow", *session.posargs)


@nox.session
def extras(session: nox.Session) -> None:
    """The tests of what is optional: Dask, Parquet, figures, models' libraries, Inspect AI, the page in a Chromium."""
    session.install("-e", ".[ci]")
    folders = ("tests/export", "tests/interop", "tests/models", "tests/report", "tests/studies")
    session.run(
        "pytest", *(session.posargs or (*folders, "tests/runs/test_cluster.py", "tests/runs/test_models_in_runs.py"))
    )


@nox.session
def kills(session: nox.Session) -> None:
    """Run 200 jobs under 200 SIGKILLs at random and count what was lost and what was done twice."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "helpers.under_fire", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def screenshots(session: nox.Session) -> None:
    """Pictures of the report page in an installed Chromium, into the given folder or `screenshots`."""
    session.install("-e", ".[browser]")
    session.run(
        "python", "-m", "helpers.screenshots", *(session.posargs or ["screenshots"]), env={"PYTHONPATH": "tests"}
    )


@nox.session
def cycles(session: nox.Session) -> None:
    """Compare simulated with published cycles, slow points included; see docs/cycle-model.md."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "validation", *(session.posargs or ["--slow"]))


@nox.session
def differential(session: nox.Session) -> None:
    """Compare the native with the reference executor: random programs, all that the simulator's tests run, every
    conformance program, and both reference programs of every task. A folder given as argument: its command scripts."""
    session.install("-e", ".[test]")
    path = {"PYTHONPATH": "tests"}
    if session.posargs:
        session.run("python", "-m", "differential.programs", *session.posargs, env=path)
        return
    random = ("-n", "0", "-p", "differential.harvest", "tests/differential", "tests/wse")
    session.run("pytest", *random, env={"FABRICA_DIFFERENTIAL_EXAMPLES": "400"})
    session.run("pytest", "tests/conformance/test_acceptance.py", "tests/conformance/test_dsd_operations.py")
    session.run("python", "-m", "differential.programs", env=path)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into site/; a broken link fails."""
    session.install("-e", ".[docs]")
    session.run("mkdocs", "build", "--strict")


@nox.session
def exploits(session: nox.Session) -> None:
    """Judge the corpus of exploits and their honest twins, all or those whose names hold a word."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "exploits", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def fuzz(session: nox.Session) -> None:
    """Fuzz the compiler and the simulator for a minute, or as many as given: `nox -s fuzz -- --minutes 30`."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "fuzz", *session.posargs, env={"PYTHONPATH": "tests"})
