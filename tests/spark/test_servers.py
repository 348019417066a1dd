"""JDBC and Spark Connect in one process: clients of both speak the language and share the catalog."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from sqlx.java import use_java

ROOT = Path(__file__).parent.parent.parent
JARS = Path(pyspark.__file__).parent / "jars"
AS_OF = "SELECT o.id, r.rate FROM o LEFT JOIN rates r AS OF o.ts ON o.k = r.k"
SCRIPT = f"""
CREATE TABLE o (id INT, k STRING, ts TIMESTAMP) USING parquet;
INSERT INTO o VALUES (1, 'a', TIMESTAMP'2024-01-01 10:00:00'), (2, 'b', TIMESTAMP'2024-01-01 10:00:00');
CREATE VERSIONED TABLE rates (k STRING, rate INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts;
INSERT INTO rates VALUES ('a', 7, TIMESTAMP'2024-01-01 09:00:00');
{AS_OF};
CREATE VIEW joined AS {AS_OF};
SHOW VERSIONED TABLES;
{AS_OF.replace("o.k = r.k", "o.nope = r.k")};
SELEC 1;
"""
CLIENT = f"""
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(sorted(map(tuple, spark.sql("{AS_OF}").collect())))
print(sorted(map(tuple, spark.table("joined").collect())))
spark.sql("CREATE TEMPORARY VERSIONED TABLE own FROM rates KEYS (k) TIMESTAMP BY ts")
print(spark.sql("{AS_OF.replace("rates r", "own r")} WHERE o.id = :n", args={{"n": 1}}).collect())
print([row.name for row in spark.sql("SHOW VERSIONED TABLES").collect()])
for wrong in ("{AS_OF.replace("o.k = r.k", "o.nope = r.k")}", "SELEC 1"):
    try:
        spark.sql(wrong).collect()
    except Exception as error:
        print(type(error).__name__, error.getCondition(), error.getSqlState(), "o.nope" in str(error))
spark.stop()
"""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """The ports of a server for JDBC and for Connect."""
    home, found = tmp_path_factory.mktemp("servers"), (free_port(), free_port())
    script = str(Path(__file__).with_name("server.py"))
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, script, str(home / "warehouse"), *map(str, found)],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n", (home / "log").read_text()
            yield found
        finally:
            assert server.stdin is not None
            server.stdin.close()
            try:
                server.wait(60)
            finally:
                server.kill()
                server.wait()
                server.stdout.close()


@pytest.fixture(scope="module")
def beeline(ports, tmp_path_factory):
    """What beeline shows of the script, which goes on after errors."""
    script = tmp_path_factory.mktemp("beeline") / "script.sql"
    script.write_text(SCRIPT)
    use_java()
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else shutil.which("java")
    options = "--silent=true --showHeader=false --outputformat=csv2 --force=true -f".split()
    options.append(str(script))
    url = f"jdbc:hive2://localhost:{ports[0]}/default"
    done = subprocess.run(
        [str(java), "-cp", f"{JARS}/*", "org.apache.hive.beeline.BeeLine", "-u", url, "-n", "x", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return done.stdout, done.stderr


def test_jdbc_runs_definitions_and_as_of_joins(beeline):
    out, errors = beeline
    lines = [line for line in out.splitlines() if line.strip()]
    assert "1,7" in lines, errors
    assert any(line.startswith("2,") for line in lines)
    assert any(line.startswith("rates,VERSIONED TABLE,k,ts") for line in lines)


def test_jdbc_shows_condition_line_caret_and_sqlstate(beeline):
    _, errors = beeline
    assert "[BIND.UNKNOWN_COLUMN] There is no column `o.nope` here. SQLSTATE: 42703" in errors
    assert "LINE 1: SELECT o.id" in errors
    assert "(state=42703,code=0)" in errors


def test_jdbc_shows_sparks_own_error_unchanged(beeline):
    _, errors = beeline
    assert "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 1, pos 0)" in errors
    assert "(state=42601,code=0)" in errors
    assert "Traceback" not in errors


def test_connect_reads_what_jdbc_made(ports, beeline):
    pytest.importorskip("grpc")
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, f"sc://localhost:{ports[1]}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.stdout.splitlines() == [
        "[(1, 7), (2, None)]",
        "[(1, 7), (2, None)]",
        "[Row(id=1, rate=7)]",
        "['own', 'rates']",
        "ParseException BIND.UNKNOWN_COLUMN 42703 True",
        "ParseException PARSE_SYNTAX_ERROR 42601 False",
    ], (done.stdout, done.stderr, beeline)
