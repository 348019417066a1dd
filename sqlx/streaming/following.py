"""Follows the changelogs of streams that another process runs: the workers of this one have their states in memory.

A driver that stands by reads after each micro-batch what was added, so that on the day it takes over nothing has to be
restored. What is kept so is trusted no more than any other state in memory: a task compares it with its changelog.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, Self

from pyspark.errors import PySparkException

from sqlx.streaming.backend import changelog_path
from sqlx.streaming.checkpoint import Checkpoint
from udtf.engine import engine_of
from udtf.engine.folders import HadoopFolder
from udtf.engine.java import Py4JJavaError
from udtf.spark.changelog import follow_tasks
from udtf.spark.stream import in_state_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.sql.definitions import StreamingTable
    from udtf.spark.kept import Stateful

_log = logging.getLogger("sqlx")
#: How often it looks whether a micro-batch was committed.
_LOOK_SECONDS: Final = 0.5


@dataclass
class FollowedStream:
    """A stream of another process.

    Args:
        spark: the session.
        statement: what runs there.
        path: the folder of its checkpoint.
        operators: of its query, those that keep state.

    Attributes:
        batch: the micro-batch up to which its states are in memory here; -1 is none.
    """

    spark: SparkSession
    statement: StreamingTable
    path: str
    operators: Sequence[Stateful]
    batch: int = field(default=-1, init=False)

    def catch_up(self) -> bool:
        """Read what was added; whether anything was."""
        folder, last = changelog_path(self._checkpoint), self._checkpoint.last_batch
        if folder is None or last <= self.batch or not Path(folder).is_dir():
            return False
        engine = engine_of(self.spark)
        with in_state_workers(engine):
            places = self.spark.range(0, engine.cores, 1, engine.cores)
            specs = tuple(one.spec for one in self.operators)
            look = partial(follow_tasks, specs, self._query, folder, last, engine.cores)
            engine.live_rows(places, look, "task INT").collect()
        self.batch = last
        return True

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self.spark, self.statement, self.path)

    @cached_property
    def _query(self) -> str:
        """The id of the query, which is its checkpoint's: asked once there is one."""
        return str(json.loads(HadoopFolder(self.spark, self._checkpoint.path).read("metadata") or "{}")["id"])


class Following:
    """Follows streams for as long as it is entered.

    Args:
        streams: of another process.
        tell: hears when all states of a stream are in memory, once.
    """

    def __init__(self, streams: Sequence[FollowedStream], tell: Callable[[str], None]) -> None:
        self._streams, self._ended, self._tell = streams, Event(), tell
        self._thread = Thread(target=self._follow, name="sqlx following", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Read no more. What is being read is read to its end: the stream needs it."""
        self._ended.set()

    def _follow(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            for stream in self._streams:
                try:
                    is_first = stream.batch < 0
                    if stream.catch_up() and is_first:
                        name = ".".join(stream.statement.name)
                        self._tell(f"Standing by: the states of `{name}` are in memory here, and follow those there.")
                except (PySparkException, Py4JJavaError, ValueError, KeyError, OSError) as error:
                    # Its states are restored on the day instead, and what is wrong with them is said then.
                    _log.debug("%s cannot be followed: %s", stream.path, error)
