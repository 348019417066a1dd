"""Runs the SQL blocks of the documentation on Spark, on top of docs/setup.sql."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlx.sql.tokens import statement_spans
from sqlx.streaming.registry import registry
from tests.harness.doc_blocks import ROOT, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEFINED = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:\w+\s+)*?(?:STREAM|TABLE|VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)", re.I
)


def statements_of(text: str) -> list[str]:
    """The statements of a text."""
    return [span.of(text) for span in statement_spans(text)]


@dataclass(frozen=True)
class World:
    """The files of docs/setup.sql, written, and its definitions, to be made.

    Attributes:
        folder: what stands for ``/data``.
        definitions: name to the statement that makes it.
    """

    folder: Path
    definitions: dict[str, str]

    def located(self, text: str) -> str:
        """A text with the folder in the place of ``/data``."""
        return re.sub(r"(?<=['`])/data(?=/)", str(self.folder), text)

    def needed(self, text: str) -> list[str]:
        """The definitions that a text names and does not make itself."""
        made = {name.lower() for name in _DEFINED.findall(text)}
        return [
            statement
            for name, statement in self.definitions.items()
            if name not in made and re.search(rf"\b{name}\b", text, re.IGNORECASE)
        ]


def make_world(spark: SparkSession, folder: Path) -> World:
    """Write the files of docs/setup.sql; read its definitions."""
    world = World(folder, {})
    for statement in statements_of(world.located(ROOT.joinpath("docs/setup.sql").read_text(encoding="utf-8"))):
        if made := _DEFINED.match(statement):
            world.definitions[made[1].lower()] = statement
        else:
            spark.sql(statement)
    return world


def last_rows(spark: SparkSession, text: str) -> list[list[str]]:
    """Run the statements of a text; the columns and rows of the last one."""
    frames = [spark.sql(statement) for statement in statements_of(text)]
    return [frames[-1].columns, *([shown(value) for value in row] for row in frames[-1].collect())]


def run_all(spark: SparkSession, text: str) -> list[list[str]]:
    """Run every statement of a text to its end; streams until all that is there has been read.

    Returns:
        The columns and rows of the last statement.
    """
    result: list[list[str]] = []
    for statement in statements_of(text):
        frame = spark.sql(statement)
        wait_for_streams(spark)
        rows = streamed(frame) if frame.isStreaming else frame.collect()
        result = [frame.columns, *([shown(value) for value in row] for row in rows)]
    return result


def wait_for_streams(spark: SparkSession) -> None:
    """Wait until each streaming table has read all that is there; what failed raises."""
    for running in registry(spark.sparkContext).all():
        if running.query.isActive:
            running.query.processAllAvailable()


def streamed(frame: DataFrame) -> list[tuple[object, ...]]:
    """Run a live frame over all that is there now; its rows."""
    session = frame.sparkSession
    query = frame.writeStream.format("memory").queryName("shown").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return [tuple(row) for row in session.sql("SELECT * FROM shown").collect()]
