"""The same windowed aggregations in DuckDB and Polars, each in a process of its own with two threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Measured, in_own_process, measure
from benchmarks.peers import THREADS
from benchmarks.window_aggregate_ways import SESSION, SLIDING, Kind, all_checksum

if TYPE_CHECKING:
    import polars as pl

DUCKDB, POLARS = "DuckDB", "Polars"
_AGGREGATES = "count(*) AS n, sum(id)::BIGINT AS s, max(qty) AS m"


def duckdb_sql(kind: Kind, rows: Path) -> str:
    """The complete answer: k, ws, we, n, s, m."""
    files = f"(SELECT k, epoch_us(ts) AS t, id, qty FROM '{rows}/*.parquet')"
    if kind == SESSION:
        found = f"""
            WITH marked AS (
              SELECT *, coalesce(t - lag(t) OVER (PARTITION BY k ORDER BY t) > {kind.size_us}, true)::INT AS begins
              FROM {files}
            ), numbered AS (
              SELECT *, sum(begins) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING) AS session FROM marked)
            SELECT k, min(t) AS b, max(t) + {kind.size_us} AS e, {_AGGREGATES} FROM numbered GROUP BY k, session"""
    elif kind == SLIDING:
        found = _sliding_sql(kind, files)
    else:
        slide_us, windows = kind.slide_us, kind.size_us // kind.slide_us
        starts = f"t // {slide_us} * {slide_us} - unnest(range({windows})) * {slide_us}"
        found = f"""
            SELECT k, b, b + {kind.size_us} AS e, {_AGGREGATES}
            FROM (SELECT k, {starts} AS b, id, qty FROM {files}) GROUP BY k, b"""
    return f"SELECT k, make_timestamptz(b) AS ws, make_timestamptz(e) AS we, n, s, m FROM ({found})"


def _sliding_sql(kind: Kind, files: str) -> str:
    """KIP-450: for each row the window that ends with it, and the one that begins right after it, unless it is empty.

    Times of a key may be equal, and windows of two rows the same: DISTINCT leaves one.
    """
    after = f"OVER (PARTITION BY k ORDER BY t RANGE BETWEEN 1 FOLLOWING AND {kind.size_us + 1} FOLLOWING)"
    before = f"OVER (PARTITION BY k ORDER BY t RANGE BETWEEN {kind.size_us} PRECEDING AND CURRENT ROW)"
    ends = f"SELECT k, t - {kind.size_us} AS b, t AS e, {_over(before)} FROM {files}"
    begins = f"SELECT k, t + 1 AS b, t + 1 + {kind.size_us} AS e, {_over(after)} FROM {files}"
    return f"SELECT DISTINCT * FROM ({ends} UNION ALL {begins}) WHERE n > 0"


def _over(frame: str) -> str:
    return f"count(*) {frame} AS n, (sum(id) {frame})::BIGINT AS s, max(qty) {frame} AS m"


def with_duckdb(kind: Kind, rows: Path, output: Path) -> None:
    """DuckDB reads, aggregates and writes."""
    import duckdb

    output.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {THREADS}")
        options = "FORMAT parquet, COMPRESSION snappy"
        connection.execute(f"COPY ({duckdb_sql(kind, rows)}) TO '{output}/0.parquet' ({options})")


def with_polars(kind: Kind, rows: Path, output: Path) -> None:
    """Polars reads, aggregates and writes."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)  # read when polars is imported
    import polars as pl

    output.mkdir(parents=True)
    events = pl.scan_parquet(rows).with_columns(t=pl.col("ts").dt.timestamp("us"))
    numbers = {"n": pl.len().cast(pl.Int64), "s": pl.col("id").sum(), "m": pl.col("qty").max()}
    if kind == SESSION:
        found = _polars_sessions(events, kind, numbers)
    else:
        slides = range(kind.size_us // kind.slide_us)
        first = pl.col("t") // kind.slide_us * kind.slide_us
        starts = pl.concat([events.with_columns(b=first - number * kind.slide_us) for number in slides])
        found = starts.group_by("k", "b").agg(**numbers).with_columns(e=pl.col("b") + kind.size_us)
    bounds = {"ws": _time(pl.col("b")), "we": _time(pl.col("e"))}
    found.select("k", "n", "s", "m", **bounds).collect().write_parquet(output / "0.parquet", compression="snappy")


def _polars_sessions(events: pl.LazyFrame, kind: Kind, numbers: dict[str, Any]) -> pl.LazyFrame:
    import polars as pl

    # Rows of a key are neighbours: a number that grows where a session begins tells all sessions apart.
    begins = (pl.col("k") != pl.col("k").shift()) | (pl.col("t") - pl.col("t").shift() > kind.size_us)
    numbered = events.sort("k", "t").with_columns(session=begins.fill_null(value=True).cum_sum())
    bounds = {"k": pl.col("k").first(), "b": pl.col("t").min(), "e": pl.col("t").max() + kind.size_us}
    return numbered.group_by("session").agg(**bounds, **numbers)


def _time(micros: pl.Expr) -> pl.Expr:
    import polars as pl

    return micros.cast(pl.Datetime("us", "UTC"))


PEERS: dict[str, Callable[[Kind, Path, Path], None]] = {DUCKDB: with_duckdb, POLARS: with_polars}


def measure_peer(name: str, kind: Kind, rows: Path, output: Path, warm: int, runs: int) -> Measured:
    """Measure an engine in a process that is made for it and ends with it."""
    return in_own_process(_measure, name, kind, rows, output, warm, runs)


def _measure(name: str, kind: Kind, rows: Path, output: Path, warm: int, runs: int) -> Measured:
    return measure(lambda folder: PEERS[name](kind, rows, folder), output, warm, runs, all_checksum)
