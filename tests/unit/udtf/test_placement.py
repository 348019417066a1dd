"""Tasks are spread evenly by the fewest moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from udtf.engine.placement import moves

EXECUTORS = ("0", "1", "2", "3")


@given(
    st.dictionaries(st.integers(0, 23), st.sampled_from([*EXECUTORS, "lost", None]), min_size=1),
    st.sets(st.sampled_from(EXECUTORS), min_size=1),
)
def test_equal_executors_have_equally_many_tasks_by_the_fewest_moves(
    where: dict[int, str | None], living: set[str]
) -> None:
    found = moves(where, dict.fromkeys(living, 2))
    after = Counter(dict.fromkeys(living, 0))
    after.update(found.get(task, executor) or "" for task, executor in where.items())
    assert set(after) == living
    least, more = divmod(len(where), len(living))
    assert sorted(after.values()) == [least] * (len(living) - more) + [least + 1] * more
    before = Counter(executor for executor in where.values() if executor in living)
    fullest = sorted((before[executor] for executor in living), reverse=True)
    stay = sum(min(count, least + (place < more)) for place, count in enumerate(fullest))
    assert len(found) == len(where) - stay
    assert all(where[task] != executor for task, executor in found.items())


@given(st.dictionaries(st.integers(0, 23), st.sampled_from(["0", "1", None])), st.integers(1, 4), st.integers(1, 4))
def test_an_executor_of_more_cores_has_more_tasks(where: dict[int, str | None], one: int, other: int) -> None:
    cores = {"0": one, "1": other}
    found = moves(where, cores)
    after = Counter(found.get(task, executor) or "" for task, executor in where.items())
    for executor, beside in (("0", "1"), ("1", "0")):
        assert (after[executor] - 1) / cores[executor] < (after[beside] + 1) / cores[beside]
    assert moves({task: found.get(task, executor) for task, executor in where.items()}, cores) == {}


def test_without_executors_nothing_moves() -> None:
    assert moves({0: "lost", 1: None}, {}) == {}


def test_tasks_on_their_way_go_elsewhere_before_those_that_are_there() -> None:
    assert moves({0: "a", 1: "a", 2: "a", 3: "b"}, {"a": 1, "b": 1}, named={0}) == {0: "b"}
    assert moves({0: "a", 1: "a", 2: "a", 3: "a"}, {"a": 1, "b": 1}, named={0, 1}) == {1: "b", 0: "b"}
    assert moves({0: "a", 1: "a", 2: "a", 3: "a"}, {"a": 1, "b": 1}, named={0}) == {0: "b", 3: "b"}
