"""Jobs placed by Dask end in the same records, and a worker's death costs its own job only, once."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fabrica_bench.errors import FabricaError
from fabrica_bench.runs.cluster import DaskExecutor, scheduler_address
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.events import EventKind, RunEvent
from fabrica_bench.runs.execution import execute_run
from fabrica_bench.runs.records import JobFailed, VerdictRecord
from fabrica_bench.runs.store import RunStore

distributed = pytest.importorskip("distributed")
Config = Callable[..., RunConfig]


@pytest.fixture(autouse=True)
def no_main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask's worker processes load the program they were started from: whatever started pytest is not for them."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)


def test_a_run_on_a_cluster_gives_the_verdicts_of_a_run_here_and_survives_a_worker(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = execute_run(config(out=tmp_path / "here"))
    killed: list[int] = []

    def kill_the_first_worker(event: RunEvent) -> None:
        """The parent of the agent's job process is the worker; the job is at work when its agent has compiled."""
        if event.kind is EventKind.JOB_PROGRESS and event.data.get("stage") == "evaluation" and not killed:
            worker = _worker_of_a_job()
            killed.append(worker)
            os.kill(worker, signal.SIGKILL)

    there = execute_run(config(out=tmp_path / "there", repeat=2, jobs=2, cluster="local:2"), kill_the_first_worker)
    records = RunStore.open(there.run_dir).records()
    assert killed
    assert any(isinstance(record, JobFailed) for record in records)
    verdicts = [record for record in records if isinstance(record, VerdictRecord)]
    assert sorted((record.task, record.attempt) for record in verdicts) == [("Double-It", n) for n in (1, 2)]
    assert {row.verdict.kind for row in there.rows} == {"valid"}
    assert {row.cycles for row in there.rows} == {row.cycles for row in here.rows}


def _worker_of_a_job() -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                if b"fabrica_bench.runs.job\0" in command:
                    parent = int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
                    if _descends_from_us(parent):
                        return parent
            except OSError:
                continue
    raise AssertionError("no job is running")


def _descends_from_us(pid: int) -> bool:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        if pid == os.getpid():
            return True
    return False


def test_a_scheduler_that_does_not_answer_is_named(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    from fabrica_bench.runs import cluster

    monkeypatch.setattr(cluster, "CONNECT_LIMIT_S", 0.5)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(FabricaError, match="scheduler can't be reached") as caught:
        execute_run(config(cluster=address))
    assert caught.value.remedy is not None


def test_an_address_without_a_port_is_named_at_once(tmp_path: Path) -> None:
    good, torn, other = (tmp_path / name for name in ("good.json", "torn.json", "other.json"))
    good.write_text('{"type": "Scheduler", "address": "tcp://10.0.0.1:8786"}', encoding="utf-8")
    torn.write_text('{"address": "tcp:', encoding="utf-8")
    other.write_text("[1]", encoding="utf-8")
    assert scheduler_address(str(good)) == "tcp://10.0.0.1:8786"
    assert scheduler_address("localhost:8786") == "localhost:8786"
    for wrong in ("nonsense", "tcp://host", "tcp://host:port", str(torn), str(other)):
        with pytest.raises(FabricaError, match="can't be reached"):
            DaskExecutor(wrong)


def test_a_connection_without_the_token_gets_nothing() -> None:
    from fabrica_bench.runs.cluster import Lines, _token_of

    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b'{"type": "hello", "token": "guess", "version": "0.0"}\n')
        assert _token_of(Lines(ours)) == ""
        theirs.sendall(b"GET / HTTP/1.1\r\n")
        begin = time.monotonic()
        assert _token_of(Lines(ours)) == ""
        assert time.monotonic() - begin < 10
