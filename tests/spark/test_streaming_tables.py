"""Streaming tables on Spark: started, stopped, gone on with, and refused where they would lose or double rows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sqlx.errors import TemporalSqlError
from sqlx.sql.definitions import StreamingTable, parse_streaming
from sqlx.sql.tokens import tokenize
from sqlx.streaming.registry import registry
from sqlx.streaming.sinks import FileSink
from sqlx.streaming.start import Starter
from tests.harness.killing import die_before_commit, warehouse
from tests.harness.releases import RELEASE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW = "TRIGGER (AVAILABLE NOW)"


class Source:
    """A folder of Parquet files that a temporary view `st_source` reads as a stream."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        folder.mkdir()
        stream = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).parquet(str(folder))
        stream.createOrReplaceTempView("st_source")

    def put(self, *ids: int) -> None:
        rows = self.spark.createDataFrame([(n,) for n in ids], "id BIGINT")
        rows.coalesce(1).write.mode("append").parquet(str(self.folder))


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Iterator[Source]:
    made = Source(spark, tmp_path / "source")
    made.put(1, 2)
    yield made
    for query in registry(spark.sparkContext).all():
        query.query.stop()
        registry(spark.sparkContext).forget(query.name)
    spark.catalog.dropTempView("st_rows")  # rows in memory
    house = warehouse(spark)
    for table in spark.catalog.listTables("default"):
        if not table.isTemporary and table.name.startswith("st_"):
            spark.sql(f"DROP TABLE {table.name}")
    for leftover in (*house.glob("st_*"), *house.glob("_checkpoints/st_*")):
        shutil.rmtree(leftover)


def ids(spark: SparkSession, table: str) -> list[int]:
    return sorted(row[0] for row in spark.sql(f"SELECT * FROM {table}").collect())


def cells(frame: DataFrame) -> dict[str, str]:
    return {row[0]: row[1] for row in frame.collect()}


def refusal(spark: SparkSession, text: str) -> TemporalSqlError:
    with pytest.raises(TemporalSqlError) as refused:
        spark.sql(text)
    return refused.value


def test_a_streaming_table_goes_on_where_it_stopped(spark: SparkSession, source: Source) -> None:
    text = f"CREATE STREAMING TABLE st_rows {NOW} AS SELECT id FROM st_source"
    spark.sql(text)
    assert ids(spark, "st_rows") == [1, 2]
    source.put(3)
    spark.sql(text)
    assert ids(spark, "st_rows") == [1, 2, 3]
    facts = cells(spark.sql("DESCRIBE STREAMING QUERY st_rows"))
    assert (facts["status"], facts["rows"], facts["batches"]) == ("finished", "1", "1")


def test_a_process_without_a_catalog_finds_the_files_of_the_last_one(spark: SparkSession, source: Source) -> None:
    text = f"CREATE STREAMING TABLE st_rows {NOW} AS SELECT id FROM st_source"
    spark.sql(text)
    place = warehouse(spark) / "st_rows"
    shutil.move(place, place.with_name("st_aside"))
    spark.sql("DROP TABLE st_rows")
    shutil.move(place.with_name("st_aside"), place)
    source.put(3)
    spark.sql(text)
    assert ids(spark, "st_rows") == [1, 2, 3]


def test_a_running_query_is_listed_stopped_and_its_rows_seen_by_all_sessions(
    spark: SparkSession, source: Source
) -> None:
    text = "CREATE STREAMING TABLE st_rows AS SELECT id FROM st_source"
    spark.sql(text)
    running = registry(spark.sparkContext).find("st_rows")
    assert running is not None
    other = spark.newSession()
    running.query.processAllAvailable()
    assert ids(other, "st_rows") == [1, 2]
    source.put(3)
    running.query.processAllAvailable()
    assert ids(spark, "st_rows") == ids(other, "st_rows") == [1, 2, 3]
    assert refusal(spark, text).condition == "STREAMING.ALREADY_RUNNING"
    spark.sql(text.replace("TABLE", "TABLE IF NOT EXISTS"))
    (listed,) = spark.sql("SHOW STREAMING QUERIES").collect()
    assert (listed["name"], listed["status"], listed["rows"], listed["error"]) == ("st_rows", "running", "3", None)
    assert tuple(spark.sql("STOP STREAMING QUERY st_rows").first() or ()) == ("st_rows", "stopped")
    assert tuple(spark.sql("STOP STREAMING QUERY default.st_rows").first() or ()) == ("st_rows", "stopped")
    assert refusal(spark, "STOP STREAMING QUERY st_row").condition == "STREAMING.UNKNOWN_QUERY"


