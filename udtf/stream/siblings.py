"""The workers of one executor answer for each other: a micro-batch goes to the one that has the task's state.

Spark hands the Python workers of an executor out in turn, so a task meets another one each time. The state stays where
it is; the rows go there, and the answer comes back. What is asked and answered goes through sockets in a folder that
only this user can read; which worker has which task is a file there.

Why so: docs/design/20261123_siblings.md.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from udtf.local_folder import private_folder
from udtf.logic import StreamEmission
from udtf.stream.asked import Answer, Asked
from udtf.stream.blobs import Delivered, from_blob, to_blob
from udtf.stream.log import Head
from udtf.stream.shared_parts import Line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udtf.stream.asked import CacheKey

_log = logging.getLogger("sqlx")
_PREFIX: Final = "sqlx-workers"
_GONE: Final[dict[str, Any]] = {"kind": "gone"}


class Answers(Protocol):
    """Who has states, and answers from them."""

    def answer_for(self, asked: Asked) -> Answer | bytes | None:
        """The answer; a sealed snapshot where the state moves to who asks; None where it is not here (any more)."""
        ...


@dataclass(eq=False)
class Siblings:
    """This process among the workers of its executor.

    Args:
        folder: where they find each other; None is alone.

    Attributes:
        at_work: whoever computes holds it, for oneself or for another: states are not shared between threads.
    """

    folder: Path | None = None
    at_work: threading.Lock = field(default_factory=threading.Lock)
    _name: str = ""
    _listener: socket.socket | None = None
    _has: dict[CacheKey, Answers] = field(default_factory=dict)
    _open: dict[str, Line] = field(default_factory=dict)
    _served: set[Line] = field(default_factory=set)

    def announce(self, key: CacheKey, answers: Answers) -> None:
        """Say that this process has a task's state."""
        if self.folder is None:
            return
        self._has[key] = answers
        try:
            if not self._name:
                self._listen()
            place = self._place(key)
            if not place.exists() or place.read_text() != self._name:
                draft = self.folder / f"{place.name}.{self._name}"
                draft.write_text(self._name)
                draft.replace(place)
        except OSError as error:
            _log.warning("The Python workers of this executor cannot share states: %s", error)
            self.folder = None

    def ask(self, asked: Asked) -> Answer | bytes | None:
        """What the sibling that has the state says, see `Answers`; None where there is none, or it does not answer.

        The tables of an answer are there until the next time that a sibling is asked.
        """
        name = self.owner(asked.key)
        if not name:
            return None
        try:
            return _read_answer(_exchange(self._connected(name), asked))
        except (OSError, EOFError):
            if name in self._open:
                self._open.pop(name).close()
            return None

    def owner(self, key: CacheKey) -> str:
        """The name of another process that has announced the task; "" where there is none."""
        if self.folder is None:
            return ""
        try:
            name = self._place(key).read_text()
        except OSError:
            return ""
        return "" if name == self._name else name

    def _place(self, key: CacheKey) -> Path:
        assert self.folder is not None, "asked only where there is one"
        return self.folder / hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()

    def _connected(self, name: str) -> Line:
        if name not in self._open:
            connected = socket.socket(socket.AF_UNIX)
            try:
                connected.connect(self._socket_of(name))
            except OSError:
                connected.close()
                raise
            self._open[name] = Line(connected, beside=len(self._open))
        return self._open[name]

    def _socket_of(self, name: str) -> str:
        assert self.folder is not None, "asked only where there is one"
        return str(self.folder / f"{name}.socket")

    def close(self) -> None:
        """Neither answer nor ask any more."""
        self.folder = None
        self._has.clear()
        self._hang_up()
        if self._listener is not None:
            with suppress(OSError):  # wakes up who waits for a call
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def __del__(self) -> None:
        """Leave no line open."""
        self._hang_up()

    def _hang_up(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    # answering

    def _listen(self) -> None:
        assert self.folder is not None, "asked only where there is one"
        for left in self.folder.glob("*.socket"):
            if not _lives(left.name.partition("-")[0]):
                left.unlink(missing_ok=True)
        name = f"{os.getpid()}-{os.urandom(4).hex()}"
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(self._socket_of(name))
        except OSError:
            listener.close()
            raise
        listener.listen()
        threading.Thread(target=self._accept, args=(listener,), name="sqlx siblings", daemon=True).start()
        self._name, self._listener = name, listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connected, _ = listener.accept()
            except OSError:
                return
            line = Line(connected, beside=len(self._served))
            self._served.add(line)
            threading.Thread(target=self._serve, args=(line,), name="sqlx sibling", daemon=True).start()

    def _serve(self, line: Line) -> None:
        with suppress(OSError, EOFError), line:
            while True:
                asked = _read_asked(*line.receive())
                line.send(*_answer_parts(self._answered(asked)))
        self._served.discard(line)

    def _answered(self, asked: Asked) -> Answer | bytes | None:
        answers = self._has.get(asked.key)
        try:
            found = None if answers is None else answers.answer_for(asked)
        except Exception:  # noqa: BLE001 - who asks does it once more from the log, and says what is wrong
            _log.warning("A micro-batch failed in the worker that had its state", exc_info=True)
            found = None
        if not isinstance(found, Answer):
            self._has.pop(asked.key, None)
        return found


#: For a process that has no siblings.
ALONE: Final = Siblings()


@cache
def of_this_executor() -> Siblings:
    """Those of this worker: they have the same parent, Spark's daemon. Where a system has no such sockets, none."""
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "getuid"):
        return ALONE
    try:
        folder = Path(private_folder(f"{_PREFIX}-{os.getuid()}-{os.getppid()}"))
    except OSError as error:
        _log.warning("Python workers do not share states, as their folder is not theirs alone, or not there: %s", error)
        return ALONE
    _forget_the_dead(folder.parent)
    return Siblings(folder)


