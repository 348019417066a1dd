"""Workers of one executor: whichever gets a task, the one that has its state answers."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest

from tests.harness.counting import ROW, Counting
from tests.unit.udtf.test_stream_task import SPEC, Driver, expected, rows
from udtf.logic import StreamEmission
from udtf.stream import siblings as module
from udtf.stream.blobs import Delivered, to_blob
from udtf.stream.cache import StateCache
from udtf.stream.log import MemoryLog
from udtf.stream.siblings import ALONE, Siblings, of_this_executor
from udtf.stream.task import TaskRunner


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: the path of a socket has at most 107 bytes."""
    with TemporaryDirectory(prefix="sqlx") as made:
        yield Path(made)


def test_the_state_stays_and_the_rows_go_to_it(folder: Path) -> None:
    driver = Driver(folder=folder)
    driver.push([1, 1])
    for worker in (1, 1, 0, 1):
        driver.push([1, 2, -1], worker, digest=b"a")
        assert (driver.metrics["restored_cache"], driver.metrics.get("from_sibling", 0)) == (1, worker)
    assert driver.out == expected([1, 1] + [1, 2, -1] * 4)
    assert [len(cache) for cache in driver.workers] == [1, 0]


def test_refused_rows_come_back_too(folder: Path) -> None:
    log, late = MemoryLog(), []
    for worker in (Siblings(folder), Siblings(folder)):
        emission = TaskRunner(SPEC, "q", StateCache(), worker).run(3, log, [rows([-1, 1])])
        late.append(emission.late[0].to_pylist())
    assert late[0] == late[1]
    assert len(late[0]) == 1


def test_a_state_moves_where_its_worker_is_at_work(folder: Path) -> None:
    driver = Driver(folder=folder)
    driver.push([1, 1])
    with driver.siblings[0].at_work:
        driver.push([1, 2], worker=1)
    assert driver.metrics["from_sibling"] == 1
    assert driver.metrics["restored_cache"] == 1
    assert [len(cache) for cache in driver.workers] == [0, 1]
    driver.push([2])
    assert [len(cache) for cache in driver.workers] == [0, 1]
    assert driver.out == expected([1, 1, 1, 2, 2])


def test_an_answer_that_was_lost_is_given_again(folder: Path) -> None:
    driver = Driver(folder=folder)
    driver.push([1])
    first = driver.push([1, 1], worker=1, commit=False, digest=b"a")
    assert driver.push([1, 1], worker=1, digest=b"a") == first
    assert driver.metrics["from_sibling"] == 1
    driver.push([1])
    assert driver.metrics["restored_cache"] == 1
    assert driver.out == expected([1] * 4)


def test_a_state_of_a_history_that_was_given_up_is_not_answered_from(folder: Path) -> None:
    driver = Driver(folder=folder)
    driver.push([1])
    driver.push([1, 1], commit=False)
    driver.push([2], worker=1)
    assert driver.metrics["restored_snapshot"] == 1
    assert driver.out == expected([1, 2])


def test_a_state_that_was_forgotten_is_read_and_announced_anew(folder: Path) -> None:
    driver = Driver(folder=folder)
    driver.push([1])
    driver.workers[0] = StateCache()
    driver.siblings[0]._has.clear()
    driver.push([1], worker=1)
    assert driver.metrics["restored_snapshot"] == 1
    driver.push([1])
    assert driver.metrics["from_sibling"] == 1
    assert driver.out == expected([1, 1, 1])


def test_rows_go_to_a_sibling_as_they_were_delivered(folder: Path) -> None:
    """In several blobs, with columns that are codes of others in one of them."""
    schema = pa.schema([*ROW, ("file", pa.string())])
    pieces = [rows([1, 2], 10), rows([2, -1], 20)]
    whole = [piece.append_column("file", pa.array(["f", "f"])) for piece in pieces]
    coded = whole[1].set_column(4, "file", whole[1]["file"].dictionary_encode())
    delivered = Delivered([[to_blob(piece.to_batches()) for piece in (whole[0], coded)]], [schema])
    log = MemoryLog()
    for number in range(2):
        runner = TaskRunner(SPEC, "q", StateCache(), Siblings(folder))
        emission = runner.run(3, log, delivered, b"%d" % number)
        assert emission.metrics.get("from_sibling", 0) == number
        assert emission.rows["n"].to_pylist() == ([1, 1, 2], [2, 3, 4])[number]
        assert emission.late[0].to_pylist() == whole[1].slice(1).to_pylist()


