"""The tables that a stream writes: made where they are missing, found again where only their files are left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from catalog.definitions import name_parts, name_text, part_text
from catalog.entries import Column
from catalog.planner import SESSION_CATALOG
from catalog.spark import type_text
from catalog.statements import absolute, literal
from sqlx.errors import UnsupportedError
from sqlx.sql.cursor import Cursor
from udtf.engine import engine_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from sqlx.sql.tokens import Token
    from udtf.engine.engine import Table
    from udtf.engine.folders import Folder


def folder_of(spark: SparkSession, path: str) -> Folder:
    """A folder that may not exist yet; a relative path is meant from where the user is."""
    return engine_of(spark).folder(absolute(path))


#: The property of a table that says which checkpoint its rows come from.
CHECKPOINT = "sqlx.checkpoint"
#: The folder of the log of Spark's sink of files.
SINK_LOG = "_spark_metadata"
_DELTA_LOG = "_delta_log"


@dataclass(frozen=True)
class TableName:
    """A qualified name: catalog, database, table."""

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """As SQL."""
        return name_text(self.parts)

    @property
    def shown(self) -> str:
        """For people, and the name of its query: without what goes without saying."""
        parts = self.parts[1:] if self.parts[0] == SESSION_CATALOG else self.parts
        return ".".join(parts[1:] if parts[0] == "default" and len(parts) == 2 else parts)

    @property
    def quoted(self) -> str:
        """Database and name, as SQL."""
        return name_text(self.parts[-2:])

    @property
    def is_in_session_catalog(self) -> bool:
        """Whether Spark's own catalog keeps it."""
        return self.parts[0] == SESSION_CATALOG


def qualified(spark: SparkSession, parts: tuple[str, ...] | str) -> TableName:
    """A name with its catalog and database, as they are current now."""
    parts = name_parts(parts)
    if len(parts) == 1:
        parts = (spark.catalog.currentDatabase(), *parts)
    return TableName(parts if len(parts) > 2 else (spark.catalog.currentCatalog(), *parts))


class StreamTable:
    """A table that a stream writes.

    Args:
        spark: the session.
        name: its name.
    """

    def __init__(self, spark: SparkSession, name: TableName) -> None:
        self.spark, self.name, self._engine = spark, name, engine_of(spark)

    @property
    def exists(self) -> bool:
        """Whether the catalog has it."""
        return bool(self.spark.catalog.tableExists(self.name.text))

    @property
    def checkpoint(self) -> str:
        """The checkpoint that its rows come from; "" where it is no table of a stream."""
        if not self.exists:
            return ""
        if not self.name.is_in_session_catalog:
            return self._kept_by_its_format()
        found = self._kept.properties.get(CHECKPOINT)
        if found is not None:
            return found
        return self._kept_by_its_format() if self.is_delta else ""

    @property
    def is_delta(self) -> bool:
        """Whether it is a Delta table of Spark's own catalog."""
        return self.format == "delta"

    @property
    def format(self) -> str:
        """Its format; "" where another catalog keeps it."""
        return self._kept.provider if self.name.is_in_session_catalog else ""

    def is_of(self, form: str, location: str) -> bool:
        """Whether it is a table of a format, with its files in one place; only of Spark's own catalog is it known."""
        return self.format == form and folder_of(self.spark, self.location).path == location

    def _kept_by_its_format(self) -> str:
        """The same of a table that keeps its properties itself: Delta's log, or another catalog."""
        listed = self.spark.sql(f"SHOW TBLPROPERTIES {self.name.text}").collect()
        return next((str(row["value"]) for row in listed if row["key"] == CHECKPOINT), "")

    @property
    def location(self) -> str:
        """The folder of its files, or the one that they would go to."""
        if not self.name.is_in_session_catalog:
            return ""
        return self._kept.location if self.exists else self._engine.usual_location(self.name.parts)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns. Spark keeps what it read of a table of files for the next reader, who is to see new ones."""
        schema = self.spark.table(self.name.text).schema
        self.spark.catalog.refreshTable(self.name.text)
        return columns_of(schema)

    def has_files(self, location: str = "") -> bool:
        """Whether a stream has written files to its place."""
        place = location or self.location
        return bool(place) and folder_of(self.spark, place).has_log(SINK_LOG)

    def create(
        self,
        schema: StructType,
        using: str,
        checkpoint: str,
        options: tuple[tuple[str, str], ...] = (),
        properties: tuple[tuple[str, str], ...] = (),
        location: str = "",
    ) -> None:
        """Make the table; over files that are there already it is made around them.

        Args:
            schema: its columns.
            using: its format.
            checkpoint: kept as a property.
            options: of OPTIONS.
            properties: of TBLPROPERTIES.
            location: where its files are, if not in their usual place.
        """
        items = ", ".join(f"{part_text(c.name)} {c.type}" for c in columns_of(schema))
        written = {key: absolute(value) if key.lower() == "path" else value for key, value in options}
        given = [f"{literal(key)} {literal(value)}" for key, value in written.items()]
        kept = [f"{literal(key)} = {literal(value)}" for key, value in (*properties, (CHECKPOINT, checkpoint))]
        text = f"CREATE TABLE {self.name.text} ({items}) USING {using}"
        text += f" OPTIONS ({', '.join(given)})" if given else ""
        text += f" LOCATION {literal(location)}" if location else ""
        self.spark.sql(f"{text} TBLPROPERTIES ({', '.join(kept)})")

    def add_columns(self, columns: tuple[Column, ...]) -> None:
        """Add columns at the end; rows of before have NULL there."""
        if columns:
            items = ", ".join(f"{part_text(column.name)} {column.type}" for column in columns)
            self._engine.query(f"ALTER TABLE {self.name.text} ADD COLUMNS ({items})").collect()

    def drop(self) -> None:
        """Drop the table and what a stream has written to its place."""
        location = self.location
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name.text}")
        folder = folder_of(self.spark, location) if location else None
        if folder is not None and folder.has_log(SINK_LOG, _DELTA_LOG):
            folder.delete()

    def find_delta(self, path: str = "") -> None:
        """Find the Delta table of a stream again by its files, where a catalog in memory has gone with its process."""
        if self.exists or not self.name.is_in_session_catalog:
            return
        place = folder_of(self.spark, path or self.location)
        if not place.has_log(_DELTA_LOG):
            return
        self.spark.sql(f"CREATE TABLE {self.name.text} USING delta LOCATION {literal(place.path)}")
        if not self.checkpoint:
            self.spark.sql(f"DROP TABLE {self.name.text}")  # somebody else's: its files stay

    @property
    def _kept(self) -> Table:
        return self._engine.table(self.name.parts)


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema."""
    return tuple(Column(field.name, type_text(field.dataType)) for field in schema.fields)


