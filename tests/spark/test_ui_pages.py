"""The queries of a session on Spark's own UI, asked for as a browser does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import urllib.error
import sqlx
from sqlx.serving.http import got

spark = sqlx.session(master="local[1]", conf={"spark.ui.enabled": "true", "spark.ui.port": "0"})
spark.sql("CREATE STREAM seen (id INT, ts TIMESTAMP) TIMESTAMP BY ts")
spark.sql("INSERT INTO seen VALUES (1, TIMESTAMP'2026-01-01'), (1, TIMESTAMP'2026-01-01')")
ui = spark.sparkContext.uiWebUrl
spark.sql(
    "CREATE STREAMING TABLE shown_here USING noop TRIGGER (AVAILABLE NOW) TASKS 1"
    " AS SELECT id FROM seen DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)"
)
print(got(f"{ui}/sqlx/queries.json").decode().strip())
assert "<h2>shown_here" in got(f"{ui}/sqlx/").decode()
assert "sqlx_query_rows_total{query=\\"shown_here\\"} 2.0" in got(f"{ui}/sqlx/metrics").decode()
assert "Streaming" in got(f"{ui}/StreamingQuery/").decode()
try:
    got(f"{ui}/sqlx/nothing")
except urllib.error.HTTPError as error:
    print(error.code)
spark.stop()
"""


@pytest.mark.full
def test_the_queries_of_a_session_are_on_sparks_ui(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    queries, code = done.stdout.splitlines()
    (query,) = json.loads(queries)
    (counters,) = query["operators"].values()
    assert (query["name"], query["rows"], counters["duplicates"], code) == ("shown_here", 2, 1, "404")
