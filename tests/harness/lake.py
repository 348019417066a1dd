"""Streams into tables of Delta and Iceberg: what these have to hold, as engines other than Spark read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlx.connectors.jars import is_43
from tests.harness.keyed import DEFINITION, QUERY, Keyed
from tests.harness.killing import die_before_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = "TRIGGER (AVAILABLE NOW)"


@dataclass(frozen=True)
class Format:
    """A format, where its tables are called and how others than Spark read them."""

    name: str
    prefix: str

    def read(self, folder: Path) -> list[tuple[Any, ...]]:
        """The rows of a table as DuckDB gets them from the format's own library."""
        if self.name == "delta":
            from deltalake import DeltaTable

            found = DeltaTable(str(folder)).to_pyarrow_table()
        else:
            from pyiceberg.table import StaticTable

            version = (folder / "metadata/version-hint.text").read_text().strip()
            found = StaticTable.from_metadata(f"{folder}/metadata/v{version}.metadata.json").scan().to_arrow()
        return sorted(duckdb.from_arrow(found).fetchall(), key=str)

    def folder(self, root: Path, table: str) -> Path:
        """Where the files of a table are."""
        return root / (f"iceberg/lake/{table}" if self.name == "iceberg" else table)

    def versions(self, folder: Path) -> int:
        """How often a table has changed."""
        if self.name == "iceberg":
            return int((folder / "metadata/version-hint.text").read_text())
        from deltalake import DeltaTable

        return DeltaTable(str(folder)).version()


DELTA, ICEBERG = Format("delta", ""), Format("iceberg", "iceberg.lake.")
FORMATS = [
    pytest.param(DELTA, marks=pytest.mark.delta, id="delta"),
    pytest.param(ICEBERG, marks=pytest.mark.iceberg, id="iceberg"),
]
#: Delta's connector adds rows under the number of a micro-batch up to PySpark 4.2.
ADDING = [
    pytest.param(DELTA, marks=[pytest.mark.delta, pytest.mark.skipif(is_43(), reason="4.2")], id="delta"),
    FORMATS[1],
]


def changes_are_merged_once(spark: SparkSession, tmp_path: Path, form: Format, root: Path) -> None:
    """A table of changes: after some files, after a crash, after a start anew."""
    keyed, name = Keyed(tmp_path), f"{form.prefix}merged_{form.name}"
    folder = form.folder(root, f"merged_{form.name}")
    spark.sql(DEFINITION.format(folder=tmp_path))
    text = (
        f"CREATE STREAMING TABLE {name} USING {form.name} OPTIONS (write.mode 'upsert') "
        f"CHECKPOINT '{tmp_path}/checkpoint' {NOW} AS {QUERY} AS CHANGELOG"
    )
    for files in (2, 1):
        for _ in range(files):
            keyed.add()
        spark.sql(text)
        assert form.read(folder) == keyed.answer
    changed = form.versions(folder)
    die_before_commit(tmp_path / "checkpoint")
    spark.sql(text)
    assert form.versions(folder) == changed
    assert form.read(folder) == keyed.answer
    keyed.add()
    spark.sql(text.replace("CREATE", "CREATE OR REPLACE"))
    assert form.read(folder) == keyed.answer


def late_rows_are_kept_once(spark: SparkSession, tmp_path: Path, form: Format, root: Path) -> None:
    """Two tables of one stream: after some files, after a crash, after a start anew."""
    (tmp_path / "sent").mkdir()

    def send(number: int, *rows: tuple[int, int]) -> None:
        ids, seconds = zip(*rows, strict=True)
        times = pa.array([1_767_225_600_000_000 + s * 1_000_000 for s in seconds], pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table([pa.array(ids, pa.int64()), times], ["id", "ts"]), tmp_path / f"sent/{number}.parquet")

    spark.sql(
        f"CREATE OR REPLACE TEMPORARY STREAM lake_sent (id BIGINT, ts TIMESTAMP) USING parquet "
        f"OPTIONS (path '{tmp_path}/sent', maxFilesPerTrigger '1') TIMESTAMP BY ts"
    )
    first, late = f"{form.prefix}first_{form.name}", f"{form.prefix}late_{form.name}"
    text = (
        f"CREATE STREAMING TABLE {first} USING {form.name} CHECKPOINT '{tmp_path}/checkpoint' {NOW} TASKS 1 AS "
        f"SELECT id FROM lake_sent DEDUPLICATE WITHIN INTERVAL 10 MINUTES BY (id) LATE TO {late}"
    )
    send(0, (1, 0), (1, 60), (2, 3600), (3, 1))
    spark.sql(text)
    firsts, lates = form.folder(root, f"first_{form.name}"), form.folder(root, f"late_{form.name}")
    assert (form.read(firsts), [row[0] for row in form.read(lates)]) == ([(1,), (2,)], [3])
    send(1, (2, 3601), (4, 3602), (5, 2))
    spark.sql(text)
    die_before_commit(tmp_path / "checkpoint")
    spark.sql(text)
    assert (form.read(firsts), [row[0] for row in form.read(lates)]) == ([(1,), (2,), (4,)], [3, 5])
    spark.sql(text.replace("CREATE", "CREATE OR REPLACE"))
    assert (form.read(firsts), [row[0] for row in form.read(lates)]) == ([(1,), (2,), (4,)], [3, 5])
