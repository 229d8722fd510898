"""Jobs on other machines, placed by a Dask cluster (extra `cluster`).

Dask only decides where a job runs. The worker starts the same job process as a run on one machine does and relays its
messages over a TCP connection to the coordinator, which alone has records, held-out key and cache. A connection opens
with a token that is good for one job once, so that a task that Dask starts again after a worker's death can't run the
job a second time: the coordinator decides whether it is owed again. Messages are not encrypted: use a network that
you trust, as Dask itself does without TLS.
"""

from __future__ import annotations

import hmac
import importlib
import json
import os
import re
import secrets
import select
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.json_text import parse_json
from fabrica_bench.runs.job import JobSpec
from fabrica_bench.runs.link import MAX_MESSAGE_BYTES, LinkFailure, parse_message
from fabrica_bench.runs.workers import LocalExecutor, RunningJob
from fabrica_bench.version import __version__

CONNECT_LIMIT_S: Final = 20.0
HELLO_LIMIT_S: Final = 5.0
ACCOUNT_LIMIT_S: Final = 2.0
TOKEN_BYTES: Final = 32
_CHUNK: Final = 1 << 16


class Lines:
    """JSON lines over a socket; what has arrived is read without waiting."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.ended = False
        self._buffer = bytearray()

    def send(self, message: Mapping[str, Any], deadline: float) -> None:
        """Write one message before the deadline (monotonic).

        Raises:
            LinkFailure: The other side is gone or doesn't read.
        """
        data = memoryview(json.dumps(message).encode("utf-8") + b"\n")
        while data:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise LinkFailure("did not read its input before the deadline")
            if not select.select([], [self.socket], [], min(remaining, 1.0))[1]:
                continue
            try:
                data = data[self.socket.send(data) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise LinkFailure(f"the connection ended: {error.strerror}") from error

    def poll(self) -> dict[str, Any] | None:
        """The next message that has arrived, None when there is none yet.

        Raises:
            LinkFailure: What arrived is no message.
        """
        end = self._buffer.find(b"\n")
        if end < 0:
            self._pump()
            end = self._buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return parse_message(line)

    def _pump(self) -> None:
        while not self.ended:
            try:
                data = self.socket.recv(_CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self.ended = not data
            self._buffer += data
            if len(self._buffer) > MAX_MESSAGE_BYTES:
                raise LinkFailure(f"wrote a message longer than {MAX_MESSAGE_BYTES >> 20} MiB")


def scheduler_address(place: str) -> str:
    """The address itself, or the one in a scheduler file.

    Dask would find out too, but a client of it that never started takes most of a minute to go.

    Raises:
        ValueError: It has no port, or the file no address.
        OSError: The file can't be read.
    """
    path = Path(place)
    if not path.is_file():
        address = place
    else:
        found = parse_json(path.read_bytes())
        address = str(found.get("address")) if isinstance(found, dict) else ""
    if re.fullmatch(r"([a-z]+://)?[^/\s]+:[0-9]{1,5}", address) is None:
        raise ValueError(f"{address!r} is no address with a port, such as tcp://host:8786")
    return address


class DaskExecutor:
    """Places jobs on a Dask cluster.

    Args:
        address: Of the scheduler (`tcp://host:8786`), the path of a scheduler file, or `local:N` for N workers on this
            machine.

    Raises:
        FabricaError: The extra isn't installed, or the scheduler doesn't answer.
    """

    def __init__(self, address: str) -> None:
        try:
            distributed: Any = importlib.import_module("distributed")  # it has hardly any types
        except ImportError as error:
            raise FabricaError(
                "Dask is not installed",
                place="--cluster",
                remedy="pip install 'fabrica-bench[cluster]'",
                code=ExitCode.ENVIRONMENT,
            ) from error
        self._cluster: Any = None
        self._links: dict[str, RemoteLink] = {}
        try:
            if address.startswith("local:"):
                self._cluster = distributed.LocalCluster(
                    n_workers=_count(address), threads_per_worker=1, processes=True, dashboard_address=None
                )
                self._client = distributed.Client(self._cluster, set_as_default=False)
            else:
                place = scheduler_address(address)
                self._client = distributed.Client(place, timeout=CONNECT_LIMIT_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise FabricaError(
                f"the Dask scheduler can't be reached: {error}",
                place=address,
                remedy="start one with `dask scheduler` and `dask worker`, or use --cluster local:2",
                code=ExitCode.ENVIRONMENT,
            ) from error
        self._listener = socket.create_server(("", 0), backlog=64)
        self._listener.setblocking(False)
        self._host = "127.0.0.1" if self._cluster is not None else _own_address(self._client)

    def start(self, spec: JobSpec) -> RunningJob:
        """See `Executor`."""
        token = secrets.token_hex(TOKEN_BYTES)
        port = self._listener.getsockname()[1]
        future = self._client.submit(
            relay, self._host, port, token, spec.model_dump_json(), key=f"fabrica-{token[:12]}", pure=False, retries=0
        )
        link = RemoteLink(self, token, future)
        self._links[token] = link
        return RunningJob(spec, link, waiting=True)

    def close(self) -> None:
        """See `Executor`."""
        self._listener.close()
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    @property
    def listener(self) -> socket.socket:
        """Where workers connect."""
        return self._listener

    def accept(self) -> None:
        """Give every waiting connection to the job whose token it has."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            lines = Lines(connection)
            link = self._links.get(_token_of(lines))
            if link is None or not link.connect(lines):
                connection.close()

    def forget(self, token: str) -> None:
        """The job is over: its token opens nothing any more."""
        self._links.pop(token, None)