# Only its stream writes a streaming table: Spark reads what the stream's own log lists, so a row that somebody else has
# inserted would be nowhere, and a table that was emptied could not be read any more.


_VERBS = ("INSERT", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "ALTER", "LOAD")
_BEFORE_NAME = frozenset({"INTO", "OVERWRITE", "TABLE", "FROM"})


class Written(NamedTuple):
    """What a statement writes.

    Attributes:
        verb: the word that says how.
        name: the parts of the relation's name.
        then: the word after it.
    """

    verb: Token
    name: tuple[Token, ...]
    then: str

    @property
    def place(self) -> tuple[int, int]:
        """From the verb to the name."""
        return self.verb.start, self.name[-1].end


def write_target(text: str, tokens: tuple[Token, ...]) -> Written | None:
    """What a statement writes; None for one that writes no relation by its name."""
    verb = next((n for n, token in enumerate(tokens) if token.word in _VERBS), None)
    if verb is None or (verb > 0 and tokens[verb].word != "INSERT"):  # FROM x INSERT INTO …, WITH … INSERT INTO …
        return None
    start = next((n for n in range(verb + 1, len(tokens)) if tokens[n].word not in _BEFORE_NAME), len(tokens))
    cursor = Cursor(text, tokens, start)
    if cursor.done or not tokens[start].is_name:
        return None
    name = cursor.path("a name")
    return Written(tokens[verb], tuple(name), cursor.word())


def refuse_write(spark: SparkSession, text: str, written: Written) -> None:
    """Refuse a statement that would write a streaming table beside its stream; Delta and Iceberg tables allow it.

    Raises:
        UnsupportedError: it would.
    """
    if written.verb.word == "ALTER" and written.then in ("SET", "UNSET", "RECOVER"):
        return
    table = StreamTable(spark, qualified(spark, tuple(part.name for part in written.name)))
    if table.name.is_in_session_catalog and table.checkpoint and not table.is_delta:
        raise UnsupportedError("STREAMING.WRITE", text, written.place, verb=written.verb.word, name=table.name.shown)
