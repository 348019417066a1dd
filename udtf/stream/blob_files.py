"""Blobs that go from one worker to another of the same machine in files that both map; the engine moves their names.

Through the engine a blob goes through two sockets, rows of its own, a compressor and a shuffle: of a large micro-batch
that is an eighth of its time.

Why so: docs/design/20261129_blob_files.md.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from udtf.errors import StateError
from udtf.stream.shared_parts import write_at

if TYPE_CHECKING:
    from types import TracebackType

#: What stands in place of a blob begins with this, and no blob does: Arrow's streams begin with four bytes 255.
_MARK: Final = b"sqlx file "
#: What is smaller costs less through the engine than a file does.
LEAST_BYTES: Final = 64 << 10
#: All pages at once: to ask for each when it is read costs more.
_FLAGS: Final = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)


@dataclass(frozen=True)
class BlobFolder:
    """Where the blobs of a query are on their way, on the one machine where all its workers run.

    Attributes:
        path: a folder of this query's alone, which is made when there is a file to be in it.
        least_bytes: smaller blobs go through the engine.
    """

    path: str
    least_bytes: int = LEAST_BYTES


class BlobFiles:
    """The blobs that one run of a task sends: large ones in a file of its own.

    Files of earlier micro-batches are removed: each was committed before the next one began.

    Args:
        folder: where; None is nowhere, and each blob goes through the engine.
        batch: the number of the micro-batch.
    """

    def __init__(self, folder: BlobFolder | None, batch: int) -> None:
        """Make no file yet."""
        self._folder, self._batch, self._file, self._end = folder, batch, -1, 0
        self._path = ""
        if folder is not None:
            _remove_before(folder.path, batch)

    def __enter__(self) -> BlobFiles:
        """Send some."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Send no more; who reads them opens the file anew."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def sent(self, blob: pa.Buffer | None) -> pa.Buffer | None:
        """What the engine is to move in place of a blob; a small one itself, and each where a disk has no room."""
        if blob is None or self._folder is None or blob.size < self._folder.least_bytes:
            return blob
        start = self._end
        try:
            self._write(blob)
        except OSError:
            return blob
        return pa.py_buffer(_MARK + f"{start} {blob.size} {self._path}".encode())

    def _write(self, blob: pa.Buffer) -> None:
        if self._file < 0:
            assert self._folder is not None, "asked before"
            folder = Path(self._folder.path, str(self._batch))
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file, self._path = tempfile.mkstemp(dir=folder)
        end = write_at(self._file, blob, self._end)
        self._end = -(-end // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY


def _remove_before(path: str, batch: int) -> None:
    """Remove the files of micro-batches that were committed."""
    with suppress(OSError):  # most often there is none
        for name in os.listdir(path):
            if name.isdecimal() and int(name) < batch:
                shutil.rmtree(Path(path, name), ignore_errors=True)


def received(sent: pa.Buffer) -> pa.Buffer:
    """A blob of what came through the engine; one in a file is mapped, and stays so while somebody reads it.

    Raises:
        StateError: `STATE.MISSING_ROWS`: the file is not there any more.

    >>> received(pa.py_buffer(b"a small one")).to_pybytes()
    b'a small one'
    """
    if bytes(memoryview(sent)[: len(_MARK)]) != _MARK:
        return sent
    start, size, path = bytes(memoryview(sent)[len(_MARK) :]).decode().split(" ", 2)
    try:
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), int(size), flags=_FLAGS, prot=mmap.PROT_READ, offset=int(start))
    except (OSError, ValueError) as error:  # it is gone, or shorter
        raise StateError.missing_rows(path, str(error)) from None
    return pa.py_buffer(mapped)
