"""Values of symbolic colors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.compat.color_allocation import ColorClasses, allocate
from fabrica_bench.compat.routing_positions import Color
from fabrica_bench.compat.sessions import HostError

names = st.sampled_from([f"c{number}" for number in range(10)])
uses = st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.sets(names, min_size=1, max_size=6))


@given(uses, st.sets(names, max_size=4))
def test_colors_that_meet_on_a_pe_differ_and_switches_exist(
    used: dict[tuple[int, int], set[str]], switched: set[str]
) -> None:
    values = allocate(used, {}, switched, "wse3")
    for together in used.values():
        assert len({values[name] for name in together}) == len(together)
    assert {values[name] for name in switched & values.keys()} <= {*range(10), 12, 13, 16, 17, 20, 21}


def test_given_values_stay_and_are_kept_from_neighbours() -> None:
    values = allocate({(0, 0): {"a", "b"}, (1, 0): {"b", "c"}}, {"a": 0}, (), "wse2")
    assert values == {"a": 0, "b": 1, "c": 0}


def test_equal_given_values_on_one_pe_are_refused() -> None:
    with pytest.raises(HostError, match="'a' and 'b' are both 3"):
        allocate({(0, 0): {"a", "b"}}, {"a": 3, "b": 3}, (), "wse2")


def test_a_switched_color_with_a_value_without_switches_is_refused_on_wse3_only() -> None:
    assert allocate({(0, 0): {"a"}}, {"a": 11}, ["a"], "wse2") == {"a": 11}
    with pytest.raises(HostError, match="no switches on WSE-3"):
        allocate({(0, 0): {"a"}}, {"a": 11}, ["a"], "wse3")


def test_a_pe_with_too_many_colors_is_refused() -> None:
    crowd = {f"c{number}" for number in range(25)}
    with pytest.raises(HostError, match="no color is left"):
        allocate({(0, 0): crowd}, {}, (), "wse2")


def test_joined_colors_with_two_values_are_refused() -> None:
    classes = ColorClasses()
    classes.join(Color("a", 1), Color("b"))
    classes.join(Color("b"), Color("c", 2))
    with pytest.raises(HostError, match="different values: 1 for 'a' and 2 for 'c'"):
        classes.fixed_value(classes.find("b"))


def test_every_object_of_a_color_learns_its_value() -> None:
    first, again, other = Color("a"), Color("a"), Color("b")
    classes = ColorClasses()
    classes.add(first)
    classes.join(again, other)
    assert classes.resolve({classes.find("a"): 7}) == {"a": 7, "b": 7}
    assert [color.get_value() for color in (first, again, other)] == [7, 7, 7]
