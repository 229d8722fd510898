"""JSON that any file can hold: names that aren't UTF-8 come back as they were."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.json_text import json_text, parse_json

NAMES = st.binary().map(os.fsdecode) | st.text()


@given(st.dictionaries(NAMES, NAMES | st.lists(NAMES) | st.integers() | st.none()))
def test_it_is_written_as_utf8_and_comes_back_as_it_was(value):
    assert parse_json(json_text(value).encode("utf-8")) == value


def test_other_characters_stay_as_they_are():
    assert json_text({"name": "µ \\udce9 😀"}, indent=1) == '{\n "name": "µ \\\\udce9 😀"\n}'
