"""Other engines with an AS OF join, each in a process of its own with two threads, from Parquet to Parquet."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from benchmarks.data import Inputs
from benchmarks.measure import Measured, in_own_process, measure

THREADS = 2


def duckdb_asof(inputs: Inputs, output: Path) -> None:
    """DuckDB's ASOF JOIN."""
    import duckdb

    output.mkdir(parents=True)
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {THREADS}")
        connection.execute(f"""
            COPY (SELECT l.k, l.ts, l.id, l.qty, r.rate
                  FROM '{inputs.left}/*.parquet' AS l
                  ASOF LEFT JOIN '{inputs.right}/*.parquet' AS r ON l.k = r.k AND l.ts >= r.ts)
            TO '{output}/0.parquet' (FORMAT parquet, COMPRESSION snappy)""")


def polars_asof(inputs: Inputs, output: Path) -> None:
    """Polars' join_asof; it needs both sides in order of time, so sorting them is part of it."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)  # read when polars is imported
    import polars

    output.mkdir(parents=True)
    left = polars.scan_parquet(inputs.left).sort("ts")
    right = polars.scan_parquet(inputs.right).sort("ts")
    joined = left.join_asof(right, on="ts", by="k", strategy="backward", check_sortedness=False).select(
        "k", "ts", "id", "qty", "rate"
    )
    joined.collect().write_parquet(output / "0.parquet", compression="snappy")


PEERS: dict[str, Callable[[Inputs, Path], None]] = {"DuckDB ASOF": duckdb_asof, "Polars join_asof": polars_asof}


def measure_peer(name: str, inputs: Inputs, output: Path, warm: int, runs: int) -> Measured:
    """Measure an engine in a process that is made for it and ends with it."""
    return in_own_process(_measure, name, inputs, output, warm, runs)


def _measure(name: str, inputs: Inputs, output: Path, warm: int, runs: int) -> Measured:
    return measure(lambda folder: PEERS[name](inputs, folder), output, warm, runs)
