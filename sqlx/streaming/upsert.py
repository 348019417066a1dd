"""Keyed tables: the changes of each micro-batch are applied, so that the table shows the current rows.

The last change of each key in a micro-batch decides. Applying them a second time, after a crash, changes nothing: so a
micro-batch that runs again leaves what a single run would have left. Delta and Iceberg apply them with their own MERGE,
and keep the number of the micro-batch; of a table of files a micro-batch writes a whole new version, which the table
then points to.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from catalog.definitions import part_text
from catalog.statements import absolute, literal
from sqlx.connectors.jars import is_43
from sqlx.errors import BindError, RunError, did_you_mean
from sqlx.spark.stream import CHANGE_TYPE
from sqlx.streaming.lakehouse import FORMATS, as_source, query_id, transactions_of
from sqlx.streaming.sinks import MODE_OPTION, BatchSink, Sink
from sqlx.streaming.tables import StreamTable, TableName, folder_of
from udtf.engine.folders import HadoopFolder
from udtf.engine.sent_plans import sent
from udtf.spark.arrow_types import collected
from udtf.spark.served_batches import CHANGED, BatchTable
from udtf.spark.transactions import Transactions, once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from sqlx.spark.stream import LiveQuery
    from sqlx.sql.definitions import StreamingTable


_MODES = ("append", "upsert")
_VERSIONED_FORMATS = frozenset({"parquet", "orc"})  # what is read back is what was written, with its types


def is_upsert(statement: StreamingTable) -> bool:
    """Whether the changes are applied to the table, not added to it.

    Raises:
        BindError: the option says something else.
    """
    mode = next((value for key, value in statement.options if key.lower() == MODE_OPTION), "append").lower()
    if mode not in _MODES:
        suggestion = did_you_mean(mode, _MODES)
        raise _error(statement, "STREAMING.WRITE_MODE", found=mode, suggestion=suggestion)
    return mode == "upsert"


def check_upsert(statement: StreamingTable, sink: Sink, live: LiveQuery) -> None:
    """Refuse to upsert what has no key, or into what cannot be upserted.

    Raises:
        BindError: with the reason.
        RunError: a package is missing.
    """
    result = live.plan.result
    if result.shape == "append":
        raise _error(statement, "STREAMING.UPSERT_NO_KEY", reason="the rows of this query never change")
    if not result.keys:
        raise _error(statement, "STREAMING.UPSERT_NO_KEY", reason="no column says which row a change is about")
    if sink.format not in _VERSIONED_FORMATS | FORMATS:
        raise _error(statement, "STREAMING.UPSERT_SINK", format=sink.format)
    if sink.format == "delta" and is_43():
        try:
            import deltalake  # noqa: F401 - whether it is there
        except ImportError:
            raise RunError("STREAMING.UPSERT_DELTALAKE", statement.text, _span(statement)) from None


def table_schema(live: LiveQuery) -> StructType:
    """The columns of a table to which the changes of a query's result are applied."""
    return live.frame.drop(CHANGE_TYPE).schema


def upsert_sink(table: StreamTable, sink: Sink, options: tuple[tuple[str, str], ...], live: LiveQuery) -> BatchSink:
    """What applies the changes of a query's result to its table.

    Args:
        table: the table, which is there.
        sink: its format.
        options: of the format.
        live: its query.
    """
    changes = Changes(tuple(live.frame.columns), live.plan.result.keys)
    if isinstance(table, FileVersions):
        written = {key: value for key, value in options if key.lower() != "path"}
        return FileUpsert(table, sink.format, changes, written)
    if is_43() and sink.format == "delta":
        return DeltaLakeUpsert(table, changes)
    return MergeUpsert(table, changes, transactions_of(table, sink.format))


def _error(statement: StreamingTable, condition: str, **parameters: object) -> BindError:
    return BindError(condition, statement.text, _span(statement), **parameters)


def _span(statement: StreamingTable) -> tuple[int, int]:
    return statement.spans.get(f"PROPERTY {MODE_OPTION}") or statement.span("USING")


# The changes of a micro-batch.


_PLACE, _ROW = "__place", "__row"
_TABLE = "__table"
_DELETE = f"{CHANGE_TYPE} = 'delete'"


