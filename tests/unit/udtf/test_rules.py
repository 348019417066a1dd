"""The rules that loops call compiled: at the ends of 64 bits they are what they are over numbers without an end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from udtf import rules

END = 2**63
TIMES = st.integers(-END, END - 1) | st.integers(-9, 9) | st.sampled_from([-END, 1 - END, END - 2, END - 1])
LIMITS = st.integers(-1, 9) | st.integers(0, 2**62) | st.just(2**62)

COMPILED = {
    rule.__name__: njit(rule)
    for rule in (rules.distance, rules.is_behind, rules.is_ahead, rules.due_until, rules.horizon)
}


@given(TIMES, TIMES)
def test_distance(one: int, other: int) -> None:
    assert COMPILED["distance"](one, other) == rules.distance(one, other) == min(abs(one - other), END - 1)


@given(TIMES, TIMES, LIMITS)
def test_behind_and_ahead(time: int, now: int, limit: int) -> None:
    is_behind, is_ahead = (limit >= 0 and apart > limit for apart in (now - time, time - now))
    assert COMPILED["is_behind"](time, now, limit) == rules.is_behind(time, now, limit) == is_behind
    is_ahead = is_ahead and now != rules.UNSET
    assert COMPILED["is_ahead"](time, now, limit) == rules.is_ahead(time, now, limit) == is_ahead


@pytest.mark.parametrize("name", ["due_until", "horizon"])
@given(time=TIMES, before=LIMITS.filter(lambda limit: limit >= 0))
def test_what_is_before_all_times_is_the_least(name: str, time: int, before: int) -> None:
    assert COMPILED[name](time, before) == getattr(rules, name)(time, before) == max(time - before, -END)
