"""The tables that a stream writes: made where they are missing, found again where only their files are left."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog.definitions import name_parts, name_text, part_text
from catalog.entries import Column
from catalog.spark import type_text
from catalog.statements import absolute, literal
from sqlx.errors import UnsupportedError
from sqlx.sql.cursor import Cursor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from sqlx.sql.tokens import Token


# Folders through Hadoop's file systems: a checkpoint may lie on a disk, in HDFS or in an object store.


class Folder:
    """A folder that may not exist yet.

    Args:
        spark: the session; its Hadoop configuration is used.
        path: a path or URI; a relative one is meant from where the user is.

    Attributes:
        path: the whole URI.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm: Any = jvm
        given = jvm.org.apache.hadoop.fs.Path(absolute(path))
        java: Any = spark._jsparkSession
        self._system = given.getFileSystem(java.sessionState().newHadoopConf())
        self._folder = self._system.makeQualified(given)
        self.path = str(self._folder.toString())

    @property
    def shown(self) -> str:
        """The path for people: local ones without their scheme."""
        return self.path.removeprefix("file://").removeprefix("file:")

    @property
    def exists(self) -> bool:
        """Whether something is there."""
        return bool(self._system.exists(self._folder))

    @property
    def is_file(self) -> bool:
        """Whether it is a file."""
        return self.exists and not self._system.getFileStatus(self._folder).isDirectory()

    def names(self, inner: str = "") -> list[str]:
        """The names of what is in the folder, or in one inside of it; () where there is none."""
        folder = self._inside(inner) if inner else self._folder
        if not self._system.exists(folder):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(folder))

    def read(self, name: str) -> str | None:
        """The text of a file, or None where there is none."""
        path = self._inside(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return bytes(stream.readAllBytes()).decode("utf-8", "replace")
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file in one step: it is there whole, or not at all."""
        self._system.mkdirs(self._folder)
        draft = self._inside(f".{name}.{uuid.uuid4().hex}")
        stream = self._system.create(draft, True)
        stream.write(bytearray(text.encode("utf-8")))
        stream.close()
        self._system.rename(draft, self._inside(name))

    def seconds_old(self, name: str) -> float:
        """For how long a file that is there has been there."""
        return time.time() - int(self._system.getFileStatus(self._inside(name)).getModificationTime()) / 1000

    def delete(self) -> None:
        """Delete the folder with all that is in it."""
        self._system.delete(self._folder, True)

    def _inside(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)


#: The property of a table that says which checkpoint its rows come from.
CHECKPOINT = "sqlx.checkpoint"
#: The folder of the log of Spark's sink of files.
SINK_LOG = "_spark_metadata"
_DELTA_LOG = "_delta_log"
SESSION_CATALOG = "spark_catalog"


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
        self.spark, self.name = spark, name
        self._session: Any = spark._jsparkSession

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
        found = self._metadata.properties().get(CHECKPOINT)
        if found.isDefined():
            return str(found.get())
        return self._kept_by_its_format() if self.is_delta else ""

    @property
    def is_delta(self) -> bool:
        """Whether it is a Delta table of Spark's own catalog."""
        provider = self._metadata.provider()
        return bool(provider.isDefined()) and str(provider.get()).lower() == "delta"

    def _kept_by_its_format(self) -> str:
        """The same of a table that keeps its properties itself: Delta's log, or another catalog."""
        listed = self.spark.sql(f"SHOW TBLPROPERTIES {self.name.text}").collect()
        return next((str(row["value"]) for row in listed if row["key"] == CHECKPOINT), "")

    @property
    def location(self) -> str:
        """The folder of its files, or the one that they would go to."""
        if not self.name.is_in_session_catalog:
            return ""
        catalog = self._session.sessionState().catalog()
        uri = self._metadata.location() if self.exists else catalog.defaultTablePath(self._identifier)
        return str(uri.toString())

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns. Spark keeps what it read of a table of files for the next reader, who is to see new ones."""
        schema = self.spark.table(self.name.text).schema
        self.spark.catalog.refreshTable(self.name.text)
        return columns_of(schema)

    def has_files(self, location: str = "") -> bool:
        """Whether a stream has written files to its place."""
        place = location or self.location
        return bool(place) and bool(Folder(self.spark, place).names(SINK_LOG))

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

    def drop(self) -> None:
        """Drop the table and what a stream has written to its place."""
        location = self.location
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name.text}")
        if location and {SINK_LOG, _DELTA_LOG} & set(Folder(self.spark, location).names()):
            Folder(self.spark, location).delete()

    def find_delta(self, path: str = "") -> None:
        """Find the Delta table of a stream again by its files, where a catalog in memory has gone with its process."""
        if self.exists or not self.name.is_in_session_catalog:
            return
        place = Folder(self.spark, path or self.location)
        if _DELTA_LOG not in place.names():
            return
        self.spark.sql(f"CREATE TABLE {self.name.text} USING delta LOCATION {literal(place.path)}")
        if not self.checkpoint:
            self.spark.sql(f"DROP TABLE {self.name.text}")  # somebody else's: its files stay

    @property
    def _identifier(self) -> Any:
        jvm: Any = self.spark.sparkContext._jvm
        some = jvm.scala.Option.apply
        return jvm.org.apache.spark.sql.catalyst.TableIdentifier(self.name.parts[-1], some(self.name.parts[-2]))

    @property
    def _metadata(self) -> Any:
        return self._session.sessionState().catalog().getTableMetadata(self._identifier)


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema."""
    return tuple(Column(field.name, type_text(field.dataType)) for field in schema.fields)


# Only its stream writes a streaming table: Spark reads what the stream's own log lists, so a row that somebody else has
# inserted would be nowhere, and a table that was emptied could not be read any more.


_VERBS = ("INSERT", "MERGE", "UPDATE", "DELETE", "TRUNCATE", "ALTER", "LOAD")
_BEFORE_NAME = frozenset({"INTO", "OVERWRITE", "TABLE", "FROM"})


def refuse_write(spark: SparkSession, text: str, tokens: tuple[Token, ...]) -> None:
    """Refuse a statement that would write a streaming table beside its stream; Delta and Iceberg tables allow it.

    Raises:
        UnsupportedError: it would.
    """
    verb = next((n for n, token in enumerate(tokens) if token.word in _VERBS), None)
    if verb is None or (verb > 0 and tokens[verb].word != "INSERT"):  # FROM x INSERT INTO …, WITH … INSERT INTO …
        return
    start = next((n for n in range(verb + 1, len(tokens)) if tokens[n].word not in _BEFORE_NAME), len(tokens))
    cursor = Cursor(text, tokens, start)
    if cursor.done or not tokens[start].is_name:
        return
    name = cursor.path("a name")
    if tokens[verb].word == "ALTER" and cursor.word() in ("SET", "UNSET", "RECOVER"):
        return
    table = StreamTable(spark, qualified(spark, tuple(part.name for part in name)))
    if table.name.is_in_session_catalog and table.checkpoint and not table.is_delta:
        place = (tokens[verb].start, name[-1].end)
        raise UnsupportedError("STREAMING.WRITE", text, place, verb=tokens[verb].word, name=table.name.shown)
