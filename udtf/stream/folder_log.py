"""Changelogs as files in a folder that all workers of a query see.

    <folder>/<operator>/<task>/<position>.<micro-batch>.delta, .snapshot   the segments of a task
    <folder>/<operator>/<task>/<position>.<micro-batch>.head               how far it was after that micro-batch
    <folder>/<operator>/tasks/<task>                                       the task has had a head
    <folder>/<operator>/batches/<micro-batch>.<number>     a partition has run this micro-batch, with rows or without

What a micro-batch writes counts from the next one on, which begins when this one was committed. So one that is run
again, after a failure or for a second reader, begins from where the one before it ended and writes the same once more;
so does a worker that was thought dead and writes late. A file appears whole, under its name, or not at all. Names end
in the number of the micro-batch, so that what is missing shows in what is there.

Why so: docs/design/20261125_changelog_folder.md.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from udtf.errors import StateError
from udtf.stream.log import Head

_TASKS, _BATCHES = "tasks", "batches"
_HEAD, _SNAPSHOT, _DELTA = "head", "snapshot", "delta"
_FORMAT: Final = 1
#: Of so many micro-batches it is told who ran them.
_KEPT_BATCHES: Final = 16
#: So many heads of a task stay, for those who read what a running query keeps.
_KEPT_HEADS: Final = 4


@dataclass(frozen=True)
class OperatorFolder:
    """The changelogs of an operator, during one micro-batch.

    Args:
        folder: of the operator.
        batch: the number of the micro-batch, from 0.
        place: the operator, for errors.
    """

    folder: Path
    batch: int
    place: str

    def check(self) -> None:
        """Whether the micro-batch before is there: a folder that lost its last ones would answer as if they never were.

        Raises:
            StateError: `STATE.MISSING_BATCH`, `STATE.CORRUPT_FILE`.
        """
        if self.batch == 0:
            return
        found = [name for batch, name in _batches_in(self.folder) if batch == self.batch - 1]
        parts = (_read(self.folder / _BATCHES / name, self.place)["partitions"] for name in found)
        wanted = min(parts, default=1)
        if len(found) < wanted:
            raise StateError.missing_batch(self.place, self.batch - 1, str(self.folder))

    def of(self, task: int, *, is_followed: bool = True) -> FolderLog:
        """The log of a task, as of the micro-batch before.

        Args:
            task: its number.
            is_followed: who asks is the query itself; others look while it goes on, and see a later micro-batch where
                the one that they wanted is gone.

        Raises:
            StateError: `STATE.MISSING_HEAD`, `STATE.CORRUPT_FILE`, `STATE.AHEAD`.
        """
        return FolderLog(self, task, is_followed)

    def ran(self, number: int, partitions: int) -> None:
        """Note that a partition has run.

        Args:
            number: what tells it from the others.
            partitions: how many there are.

        Raises:
            StateError: `STATE.CANNOT_WRITE`.
        """
        _write(self.folder / _BATCHES / f"{self.batch}.{number}", {"partitions": partitions}, self.place)
        for batch, name in _batches_in(self.folder):
            if batch < self.batch - _KEPT_BATCHES:
                (self.folder / _BATCHES / name).unlink(missing_ok=True)


class _Name(NamedTuple):
    """Of a file of a task."""

    position: int
    batch: int
    kind: str

    @staticmethod
    def of(text: str) -> _Name:
        position, batch, kind = text.split(".")
        return _Name(int(position), int(batch), kind)

    def __str__(self) -> str:
        return f"{self.position:012d}.{self.batch}.{self.kind}"


class FolderLog:
    """The log of one task, as files."""

    def __init__(self, operator: OperatorFolder, task: int, is_followed: bool) -> None:
        """What is there; see `OperatorFolder.of`."""
        self._operator, self._task = operator, task
        self._folder, self._place = operator.folder / str(task), f"{operator.place}, task {task}"
        self._names = _names(self._folder)
        self._added: Head | None = None
        last = self._last() if is_followed else self._last_seen()
        self._head = None if last is None else Head(**_read(self._folder / str(last), self._place)["head"])

    def _last(self) -> _Name | None:
        """The head as of the micro-batch before, where nothing is missing."""
        now = self._operator.batch
        later = [name.batch for name in self._names if name.batch > now]
        if later:
            raise StateError.ahead(self._place, max(later), now)
        before = [name for name in self._names if name.batch < now]
        last = max((name for name in before if name.kind == _HEAD), default=None)
        lost = [name for name in before if last is None or name.position > last.position]
        if lost or (not self._names and (self._operator.folder / _TASKS / str(self._task)).exists()):
            raise StateError.missing_head(self._place, str(self._folder))
        return last

    def _last_seen(self) -> _Name | None:
        """The same for who looks while the query goes on: where that head is gone, the earliest that is not."""
        heads = sorted(name for name in self._names if name.kind == _HEAD)
        before = [name for name in heads if name.batch < self._operator.batch]
        return before[-1] if before else next((name for name in heads[:1] if len(heads) > _KEPT_HEADS), None)

    def head(self) -> Head | None:
        """How far the history goes, as of the micro-batch before."""
        return self._head

    def tail(self, after: int) -> Iterator[tuple[int, bytes | None]]:
        """The segments after a number."""
        head = self._head
        names = {name.position: name for name in sorted(self._names, reverse=True) if name.kind != _HEAD}
        for position in range(after + 1, head.position + 1 if head else 0):
            try:
                yield position, (self._folder / str(names[position])).read_bytes()
            except (FileNotFoundError, KeyError):
                yield position, None

    def append(self, head: Head, segment: bytes) -> None:
        """Add a delta; it counts once `finish` was called."""
        self._add(head, segment, _DELTA)

    def compact(self, head: Head, snapshot: bytes) -> None:
        """Add a snapshot. What came before the last one stays until the next: whoever still reads it can go on."""
        self._add(head, snapshot, _SNAPSHOT)

    def _add(self, head: Head, segment: bytes, kind: str) -> None:
        _write_bytes(self._folder / str(_Name(head.position, self._operator.batch, kind)), segment, self._place)
        self._added = head

    def finish(self, note: Mapping[str, Any]) -> None:
        """Say how far the task is now, and delete what nobody needs any more.

        Args:
            note: what is told of this micro-batch.

        Raises:
            StateError: `STATE.CANNOT_WRITE`.
        """
        head = self._added
        if head is None:
            return
        facts = {"head": asdict(head), "note": dict(note)}
        _write(self._folder / str(_Name(head.position, self._operator.batch, _HEAD)), facts, self._place)
        if self._head is None:
            _write_bytes(self._operator.folder / _TASKS / str(self._task), b"", self._place)
        before = sorted(name for name in self._names if name.batch < self._operator.batch)
        self._delete([name for name in before if name.kind == _HEAD][:-_KEPT_HEADS])
        if head.begins_here:
            older = max((name for name in before if name.kind == _SNAPSHOT), default=None)
            self._delete(name for name in before if older and name.kind != _HEAD and name < older)

    def _delete(self, names: Iterable[_Name]) -> None:
        for name in names:
            (self._folder / str(name)).unlink(missing_ok=True)


def _names(folder: Path) -> list[_Name]:
    try:
        return [_Name.of(name) for name in os.listdir(folder) if name[0].isdigit()]
    except FileNotFoundError:
        return []


def _batches_in(folder: Path) -> list[tuple[int, str]]:
    """The micro-batches of which it is told who ran them: their numbers, and the names of the files that tell it."""
    try:
        names = os.listdir(folder / _BATCHES)
    except FileNotFoundError:
        return []
    return [(int(name.partition(".")[0]), name) for name in names if name[0].isdigit()]


def tasks_in(folder: Path) -> list[int]:
    """The tasks of an operator that have state."""
    try:
        return sorted(int(name) for name in os.listdir(folder / _TASKS) if name.isdigit())
    except FileNotFoundError:
        return []


def notes_in(folder: Path, place: str) -> dict[int, dict[str, Any]]:
    """What is told of each task by its last micro-batch, whose number is `batch`.

    Raises:
        StateError: `STATE.CORRUPT_FILE`.
    """
    notes: dict[int, dict[str, Any]] = {}
    for task in tasks_in(folder):
        for last in sorted((name for name in _names(folder / str(task)) if name.kind == _HEAD), reverse=True):
            try:
                facts = _read(folder / str(task) / str(last), f"{place}, task {task}")
            except FileNotFoundError:  # it has just been deleted
                continue
            notes[task] = {"batch": last.batch, **facts["note"]}
            break
    return notes


def _write(path: Path, facts: Mapping[str, Any], place: str) -> None:
    """As two lines: a checksum, and what it is of."""
    body = json.dumps({"format": _FORMAT, **facts}).encode()
    _write_bytes(path, b"%08x\n%s\n" % (zlib.crc32(body), body), place)


def _read(path: Path, place: str) -> dict[str, Any]:
    """Read what `_write` wrote.

    Raises:
        StateError: `STATE.CORRUPT_FILE`, `STATE.FORMAT`.
        FileNotFoundError: there is no such file.
    """
    checksum, _, body = path.read_bytes().rstrip(b"\n").partition(b"\n")
    if checksum != b"%08x" % zlib.crc32(body):
        raise StateError.corrupt_file(place, str(path))
    facts: dict[str, Any] = json.loads(body)
    if facts["format"] != _FORMAT:
        raise StateError.format(place, facts["format"], _FORMAT)
    return facts


def _write_bytes(path: Path, data: bytes, place: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        try:
            draft.write_bytes(data)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise StateError.cannot_write(place, str(path), error.strerror or str(error)) from error
