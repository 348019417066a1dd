"""The answer that live joins are checked against: DuckDB's ASOF join over all rows at once."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.data import Inputs
from benchmarks.measure import checksum, in_own_process
from benchmarks.peers import THREADS


def reference(inputs: Inputs, folder: Path) -> str:
    """The checksum of the bounded join, from a process of its own: its memory is not ours."""
    return in_own_process(_reference, inputs, folder)


def _reference(inputs: Inputs, folder: Path) -> str:
    import duckdb

    folder.mkdir(parents=True)
    try:
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {THREADS}")
            # It guesses the rows of all files by the first one, which may be empty, and would take a nested loop.
            connection.execute("SET asof_loop_join_threshold = 0")
            connection.execute(f"""
                COPY (SELECT l.k, l.ts, l.id, l.qty, r.rate
                      FROM '{inputs.left}/*.parquet' AS l
                      ASOF LEFT JOIN '{inputs.right}/*.parquet' AS r ON l.k = r.k AND l.ts >= r.ts)
                TO '{folder}/0.parquet' (FORMAT parquet)""")
        return checksum(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