def test_lines_that_have_ended_take_no_share_of_the_memory_of_others(folder: Path) -> None:
    log, first = MemoryLog(), Siblings(folder)
    TaskRunner(SPEC, "q", StateCache(), first).run(3, log, [rows([1])])
    shares = []
    for _ in range(3):
        before, asking = set(threading.enumerate()), Siblings(folder)
        assert TaskRunner(SPEC, "q", StateCache(), asking).run(3, log, [rows([1])]).metrics["from_sibling"] == 1
        (line,) = first._served
        shares.append(line._most_kept_bytes)
        (serving,) = (one for one in set(threading.enumerate()) - before if one.name == "sqlx sibling")
        asking.close()
        serving.join(10)
        assert not first._served
    assert len(set(shares)) == 1
    first.close()


class FailsAway(Counting):
    """Fails in the worker that has its state, not in one that reads it from the log."""

    counted = 0

    def on_batch(self, inputs, sides):  # type: ignore[no-untyped-def]
        self.counted += 1
        if self.counted > 1:
            raise MemoryError("too large for this worker")
        return super().on_batch(inputs, sides)


def test_what_fails_there_is_done_here_from_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(folder=folder)
    driver.spec = type(SPEC)("count_1", FailsAway, "counting", tasks=4)
    driver.push([1])
    with caplog.at_level(logging.WARNING, logger="sqlx"):
        driver.push([1], worker=1)
    assert driver.metrics["restored_snapshot"] == 1
    assert "failed in the worker" in caplog.text
    assert driver.out == expected([1, 1])


class Idle(Counting):
    """Gives out nothing but the number of its keys."""

    def close_idle(self, rows: pa.Table) -> StreamEmission:
        return StreamEmission(pa.table({"n": [len(self.counts)]}), (rows,), {}, None)


def test_what_is_open_is_given_out_where_it_is(folder: Path) -> None:
    spec = type(SPEC)("count_1", Idle, "counting", tasks=4)
    log = MemoryLog()
    workers = [TaskRunner(spec, "q", StateCache(), Siblings(folder)) for _ in range(2)]
    workers[0].run(3, log, [rows([1, 2])])
    emission = workers[1].idle(3, log, [rows([])])
    assert emission.rows["n"].to_pylist() == [2]
    assert emission.metrics["from_sibling"] == 1
    assert log.current is not None
    assert log.current.position == 1


def _first_micro_batch(folder: str, answered: multiprocessing.connection.Connection) -> None:
    log = MemoryLog()
    TaskRunner(SPEC, "q", StateCache(), Siblings(Path(folder))).run(3, log, [rows([1, 1])])
    answered.send((log.segments, log.current))
    signal.pause()


def test_a_process_that_dies_is_done_without(folder: Path) -> None:
    here, there = multiprocessing.Pipe()
    worker = multiprocessing.get_context("spawn").Process(target=_first_micro_batch, args=(str(folder), there))
    worker.start()
    driver = Driver(folder=folder)
    driver.log.segments, driver.log.current = here.recv()
    driver.fed = 2
    driver.push([1])
    assert driver.metrics["from_sibling"] == 1
    os.kill(worker.pid or 0, signal.SIGKILL)
    worker.join()
    driver.push([1])
    assert driver.metrics["restored_snapshot"] == 1
    assert driver.out == [(1, 2, 3), (1, 3, 4)]
    sockets = {path.name.partition("-")[0] for path in folder.glob("*.socket")}
    assert sockets == {str(os.getpid())}, "what the dead one left behind goes"


def test_a_folder_that_others_can_write_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(folder))
    monkeypatch.setattr(module, "_PREFIX", "open")
    of_this_executor.cache_clear()
    try:
        (folder / f"open-{os.getuid()}-{os.getppid()}").mkdir(mode=0o777)
        (folder / f"open-{os.getuid()}-{os.getppid()}").chmod(0o777)
        with caplog.at_level(logging.WARNING, logger="sqlx"):
            assert of_this_executor() is ALONE
        assert "not theirs alone" in caplog.text
        of_this_executor.cache_clear()
        (folder / f"open-{os.getuid()}-{os.getppid()}").chmod(0o700)
        (folder / f"open-{os.getuid()}-{2**22 + 1}").mkdir()
        assert of_this_executor().folder is not None
        assert len(list(folder.iterdir())) == 1, "what an executor that has ended left behind goes"
    finally:
        of_this_executor.cache_clear()


def test_a_path_that_is_too_long_for_a_socket_is_said_and_done_without(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = folder / ("x" * 120)
    long.mkdir()
    driver = Driver(folder=long)
    with caplog.at_level(logging.WARNING, logger="sqlx"):
        driver.push([1])
    driver.push([1], worker=1)
    assert driver.metrics["restored_snapshot"] == 1
    assert "cannot share states" in caplog.text
