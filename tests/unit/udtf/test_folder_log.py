"""Changelogs as files: what counts is what was committed, and what is missing, torn or too late never answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.counting import Counting
from tests.unit.udtf.test_stream_task import KEYS, SPEC, expected, rows
from udtf.errors import StateError
from udtf.stream import log as log_module
from udtf.stream.cache import StateCache
from udtf.stream.folder_log import OperatorFolder, notes_in, tasks_in
from udtf.stream.history import checked_head, restore
from udtf.stream.task import TaskRunner

TASK, PARTITIONS = 3, 2
Answers = list[tuple[int, int, int]]


class Query:
    """One task of a query in a folder, by two workers; a micro-batch counts once it is committed."""

    def __init__(self, folder: Path, cache_bytes: int = 1 << 20) -> None:
        self.folder, self.spec = folder, replace(SPEC, cache_bytes=cache_bytes)
        self.workers = [StateCache(), StateCache()]
        self.batch = self.fed = 0
        self.out: Answers = []
        self.metrics: dict[str, int] = {}

    def run(self, keys: list[int], worker: int = 0, batch: int | None = None, at: int | None = None) -> Answers:
        """Run a micro-batch of both partitions: the one without the task has no rows."""
        operator = OperatorFolder(self.folder, self.batch if batch is None else batch, "operator count_1")
        operator.check()
        table = rows(keys, self.fed if at is None else at)
        digest = repr(table.to_pydict()).encode()
        if keys:
            log = operator.of(TASK)
            emission = TaskRunner(self.spec, "q", self.workers[worker]).run(TASK, log, [table], digest)
            log.finish({"rows": emission.metrics["state_rows"]})
            self.metrics = emission.metrics
        for number in range(PARTITIONS):
            operator.ran(number, PARTITIONS)
        return list(zip(*(emission.rows[name].to_pylist() for name in "kon"), strict=True)) if keys else []

    def push(self, keys: list[int], worker: int = 0) -> None:
        """Run a micro-batch and commit it."""
        self.out += self.run(keys, worker)
        self.batch += 1
        self.fed += len(keys)

    def files(self, kind: str) -> list[Path]:
        """The files of the task."""
        return sorted((self.folder / str(TASK)).glob(f"*.{kind}"))


@given(
    places=st.lists(st.integers(0, 100), max_size=8),
    steps=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.booleans()), min_size=16, max_size=16),
    budget=st.sampled_from([0, 40, 1 << 20]),
    most_deltas=st.sampled_from([0, 1, 3, 256]),
)
def test_answers_do_not_depend_on_cuts_workers_retries_late_writers_or_compaction(
    tmp_path_factory: pytest.TempPathFactory,
    places: list[int],
    steps: list[tuple[int, int, bool]],
    budget: int,
    most_deltas: int,
) -> None:
    query = Query(tmp_path_factory.mktemp("log"), budget)
    ends = sorted({place % (len(KEYS) + 1) for place in places} | {0, len(KEYS)})
    pieces = [KEYS[start:end] for start, end in pairwise(ends)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_module, "_MOST_DELTAS", most_deltas)
        for piece, (worker, retries, is_late) in zip(pieces, steps, strict=False):
            for _ in range(retries):
                query.run(piece, 1 - worker)
            batch, at = query.batch, query.fed
            query.push(piece, worker)
            if is_late:  # a worker that was thought dead writes what it has
                zombie = Query(query.folder)
                zombie.run(piece, batch=batch, at=at)
    assert query.out == expected(KEYS)


def test_who_follows_has_the_state_and_goes_on_from_its_tail(tmp_path: Path) -> None:
    query, standby = Query(tmp_path), StateCache()

    def follow(*, is_wanted: bool) -> bool:
        log = OperatorFolder(tmp_path, query.batch, "operator count_1").of(TASK, is_followed=False)
        return TaskRunner(query.spec, "q", standby).follow(TASK, log, is_wanted=is_wanted)

    query.push([1, 2])
    assert not follow(is_wanted=False)  # another worker is to have it
    assert follow(is_wanted=True)
    query.push([1])
    read = [path.name for path in query.files("delta")]
    query.files("delta")[0].unlink()  # what it has read it needs no more
    assert follow(is_wanted=False)
    assert len(read) == 2
    query.workers[0] = standby
    query.push([2, 1])
    assert query.metrics["restored_cache"] == 1
    assert query.out == expected([1, 2, 1, 2, 1])


def test_what_is_in_memory_of_one_that_answers_otherwise_is_not_taken(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.push([1, 2])
    query.spec = replace(query.spec, answers="otherwise")
    query.push([1])
    assert query.metrics["restored_snapshot"] == 1
    assert query.out == expected([1, 2, 1])


def test_a_micro_batch_that_was_not_committed_counts_for_nothing(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.push([1])
    query.run([1, 1, 1])
    query.push([2, 1], worker=1)
    assert query.metrics["restored_snapshot"] == 1
    assert query.out == expected([1, 2, 1])


def test_rows_once_more_change_no_token_whoever_answers_them(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.push([1])
    query.run([1, 1])
    first = query.files("delta")[-1].read_bytes()
    query.run([1, 1], worker=1)
    assert query.files("delta")[-1].read_bytes() == first
    query.push([1, 1])
    query.push([1])
    assert query.metrics["restored_cache"] == 1


def test_a_task_without_rows_stays_where_it_is(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.push([1])
    for _ in range(40):
        query.push([])
    query.push([1])
    assert query.out == expected([1, 1])
    assert len(list((tmp_path / "batches").iterdir())) == 17 * PARTITIONS


def test_what_nobody_needs_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_MOST_DELTAS", 3)
    query = Query(tmp_path)
    for _ in range(100):
        query.push([1, 2])
    assert len(query.files("snapshot")) == 2
    assert len(query.files("delta")) < 24
    assert len(query.files("head")) == 5
    assert tasks_in(tmp_path) == [TASK]
    assert notes_in(tmp_path, "operator") == {TASK: {"batch": 99, "rows": 2}}


def seen(folder: Path, batch: int) -> dict[int, int]:
    log = OperatorFolder(folder, batch + 1, "operator count_1").of(TASK, is_followed=False)
    logic = restore(Counting, log, checked_head(log, SPEC.belongs_to, "here"), None, "here").logic
    assert isinstance(logic, Counting)
    return logic.counts


def test_who_looks_sees_the_micro_batch_asked_for_or_a_later_one(tmp_path: Path) -> None:
    query = Query(tmp_path)
    for _ in range(8):
        query.push([1])
    assert [seen(tmp_path, batch) for batch in (7, 6, 5, 4, 0)] == [{1: 8}, {1: 7}, {1: 6}, {1: 5}, {1: 4}]


def gone(kind: str) -> Callable[[Query], None]:
    return lambda query: query.files(kind)[-1].unlink()


def torn(kind: str) -> Callable[[Query], None]:
    def tear(query: Query) -> None:
        path = query.files(kind)[-1]
        path.write_bytes(path.read_bytes()[:-9])

    return tear


def swapped(query: Query) -> None:
    query.files("delta")[-1].write_bytes(query.files("delta")[0].read_bytes())


def without_the_last(query: Query) -> None:
    for path in (tmp for tmp in query.folder.rglob(f"*{query.batch - 1}.*") if tmp.is_file()):
        path.unlink()


def without_the_task(query: Query) -> None:
    for path in (query.folder / str(TASK)).iterdir():
        path.unlink()


def an_older_copy_around_it(query: Query) -> None:
    query.batch -= 2


def a_torn_note(query: Query) -> None:
    for path in (query.folder / "batches").glob(f"{query.batch - 1}.*"):
        path.write_text("0000\n{}")


@pytest.mark.parametrize(
    ("harm", "condition"),
    [
        (gone("head"), "STATE.MISSING_HEAD"),
        (gone("delta"), "STATE.MISSING_SEGMENT"),
        (torn("head"), "STATE.CORRUPT_FILE"),
        (torn("delta"), "STATE.CORRUPT_SEGMENT"),
        (swapped, "STATE.CORRUPT_SEGMENT"),
        (without_the_last, "STATE.MISSING_BATCH"),
        (without_the_task, "STATE.MISSING_HEAD"),
        (an_older_copy_around_it, "STATE.AHEAD"),
        (a_torn_note, "STATE.CORRUPT_FILE"),
    ],
)
def test_what_is_missing_or_torn_is_said(tmp_path: Path, harm: Callable[[Query], None], condition: str) -> None:
    query = Query(tmp_path)
    for _ in range(4):
        query.push([1, 2])
    harm(query)
    with pytest.raises(StateError) as refused:
        query.run([1], worker=1)
    assert refused.value.condition == condition
    assert "restore" in str(refused.value)


def test_the_state_of_another_query_is_refused(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.push([1])
    query.spec = replace(query.spec, fingerprint="another")
    with pytest.raises(StateError, match="OTHER_QUERY"):
        query.push([1])


def test_what_cannot_be_written_is_said_and_loses_nothing(tmp_path: Path) -> None:
    query = Query(tmp_path)
    query.push([1])
    (tmp_path / str(TASK) / "000000000002.1.head").mkdir()
    with pytest.raises(StateError, match=r"CANNOT_WRITE.*nothing is lost"):
        query.run([1])
    (tmp_path / str(TASK) / "000000000002.1.head").rmdir()
    assert [path.name for path in tmp_path.rglob(".*")] == []
    query.push([1])
    assert query.out == expected([1, 1])