def _forget_the_dead(beside: Path) -> None:
    """Delete the folders of this user's executors that have ended."""
    import shutil

    for folder in beside.glob(f"{_PREFIX}-{os.getuid()}-*"):
        if not _lives(folder.name.rpartition("-")[2]):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(process: str) -> bool:
    """Whether there may be a process of that number; what is no number is not ours to judge."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError):
        return True
    return True


def _exchange(line: Line, asked: Asked) -> tuple[dict[str, Any], list[pa.Buffer]]:
    inputs = asked.inputs if isinstance(asked.inputs, Delivered) else _delivered(asked.inputs)
    described = {
        "key": asked.key,
        "head": asdict(asked.head),
        "digest": asked.digest.hex(),
        "idle": asked.is_idle,
        "blobs": [len(blobs) for blobs in inputs.blobs],
    }
    schemas = [schema.serialize() for schema in inputs.schemas]
    line.send(described, [*schemas, *chain.from_iterable(inputs.blobs)])
    return line.receive()


def _read_asked(found: dict[str, Any], parts: list[pa.Buffer]) -> Asked:
    """What is asked, in memory of its own: what is answered may hold on to the rows."""
    query, operator, task = found["key"]
    counts: list[int] = found["blobs"]
    schemas = [pa.ipc.read_schema(part) for part in parts[: len(counts)]]
    blobs = (pa.py_buffer(part.to_pybytes()) for part in parts[len(counts) :])
    inputs = Delivered([list(islice(blobs, count)) for count in counts], schemas)
    return Asked((query, operator, task), Head(**found["head"]), inputs, bytes.fromhex(found["digest"]), found["idle"])


def _answer_parts(found: Answer | bytes | None) -> tuple[dict[str, Any], list[bytes | pa.Buffer]]:
    if found is None:
        return _GONE, []
    if isinstance(found, bytes):
        return {"kind": "moved"}, [found]
    emission = found.emission
    described = {"kind": "answer", "head": asdict(found.head), "metrics": emission.metrics}
    return described, [found.segment, *(_blob(table) for table in (emission.rows, *emission.late))]


def _read_answer(found: tuple[dict[str, Any], list[pa.Buffer]]) -> Answer | bytes | None:
    described, parts = found
    if described["kind"] == "gone":
        return None
    if described["kind"] == "moved":
        return bytes(parts[0])
    rows, *late = (from_blob(part) for part in parts[1:])
    emission = StreamEmission(rows, tuple(late), described["metrics"], None)
    return Answer(Head(**described["head"]), bytes(parts[0]), emission)


def _delivered(tables: Sequence[pa.Table]) -> Delivered:
    return Delivered([[_blob(table)] for table in tables], [table.schema for table in tables])


def _blob(table: pa.Table) -> pa.Buffer:
    return to_blob(table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)])