@dataclass(frozen=True)
class Changes:
    """How the changes of a result are read.

    Attributes:
        columns: of the result, the kind of the change among them.
        keys: places of those that say which row a change is about.
    """

    columns: tuple[str, ...]
    keys: tuple[int, ...]

    @property
    def shown(self) -> list[str]:
        """The columns of the table."""
        return [name for name in self.columns if name != CHANGE_TYPE]

    def last(self, rows: DataFrame) -> DataFrame:
        """The last change of each key.

        All changes of a key come from one task, in their order, which is that of the numbers that Spark gives to rows.
        """
        names = self._key_names()
        others = [F.col(part_text(name)) for name in self.columns if name not in names]
        numbered = rows.where(f"{CHANGE_TYPE} <> 'update_before'").withColumn(_PLACE, F.monotonically_increasing_id())
        grouped = numbered.groupBy(*(F.col(part_text(name)) for name in names))
        last = grouped.agg(F.max_by(F.struct(*others), _PLACE).alias(_ROW))
        return last.select(*(F.col(part_text(name)) for name in names), f"{_ROW}.*").select(
            *(F.col(part_text(name)) for name in self.columns)
        )

    @contextmanager
    def computed(self, rows: DataFrame) -> Iterator[DataFrame | None]:
        """The last change of each key, None where nothing changes.

        They are computed once and whole, also for a micro-batch that is in the table already: an operator whose tasks
        do not all run has no state to commit.
        """
        last = self.last(rows).persist()
        try:
            yield last if last.count() else None
        finally:
            last.unpersist()

    def same_key(self, table: str, changed: str, equals: str = "<=>") -> str:
        """The condition under which a row of the table is the one that changes; keys may be NULL."""
        names = [part_text(name) for name in self._key_names()]
        return " AND ".join(f"{table}.{name} {equals} {changed}.{name}" for name in names)

    def _key_names(self) -> list[str]:
        return [self.columns[place] for place in self.keys]


# Delta and Iceberg: MERGE, by Spark where the connector has it, else by the package deltalake.


