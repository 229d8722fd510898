"""Visible and held-out seeds, and the key behind the latter."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.errors import FabricaError
from fabrica_bench.tasks.seeds import HeldOutKey, commitment, visible_seed

KEY = HeldOutKey(bytes(range(32)))
TASKS = st.text(min_size=1, max_size=20)
SECRETS = st.binary(min_size=32, max_size=32)


@given(SECRETS, TASKS, st.integers(0, 1000))
def test_seeds_are_reproducible_and_in_range(secret: bytes, task: str, index: int) -> None:
    seed = HeldOutKey(secret).seed("1", task, index)
    assert seed == HeldOutKey(secret).seed("1", task, index)
    assert 0 <= seed < 2**128


@given(st.lists(st.tuples(st.text(max_size=5), TASKS, st.integers(0, 99)), min_size=2, max_size=20, unique=True))
def test_different_places_have_different_seeds(places: list[tuple[str, str, int]]) -> None:
    assert len({KEY.seed(*place) for place in places}) == len(places)


@given(SECRETS, SECRETS)
def test_another_key_gives_other_seeds(one: bytes, other: bytes) -> None:
    same = HeldOutKey(one).seed("1", "ReLU-1PE", 0) == HeldOutKey(other).seed("1", "ReLU-1PE", 0)
    assert same == (one == other)


def test_parts_are_not_run_together() -> None:
    assert KEY.seed("1", "a1", 1) != KEY.seed("1", "a", 11)
    assert KEY.seed("11", "a", 1) != KEY.seed("1", "1a", 1)


def test_visible_seeds_need_no_key_and_differ_from_held_out_ones() -> None:
    assert visible_seed("ReLU-1PE", 0) == visible_seed("ReLU-1PE", 0)
    assert len({visible_seed("ReLU-1PE", index) for index in range(50)}) == 50
    assert visible_seed("ReLU-1PE", 0) != KEY.seed("1", "ReLU-1PE", 0)


@given(st.integers(0, 2**128 - 1))
def test_commitment_is_a_digest_of_the_seed(seed: int) -> None:
    assert len(commitment(seed)) == 64
    assert commitment(seed) == commitment(seed)
    assert commitment(seed) != commitment(seed ^ 1)


@pytest.mark.parametrize("seed", [-1, 2**128])
def test_commitment_refuses_what_is_no_seed(seed: int) -> None:
    with pytest.raises(ValueError, match="a seed lies in"):
        commitment(seed)


def test_negative_index_is_refused() -> None:
    with pytest.raises(ValueError, match="not negative"):
        visible_seed("ReLU-1PE", -1)


def test_key_file_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = HeldOutKey.fresh()
    key.write(path)
    assert HeldOutKey.from_file(path) == key
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(FabricaError, match="never overwritten"):
        key.write(path)


@pytest.mark.parametrize("content", [b"", b"zz" * 32, b"ab" * 31, b"\xff\xfe" * 32, b"ab" * 33])
def test_broken_key_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(FabricaError, match="not a held-out key") as caught:
        HeldOutKey.from_file(path)
    assert caught.value.place == str(path)


def test_missing_key_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FabricaError, match="can't be read") as caught:
        HeldOutKey.from_file(tmp_path / "absent")
    assert caught.value.remedy


def test_the_secret_is_neither_shown_nor_pickled() -> None:
    assert KEY.reveal() not in repr(KEY)
    assert KEY.reveal() not in str(KEY)
    assert KEY.fingerprint in repr(KEY)
    assert KEY.fingerprint not in KEY.reveal()
    with pytest.raises(TypeError):
        pickle.dumps(KEY)
