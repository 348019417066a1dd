"""Reads the history of a streaming table's sources before its stream: in order, slice by slice, through the same query.

The slices are files in the checkpoint. They come into a folder that the query reads in place of its sources, so that it
writes their results as those of any micro-batch; then the checkpoint is handed over to the sources. Why so:
docs/design/20261125_backfill.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import DateType, NumericType, TimestampNTZType, TimestampType

from sqlx.spark.histories import NUMBER, Cut, Histories, beyond, event_time, from_slices, of_slices, shown
from sqlx.streaming.history import History, HistoryReader
from udtf.engine import engine_of
from udtf.engine.folders import HadoopFolder, last_number
from udtf.engine.settings import whole_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from sqlx.sql.definitions import StreamingTable
    from sqlx.streaming.checkpoint import Checkpoint

#: The setting that says how many rows of history a micro-batch reads about.
ROWS: Final = "sqlx.backfill.rows"
_USUAL_ROWS: Final = 2_000_000
FOLDER: Final = "backfill"
_STAGED, _READY = "staged", "ready"
_KEY, _RANK, _SLICE = "__key", "__rank", "__slice"
#: Rows of a slice have numbers of their own below this one.
_SLICE_SHIFT: Final = 40
_ROW_MASK: Final = (1 << 33) - 1
#: The time of the first slice's files, seconds since 1970.
_FIRST_S: Final = 1_000_000_000
#: A row group that is never full: files are read in pieces, which come in any order.
_ONE_PIECE: Final = str((1 << 31) - (1 << 24))


@dataclass(frozen=True)
class Progress:
    """How far a backfill is.

    Attributes:
        cuts: up to where each source is history, by its place.
        slices: into how many pieces the history was cut.
        rows: how many it has.
        handed_over: the last micro-batch of the history; None where it is not read to its end.
    """

    cuts: dict[str, Cut]
    slices: int
    rows: int
    handed_over: int | None = None

    @classmethod
    def read(cls, text: str) -> Progress:
        """From its note."""
        facts: dict[str, Any] = json.loads(text)
        cuts = {place: Cut(**cut) for place, cut in facts.pop("cuts").items()}
        return cls(cuts, **facts)

    @property
    def text(self) -> str:
        """Its note."""
        return json.dumps(asdict(self), indent=1) + "\n"


class Backfilling:
    """One BACKFILL.

    Args:
        spark: the session.
        statement: what was written.
        path: the folder of the checkpoint.
        is_new: whether it begins anew, whatever the checkpoint holds.
    """

    def __init__(self, spark: SparkSession, statement: StreamingTable, path: str, *, is_new: bool) -> None:
        self._spark, self._path = spark, path
        self._folder = HadoopFolder(spark, f"{path}/{FOLDER}")
        noted = None if is_new else self._folder.noted()
        self.progress = None if noted is None else Progress.read(noted)
        self.is_over = self.progress is not None and self.progress.handed_over is not None
        self._reader = HistoryReader(spark, statement, {} if self.progress is None else self.progress.cuts)
        # When it is over the history may be gone.
        self._histories: tuple[History, ...] = () if self.is_over else self._reader.read()

    @property
    def beyond(self) -> Histories:
        """What is left of each source when its history was read."""
        return beyond(self._cuts if self.progress is None else self.progress.cuts)

    @property
    def _cuts(self) -> dict[str, Cut]:
        return {one.place: one.cut for one in self._histories if one.cut is not None}

    # the history, in slices

    def prepare(self) -> None:
        """Write the slices, where they are not there yet."""
        if self.progress is not None:
            return
        self._folder.delete()
        arrived = [self._reader.arrived(one) for one in self._histories]
        frames = [self._keyed(one, order) for one, order in zip(self._histories, arrived, strict=True)]
        rows = sum(frame.count() for frame in frames)
        bounds = self._bounds(frames, rows)
        for number, frame in enumerate(frames):
            self._write(number, frame, list(arrived[number]), bounds)
            frame = frame.drop(_KEY, _RANK, *arrived[number])
            self._fill(number, frame, len(bounds) + 1)
            self._folder.make(f"{_READY}/{number}")
        self._note(Progress(self._cuts, len(bounds) + 1, rows))

    def _note(self, progress: Progress) -> None:
        self._folder.note(progress.text)
        self.progress = progress

    @cached_property
    def _is_sequence(self) -> bool:
        """Whether the sources have one order, by a SEQUENCE BY of one type; else event time is all they share."""
        if not all(one.entry.sequence_by for one in self._histories):
            return False
        kinds = {self._kind(one, one.entry.sequence_by or "").simpleString() for one in self._histories}
        return len(kinds) == 1

    def _kind(self, history: History, expression: str) -> DataType:
        rows = shown(history.entry, self._reader.rows(history))
        return rows.selectExpr(f"{expression} AS one").schema.fields[0].dataType

    def _keyed(self, history: History, arrived: Mapping[str, str]) -> DataFrame:
        """Its rows with what orders them."""
        entry = history.entry
        order = entry.sequence_by if self._is_sequence and entry.sequence_by else event_time(entry)
        frame = shown(entry, self._reader.rows(history, arrived)).selectExpr("*", f"({order}) AS {_KEY}")
        return frame.withColumn(_RANK, _rank(frame.schema[_KEY].dataType))

    def _bounds(self, frames: list[DataFrame], rows: int) -> list[float]:
        """Where the slices after the first one begin, about equal in rows."""
        count = -(-rows // whole_number(self._spark, ROWS, _USUAL_ROWS, least=1))
        if count <= 1:
            return []
        ranks = frames[0].select(_RANK)
        for frame in frames[1:]:
            ranks = ranks.union(frame.select(_RANK))
        shares = [number / count for number in range(1, count)]
        found = ranks.select(F.percentile_approx(_RANK, shares, 100_000)).collect()[0][0]
        return sorted(set(found or ()))

    def _write(self, number: int, frame: DataFrame, arrived: list[str], bounds: list[float]) -> None:
        """One file for each slice, its rows in order."""
        listed = ", ".join(f"{bound!r}D" for bound in bounds)
        slices = F.expr(f"size(filter(array({listed}), bound -> bound <= {_RANK}))") if bounds else F.lit(0)
        ordered = (
            frame.withColumn(_SLICE, slices)
            .repartition(len(bounds) + 1, _SLICE)
            .sortWithinPartitions(_SLICE, _KEY, *arrived)
            .drop(_KEY, _RANK, *arrived)
        )
        row = F.monotonically_increasing_id().bitwiseAND(_ROW_MASK)
        numbered = ordered.withColumn(NUMBER, F.shiftleft(F.col(_SLICE).cast("bigint"), _SLICE_SHIFT) + row)
        writer = numbered.write.partitionBy(_SLICE).option("parquet.block.size", _ONE_PIECE)
        writer.parquet(f"{self._folder.path}/{_STAGED}/{number}")

    def _fill(self, number: int, frame: DataFrame, slices: int) -> None:
        """Give a slice in which the source has no rows a file without rows."""
        staged = f"{_STAGED}/{number}"
        there = set(self._folder.names(staged))
        for place in range(slices):
            if f"{_SLICE}={place}" not in there:
                none = frame.withColumn(NUMBER, F.lit(0).cast("bigint")).limit(0)
                none.coalesce(1).write.parquet(f"{self._folder.path}/{staged}/{_SLICE}={place}")

    def note(self, name: str) -> str:
        """What was read, for people."""
        assert self.progress is not None, "prepared"
        return f"`{name}` has read its history: {self.progress.rows:,} rows. From here on it reads its sources."

    # the query over them

    @property
    def _sources(self) -> range:
        return range(len(self._histories))

    @cached_property
    def instead(self) -> Histories:
        """What is read in place of each source."""
        ready = f"{self._folder.path}/{_READY}"
        return {
            one.place: from_slices(f"{ready}/{number}", of_slices(self._reader.rows(one).schema))
            for number, one in enumerate(self._histories)
        }

    def passes(self) -> Iterator[None]:
        """Bring the slices to where the query reads them; until the next step it is to read what is there.

        Spark reads files in the order of their times, one of each source in a micro-batch: a slice of all sources is a
        micro-batch. Where nobody can say when a file was written, one slice comes after the other.
        """
        assert self.progress is not None, "prepared"
        moved = max(last_number(self._folder.names(f"{_READY}/{number}")) for number in self._sources)
        dated = all(self._dated(place) for place in range(moved + 1, self.progress.slices))
        for place in range(max(moved, 0), self.progress.slices):
            for number in self._sources:
                self._folder.move(f"{_STAGED}/{number}/{_SLICE}={place}", f"{_READY}/{number}/{place}")
            if not dated:
                yield
        if dated:
            yield

    def _dated(self, place: int) -> bool:
        """Let the files of a slice be later than those of the slice before."""
        folders = [f"{_STAGED}/{number}/{_SLICE}={place}" for number in self._sources]
        files = [f"{folder}/{name}" for folder in folders for name in self._folder.names(folder)]
        written = [file for file in files if file.rpartition("/")[2].startswith("part-")]
        return all(self._folder.date(file, (_FIRST_S + place) * 1000) for file in written)

    def check(self, history: DataFrame) -> None:
        """Whether nothing else is read in the place of the query's sources.

        Raises:
            BindError: `BACKFILL.SOURCE`.
        """
        for source in engine_of(self._spark).streams(history):
            if self._folder.path not in source:
                self._reader.refuse_source(source)

    def hand_over(self, checkpoint: Checkpoint, live: DataFrame) -> None:
        """Let the sources begin where the history ends: to Spark they are new ones.

        A source whose place in the log of offsets is empty begins anew, while micro-batches and state go on.

        Args:
            checkpoint: the checkpoint.
            live: the query that is to go on from it.
        """
        assert self.progress is not None, "prepared"
        if self.progress.handed_over is None:
            self._note(replace(self.progress, handed_over=checkpoint.last_batch))
        last, offsets = self.progress.handed_over, HadoopFolder(self._spark, f"{self._path}/offsets")
        if last is None or last < 0 or str(last + 1) in offsets.names():
            return
        nothing = ["-" for _ in engine_of(self._spark).streams(live)]
        for number in (last, last - 1):
            text = offsets.read(str(number))
            if text is not None:
                offsets.write(str(number), "\n".join([*text.splitlines()[:2], *nothing]))
        HadoopFolder(self._spark, f"{self._path}/sources").delete()
        for name in (_STAGED, _READY):
            HadoopFolder(self._spark, f"{self._folder.path}/{name}").delete()


def _rank(kind: DataType) -> Any:
    """A number by which keys are told apart into slices."""
    if isinstance(kind, NumericType):
        return F.col(_KEY).cast("double")
    if isinstance(kind, (DateType, TimestampType, TimestampNTZType)):
        return F.unix_micros(F.col(_KEY).cast("timestamp")).cast("double")
    return F.lit(0.0)