@dataclass(frozen=True)
class MergeUpsert:
    """MERGE of the table's connector.

    Attributes:
        table: the table.
        changes: how changes are read.
        transactions: how the table keeps the numbers of micro-batches.
    """

    table: StreamTable
    changes: Changes
    transactions: Transactions

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Apply the changes of a micro-batch, unless the table has them."""
        with self.changes.computed(rows) as changed:
            if changed is None:
                return
            spark = changed.sparkSession
            with once(spark, self.transactions, query_id(spark), batch_id) as is_new:
                if is_new:
                    as_source(changed).createOrReplaceTempView(CHANGED)
                    spark.sql(self._merge())

    def on_server(self, rows: DataFrame) -> BatchTable:
        """The same as a server of Spark Connect does it."""
        changed = sent(self.changes.last(rows))
        return BatchTable(changed, self.table.name.text, self.transactions, self._merge())

    def _merge(self) -> str:
        columns = [part_text(name) for name in self.changes.shown]
        assigned = ", ".join(f"{_TABLE}.{name} = {CHANGED}.{name}" for name in columns)
        return (
            f"MERGE INTO {self.table.name.text} AS {_TABLE} USING {CHANGED} "
            f"ON {self.changes.same_key(_TABLE, CHANGED)} "
            f"WHEN MATCHED AND {CHANGED}.{_DELETE} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {assigned} "
            f"WHEN NOT MATCHED AND NOT {CHANGED}.{_DELETE} THEN INSERT ({', '.join(columns)}) "
            f"VALUES ({', '.join(f'{CHANGED}.{name}' for name in columns)})"
        )


@dataclass(frozen=True)
class DeltaLakeUpsert:
    """MERGE of deltalake, which writes Delta's log without Spark: the changes of a micro-batch pass the driver."""

    table: StreamTable
    changes: Changes

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Apply the changes of a micro-batch, unless the table has them."""
        from deltalake import CommitProperties, DeltaTable, Transaction

        changed = collected(self.changes.last(rows))
        query = query_id(rows.sparkSession)
        found: Any = DeltaTable(folder_of(self.table.spark, self.table.location).shown)
        written = found.transaction_version(query)
        if not changed.num_rows or (written is not None and written >= batch_id):
            return
        values = {_quoted(name): f"{CHANGED}.{_quoted(name)}" for name in self.changes.shown}
        keys = " AND ".join(
            f"{_TABLE}.{_quoted(name)} IS NOT DISTINCT FROM {CHANGED}.{_quoted(name)}"
            for name in (self.changes.columns[place] for place in self.changes.keys)
        )
        kept = CommitProperties(app_transactions=[Transaction(query, batch_id)])
        merge = found.merge(changed, predicate=keys, source_alias=CHANGED, target_alias=_TABLE, commit_properties=kept)
        merge = merge.when_matched_delete(f"{CHANGED}.{_DELETE}").when_matched_update(values)
        merge.when_not_matched_insert(values, predicate=f"NOT {CHANGED}.{_DELETE}").execute()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Tables of files: each micro-batch that changes something writes a version.


_VERSION, _DONE = "version-", "_done"
#: Readers that began with an older version go on with it: these many stay, and those of the last seconds.
_KEPT, KEPT_SECONDS = 2, 60.0


class FileVersions(StreamTable):
    """A table of files of which there are versions: folders under one root, the table points to the latest."""

    def __init__(self, spark: SparkSession, name: TableName, path: str = "") -> None:
        super().__init__(spark, name)
        self._path = path

    @property
    def location(self) -> str:
        """The folder of the versions."""
        if self._path:
            return folder_of(self.spark, self._path).path
        found = super().location
        return found.rpartition("/")[0] if self.exists else found

    def has_files(self, location: str = "") -> bool:
        """Whether a stream has written a version."""
        return bool(self.versions(location))

    def versions(self, location: str = "") -> list[str]:
        """The names of the versions that are whole, oldest first."""
        root = folder_of(self.spark, location or self.location)
        return [name for name in root.names() if name.startswith(_VERSION) and _DONE in root.names(name)]

    def create(
        self,
        schema: StructType,
        using: str,
        checkpoint: str,
        options: tuple[tuple[str, str], ...] = (),
        properties: tuple[tuple[str, str], ...] = (),
        location: str = "",
    ) -> None:
        """Make the table over the latest version, or over an empty one."""
        root = location or self.location
        latest = (self.versions(root) or [f"{_VERSION}none"])[-1]
        kept = tuple((key, value) for key, value in options if key.lower() != "path")
        super().create(schema, using, checkpoint, kept, properties, f"{root}/{latest}")

    def drop(self) -> None:
        """Drop the table and all its versions."""
        location = self.location
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name.text}")
        folder_of(self.spark, location).delete()

    def show(self, version: str) -> None:
        """Let the table point to a version."""
        place = f"{self.location}/{version}"
        if super().location != place:
            self.spark.sql(f"ALTER TABLE {self.name.text} SET LOCATION {literal(place)}")
        self.spark.catalog.refreshTable(self.name.text)


@dataclass(frozen=True)
class FileUpsert:
    """Writes a version a micro-batch: what stays of the one before, and what changed.

    Attributes:
        table: the table of the versions.
        format: of the files.
        changes: how changes are read.
        options: of the files.
    """

    table: FileVersions
    format: str
    changes: Changes
    options: dict[str, str]

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Write the version of a micro-batch, unless it is there or nothing changed."""
        root, name = self.table.location, f"{_VERSION}{batch_id:010}"
        found = self.table.versions()
        with self.changes.computed(rows) as changed:
            if changed is None:
                return
            if name not in found:
                self._write(f"{root}/{name}", changed, [f"{root}/{before}" for before in found if before < name][-1:])
        self.table.show(name)
        self._remove([before for before in found if before < name])

    def _write(self, place: str, changed: DataFrame, before: Sequence[str]) -> None:
        columns = [F.col(part_text(column)) for column in self.changes.shown]
        new = changed.where(f"NOT {_DELETE}").select(*columns)
        if before:
            reader = changed.sparkSession.read.format(self.format).schema(new.schema)
            same = F.expr(self.changes.same_key(_TABLE, CHANGED))
            kept = reader.load(before[0]).alias(_TABLE).join(changed.alias(CHANGED), same, "left_anti")
            new = kept.unionByName(new)
        new = new.hint("rebalance")  # few files, and none that is empty
        new.write.format(self.format).mode("overwrite").options(**self.options).save(absolute(place))
        HadoopFolder(self.table.spark, absolute(place)).write(_DONE, "")

    def _remove(self, versions: list[str]) -> None:
        root = self.table.location
        for name in versions[:-_KEPT]:
            folder = HadoopFolder(self.table.spark, absolute(f"{root}/{name}"))
            if folder.seconds_old(_DONE) > KEPT_SECONDS:
                folder.delete()
