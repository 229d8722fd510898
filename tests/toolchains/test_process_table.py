"""What /proc tells of processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fabrica_bench.toolchains.process_table import below_this, children_of, descendants, process_facts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def test_a_number_that_another_process_has_got_is_not_the_one_that_was_found() -> None:
    facts = process_facts(os.getpid())
    assert facts is not None
    assert facts.lives(os.getpid())
    assert not replace(facts, started=facts.started - 1).lives(os.getpid())


def test_a_name_cannot_pass_for_other_facts(tmp_path: Path) -> None:
    program = tmp_path / "x) Z 1 1 1 ("
    sleep = shutil.which("sleep")
    assert sleep is not None
    program.symlink_to(sleep)
    with subprocess.Popen([program, "60"]) as child:
        try:
            facts = process_facts(child.pid)
            assert facts is not None
            assert (facts.parent, facts.session, facts.ended) == (os.getpid(), os.getsid(0), False)
            assert child.pid in children_of(os.getpid())
            assert child.pid in below_this()
            assert child.pid in descendants(os.getsid(0), "no such marker")
            assert child.pid not in descendants(child.pid + 1, "no such marker")
        finally:
            child.kill()
    assert process_facts(child.pid) is None
