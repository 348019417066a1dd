"""Blobs that go from one worker to another in files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from udtf.errors import StateError
from udtf.stream.blob_files import BlobFiles, BlobFolder, received
from udtf.stream.blobs import bytes_at, column_of, from_blob, to_blob
from udtf.stream.held_blobs import HeldBlobs

ROWS = pa.RecordBatch.from_pydict({"id": list(range(100))})


def all_in_files(folder: Path) -> BlobFolder:
    return BlobFolder(str(folder / "own"), least_bytes=0)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_blobs_come_as_they_were_sent(tmp_path: Path) -> None:
    blobs = [pa.py_buffer(os.urandom(size)) for size in (1, 4096, 5000, 100_000)] + [to_blob([ROWS])]
    with BlobFiles(all_in_files(tmp_path), 3) as files:
        sent = [files.sent(blob) for blob in blobs]
    assert all(one is not None and one.size < 300 for one in sent)
    assert [received(one) for one in sent] == blobs
    assert from_blob(received(sent[-1])).to_batches() == [ROWS]
    (path,) = files_in(tmp_path)
    assert path.stat().st_mode & 0o077 == 0  # nobody else's business


def test_small_ones_go_through_the_engine(tmp_path: Path) -> None:
    small, large = pa.py_buffer(b"s" * 99), pa.py_buffer(b"l" * 100)
    with BlobFiles(BlobFolder(str(tmp_path / "own"), least_bytes=100), 0) as files:
        assert files.sent(small) is small
        assert files_in(tmp_path) == []
        sent = files.sent(large)
        assert sent is not large
        assert received(sent) == large
        assert files.sent(None) is None
    with BlobFiles(None, 0) as nowhere:
        assert nowhere.sent(large) is large


def test_no_arrow_stream_looks_like_a_name() -> None:
    blob = to_blob([ROWS])
    assert received(blob) is blob
    assert received(pa.py_buffer(b"")) == pa.py_buffer(b"")


def test_files_go_with_the_next_micro_batch_and_what_is_mapped_stays(tmp_path: Path) -> None:
    folder, blob = all_in_files(tmp_path), to_blob([ROWS])
    with BlobFiles(folder, 9) as one, BlobFiles(folder, 9) as other:  # two tasks, or two attempts of one
        sent = [one.sent(blob), other.sent(blob)]
    assert len(files_in(tmp_path)) == 2
    found = from_blob(received(sent[0]))
    with BlobFiles(folder, 10) as files:
        assert files_in(tmp_path) == []
        assert received(files.sent(blob)) == blob
    assert found.to_batches() == [ROWS]


def test_of_a_later_micro_batch_nothing_is_removed(tmp_path: Path) -> None:
    folder, blob = all_in_files(tmp_path), to_blob([ROWS])
    with BlobFiles(folder, 10) as files:
        sent = files.sent(blob)
    with BlobFiles(folder, 9):  # an attempt that was thought dead
        pass
    assert received(sent) == blob


def test_a_full_disk_sends_it_through_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pa.py_buffer(b"1" * 5000), pa.py_buffer(b"2" * 5000)
    with BlobFiles(all_in_files(tmp_path), 0) as files:
        sent = files.sent(first)

        def full(*_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            assert files.sent(second) is second
        again = files.sent(second)
    assert received(sent) == first
    assert received(again) == second


def test_a_folder_that_cannot_be_made_sends_it_through_the_engine(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("a file")
    blob = to_blob([ROWS])
    with BlobFiles(all_in_files(tmp_path), 0) as files:
        assert files.sent(blob) is blob


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: os.truncate(path, 10)])
def test_a_file_that_somebody_removed_is_said_by_name(tmp_path: Path, harm: object) -> None:
    with BlobFiles(all_in_files(tmp_path), 0) as files:
        sent = files.sent(to_blob([ROWS]))
    (path,) = files_in(tmp_path)
    assert callable(harm)
    harm(path)
    with pytest.raises(StateError, match="nothing is lost") as refused:
        received(sent)
    assert refused.value.condition == "STATE.MISSING_ROWS"
    assert str(path) in str(refused.value)


def test_held_blobs_are_mapped_when_it_is_the_turn_of_their_task(tmp_path: Path) -> None:
    blob = to_blob([ROWS])
    with BlobFiles(all_in_files(tmp_path), 0) as files, HeldBlobs(most_bytes=100) as held:
        for number, one in enumerate((files.sent(blob), blob)):
            held.add(4, (0, 0, number), bytes_at(column_of(one), 0))
        assert [found for *_, found in held.of(4)] == [blob, blob]
