"""What a server does not take from its clients, however it is written; and what it still takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.marks import gated
from tests.harness.releases import RELEASE
from tests.spark.server import Home, ServerProcess, rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(home: Home) -> ServerProcess:
    return home.server


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[Any]:
    home.rows("CREATE DATABASE guarded")
    with home.client() as connection:
        rows(connection, "USE guarded")
        rows(connection, "CREATE TABLE moving USING parquet AS SELECT 1 AS a")
        yield connection


REFUSED = {
    "TRANSFORM": "SELECT TRANSFORM (1) USING 'touch {home}/made' AS (x STRING)",
    "in a subquery": "SELECT * FROM VALUES (1) t(a) WHERE a IN (SELECT INT(reflect('java.lang.Math', 'abs', -1)))",
    "reflect": "SELECT reflect('java.lang.System', 'getProperty', 'user.home')",
    "java_method": "SELECT java_method('java.lang.System', 'getProperty', 'user.home')",
    "try_reflect": "SELECT try_reflect('java.lang.System', 'getProperty', 'user.home')",
    "a view": "CREATE TEMPORARY VIEW v AS SELECT reflect('java.lang.System', 'getProperty', 'user.home') AS x",
    "a script": "BEGIN SELECT reflect('java.lang.System', 'getProperty', 'user.home'); END",
    "ADD JAR": "ADD JAR '{home}/x.jar'",
    "ADD FILE": "ADD FILE '/etc/hostname'",
    "a Java function": "CREATE TEMPORARY FUNCTION f AS 'org.apache.hadoop.hive.ql.udf.UDFPI'",
    "a file": "SELECT * FROM text.`/etc/hostname`",
    "a file of another scheme": "SELECT * FROM text.`file:///etc/hostname`",
    "a way out": "SELECT * FROM text.`{home}/shared/../log`",
    "a table elsewhere": "CREATE TABLE there (a INT) USING parquet LOCATION '{home}/elsewhere'",
    "OPTIONS path": "CREATE TABLE there (a STRING) USING text OPTIONS (path '/etc/hostname')",
    "CTAS elsewhere": "CREATE TABLE there USING parquet LOCATION '{home}/elsewhere' AS SELECT 1 AS a",
    "a view of files": "CREATE TEMPORARY VIEW v USING text OPTIONS (path '/etc/hostname')",
    "INSERT DIRECTORY": "INSERT OVERWRITE DIRECTORY '{home}/elsewhere' USING parquet SELECT 1 AS a",
    "a location that moves": "ALTER TABLE moving SET LOCATION '{home}/elsewhere'",
    "LIKE elsewhere": "CREATE TABLE there LIKE moving LOCATION '{home}/elsewhere'",
    "a schema elsewhere": "CREATE SCHEMA s LOCATION '{home}/elsewhere'",
    "a stream of files": "CREATE STREAM s (v INT, ts TIMESTAMP) USING json OPTIONS (path '{home}/log') TIMESTAMP BY ts",
    "in a temporal query": "SELECT value FROM text.`/etc/hostname` DEDUPLICATE WITHIN INTERVAL 1 DAY BY (value) "
    "ON TIME TIMESTAMP'2026-01-01'",
    "a time limit": "SET spark.sql.thriftServer.queryTimeout = 0",
}


#: Those of which the gate runs none are refused by the same few lines as one that it runs.
GATE = (
    "TRANSFORM",
    "in a subquery",
    "a script",
    "ADD JAR",
    "a file",
    "CTAS elsewhere",
    "a stream of files",
    "a time limit",
)


@pytest.mark.parametrize("name", gated(REFUSED, GATE))
def test_jdbc_is_refused(server: ServerProcess, client: Any, name: str) -> None:
    from pyhive.exc import OperationalError

    if name == "a script" and RELEASE < (4, 1):
        pytest.skip("PySpark 4.1 has scripts, unless a setting has them")
    with pytest.raises(OperationalError) as refused:
        rows(client, REFUSED[name].replace("{home}", str(server.home)))
    assert "This server does not take from its clients" in str(refused.value), str(refused.value)[-300:]
    assert not (server.home / "made").exists()
    assert not (server.home / "elsewhere").exists()


@pytest.mark.full
def test_a_stream_writes_where_clients_may_write(server: ServerProcess, client: Any) -> None:
    from pyhive.exc import OperationalError

    shared = server.home / "shared"
    rows(client, "CREATE TABLE src USING parquet AS SELECT 1 AS k, TIMESTAMP'2026-01-01' AS ts")
    rows(client, "CREATE STREAM s FROM src TIMESTAMP BY ts")
    query = "AS SELECT k FROM s DEDUPLICATE WITHIN INTERVAL 1 DAY BY (k)"
    for clause in ("OPTIONS (path '{}/out')", "CHECKPOINT '{}/cp'"):
        given = clause.format(server.home)
        with pytest.raises(OperationalError, match=r"SERVE\.REFUSED"):
            rows(client, f"CREATE STREAMING TABLE t USING parquet {given} TRIGGER (AVAILABLE NOW) {query}")
    given = f"OPTIONS (path '{shared}/out') CHECKPOINT '{shared}/cp'"
    rows(client, f"CREATE STREAMING TABLE t USING parquet {given} TRIGGER (AVAILABLE NOW) {query}")
    assert rows(client, "SELECT k FROM t") == [(1,)]


def test_what_is_sql_over_the_catalog_is_taken(server: ServerProcess, client: Any) -> None:
    rows(client, "CREATE TABLE kept USING parquet AS SELECT 1 AS id, 1 AS k, TIMESTAMP'2026-01-02' AS ts")
    rows(client, "CREATE VERSIONED TABLE rates (k INT, ts TIMESTAMP, rate INT) KEYS (k) TIMESTAMP BY ts")
    rows(client, "INSERT INTO rates VALUES (1, TIMESTAMP'2026-01-01', 7)")
    assert rows(client, "SELECT o.id, r.rate FROM kept o JOIN rates r AS OF o.ts ON o.k = r.k") == [(1, 7)]
    joined = "SELECT id FROM kept DEDUPLICATE WITHIN INTERVAL 1 DAY BY (k) ON TIME ts"
    assert rows(client, joined) == [(1,)]
    assert rows(client, "SELECT k, count(*) FROM kept GROUP BY k, sliding_window(ts, '1 minute')") == [(1, 1)]
    rows(client, f"CREATE TABLE shared USING parquet LOCATION '{server.home}/shared/t' AS SELECT 5 AS n")
    assert rows(client, f"SELECT n FROM parquet.`{server.home}/shared/t`") == [(5,)]
    rows(client, "CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2")
    assert rows(client, "SELECT twice(id) FROM kept") == [(2,)]
    rows(client, "SET spark.sql.shuffle.partitions = 3")
    assert rows(client, "SELECT count(*) FROM range(10)") == [(10,)]


CODE = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
def udf():
    spark.range(1).select(F.udf(lambda x: x, "long")("id")).collect()
def mapped():
    spark.range(1).mapInPandas(lambda frames: frames, "id long").collect()
def registered():
    spark.udf.register("f", lambda x: x, "long")
def artifact():
    spark.addArtifacts(sys.argv[0], file=True)
def batches():
    stream = spark.readStream.format("rate").load()
    stream.writeStream.foreachBatch(lambda frame, number: None).start().stop()
def streamed():
    stream = spark.readStream.format("rate").load()
    stream.writeStream.format("parquet").option("checkpointLocation", sys.argv[2] + "/shared/c").start(
        sys.argv[2] + "/elsewhere"
    ).stop()
def read():
    spark.read.text("/etc/hostname").collect()
def written():
    spark.range(1).write.parquet(sys.argv[2] + "/elsewhere")
for one in (udf, mapped, registered, artifact, batches, streamed, read, written):
    try:
        one()
        print(one.__name__, "TAKEN")
    except Exception as error:
        print(one.__name__, "REFUSED" if "SERVE.REFUSED" in str(error) else repr(error)[:300])
large = spark.createDataFrame([(n, "x" * 100) for n in range(60000)], "n int, s string")
print("rows", large.count(), spark.sql("SELECT 1 AS a").collect()[0].a)
"""


def test_spark_connect_brings_no_code(server: ServerProcess, tmp_path: Path) -> None:
    import subprocess
    import sys

    pytest.importorskip("grpc")
    script = tmp_path / "client.py"
    script.write_text(CODE)
    url = f"sc://127.0.0.1:{server.connect}"
    done = subprocess.run(
        [sys.executable, str(script), url, str(server.home)], capture_output=True, text=True, check=False, timeout=240
    )
    said = done.stdout.splitlines()
    wanted = ["udf", "mapped", "registered", "artifact", "batches", "streamed", "read", "written"]
    assert said == [*(f"{name} REFUSED" for name in wanted), "rows 60000 1"], done.stderr[-2000:]
