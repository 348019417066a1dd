"""Windows of live streams on Spark: random cuts and restarts, both strategies, late rows, idle streams."""

from __future__ import annotations

import datetime as dt
import os
import random
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pandas as pd  # noqa: TC002 - PySpark reads the annotations of functions
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from sqlx.replay.driver import ReplayDriver
from sqlx.streaming.registry import registry
from udtf.spark.tasks import stream_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "(seq BIGINT, k STRING, v BIGINT, ts TIMESTAMP)"
SCHEMA = pa.schema([("seq", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
TUMBLING = (
    "SELECT k, window.start AS ws, count(*) AS n, sum(v) AS s FROM STREAM {} GROUP BY k, window(ts, '10 seconds')"
)
SESSIONS = (
    "SELECT k, session_window.start AS ws, count(*) AS n FROM STREAM {} GROUP BY k, session_window(ts, '4 seconds')"
)
Row = dict[str, Any]
_FIRST_WRITTEN_S = 1_700_000_000


def rows(count: int, lateness_s: int, seed: int) -> list[Row]:
    drawn = random.Random(seed)
    times = [n - drawn.randrange(lateness_s + 1) for n in range(count)]
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return [
        {"seq": n, "k": drawn.choice(["a", "b", None]), "v": drawn.randrange(9), "ts": start + dt.timedelta(seconds=t)}
        for n, t in enumerate(times)
    ]


class Files:
    """A stream over files that are written as it goes."""

    def __init__(self, spark: SparkSession, folder: Path, name: str) -> None:
        self.spark, self.folder, self.name, self.written = spark, folder / name, name, 0
        self.folder.mkdir()
        options = f"OPTIONS (path '{self.folder}', maxFilesPerTrigger '1')"
        spark.sql(f"CREATE TEMPORARY STREAM {name} {COLUMNS} USING parquet {options} TIMESTAMP BY ts SEQUENCE BY seq")

    def write(self, batch: list[Row]) -> None:
        self.written += 1
        path = self.folder / f"{self.written:04d}.parquet"
        pq.write_table(pa.Table.from_pylist(batch, schema=SCHEMA), path)
        os.utime(path, (_FIRST_WRITTEN_S + self.written,) * 2)  # one after the other, however fast they were written


def run(spark: SparkSession, query: str, folder: Path, into: list[tuple[Any, ...]]) -> None:
    """Run a query over what is there, from its checkpoint on."""

    def keep(batch: Any, _: int) -> None:
        into.extend(tuple(row) for row in batch.collect())

    frame = spark.sql(query)
    running = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    running.trigger(availableNow=True).start().awaitTermination()


def session_of(spark: SparkSession, tasks: int) -> SparkSession:
    session = spark.newSession()
    for name, value in {**stream_conf(session, tasks), "sqlx.tasks": str(tasks)}.items():
        session.conf.set(name, value)
    return session


def replayed(query: str, data: list[Row]) -> list[tuple[Any, ...]]:
    driver = ReplayDriver(f"CREATE STREAM w {COLUMNS} TIMESTAMP BY ts SEQUENCE BY seq; {query.format('w')}")
    return [tuple(change.row.values()) for change in driver.push([("w", row) for row in data])]


def shown(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows as they can be compared: Spark collects times without a zone, and this session's is UTC."""
    return [tuple(v.replace(tzinfo=dt.UTC) if isinstance(v, dt.datetime) else v for v in row) for row in found]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(f"{TUMBLING} GRACE PERIOD INTERVAL 3 SECONDS EMIT FINAL", marks=pytest.mark.full),
        f"{SESSIONS} EMIT FINAL",
    ],
)
def test_cuts_and_restarts_change_no_final(spark: SparkSession, tmp_path: Path, query: str) -> None:
    data, drawn = rows(60, 8, seed=7), random.Random(3)
    found: list[tuple[Any, ...]] = []
    session = session_of(spark, tasks=1)
    files = Files(session, tmp_path, "w")
    rest = data
    while rest:
        for _ in range(drawn.randrange(1, 3)):  # each run is a restart, with one or two micro-batches
            size = drawn.randrange(1, 30)
            if rest:
                files.write(rest[:size])
            rest = rest[size:]
        run(session, query.format("w"), tmp_path, found)
    assert shown(found) == replayed(query, data)


@pytest.mark.full
def test_both_strategies_agree_within_the_grace(spark: SparkSession, tmp_path: Path) -> None:
    data = rows(80, 4, seed=11)
    query = f"{TUMBLING} GRACE PERIOD INTERVAL 5 SECONDS EMIT FINAL"
    answers = {}
    for strategy in ("exact", "native"):
        session = session_of(spark, tasks=2)
        session.conf.set("sqlx.window_strategy", strategy)
        (tmp_path / strategy).mkdir()
        files = Files(session, tmp_path / strategy, "w")
        for start in range(0, len(data), 20):
            files.write(data[start : start + 20])
        files.write(
            [{"seq": 999 + n, "k": k, "v": 0, "ts": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)} for n, k in enumerate("ab")]
        )
        files.write([{"seq": 1001, "k": None, "v": 0, "ts": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}])
        found: list[tuple[Any, ...]] = []
        run(session, query.format("w"), tmp_path / strategy, found)
        answers[strategy] = sorted(shown(found), key=repr)
    assert answers["exact"] == answers["native"]
    assert sum(row[2] for row in answers["exact"]) == len(data)


def test_a_strategy_that_cannot_run_a_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    session = session_of(spark, tasks=1)
    Files(session, tmp_path, "w")
    session.conf.set("sqlx.window_strategy", "native")
    with pytest.raises(PySparkException, match="final results only"):
        session.sql(TUMBLING.format("w"))
    session.conf.set("sqlx.window_strategy", "fast")
    with pytest.raises(PySparkException, match=r"WINDOW\.STRATEGY"):
        session.sql(TUMBLING.format("w"))


def test_an_aggregate_without_partial_state_is_spark_s(spark: SparkSession, tmp_path: Path) -> None:
    session = session_of(spark, tasks=1)
    files = Files(session, tmp_path, "w")
    query = TUMBLING.format("w").replace("sum(v)", "percentile(v, 0.5)")
    with pytest.raises(PySparkException, match="KEEPS_ROWS"):
        session.sql(query)
    files.write(rows(30, 0, seed=2))
    files.write([{"seq": 999, "k": "a", "v": 0, "ts": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}])
    found: list[tuple[Any, ...]] = []
    run(session, f"{query} EMIT FINAL", tmp_path, found)
    assert sum(row[2] for row in found) == 30


def _longest(texts: pd.Series) -> str:
    return str(max(texts, key=len))


@pytest.mark.parametrize(
    ("call", "found", "marked"),
    [
        ("lw_longest(k)", "[AGGREGATE.OWN] lw_longest is an aggregate", "lw_longest(k)"),
        ("upper(lw_longest(k || 'x'))", "[AGGREGATE.OWN] lw_longest is an aggregate", "lw_longest(k || 'x')"),
        ("lw_nothing(v)", "[UNRESOLVED_ROUTINE] Cannot resolve routine `lw_nothing`", "lw_nothing(v)"),
        ("abs(v)", "[AGGREGATE.NOT_GROUPED] `v` is neither", "v"),
    ],
)
def test_a_function_of_what_is_not_grouped_is_said_for_what_it_is(
    spark: SparkSession, tmp_path: Path, call: str, found: str, marked: str
) -> None:
    session = session_of(spark, tasks=1)
    Files(session, tmp_path, "w")

    session.udf.register("lw_longest", F.pandas_udf(_longest, "string"))
    query = f"SELECT {call} AS x FROM STREAM w GROUP BY window(ts, '10 seconds')"
    with pytest.raises(PySparkException) as refused:
        session.sql(f"{query} EMIT FINAL")
    _, line, caret, *_ = str(refused.value).splitlines()
    assert str(refused.value).startswith(found)
    assert line[caret.index("^") : caret.rindex("^") + 1] == marked


def test_distinct_arguments_beside_it_are_those_of_batch(spark: SparkSession, tmp_path: Path) -> None:
    session = session_of(spark, tasks=1)
    files = Files(session, tmp_path, "lw_distinct")
    data = rows(40, 0, seed=9)
    files.write(data)
    files.write([{**data[-1], "seq": 99, "ts": data[-1]["ts"] + dt.timedelta(days=1)}])
    amount, length = "CAST(nullif(v, 8) AS DECIMAL(10, 2))", "make_dt_interval(0, 0, v, v / 1000000)"
    distinct = [f"{call}(DISTINCT {of})" for call in ("sum", "avg") for of in ("v", amount, "v / 2D", length)]
    distinct += ["count(DISTINCT v, seq % 3) FILTER (WHERE v < 7)", "count(DISTINCT nullif(v, 1))", "min(DISTINCT v)"]
    distinct += ["sort_array(collect_list(DISTINCT v))", "max(DISTINCT k)", "sum(DISTINCT v) FILTER (WHERE v < 0)"]
    items = ", ".join(["k", "median(v)", *distinct])
    query = f"SELECT {items} FROM {{}} GROUP BY k, window(ts, '20 seconds') HAVING count(*) > 1 EMIT FINAL"
    found: list[tuple[Any, ...]] = []
    live = query.format("STREAM lw_distinct")
    run(session, live, tmp_path, found)
    bounded = session.sql(query.format("lw_distinct"))
    assert session.sql(live).schema.simpleString() == bounded.schema.simpleString()
    assert sorted(map(repr, found)) == sorted(repr(tuple(row)) for row in bounded.collect())
    assert len(found) > 3
    with pytest.raises(PySparkException, match="no DISTINCT"):
        session.sql(live.replace("median(v)", "median(DISTINCT v)"))


def test_a_group_is_by_the_column_that_an_alias_is_named_like(spark: SparkSession, tmp_path: Path) -> None:
    Files(spark, tmp_path, "lw_alias").write(rows(1, 0, 0))
    query = "SELECT max(struct(v AS k)) AS k FROM {} GROUP BY k, window(ts, '1 hour') EMIT FINAL"
    for name in ("lw_alias", "STREAM lw_alias"):
        assert spark.sql(query.format(name)).schema.simpleString() == "struct<k:struct<k:bigint>>"


def test_late_rows_go_to_their_table(spark: SparkSession, tmp_path: Path) -> None:
    session = session_of(spark, tasks=1)
    files = Files(session, tmp_path, "w")
    data = rows(60, 8, seed=7)
    files.write(data)
    query = f"{TUMBLING.format('w')} GRACE PERIOD INTERVAL 1 SECOND LATE TO w_late EMIT FINAL"
    session.sql(f"CREATE STREAMING TABLE w_final USING parquet TRIGGER (AVAILABLE NOW) AS {query}")
    driver = ReplayDriver(f"CREATE STREAM w {COLUMNS} TIMESTAMP BY ts SEQUENCE BY seq; {query}")
    wanted = [tuple(change.row.values()) for change in driver.push([("w", row) for row in data])]
    assert sorted(shown([tuple(r) for r in session.table("w_final").collect()]), key=repr) == sorted(wanted, key=repr)
    late = [row["seq"] for row in session.table("w_late").orderBy("seq").collect()]
    assert late == [row["seq"] for row in driver.late] != []
    described = {row[0]: row[1] for row in session.sql("DESCRIBE STREAMING QUERY w_final").collect()}
    assert int(described["late_record_drop"]) == len(late)
    assert int(described["suppression_emit"]) == len(wanted)


def test_idle_streams_give_out_what_is_open(spark: SparkSession, tmp_path: Path) -> None:
    session = session_of(spark, tasks=1)
    files = Files(session, tmp_path, "w")
    files.write(rows(12, 0, seed=5))
    found: list[tuple[Any, ...]] = []
    complete = Event()

    def keep(batch: Any, _: int) -> None:
        found.extend(tuple(row) for row in batch.collect())
        if sum(row[2] for row in found) == 12:
            complete.set()

    frame = session.sql(f"{TUMBLING.format('w')} EMIT FINAL IDLE TIMEOUT INTERVAL 1 SECOND")
    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = writer.trigger(processingTime="200 milliseconds").start()
    try:
        assert complete.wait(timeout=120), running.exception()
    finally:
        running.stop()


@pytest.mark.full
def test_idle_joins_answer_what_waits(spark: SparkSession) -> None:
    spark.sql("CREATE STREAM idle_orders (id INT, k STRING, ts TIMESTAMP) TIMESTAMP BY ts")
    spark.sql("CREATE VERSIONED TABLE idle_rates (k STRING, rate INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts")
    spark.sql("INSERT INTO idle_rates VALUES ('a', 10, TIMESTAMP'2026-01-01 10:00:00')")
    spark.sql("INSERT INTO idle_orders VALUES (1, 'a', TIMESTAMP'2026-01-01 10:05:00')")
    try:
        found = answered_when_idle(
            spark,
            "SELECT o.id, r.rate FROM idle_orders o JOIN idle_rates r AS OF o.ts ON o.k = r.k"
            " GRACE PERIOD INTERVAL 1 HOUR IDLE TIMEOUT INTERVAL 1 SECOND",
        )
        assert found == [(1, 10)]
    finally:
        spark.sql("DROP STREAM idle_orders")
        spark.sql("DROP VERSIONED TABLE idle_rates")


@pytest.mark.full
def test_idle_deduplications_give_out_the_last_rows(spark: SparkSession) -> None:
    spark.sql("CREATE STREAM idle_clicks (id INT, k STRING, ts TIMESTAMP) TIMESTAMP BY ts SEQUENCE BY id")
    spark.sql("INSERT INTO idle_clicks VALUES (1, 'a', TIMESTAMP'2026-01-01 10:05:00')")
    spark.sql("INSERT INTO idle_clicks VALUES (2, 'a', TIMESTAMP'2026-01-01 10:06:00')")
    try:
        last = "KEEP LAST IDLE TIMEOUT INTERVAL 1 SECOND"
        query = f"SELECT id, k FROM idle_clicks DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (k) {last}"
        assert answered_when_idle(spark, query) == [(2, "a")]
    finally:
        spark.sql("DROP STREAM idle_clicks")


INNER = {
    "windows": "SELECT k, count(*) AS id, max(ts) AS ts FROM idle_orders GROUP BY k, window(ts, '1 hour')"
    " EMIT FINAL IDLE TIMEOUT INTERVAL 1 SECOND",
    "deduplication": "SELECT * FROM idle_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (k) KEEP LAST"
    " IDLE TIMEOUT INTERVAL 1 SECOND",
    "join": "SELECT o.* FROM idle_orders o JOIN idle_rates r AS OF o.ts ON o.k = r.k"
    " GRACE PERIOD INTERVAL 1 HOUR IDLE TIMEOUT INTERVAL 1 SECOND",
}


@pytest.mark.full
@pytest.mark.parametrize("inner", INNER)
def test_what_is_idle_goes_on_through_the_operator_that_reads_it(spark: SparkSession, inner: str) -> None:
    spark.sql("CREATE STREAM idle_orders (id INT, k STRING, ts TIMESTAMP) TIMESTAMP BY ts")
    spark.sql("CREATE VERSIONED TABLE idle_rates (k STRING, rate INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts")
    spark.sql("INSERT INTO idle_rates VALUES ('a', 10, TIMESTAMP'2026-01-01 10:00:00')")
    spark.sql("INSERT INTO idle_rates VALUES ('b', 20, TIMESTAMP'2026-01-01 10:00:00')")
    spark.sql("INSERT INTO idle_orders VALUES (1, 'a', TIMESTAMP'2026-01-01 10:05:00')")
    spark.sql("INSERT INTO idle_orders VALUES (1, 'b', TIMESTAMP'2026-01-01 10:04:00')")
    waits = "GRACE PERIOD INTERVAL 1 HOUR IDLE TIMEOUT INTERVAL 1 SECOND"
    try:
        joined = f"({INNER[inner]}) o JOIN idle_rates r AS OF o.ts ON o.k = r.k {waits}"
        found = answered_when_idle(spark, f"SELECT o.id, o.k, r.rate FROM {joined}", rows=2)
        assert sorted(found) == [(1, "a", 10), (1, "b", 20)]
    finally:
        spark.sql("DROP STREAM idle_orders")
        spark.sql("DROP VERSIONED TABLE idle_rates")


def answered_when_idle(spark: SparkSession, query: str, rows: int = 1) -> list[tuple[Any, ...]]:
    """What a query gives out when nothing comes any more; ends by its time limit where that is nothing."""
    spark.sql(f"CREATE STREAMING TABLE idle_answers USING memory TASKS 2 AS {query}")
    (running,) = (one for one in registry(spark.sparkContext).all() if one.name == "idle_answers")
    waited = Event()
    try:
        while spark.table("idle_answers").count() < rows:
            waited.wait(0.1)
        while not running.refresh().sum("idle_closed"):
            waited.wait(0.1)
        return [tuple(row) for row in spark.table("idle_answers").collect()]
    finally:
        running.query.stop()
        registry(spark.sparkContext).forget("idle_answers")
        spark.catalog.dropTempView("idle_answers")


@pytest.mark.full
def test_updates_that_wait_show_the_window_itself(spark: SparkSession, tmp_path: Path) -> None:
    """A window is a struct whose fields are never NULL, in rows that may not be there."""
    session = session_of(spark, tasks=1)
    data = rows(20, 0, seed=6)
    Files(session, tmp_path, "w").write(data)
    query = (
        "SELECT k, window(ts, '10 seconds') AS w, count(*) AS n FROM {} GROUP BY k, window(ts, '10 seconds') "
        "EMIT EVERY INTERVAL 2 SECONDS PER KEY"
    )
    session.sql(f"CREATE STREAMING TABLE w_waited USING memory TRIGGER (AVAILABLE NOW) AS {query.format('STREAM w')}")
    found = [(k, window.start, n, kind) for k, window, n, kind in session.table("w_waited").collect()]
    driver = ReplayDriver(f"CREATE STREAM w {COLUMNS} TIMESTAMP BY ts SEQUENCE BY seq; {query.format('w')}")
    changes = driver.push([("w", row) for row in data])
    wanted = [(c.row["k"], c.row["w"]["start"], c.row["n"], c.op) for c in changes]
    assert shown(found) == shown(wanted)
    assert wanted


def test_columns_are_called_alike_in_batch_and_live(spark: SparkSession, tmp_path: Path) -> None:
    Files(spark, tmp_path, "lw_named").write(rows(1, 0, 0))
    queries = (
        "count(*) * 2, COUNT(*), Sum( v ), -max(v), 'x', k, s.K, upper(k), 1 FROM {} s"
        " GROUP BY k, window(ts, '1 hour') EMIT FINAL",
        "window.start, window, max(v) + 1, sum(v) FILTER (WHERE v > 1), first(v) IGNORE NULLS FROM {} s"
        " GROUP BY window(ts, '1 hour') EMIT FINAL",
        "k, max(v) IS NULL, CASE WHEN max(v) > 1 THEN 1 END FROM {} GROUP BY k",
    )
    for query in queries:
        bounded, live = (spark.sql(f"SELECT {query.format(name)}").columns for name in ("lw_named", "STREAM lw_named"))
        assert [name for name in live if name != "_change_type"] == bounded


def test_aggregates_of_variants_and_intervals_are_those_of_batch(spark: SparkSession, tmp_path: Path) -> None:
    session = session_of(spark, tasks=1)
    files = Files(session, tmp_path, "lw_types")
    data = rows(12, 0, seed=5)
    files.write(data)
    files.write([{**data[-1], "seq": 99, "ts": data[-1]["ts"] + dt.timedelta(days=1)}])
    variant, interval = "parse_json(if(v > 3, to_json(struct(v)), NULL))", "make_dt_interval(0, 0, v, v / 1000000)"
    items = [
        *(f"{call}({interval})" for call in ("sum", "avg", "max")),
        f"sort_array(collect_set({interval}))",
        *(f"to_json(struct({call}))" for call in (f"collect_list({variant})", f"max_by({variant}, seq)")),
        f"count({variant})",
        f"any_value(struct({variant} AS j)) IS NULL",
    ]
    query = f"SELECT k, {', '.join(items)} FROM {{}} GROUP BY k, window(ts, '1 hour') HAVING count(*) > 1 EMIT FINAL"
    found: list[tuple[Any, ...]] = []
    run(session, query.format("STREAM lw_types"), tmp_path, found)
    bounded = [tuple(row) for row in session.sql(query.format("lw_types")).collect()]
    assert sorted(found, key=repr) == sorted(bounded, key=repr)
    assert len(found) > 1


_LOCAL = "CAST(ts AS TIMESTAMP_NTZ)"
_BOUNDS = "string({0}.start) AS s, {0}.end AS e, date_format({0}.end, 'HH:mm:ss') AS h"
BY_A_CLOCK = (
    f"SELECT k, {_BOUNDS.format('window')}, count(*) FROM {{}} GROUP BY k, window({_LOCAL}, '7 seconds') EMIT FINAL",
    f"SELECT k, {_BOUNDS.format('window')}, median(v) FROM {{}} GROUP BY k, window({_LOCAL}, '7 seconds') EMIT FINAL",
    f"SELECT k, {_BOUNDS.format('window')}, sum(v) FROM {{}} GROUP BY k, sliding_window({_LOCAL}, '3 seconds')"
    " EMIT FINAL",
    f"SELECT k, {_BOUNDS.format('session_window')}, max(v) FROM {{}} GROUP BY k, session_window({_LOCAL}, '2 seconds')"
    " EMIT FINAL",
    f"SELECT k, {_BOUNDS.format('window')}, sum(v) FROM {{}} GROUP BY k, window(CAST(ts AS DATE), '1 day') EMIT FINAL",
    f"SELECT k, e, n FROM (SELECT k, window.end AS e, count(*) AS n FROM {{}} GROUP BY k, window({_LOCAL}, '7 seconds')"
    " EMIT FINAL) DEDUPLICATE WITHIN INTERVAL 1 SECOND BY (k, n) ON TIME e",
    f"SELECT k, {_BOUNDS.format('window')}, count(*) AS n FROM {{}} GROUP BY k, window({_LOCAL}, '7 seconds')"
    " EMIT CHANGES AS CHANGELOG",
)


@pytest.mark.parametrize("query", BY_A_CLOCK)
def test_windows_by_a_clock_are_those_of_batch_in_any_zone(spark: SparkSession, tmp_path: Path, query: str) -> None:
    session = session_of(spark, tasks=1)
    session.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    files = Files(session, tmp_path, "lw_clock")
    data = rows(30, 0, seed=6)
    files.write(data)
    files.write([{**data[-1], "seq": 99, "k": "end", "ts": data[-1]["ts"] + dt.timedelta(days=9)}])
    live, bounded = session.sql(query.format("STREAM lw_clock")), session.sql(query.format("lw_clock"))
    assert live.schema.simpleString() == bounded.schema.simpleString()
    found: list[tuple[Any, ...]] = []
    run(session, query.format("STREAM lw_clock"), tmp_path, found)
    last = {row[:-1]: row for row in found} if "CHANGES" not in query else _as_inserts(found)
    assert len(last) > 2
    assert sorted(map(repr, last.values())) == sorted(repr(tuple(r)) for r in bounded.collect() if r.k != "end")


def _as_inserts(changes: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The rows that a changelog leaves, as if each had been inserted; of all windows but the last one."""
    left = {change[:-2]: (*change[:-1], "insert") for change in changes if change[-1] in ("insert", "update_after")}
    return {key: row for key, row in left.items() if row[0] != "end"}


WINDOWS = "GROUP BY k, window(ts, '1 hour') EMIT FINAL"
STEP = "DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (k) ON TIME ts"
JOIN = "{s} AS s JOIN {r} AS r AS OF s.ts"
#: Of a stream, of an upsert table that is read live with it, and of a versioned table.
STRUCTS = (
    f"SELECT struct(k, count(*), upper(k)), (k, max(v)) AS x, struct((k)) FROM {{s}} {WINDOWS}",
    f"SELECT array(struct(window.start, k))[0], struct(window, 1) FROM {{s}} {WINDOWS}",
    f"SELECT max_by(struct(*), ts) AS x, max(struct(s.*)), first(struct(s.* EXCEPT (v))) FROM {{s}} AS s {WINDOWS}",
    f"SELECT struct(max(v) AS k, k AS v), (k v, count(*) k) AS x, struct(k AS window) FROM {{s}} {WINDOWS}",
    "SELECT max(struct(v k)).k AS k, struct(v n).n AS m FROM {s} GROUP BY k, v, window(ts, '1 hour') EMIT FINAL",
    "SELECT (session_window, k) AS x FROM {s} GROUP BY k, session_window(ts, '1 hour') EMIT FINAL",
    "SELECT struct(k, max(v)), max(struct(*)) AS x FROM {s} GROUP BY k, sliding_window(ts, INTERVAL 1 HOUR) EMIT FINAL",
    "SELECT struct(*), (k, v) AS y, struct(q.*) AS z FROM {s} DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (k) AS q",
    f"SELECT x FROM (SELECT struct(*) AS x, k, ts FROM {{s}}) AS t {STEP}",
    "SELECT x FROM (SELECT struct(s.*) AS x, * FROM {s} AS s) AS t JOIN {r} AS r AS OF t.ts ON t.k = r.k",
    f"SELECT struct(*), struct(s.*), struct(r.*, 1), (s.k, r.v) AS x FROM {JOIN} ON s.k = r.k",
    f"SELECT x FROM (SELECT struct(*) AS x, s.k, s.ts FROM {JOIN} ON s.k = r.k) AS t {STEP}",
    f"SELECT x FROM (SELECT struct(*) AS x, k, s.ts FROM {JOIN} USING (k)) AS t {STEP}",
    f"FROM {{s}} |> EXTEND struct(*) AS x |> {STEP}",
    f"FROM {{s}} |> SELECT struct(*) AS x, k, ts |> {STEP}",
    f"FROM {{s}} |> {STEP} |> SELECT struct(*) AS x",
    "SELECT k, struct(*) AS x, struct(u.*) AS y FROM {u} AS u WHERE to_json(struct(*)) > ''",
    "SELECT k, max(struct(*)) AS x, max(y) AS y FROM (SELECT *, struct(*) AS y FROM {u}) AS u GROUP BY k",
    "SELECT u.k, struct(*) AS x, struct(u.*, 1) AS y FROM {u} AS u JOIN {v} AS o ON u.k = o.k",
)


def test_structs_have_the_same_fields_in_batch_and_live(spark: SparkSession, tmp_path: Path) -> None:
    Files(spark, tmp_path, "lw_structs").write(rows(1, 0, 0))
    for kind, name in (("UPSERT", "lw_latest"), ("VERSIONED", "lw_versions")):
        spark.sql(f"CREATE {kind} TABLE {name} {COLUMNS} KEYS (k) TIMESTAMP BY ts")

    def fields(query: str, mode: str) -> list[tuple[str, str]]:
        text = query.format(s=f"{mode}lw_structs", u=f"{mode}lw_latest", v="lw_latest", r="lw_versions")
        return [(f.name, f.dataType.simpleString()) for f in spark.sql(text).schema if f.name != "_change_type"]

    for query in STRUCTS:
        assert fields(query, "STREAM ") == fields(query, ""), query
    for kind, name in (("UPSERT", "lw_latest"), ("VERSIONED", "lw_versions")):
        spark.sql(f"DROP {kind} TABLE {name}")
