"""A task's history: whatever a worker kept, and however the log was cut or compacted, the answers are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.counting import ROW, Counting
from udtf.errors import StateError
from udtf.stream import log as log_module
from udtf.stream.cache import CachedState, StateCache
from udtf.stream.log import Head, MemoryLog
from udtf.stream.segments import FORMAT, Stamp, owner_of, seal, unseal
from udtf.stream.siblings import Siblings
from udtf.stream.spec import StreamSpec
from udtf.stream.task import TaskRunner

SPEC = StreamSpec("count_1", Counting, "counting", tasks=4)
KEYS = [1, 2, 1, 1, 3, 2, -1, 1, 2, 5, 3, 1]


def rows(keys: list[int], start: int = 0) -> pa.Table:
    order = [start + place for place in range(len(keys))]
    return pa.table([keys, order, order, keys], schema=ROW)


def expected(keys: list[int]) -> list[tuple[int, int, int]]:
    return [(key, place, keys[: place + 1].count(key)) for place, key in enumerate(keys) if key != -1]


class Driver:
    """Feeds one task; a worker is a cache, and maybe one of siblings."""

    def __init__(self, spec: StreamSpec = SPEC, folder: Path | None = None) -> None:
        self.log = MemoryLog()
        self.spec = spec
        self.workers = [StateCache(), StateCache()]
        self.siblings = [Siblings(folder), Siblings(folder)]
        self.fed = 0
        self.out: list[tuple[int, int, int]] = []
        self.metrics: dict[str, int] = {}

    def push(
        self, keys: list[int], worker: int = 0, commit: bool = True, digest: bytes = b""
    ) -> list[tuple[int, int, int]]:
        before = dict(self.log.segments), self.log.current
        runner = TaskRunner(self.spec, "q", self.workers[worker], self.siblings[worker])
        emission = runner.run(3, self.log, [rows(keys, self.fed)], digest)
        answers = list(zip(*(emission.rows[name].to_pylist() for name in ("k", "o", "n")), strict=True))
        self.metrics = emission.metrics
        if commit:
            self.fed += len(keys)
            self.out += answers
        else:
            self.log.segments, self.log.current = before
        return answers


def cuts(keys: list[int], places: list[int]) -> list[list[int]]:
    ends = sorted({place % (len(keys) + 1) for place in places} | {0, len(keys)})
    return [keys[start:end] for start, end in pairwise(ends)]


@given(
    places=st.lists(st.integers(0, 100), max_size=8),
    steps=st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.booleans()), min_size=16, max_size=16),
    digested=st.booleans(),
    budget=st.sampled_from([0, 40, 1 << 20]),
    most_deltas=st.sampled_from([0, 1, 3, 256]),
    are_siblings=st.booleans(),
)
def test_answers_do_not_depend_on_cuts_workers_retries_or_compaction(
    places: list[int],
    steps: list[tuple[int, bool, bool]],
    digested: bool,
    budget: int,
    most_deltas: int,
    are_siblings: bool,
) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        driver = Driver(replace(SPEC, cache_bytes=budget), Path(folder) if are_siblings else None)
        patch.setattr(log_module, "_MOST_DELTAS", most_deltas)
        for piece, (worker, fails_first, elsewhere) in zip(cuts(KEYS, places), steps, strict=False):
            digest = repr((driver.fed, piece)).encode() if digested else b""
            if fails_first:
                driver.push(piece, worker, False, digest)
            driver.push(piece, 1 - worker if elsewhere else worker, True, digest)
        for one in driver.siblings:
            one.close()
    assert driver.out == expected(KEYS)


def test_a_kept_state_is_used_as_it_is() -> None:
    driver = Driver()
    driver.push([1, 1])
    assert "restored_nothing" in driver.metrics
    driver.push([1])
    assert driver.metrics["restored_cache"] == 1
    assert driver.out == expected([1, 1, 1])


def test_a_worker_that_is_behind_catches_up_from_the_tail() -> None:
    driver = Driver()
    driver.push([1])
    driver.push([1, 2], worker=1)
    assert driver.metrics["restored_snapshot"] == 1
    driver.push([2], worker=1)
    driver.push([1, 2], worker=0)
    assert driver.metrics["restored_tail"] == 1
    assert driver.out == expected([1, 1, 2, 2, 1, 2])


def test_a_state_ahead_of_the_log_is_dropped() -> None:
    driver = Driver()
    driver.push([1])
    assert driver.push([1, 1], commit=False) == driver.push([1, 1])
    assert driver.metrics["restored_snapshot"] == 1
    assert driver.out == expected([1, 1, 1])


def test_a_batch_that_runs_again_is_answered_from_what_the_first_run_left() -> None:
    driver = Driver()
    driver.push([1])
    first = driver.push([1, 1], commit=False, digest=b"a")
    metrics = driver.metrics
    assert driver.push([1, 1], digest=b"a") == first
    assert driver.metrics is metrics
    driver.push([1])
    assert driver.metrics["restored_cache"] == 1
    assert driver.out == expected([1] * 4)


def test_another_batch_in_its_place_is_not() -> None:
    driver = Driver()
    driver.push([1])
    driver.push([1, 1], commit=False, digest=b"a")
    driver.push([2], digest=b"b")
    driver.push([1])
    assert driver.out == expected([1, 2, 1])


def test_a_state_of_a_history_that_was_given_up_is_dropped() -> None:
    driver = Driver()
    driver.push([1])
    driver.push([7, 7], worker=0, commit=False)
    driver.push([1], worker=1)
    driver.push([1], worker=1)
    driver.push([1, 7], worker=0)
    assert driver.metrics["restored_snapshot"] == 1
    assert driver.out == expected([1, 1, 1, 1, 7])


def test_nothing_changed_writes_nothing() -> None:
    driver = Driver()
    driver.push([1])
    head = driver.log.head()
    driver.push([-1, -1])
    assert driver.log.head() is head
    assert driver.metrics["late"] == 2
    driver.push([1])
    assert driver.metrics["restored_cache"] == 1


def test_a_snapshot_replaces_what_is_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_LEAST_TAIL_BYTES", 1)
    driver = Driver()
    sizes = [len(driver.log.segments) for _ in range(6) if driver.push([1, 2])]
    assert max(sizes) < 6
    head = driver.log.head()
    assert head is not None
    assert head.first == min(driver.log.segments) > 1
    driver.workers = [StateCache()]
    driver.push([1])
    assert driver.out == expected([1, 2] * 6 + [1])


def test_tasks_do_not_all_write_their_snapshots_at_once() -> None:
    heads = [Head(9, "t", "f", tail_bytes=size << 10) for size in (1100, 1500, 2100)]
    assert [sum(head.wants_snapshot(task) for task in range(16)) for head in heads] == [2, 8, 16]


def raises(condition: str, driver: Driver, keys: list[int]) -> str:
    with pytest.raises(StateError) as raised:
        driver.push(keys)
    assert raised.value.condition == condition
    return str(raised.value)


def restarted(change: Callable[[MemoryLog], Any], spec: StreamSpec = SPEC) -> Driver:
    driver = Driver()
    for _ in range(3):
        driver.push([1, 2])
    change(driver.log)
    driver.workers, driver.spec = [StateCache()], spec
    return driver


@pytest.mark.parametrize(
    ("spec", "now"),
    [(replace(SPEC, fingerprint="summing"), "summing, 4 tasks"), (replace(SPEC, tasks=8), "counting, 8 tasks")],
)
def test_the_state_of_another_query_is_refused(spec: StreamSpec, now: str) -> None:
    text = raises("STATE.OTHER_QUERY", restarted(lambda log: None, spec), [1])
    assert f"operator count_1, task 3 belongs to 'counting, 4 tasks', this query's is '{now}'" in text


def test_a_segment_of_another_query_is_refused() -> None:
    stamp = Stamp(2, False, "t", "s", "another")
    raises(
        "STATE.OTHER_QUERY", restarted(lambda log: log.segments.update({2: seal(stamp, Counting().snapshot())})), [1]
    )


def test_another_format_is_refused() -> None:
    def age(log: MemoryLog) -> None:
        assert log.current is not None
        log.current = replace(log.current, format=99)

    assert f"format 99, this version reads {FORMAT}" in raises("STATE.FORMAT", restarted(age), [1])


def test_heads_come_back_from_bytes() -> None:
    head = Head(7, "token", "f", first=3, snapshot_bytes=5, tail_bytes=9)
    assert Head.from_bytes(head.to_bytes(), "here") == head
    assert Head.from_bytes(b'{"format": 99, "unheard": 0}', "here").format == 99
    for damaged in (b"{", b"[]", b"{}", b'{"format": %d}' % FORMAT):
        with pytest.raises(StateError, match=r"STATE\.CORRUPT_SEGMENT"):
            Head.from_bytes(damaged, "here")


def test_a_missing_segment_is_refused() -> None:
    text = raises("STATE.MISSING_SEGMENT", restarted(lambda log: log.segments.pop(2)), [1])
    assert "segment 2 of 3 of the state of operator count_1, task 3 is missing" in text


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:10], "it does not begin as a segment does"),
        (lambda data: b"x" + data[1:], "it does not begin as a segment does"),
        (lambda data: data[:-1], "its length is not the one written"),
        (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "the checksum differs"),
    ],
)
def test_a_damaged_segment_is_refused(damage: Callable[[bytes], bytes], why: str) -> None:
    text = raises(
        "STATE.CORRUPT_SEGMENT", restarted(lambda log: log.segments.update({2: damage(log.segments[2])})), [1]
    )
    assert f"segment 2 of the state of operator count_1, task 3 cannot be read: {why}" in text


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_flipped_bit_goes_unnoticed(place: int, bit: int) -> None:
    sealed = seal(Stamp(1, False, "t", "", "f"), Segmented)
    damaged = bytearray(sealed)
    damaged[place % len(sealed)] ^= 1 << bit
    with pytest.raises(StateError):
        unseal(bytes(damaged), 1, "here")


Segmented = Counting().snapshot()


def test_segments_that_were_exchanged_are_refused() -> None:
    def exchange(log: MemoryLog) -> None:
        log.segments[2], log.segments[3] = log.segments[3], log.segments[2]

    assert "it was written as segment 3" in raises("STATE.CORRUPT_SEGMENT", restarted(exchange), [1])


def test_a_broken_chain_is_refused() -> None:
    stamp = Stamp(2, False, "t", "of another history", owner_of(SPEC.belongs_to))
    driver = restarted(lambda log: log.segments.update({2: seal(stamp, Counting().snapshot())}))
    assert "does not end where the head says" in raises("STATE.CORRUPT_SEGMENT", driver, [1])


def test_a_failing_batch_leaves_no_state_behind() -> None:
    driver = Driver()
    driver.push([1])
    with pytest.raises(KeyError):
        TaskRunner(SPEC, "q", driver.workers[0]).run(3, driver.log, [pa.table({"__o0": [1]})])
    assert len(driver.workers[0]) == 0
    driver.push([1])
    assert driver.out == expected([1, 1])


def test_the_least_recently_used_state_goes_first() -> None:
    def kept(keys: int) -> CachedState:
        logic = Counting()
        logic.counts = dict.fromkeys(range(keys), 1)
        return CachedState(logic, 1, "t")

    cache = StateCache()
    for task in range(3):
        cache.put(("q", "o", task), kept(2), 96)
    assert cache.kept_bytes == 96
    first = cache.take(("q", "o", 0))
    assert first is not None
    cache.put(("q", "o", 0), first, 96)
    cache.put(("q", "o", 3), kept(1), 96)
    assert [task for task in range(4) if cache.take(("q", "o", task))] == [0, 2, 3]
    cache.put(("q", "o", 4), kept(9), 96)
    assert (len(cache), cache.kept_bytes) == (0, 0)


def test_segments_keep_numbers_and_types() -> None:
    table = pa.table({"t": pa.array([1, None], pa.timestamp("us", "UTC")), "s": pa.array(["a", None])})
    sealed = seal(
        Stamp(4, True, "t", "p", "f"), type(Segmented)({"a": table, "b": table.slice(0, 0)}, {"x": None, "y": -1})
    )
    stamp, segment = unseal(sealed, 4, "here")
    assert stamp == Stamp(4, True, "t", "p", "f")
    assert segment.numbers == {"x": None, "y": -1}
    assert [segment.tables[name].equals(table.slice(0, rows)) for name, rows in (("a", 2), ("b", 0))] == [True, True]
