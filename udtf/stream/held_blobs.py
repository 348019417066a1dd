"""The blobs of a micro-batch by task, until it is the task's turn: in memory, and beyond a bound in a file."""

from __future__ import annotations

import mmap
import tempfile
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from udtf.stream.blob_files import received

if TYPE_CHECKING:
    from types import TracebackType
    from typing import IO

_MOST_BYTES: Final = 256 << 20
#: Side, source partition, number within it.
Place = tuple[int, int, int]


class HeldBlobs:
    """Blobs of the tasks of a partition.

    Args:
        most_bytes: as many stay in memory; what comes later waits in a file that is mapped.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        """Hold none yet."""
        self._left_bytes = most_bytes
        self._held: dict[int, list[tuple[Place, Any]]] = {}
        self._file: IO[bytes] | None = None

    def __enter__(self) -> HeldBlobs:
        """Hold them as long as they are asked for."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Delete the file."""
        self._held.clear()
        if self._file is not None:
            self._file.close()

    @property
    def tasks(self) -> list[int]:
        """The tasks that have blobs."""
        return sorted(self._held)

    def add(self, task: int, place: Place, blob: pa.Buffer) -> None:
        """Hold a blob of a task; of one in a file where that is."""
        self._left_bytes -= blob.size
        self._held.setdefault(task, []).append((place, blob if self._left_bytes >= 0 else self._filed(blob)))

    def of(self, task: int) -> list[tuple[int, int, int, pa.Buffer]]:
        """The blobs of a task: by input, source partition and number; they are not held any more."""
        found = sorted(self._held.pop(task), key=lambda one: one[0])
        return [(*place, received(self._mapped(*blob) if isinstance(blob, tuple) else blob)) for place, blob in found]

    def _filed(self, blob: pa.Buffer) -> tuple[int, int]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="sqlx-")  # noqa: SIM115 - closed with this
        start = self._file.seek(0, 2)
        self._file.write(blob)
        return start, blob.size

    def _mapped(self, start: int, size: int) -> pa.Buffer:
        assert self._file is not None, "it was written"
        self._file.flush()
        first = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(self._file.fileno(), start - first + size, access=mmap.ACCESS_READ, offset=first)
        return pa.py_buffer(mapped).slice(start - first, size)
