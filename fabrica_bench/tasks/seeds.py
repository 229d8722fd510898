"""Seeds of the inputs: visible ones that anybody can derive, held-out ones that need a secret key.

A held-out seed is HMAC-SHA-256(key, suite version, task, index), cut to 128 bits. Results carry the key's fingerprint
and a SHA-256 commitment of every seed, so that a run can be audited once the key is published: nobody can find a seed
from its commitment (128 bits), and nobody can later claim another seed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

from fabrica_bench.errors import ExitCode, FabricaError, empty_path, from_os_error, wrong_type
from fabrica_bench.version import SUITE_VERSION

KEY_BYTES: Final = 32
SEED_BYTES: Final = 16

MAKE_ONE: Final = "make one with `python -c 'import secrets; print(secrets.token_hex(32))' > my.key`"


class HeldOutKey:
    """The secret that held-out seeds are derived from. Printing it shows only its fingerprint.

    Args:
        secret: 32 bytes.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes):
            raise wrong_type("the secret of a held-out key", secret, f"{KEY_BYTES} bytes")
        if len(secret) != KEY_BYTES:
            raise FabricaError(
                f"a held-out key has {KEY_BYTES} bytes, not {len(secret)}",
                remedy=MAKE_ONE,
            )
        self._secret = secret

    @classmethod
    def fresh(cls) -> HeldOutKey:
        """A new random key."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_file(cls, path: Path | str) -> HeldOutKey:
        """Read a key written by `write`: 64 hexadecimal digits. Raises `FabricaError`."""
        place = str(_key_path(path))
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError as error:
            raise FabricaError(
                f"the held-out key can't be read: {error.strerror}", place=place, remedy="check the path and its mode"
            ) from None
        except UnicodeDecodeError:
            text = ""
        try:
            secret = bytes.fromhex(text)
        except ValueError:
            secret = b""
        if len(secret) != KEY_BYTES:
            raise FabricaError(
                f"not a held-out key: {2 * KEY_BYTES} hexadecimal digits are expected",
                place=place,
                remedy=MAKE_ONE,
            )
        return cls(secret)

    def write(self, path: Path | str) -> None:
        """Store the key in a new file that only its owner can read. Raises `FabricaError`, also when it exists."""
        try:
            descriptor = os.open(_key_path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise FabricaError(
                "the file exists; a held-out key is never overwritten",
                place=str(path),
                remedy="choose another file",
                code=ExitCode.USAGE,
            ) from None
        except OSError as error:
            raise from_os_error(error) from None
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(self.reveal() + "\n")

    @property
    def fingerprint(self) -> str:
        """Public name of the key: 16 hexadecimal digits that don't help to find it."""
        return hashlib.sha256(b"fabrica-bench held-out key\0" + self._secret).hexdigest()[:16]

    def seed(self, suite_version: str, task: str, index: int) -> int:
        """The held-out seed of a task's index-th input, below 2**128.

        Args:
            suite_version: Version of the suite, see `fabrica_bench.version`.
            task: Published name of the task.
            index: From 0.

        Raises:
            FabricaError: An argument is of a wrong type.
            ValueError: The index is negative.
        """
        digest = hmac.digest(self._secret, _message(suite_version, task, index), "sha256")
        return int.from_bytes(digest[:SEED_BYTES], "big")

    def reveal(self) -> str:
        """The key as hexadecimal digits, for publication after a run."""
        return self._secret.hex()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeldOutKey) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"HeldOutKey(fingerprint={self.fingerprint!r})"

    def __reduce__(self) -> str:
        raise TypeError("a held-out key is not pickled: it must stay in the scorer's process")


def require_key(key: object) -> None:
    """Raise `FabricaError` unless it is a `HeldOutKey`."""
    if not isinstance(key, HeldOutKey):
        raise wrong_type(
            "the key", key, "a HeldOutKey, as HeldOutKey.fresh() makes and HeldOutKey.from_file(path) reads"
        )


def _key_path(path: Path | str) -> Path:
    if path == "":
        raise empty_path("the key's file", "name the file")
    if not isinstance(path, str | Path):
        raise wrong_type("the key's file", path, "a path")
    return Path(path)


RECORD_KEY: Final = HeldOutKey(hashlib.sha256(b"fabrica-bench reference cycles").digest())
"""A key that everybody knows. The cycles in spec.yaml are taken on its inputs, and adequacy is measured on them, so
that anybody gets the same; no candidate is ever judged on them."""


def visible_seed(task: str, index: int, suite_version: str = SUITE_VERSION) -> int:
    """The visible seed of a task's index-th input, below 2**128; the same for everybody."""
    digest = hashlib.sha256(b"fabrica-bench visible seed\0" + _message(suite_version, task, index)).digest()
    return int.from_bytes(digest[:SEED_BYTES], "big")


def commitment(seed: int) -> str:
    """SHA-256 of a seed, 64 hexadecimal digits: publish it with the result, compare it once the key is known."""
    if not 0 <= seed < 1 << 8 * SEED_BYTES:
        raise ValueError(f"a seed lies in 0..2**{8 * SEED_BYTES}-1")
    return hashlib.sha256(b"fabrica-bench seed\0" + seed.to_bytes(SEED_BYTES, "big")).hexdigest()


def _message(suite_version: str, task: str, index: int) -> bytes:
    """Unambiguous encoding: every part is preceded by its length."""
    for what, part in (("the suite version", suite_version), ("the task", task)):
        if not isinstance(part, str):
            raise wrong_type(what, part, "a text")
    if not isinstance(index, int):
        raise wrong_type("the index", index, "a whole number")
    if index < 0:
        raise ValueError("an index is not negative")
    parts = [suite_version.encode(), task.encode(), str(index).encode()]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