def test_or_replace_starts_anew_and_says_what_it_drops(
    spark: SparkSession, source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    spark.sql(f"CREATE STREAMING TABLE st_rows {NOW} AS SELECT id FROM st_source")
    spark.sql(f"CREATE OR REPLACE STREAMING TABLE st_rows {NOW} AS SELECT id * 10 AS tens FROM st_source")
    assert ids(spark, "st_rows") == [10, 20]
    assert "dropped the table st_rows and its checkpoint" in caplog.text


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("st_rows TASKS 3 AS SELECT id FROM st_source", "TASKS 16, this is TASKS 3"),
        ("st_rows USING json AS SELECT id FROM st_source", "USING parquet, this is USING json"),
        ("st_rows AS SELECT id AS x FROM st_source", "`SELECT id AS x FROM st_source`"),
        ("st_else CHECKPOINT '{checkpoint}' AS SELECT id FROM st_source", "that of `st_rows`, this is `st_else`"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(
    spark: SparkSession, source: Source, statement: str, said: str
) -> None:
    spark.sql(f"CREATE STREAMING TABLE st_rows {NOW} AS SELECT id FROM st_source")
    place = warehouse(spark) / "_checkpoints/st_rows"
    error = refusal(spark, "CREATE STREAMING TABLE " + statement.format(checkpoint=place))
    assert error.condition == "STREAMING.CHECKPOINT_OTHER_QUERY"
    assert said in str(error)
    assert "^^^" in str(error)


def test_folders_that_are_no_checkpoint_are_refused(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    def condition_with(checkpoint: Path) -> str:
        text = f"CREATE STREAMING TABLE st_rows CHECKPOINT '{checkpoint}' {NOW} AS SELECT id FROM st_source"
        return refusal(spark, text).condition

    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("x")
    assert condition_with(file) == "STREAMING.CHECKPOINT_IS_FILE"
    assert condition_with(source.folder) == "STREAMING.CHECKPOINT_FOREIGN"
    folder.mkdir()
    folder.joinpath("_sqlx.json").write_text('{"format": 99, "product": "sqlx 9"}')
    assert condition_with(folder) == "STREAMING.CHECKPOINT_FORMAT"
    folder.joinpath("._sqlx.json.crc").unlink(missing_ok=True)
    folder.joinpath("_sqlx.json").write_text("{")
    assert condition_with(folder) == "STREAMING.CHECKPOINT_CORRUPT"


def test_a_checkpoint_that_a_client_of_spark_connect_began(spark: SparkSession, source: Source) -> None:
    text = f"CREATE STREAMING TABLE st_rows {NOW} AS SELECT id FROM st_source"
    spark.sql(text)
    folder = warehouse(spark) / "_checkpoints/st_rows"
    (folder / "sqlx").mkdir()
    (folder / "_sqlx.json").rename(folder / "sqlx/part-00000-x.txt")
    (folder / "sqlx/_SUCCESS").touch()
    registry(spark.sparkContext).forget("st_rows")  # as of a process that has gone
    assert refusal(spark, text.replace("SELECT id", "SELECT id AS other")).condition == (
        "STREAMING.CHECKPOINT_OTHER_QUERY"
    )
    source.put(7)
    spark.sql(text)
    assert 7 in {row.id for row in spark.table("st_rows").collect()}


def test_rows_are_never_left_out_behind_a_lost_table_or_checkpoint(spark: SparkSession, source: Source) -> None:
    text = f"CREATE STREAMING TABLE st_rows {NOW} AS SELECT id FROM st_source"
    spark.sql(text)
    elsewhere = text.replace(NOW, f"CHECKPOINT '{source.folder.parent / 'other'}' {NOW}")
    assert refusal(spark, elsewhere).condition == "STREAMING.TABLE_EXISTS"
    spark.sql("DROP TABLE st_rows")
    assert refusal(spark, text).condition == "STREAMING.CHECKPOINT_WITHOUT_TABLE"
    spark.sql("CREATE TABLE st_plain (id BIGINT)")
    plain = refusal(spark, f"CREATE OR REPLACE STREAMING TABLE st_plain {NOW} AS SELECT id FROM st_source")
    assert plain.condition == "STREAMING.TABLE_EXISTS"


def test_a_query_that_failed_at_once_is_corrected_in_place(spark: SparkSession, source: Source) -> None:
    text = f"CREATE STREAMING TABLE st_rows {NOW} AS SELECT {{}} FROM st_source"
    error = refusal(spark, text.format("assert_true(id < 1, 'too large') AS x"))
    assert error.condition == ("STREAMING.SINK" if RELEASE < (4, 1) else "STREAMING.QUERY_FAILED")
    assert "too large" in str(error)
    assert "\tat " not in str(error)
    if RELEASE > (4, 0):  # there its start fails already, and no query is left
        assert cells(spark.sql("DESCRIBE STREAMING QUERY st_rows"))["status"] == "failed"
    spark.sql(text.format("id"))
    assert ids(spark, "st_rows") == [1, 2]


def test_queries_that_no_table_can_take_are_refused(spark: SparkSession, source: Source) -> None:
    def condition_of(rest: str) -> str:
        return refusal(spark, f"CREATE STREAMING TABLE st_rows {rest}").condition

    assert condition_of("AS SELECT * FROM range(3)") == "STREAMING.NOT_LIVE"
    assert condition_of("AS SELECT id, count(*) FROM st_source GROUP BY id") == "STREAMING.ROWS_CHANGE"
    assert condition_of("AS SELECT id FROM st_source ORDER BY id") == "STREAMING.NOT_ON_STREAMS"
    assert condition_of("USING parkett AS SELECT id FROM st_source") == "STREAMING.UNKNOWN_FORMAT"
    assert condition_of("USING memory CHECKPOINT '/c' AS SELECT id FROM st_source") == "DEFINITION.CLAUSE_NOT_HERE"
    assert condition_of("USING csv AS SELECT map(id, id) AS m FROM st_source") == "STREAMING.SINK"


@pytest.mark.parametrize("using", ["memory", "csv", "json"])
def test_other_sinks_can_be_read(spark: SparkSession, source: Source, using: str) -> None:
    spark.sql(f"CREATE STREAMING TABLE st_rows USING {using} {NOW} AS SELECT id FROM st_source")
    assert ids(spark, "st_rows") == [1, 2]


def test_a_sink_without_a_table_counts_its_rows(spark: SparkSession, source: Source) -> None:
    spark.sql(f"CREATE STREAMING TABLE st_rows USING noop {NOW} AS SELECT id FROM st_source")
    assert cells(spark.sql("DESCRIBE STREAMING QUERY st_rows"))["rows"] == "2"
    assert not spark.catalog.tableExists("st_rows")


@dataclass(frozen=True)
class LateRows:
    """Rows under 2 as if an operator had refused them."""

    table: str
    schema: StructType

    @staticmethod
    def make(batch: DataFrame) -> DataFrame:
        return batch.where("id < 2").selectExpr("id", "'late' AS _reason")


@dataclass(frozen=True)
class WithLateRows:
    """A query whose operator refuses rows."""

    frame: DataFrame
    late: tuple[LateRows, ...]
    fingerprint: str = "with late rows"
    operators: str = ""
    held: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    plan: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(notes=(), operators=tuple))

    @property
    def fat(self) -> DataFrame:
        return self.frame

    @staticmethod
    def rows(batch: DataFrame) -> DataFrame:
        return batch.where("id >= 2")


def start_with_late_rows(
    spark: SparkSession, using: str = "parquet", table: str = "st_late", create: str = "CREATE"
) -> None:
    text = f"{create} STREAMING TABLE st_rows USING {using} {NOW} AS SELECT id FROM st_source LATE TO {table}"
    statement = parse_streaming(text, tokenize(text))
    assert isinstance(statement, StreamingTable)
    schema = StructType([StructField("id", LongType()), StructField("_reason", StringType())])
    frame = spark.sql("SELECT id FROM st_source")
    Starter(spark, statement, lambda *_: WithLateRows(frame, (LateRows(table, schema),))).start()


def test_late_rows_go_to_a_table_of_their_own(spark: SparkSession, source: Source) -> None:
    start_with_late_rows(spark)
    source.put(0, 5)
    start_with_late_rows(spark)
    assert ids(spark, "st_rows") == [2, 5]
    assert ids(spark, "st_late") == [0, 1]


def test_a_micro_batch_that_runs_again_writes_what_is_missing_and_nothing_twice(
    spark: SparkSession, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process had died between the two tables of the first micro-batch."""
    written: list[str] = []
    write = FileSink.write

    def die_before_the_second(sink: FileSink, batch_id: int, rows: DataFrame) -> None:
        written.append(sink.location)
        if len(written) == 2:
            raise RuntimeError(sink.location)
        write(sink, batch_id, rows)

    monkeypatch.setattr(FileSink, "write", die_before_the_second)
    with pytest.raises(TemporalSqlError, match="st_late"):
        start_with_late_rows(spark)
    assert ids(spark, "st_rows") == [2]
    assert ids(spark, "st_late") == []
    monkeypatch.undo()
    start_with_late_rows(spark)
    assert ids(spark, "st_rows") == [2]
    assert ids(spark, "st_late") == [1]


def test_a_query_that_begins_anew_begins_its_late_rows_anew(spark: SparkSession, source: Source) -> None:
    """Its micro-batches have the numbers of the earlier ones, which the tables would pass over."""
    start_with_late_rows(spark)
    source.put(0)
    start_with_late_rows(spark, create="CREATE OR REPLACE")
    assert ids(spark, "st_rows") == [2]
    assert ids(spark, "st_late") == [0, 1]
    spark.sql("DROP TABLE st_rows")
    shutil.rmtree(warehouse(spark) / "_checkpoints/st_rows")
    with pytest.raises(TemporalSqlError, match="rows of an earlier query"):
        start_with_late_rows(spark)
    assert ids(spark, "st_late") == [0, 1]


def test_late_rows_need_a_table_that_is_theirs(spark: SparkSession, source: Source) -> None:
    spark.sql("CREATE TABLE st_else (id BIGINT)")
    with pytest.raises(TemporalSqlError, match="LATE_TABLE") as refused:
        start_with_late_rows(spark, table="st_else")
    assert "^^^" in str(refused.value)
    with pytest.raises(TemporalSqlError, match="LATE_TO_SINK"):
        start_with_late_rows(spark, using="console")


def test_a_live_join_writes_its_result_and_its_late_rows(spark: SparkSession, source: Source) -> None:
    """Order 2 waits for its grace to pass; order 3 has no key, which an inner join refuses."""
    folder, minute = source.folder.parent, "timestamp '2026-03-02 10:{:02}:00'"
    rows = {"rates": [(1, 0, 5)], "orders": [(1, 5, 1), (1, 10, 2), ("CAST(NULL AS INT)", 11, 3)]}
    for number, (name, row) in enumerate((name, row) for name, found in rows.items() for row in found):
        query = f"SELECT {row[0]} AS k, {minute.format(row[1])} AS ts, {row[2]} AS v"
        path = folder / name / f"{number}.parquet"
        spark.sql(query).coalesce(1).write.parquet(str(folder / "draft"))
        path.parent.mkdir(exist_ok=True)
        shutil.move(next((folder / "draft").glob("*.parquet")), path)
        shutil.rmtree(folder / "draft")
        os.utime(path, (1_772_000_000 + number, 1_772_000_000 + number))
    columns = "(k INT, ts TIMESTAMP, v INT) USING parquet OPTIONS (path '{}', maxFilesPerTrigger '1')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY STREAM lj_orders {columns.format(folder / 'orders')} TIMESTAMP BY ts")
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VERSIONED TABLE lj_rates {columns.format(folder / 'rates')} "
        "KEYS (k) TIMESTAMP BY ts HISTORY RETENTION INTERVAL 1 DAY"
    )
    query = (
        "SELECT o.v AS id, r.v AS rate FROM {} lj_orders o JOIN lj_rates r AS OF o.ts ON o.k = r.k "
        "GRACE PERIOD INTERVAL 1 MINUTE LATE TO st_late"
    )
    spark.sql(f"CREATE STREAMING TABLE st_rows {NOW} TASKS 1 AS {query.format('')}")
    assert sorted(map(tuple, spark.sql("SELECT id, rate FROM st_rows").collect())) == [(1, 5)]
    (late,) = spark.sql("SELECT * FROM st_late").collect()
    assert (late["v"], late["_reason"]) == (3, "null_key")
    facts = cells(spark.sql("DESCRIBE STREAMING QUERY st_rows"))
    assert (facts["rows"], facts["null_key"], facts["matched"], facts["buffered_rows"]) == ("4", "1", "1", "1")
    die_before_commit(warehouse(spark) / "_checkpoints/st_rows")
    spark.sql(f"CREATE STREAMING TABLE st_rows {NOW} TASKS 1 AS {query.format('')}")
    assert (spark.table("st_rows").count(), spark.table("st_late").count()) == (1, 1)
    refused = refusal(spark, query.format("STREAM"))
    assert refused.condition == "UNSUPPORTED.LATE_TO_NEEDS_TABLE"
    assert "^^^" in str(refused)


WRITES = (
    "INSERT INTO st_rows VALUES (9)",
    "INSERT OVERWRITE TABLE st_rows VALUES (9)",
    "FROM VALUES (9) AS t(id) INSERT INTO st_rows SELECT id",
    "TRUNCATE TABLE st_rows",
    "DELETE FROM default.st_rows WHERE id = 1",
    "UPDATE st_rows SET id = 2",
    "MERGE INTO st_rows USING st_rows s ON false WHEN NOT MATCHED THEN INSERT *",
    "ALTER TABLE st_rows ADD COLUMN x INT",
)


def test_only_its_stream_writes_a_streaming_table(spark: SparkSession, source: Source) -> None:
    spark.sql(f"CREATE STREAMING TABLE st_rows {NOW} AS SELECT id FROM st_source")
    for write in WRITES:
        refused = refusal(spark, write)
        assert refused.condition == "STREAMING.WRITE"
        assert "^" in str(refused)
    spark.sql("ALTER TABLE st_rows SET TBLPROPERTIES ('note' = 'x')")
    assert ids(spark, "st_rows") == [1, 2]


@pytest.mark.parametrize("name", ["`../../st_x`", "`st_a/b`", "`st_a b`", f"st_{'x' * 300}"])
def test_a_name_that_leaves_its_folder_is_refused(spark: SparkSession, source: Source, name: str) -> None:
    text = f"CREATE STREAMING TABLE {name} USING console {NOW} AS SELECT id FROM st_source"
    assert refusal(spark, text).condition == "STREAMING.NAME"


@pytest.mark.parametrize(
    "changed",
    [
        "CREATE OR REPLACE STREAM st_o FROM st_both TIMESTAMP BY b",
        "CREATE OR REPLACE TABLE st_other USING parquet AS SELECT * FROM st_both",
    ],
)
def test_a_checkpoint_knows_what_its_names_meant(spark: SparkSession, source: Source, changed: str) -> None:
    ts = "TIMESTAMP'2024-01-01 00:00:0{}'"
    spark.sql(
        f"CREATE TABLE st_both USING parquet AS SELECT 1 AS id, {ts.format(1)} AS a, {ts.format(2)} AS b, 'k' AS k"
    )
    spark.sql("CREATE OR REPLACE STREAM st_o FROM st_both TIMESTAMP BY a")
    text = f"CREATE STREAMING TABLE st_rows {NOW} AS SELECT id FROM st_o"
    try:
        spark.sql(text)
        spark.sql(text)
        if "st_other" in changed:
            spark.sql("CREATE TABLE st_other USING parquet AS SELECT * FROM st_both")
            spark.sql("CREATE OR REPLACE STREAM st_o FROM st_other TIMESTAMP BY a")
        else:
            spark.sql(changed)
        refused = refusal(spark, text)
        assert refused.condition == "STREAMING.CHECKPOINT_OTHER_QUERY"
        assert "`st_o` was" in str(refused)
        spark.sql("CREATE OR REPLACE STREAM st_o FROM st_both TIMESTAMP BY a")
        spark.sql(text)
        assert ids(spark, "st_rows") == [1]
    finally:
        spark.sql("DROP STREAM st_o")


def test_an_scd2_table_is_joined_live_as_it_is_bounded(spark: SparkSession, source: Source) -> None:
    """A row ends where it says, whichever of both comes first; its end never takes the next row of its key away."""
    spark.sql("CREATE TABLE st_spans (k INT, v STRING, since TIMESTAMP, until TIMESTAMP) USING parquet")
    spark.sql("CREATE TABLE st_asked (id INT, k INT, at TIMESTAMP) USING parquet")
    spark.sql("CREATE VERSIONED TABLE st_dim FROM SCD2 TABLE st_spans KEYS (k) VALID (since, until)")
    spark.sql("CREATE STREAM st_calls FROM st_asked TIMESTAMP BY at")
    query = (
        "SELECT c.id, d.v FROM st_calls c LEFT JOIN st_dim d AS OF c.at ON c.k = d.k GRACE PERIOD INTERVAL 30 MINUTES"
    )
    text = f"CREATE STREAMING TABLE st_answers TASKS 1 {NOW} AS {query}"

    def at(minute: int | None) -> str:
        return "NULL" if minute is None else f"TIMESTAMP'2026-01-01 {10 + minute // 60}:{minute % 60:02}:00'"

    rounds = (
        ([("b", 10, 20), ("a", 0, 10)], (5, 10, 15, 20, 25)),  # what ends comes after what begins there
        ([("c", 30, None), ("never", 35, 35), ("z", 99, None)], (29, 30, 50, 99)),  # at last nothing waits any more
    )
    asked = iter(range(100))
    try:
        for spans, minutes in rounds:
            held = ", ".join(f"(1, '{v}', {at(since)}, {at(until)})" for v, since, until in spans)
            rows = ", ".join(f"({next(asked)}, {k}, {at(minute)})" for minute in minutes for k in (1, 2))
            spark.sql(f"INSERT INTO st_spans SELECT /*+ COALESCE(1) */ * FROM VALUES {held}")
            spark.sql(f"INSERT INTO st_asked SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
            spark.sql(text)
        bounded = {tuple(row) for row in spark.sql(query).collect() if row[0] < 16}
        assert bounded >= {(0, "a"), (2, "b"), (4, "b"), (6, None), (8, None), (10, None), (12, "c"), (14, "c")}
        assert {tuple(row) for row in spark.table("st_answers").collect() if row[0] < 16} == bounded
        refused = refusal(spark, f"CREATE STREAMING TABLE st_now {NOW} AS SELECT k, v FROM st_dim EMIT CHANGES")
        assert refused.getCondition() == "TABLE.SCD2"
    finally:
        spark.sql("DROP STREAM st_calls")
        spark.sql("DROP VERSIONED TABLE st_dim")
