"""A run as one file that others can check: records, candidates, versions, commitments, key and a digest over all.

The bundle is a zip archive without compression and without times, so that the same run always gives the same bytes.
With the run's held-out key in it, anyone can derive the seeds, compare them with the commitments that were made before
the run, and execute every candidate again. A key that was made for the run alone has no other use; one that serves
several runs is left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any, Final

from fabrica_bench.errors import FabricaError, from_os_error
from fabrica_bench.json_text import parse_json
from fabrica_bench.report.data import load_report
from fabrica_bench.runs.keys import find_key
from fabrica_bench.runs.store import FILES_NAME, MANIFEST_NAME, RECORDS_NAME, RunStore
from fabrica_bench.scoring.inputs import held_out_seeds
from fabrica_bench.tasks import load_task
from fabrica_bench.tasks.seeds import HeldOutKey, commitment

FORMAT: Final = 1
HEAD_NAME: Final = "bundle.json"
KEY_NAME: Final = "key"
SUFFIX: Final = ".fabrica"

MAX_MEMBERS: Final = 200_000
MAX_BYTES: Final = 4 << 30
"""Of all members together, unpacked: ten times a run of 10,000 attempts."""

_MEMBER: Final = re.compile(
    rf"{HEAD_NAME}|{MANIFEST_NAME}|{RECORDS_NAME}|{KEY_NAME}|{FILES_NAME}/[0-9a-f]{{2}}/[0-9a-f]{{62}}"
)
_TIME: Final = (1980, 1, 1, 0, 0, 0)


def pack_run(run_dir: Path, target: Path, *, with_key: bool = True, key_file: Path | None = None) -> str:
    """Write a run's bundle.

    Args:
        run_dir: A finished run; it is only read.
        target: The file to write.
        with_key: Put the held-out key in.
        key_file: The key; by default the one that was kept for the run.

    Returns:
        The bundle's digest.

    Raises:
        FabricaError: There is no run, it is partial or damaged, the key isn't there, or the file can't be written.
    """
    report = load_report(run_dir)  # whole records and side files, or an error that names the damage
    if report.summary.partial:
        raise FabricaError(
            f"the run is partial: {report.summary.missing} of {report.summary.total} attempts are owed",
            place=str(run_dir),
            remedy="run the same command again until it is finished, then submit",
        )
    members = _run_members(run_dir)
    if with_key:
        members[KEY_NAME] = find_key(report.manifest.key_fingerprint, key_file).reveal().encode() + b"\n"
    head = {
        "format": FORMAT,
        "run_id": report.manifest.run_id,
        "agent": report.summary.agent,
        "versions": report.manifest.versions,
        "key_fingerprint": report.manifest.key_fingerprint,
        "members": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(members.items())},
    }
    digest = _digest(head)
    members[HEAD_NAME] = (json.dumps({**head, "digest": digest}, indent=2, sort_keys=True) + "\n").encode()
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(members):
                archive.writestr(zipfile.ZipInfo(name, _TIME), members[name])
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise from_os_error(error) from error
    return digest


def unpack_bundle(bundle: Path, folder: Path) -> dict[str, Any]:
    """Check a bundle from anybody and unpack it into an empty folder as a run.

    Returns:
        Its head, with `digest`.

    Raises:
        FabricaError: It is no bundle, something in it was changed, or a name or size is not that of one. Nothing is
            left in the folder then.
    """
    place = str(bundle)
    try:
        with zipfile.ZipFile(bundle) as archive:
            members = _read_members(archive, place)
    except (zipfile.BadZipFile, EOFError) as error:
        raise _refused(f"not a bundle: {error}", place) from error
    except OSError as error:
        raise from_os_error(error) from error
    head = _checked_head(members, place)
    try:
        for name, data in members.items():
            if name == HEAD_NAME:
                continue
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except OSError as error:
        raise from_os_error(error) from error
    return head


def bundle_key(folder: Path) -> HeldOutKey | None:
    """The key that an unpacked bundle reveals."""
    path = folder / KEY_NAME
    return HeldOutKey.from_file(path) if path.is_file() else None


def check_commitments(folder: Path, key: HeldOutKey) -> None:
    """Compare a run's commitments with the seeds that a key gives.

    Raises:
        FabricaError: The key isn't the run's, or a commitment was made to other seeds.
    """
    manifest = RunStore.open(folder).manifest
    if key.fingerprint != manifest.key_fingerprint:
        raise _refused(f"key {key.fingerprint} is not the run's {manifest.key_fingerprint}", str(folder))
    for name in manifest.config["tasks"]:
        seeds = held_out_seeds(load_task(name), key)
        if tuple(commitment(seed) for seed in seeds) != manifest.commitments.get(name):
            raise _refused(f"the commitments for {name} are to other seeds than the key's", str(folder))


def _run_members(run_dir: Path) -> dict[str, bytes]:
    try:
        members = {name: (run_dir / name).read_bytes() for name in (MANIFEST_NAME, RECORDS_NAME)}
        # A torn last line was never a record.
        members[RECORDS_NAME] = members[RECORDS_NAME][: members[RECORDS_NAME].rfind(b"\n") + 1]
        for path in sorted((run_dir / FILES_NAME).glob("*/*")):
            name = path.relative_to(run_dir).as_posix()
            if _MEMBER.fullmatch(name):
                members[name] = path.read_bytes()
    except OSError as error:
        raise from_os_error(error) from error
    return members


def _read_members(archive: zipfile.ZipFile, place: str) -> dict[str, bytes]:
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS or sum(info.file_size for info in infos) > MAX_BYTES:
        raise _refused("it is too big for a bundle", place)
    members: dict[str, bytes] = {}
    for info in infos:
        if not _MEMBER.fullmatch(info.filename) or info.filename in members:
            raise _refused(f"member {info.filename[:80]!r} doesn't belong in a bundle", place)
        if info.compress_type != zipfile.ZIP_STORED:
            raise _refused(f"member {info.filename} is compressed", place)
        members[info.filename] = archive.read(info)
    return members


def _checked_head(members: dict[str, bytes], place: str) -> dict[str, Any]:
    try:
        head = parse_json(members[HEAD_NAME])
        digest = head.pop("digest")
        listed = dict(head["members"])
        known = head["format"] == FORMAT
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise _refused(f"{HEAD_NAME} is missing or damaged", place) from error
    if not known:
        raise _refused(f"its format is {head['format']!r}, not {FORMAT}", place)
    actual = {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name != HEAD_NAME}
    if digest != _digest(head) or listed != actual:
        changed = sorted(name for name in {*listed, *actual} if listed.get(name) != actual.get(name))
        raise _refused(f"its content was changed: {', '.join(changed[:5]) or HEAD_NAME}", place)
    for required in (MANIFEST_NAME, RECORDS_NAME):
        if required not in members:
            raise _refused(f"{required} is missing", place)
    return {**head, "digest": digest}


def _digest(head: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()


def _refused(message: str, place: str) -> FabricaError:
    return FabricaError(message, place=place, remedy="pack the run again with `fabrica-bench submit RUN`")