class RemoteLink:
    """A job that runs, or will run, on a worker; see `JobLink`."""

    def __init__(self, executor: DaskExecutor, token: str, future: Any) -> None:
        self._executor = executor
        self._token = token
        self._future = future
        self._lines: Lines | None = None

    def connect(self, lines: Lines) -> bool:
        """Take the worker's connection; False when there is one already."""
        if self._lines is not None:
            return False
        self._lines = lines
        return True

    def descriptors(self) -> list[int]:
        """See `JobLink`."""
        return [(self._executor.listener if self._lines is None else self._lines.socket).fileno()]

    def send(self, message: Mapping[str, Any], deadline: float) -> None:
        """See `JobLink`."""
        if self._lines is None:
            raise LinkFailure("it has not begun")
        self._lines.send(message, deadline)

    def poll(self) -> dict[str, Any] | None:
        """See `JobLink`."""
        if self._lines is None:
            self._executor.accept()
        return None if self._lines is None else self._lines.poll()

    @property
    def ended(self) -> bool:
        """See `JobLink`."""
        if self._lines is None:
            return bool(self._future.status in ("error", "lost", "cancelled"))
        return self._lines.ended

    def ending(self) -> str:
        """See `JobLink`."""
        if self._lines is None:
            return f"the cluster could not place it: {self._future.status}: {self._future.exception()}"
        try:
            # The worker's own account arrives over Dask, a moment later.
            told = self._future.result(timeout=ACCOUNT_LIMIT_S)
        except Exception as error:
            # Whatever the worker raised, in its own words.
            told = f"{type(error).__name__}: {error}"
        return f"its worker's connection ended: {told}"

    def close(self) -> None:
        """See `JobLink`: the worker ends the job when its connection closes."""
        self._executor.forget(self._token)
        if self._lines is not None:
            self._lines.socket.close()
        self._future.cancel()


def relay(host: str, port: int, token: str, spec_json: str) -> str:
    """Run one job on this worker and pass its messages on; what Dask executes.

    Returns:
        How it ended, for Dask's own log.
    """
    with socket.create_connection((host, port), timeout=CONNECT_LIMIT_S) as connection:
        lines = Lines(connection)
        lines.send({"type": "hello", "token": token, "version": __version__}, time.monotonic() + CONNECT_LIMIT_S)
        executor = LocalExecutor()
        try:
            return _relay_job(lines, executor, JobSpec.model_validate_json(spec_json))
        except LinkFailure as failure:
            return f"the coordinator is gone: {failure}"
        finally:
            executor.close()


def _relay_job(lines: Lines, executor: LocalExecutor, spec: JobSpec) -> str:
    try:
        job = executor.start(spec)
    except (OSError, LinkFailure) as error:
        _report(lines, f"the job can't be started on its worker: {error}")
        return "not started"
    try:
        lines.send({"type": "started"}, time.monotonic() + CONNECT_LIMIT_S)
        while True:
            select.select([lines.socket.fileno(), *job.link.descriptors()], [], [], 0.5)
            while (order := lines.poll()) is not None:
                job.link.send(order, time.monotonic() + CONNECT_LIMIT_S)
            if lines.ended:
                return "the coordinator closed the connection"
            try:
                while (message := job.link.poll()) is not None:
                    lines.send(message, time.monotonic() + CONNECT_LIMIT_S)
                    if message["type"] in ("verdict", "failed"):
                        # The coordinator closes first, when it has everything.
                        select.select([lines.socket], [], [], CONNECT_LIMIT_S)
                        return str(message["type"])
                if job.link.ended:
                    raise LinkFailure(job.link.ending())
            except LinkFailure as failure:
                _report(lines, str(failure))
                return str(failure)
    finally:
        job.link.close()


def _report(lines: Lines, reason: str) -> None:
    """A failure without a code: the coordinator owes the job again."""
    lines.send({"type": "failed", "code": None, "reason": reason}, time.monotonic() + CONNECT_LIMIT_S)
    select.select([lines.socket], [], [], CONNECT_LIMIT_S)


def _token_of(lines: Lines) -> str:
    """The token with which a connection opens; empty when it opens with anything else or is of another version."""
    deadline = time.monotonic() + HELLO_LIMIT_S
    try:
        while (message := lines.poll()) is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or lines.ended:
                return ""
            select.select([lines.socket], [], [], remaining)
    except LinkFailure:
        return ""
    if not hmac.compare_digest(str(message.get("version")), __version__):
        return ""
    return str(message.get("token", ""))


def _count(address: str) -> int:
    text = address.removeprefix("local:")
    if not text.isdigit() or not 1 <= int(text) <= 4 * (os.cpu_count() or 1):
        raise ValueError(f"{text!r} is no sensible number of workers for this machine")
    return int(text)


def _own_address(client: Any) -> str:
    """The address under which the scheduler's machine, and so presumably its workers', sees this one."""
    remote = str(client.scheduler.address).split("://")[-1].rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((remote[0], int(remote[1])))
        return str(probe.getsockname()[0])
