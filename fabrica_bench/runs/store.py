"""The append-only store of a run.

    manifest.json     frozen head
    records.jsonl     one record per line, fsynced; a torn last line was never a record
    files/ab/cdef…    texts by SHA-256: candidates, long logs
    index.sqlite      index over the records; can be deleted and is rebuilt

One process writes (it holds `lock`); any number may read.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Final

from pydantic import ValidationError

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.runs.manifest import Manifest
from fabrica_bench.runs.records import RECORD_ADAPTER, AnyRecord

MANIFEST_NAME: Final = "manifest.json"
RECORDS_NAME: Final = "records.jsonl"
INDEX_NAME: Final = "index.sqlite"
FILES_NAME: Final = "files"
LOCK_NAME: Final = "lock"


class RunStore:
    """Records and side files of one run. Use `create`, `open` or `resume`."""

    def __init__(self, run_dir: Path, manifest: Manifest) -> None:
        self.run_dir = run_dir
        self.manifest = manifest
        self._lock: int | None = None
        self._log: int | None = None

    # ------------------------------------------------------------------------------------------ opening

    @classmethod
    def create(cls, run_dir: Path, manifest: Manifest) -> RunStore:
        """Make the folder and its manifest, and hold it for writing.

        Raises:
            FabricaError: The folder holds a run already or can't be written.
        """
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            store = cls(run_dir, manifest)
            store._acquire()
            if (run_dir / MANIFEST_NAME).exists():
                store.close()
                raise FabricaError("a run is already stored here", place=str(run_dir), remedy="choose another --out")
            _write_durably(run_dir / MANIFEST_NAME, manifest.to_text().encode())
            store._open_log()
        except OSError as error:
            raise from_os_error(error) from error
        return store

    @classmethod
    def open(cls, run_dir: Path) -> RunStore:
        """Open a run for reading.

        Raises:
            FabricaError: There is no run in the folder.
        """
        path = run_dir / MANIFEST_NAME
        try:
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FabricaError(
                f"no run here: {MANIFEST_NAME} is missing",
                place=str(run_dir),
                remedy="name the folder that `fabrica-bench run` printed",
            ) from error
        except UnicodeDecodeError as error:
            raise FabricaError("not UTF-8 text", place=str(path), remedy="restore the run from a copy") from error
        except OSError as error:
            raise from_os_error(error) from error
        return cls(run_dir, Manifest.from_text(text, str(path)))

    @classmethod
    def resume(cls, run_dir: Path) -> RunStore:
        """Open a run for writing, dropping a torn last line.

        Raises:
            FabricaError: There is no run in the folder, another process writes to it, or it can't be written.
        """
        store = cls.open(run_dir)
        try:
            store._acquire()
            store._open_log()
        except OSError as error:
            store.close()
            raise from_os_error(error) from error
        return store

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the run; reading stays possible."""
        for descriptor in (self._log, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._log = self._lock = None

    # ------------------------------------------------------------------------------------------ records

    @property
    def records_path(self) -> Path:
        return self.run_dir / RECORDS_NAME

    def append(self, record: AnyRecord) -> None:
        """Add a record durably: when this returns, it survives SIGKILL and power loss.

        Raises:
            FabricaError: No space, or another failure of the file system; then nothing was added.
        """
        if self._log is None:
            raise ValueError("the run is not open for writing")
        line = record.model_dump_json().encode("utf-8") + b"\n"
        size = os.fstat(self._log).st_size
        try:
            _write_all(self._log, line)
            os.fsync(self._log)
        except OSError as error:
            # What got written of the line is taken back, so that the file ends with a whole record.
            with contextlib.suppress(OSError):
                os.ftruncate(self._log, size)
            error.filename = str(self.records_path)
            raise from_os_error(error) from error

    def records(self) -> list[AnyRecord]:
        """Every whole record, oldest first.

        Raises:
            FabricaError: A whole line isn't a record: the file was damaged.
        """
        try:
            data = self.records_path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise from_os_error(error) from error
        whole = data[: data.rfind(b"\n") + 1]
        return [self._parse(line, number) for number, line in enumerate(whole.splitlines(), start=1)]

    def _parse(self, line: bytes, number: int) -> AnyRecord:
        try:
            return RECORD_ADAPTER.validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            raise FabricaError(
                f"damaged record: {first['msg']}",
                place=f"{self.records_path}:{number}",
                remedy="restore the file from a copy; the other lines are intact",
            ) from error

    # --------------------------------------------------------------------------------------- side files

    def put_text(self, text: str) -> str:
        """Store a text by content; returns its SHA-256 digest.

        Raises:
            FabricaError: It can't be written.
        """
        data = text.encode("utf-8", errors="surrogatepass")
        digest = hashlib.sha256(data).hexdigest()
        path = self._file(digest)
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                _write_durably(path, data)
        except OSError as error:
            raise from_os_error(error) from error
        return digest

    def get_text(self, digest: str) -> str:
        """The text with this digest.

        Raises:
            FabricaError: The digest is malformed, the file is missing, or its content was changed.
        """
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise FabricaError(f"not a digest: {digest[:80]!r}", place=str(self.records_path))
        path = self._file(digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise from_os_error(error) from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise FabricaError("content differs from its digest", place=str(path), remedy="restore it from a copy")
        return data.decode("utf-8", errors="surrogatepass")

    def _file(self, digest: str) -> Path:
        return self.run_dir / FILES_NAME / digest[:2] / digest[2:]

    # ------------------------------------------------------------------------------------------- index

    def index(self) -> sqlite3.Connection:
        """Connection to an up-to-date index: table `records(line, record, task, attempt, body)`.

        It is rebuilt whenever it doesn't match the records; deleting it loses nothing.
        """
        path = self.run_dir / INDEX_NAME
        size = self.records_path.stat().st_size if self.records_path.exists() else 0
        if not _index_matches(path, size):
            self._build_index(path, size)
        return sqlite3.connect(path)

    def _build_index(self, path: Path, size: int) -> None:
        fresh = path.with_suffix(f".{os.getpid()}.tmp")
        fresh.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(fresh)) as connection, connection:
            connection.execute("create table meta(size integer)")
            columns = "line integer primary key, record text, task text, attempt integer, body text"
            connection.execute(f"create table records({columns})")
            connection.execute("create index by_task on records(task, attempt)")
            connection.execute("insert into meta values (?)", (size,))
            connection.executemany(
                "insert into records values (?, ?, ?, ?, ?)",
                (
                    (number, r.record, getattr(r, "task", None), getattr(r, "attempt", None), r.model_dump_json())
                    for number, r in enumerate(self.records(), start=1)
                ),
            )
        fresh.replace(path)

    # ------------------------------------------------------------------------------------------ private

    def _acquire(self) -> None:
        descriptor = os.open(self.run_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise FabricaError(
                "another process is working on this run",
                place=str(self.run_dir),
                remedy="wait for it or stop it, or choose another --out",
                code=ExitCode.ENVIRONMENT,
            ) from error
        self._lock = descriptor

    def _open_log(self) -> None:
        descriptor = os.open(self.records_path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._log = descriptor
        size = os.fstat(descriptor).st_size
        whole = self.records_path.read_bytes().rfind(b"\n") + 1 if size else 0
        if whole < size:
            os.ftruncate(descriptor, whole)
            os.fsync(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _write_durably(path: Path, data: bytes) -> None:
    """Write a whole file or nothing: temporary file, fsync, rename."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        error.filename = str(path)
        raise


def _index_matches(path: Path, size: int) -> bool:
    if not path.exists():
        return False
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            row = connection.execute("select size from meta").fetchone()
    except sqlite3.DatabaseError:
        return False
    return bool(row == (size,))
