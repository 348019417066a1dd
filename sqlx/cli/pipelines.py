"""``sqlx pipelines``: a declarative pipeline of Spark's, whose SQL files may have temporal clauses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sqlx.cli.options import Master, Warehouse
from sqlx.cli.output import note
from sqlx.cli.start import started
from sqlx.failures import CommandError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Pipelines came with it.
SINCE = (4, 1)
_BINDING = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}


def pipelines(
    arguments: Annotated[
        list[str], typer.Argument(metavar="COMMAND …", help="run, dry-run or init, with their options.")
    ],
    warehouse: Warehouse = None,
    master: Master = "",
) -> None:
    """Run Spark's declarative pipelines, whose SQL files may have temporal clauses.

    What it was given goes to `spark-pipelines` as it is. Temporal queries read tables and definitions that are in the
    warehouse before the pipeline runs.
    """
    import pyspark

    from udtf.engine.release import release_of
    from udtf.spark.tasks import PARTITIONS, configured_tasks, stream_conf

    if release_of(pyspark.__version__) < SINCE:
        msg = f"PySpark {pyspark.__version__} has no pipelines."
        raise CommandError(msg, "They came with PySpark 4.1: pip install 'pyspark>=4.1'.")
    with started(warehouse, master=master) as spark:
        wanted = stream_conf(spark, configured_tasks(spark))
        partitions = wanted[PARTITIONS]
        note(f"Every flow has {partitions} shuffle partitions, as cores allow; `configuration` of the pipeline wins.")
        with serving(spark, wanted) as remote:
            status = run_client(remote, arguments)
    if status:
        raise typer.Exit(status)


@contextmanager
def serving(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[str]:
    """Within it clients of Spark Connect on this machine get sessions of this Spark.

    Args:
        spark: the session.
        conf: what their sessions begin with.
    """
    from sqlx.serving.connect import service_of, stop_service

    jvm: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext._jsc.sc()
    for name, value in {**_BINDING, **conf}.items():
        context.conf().set(name, value)
    server = service_of(jvm)
    server.start(context)
    try:
        yield f"sc://127.0.0.1:{server.localPort()}"
    finally:
        stop_service(jvm, server)


def run_client(remote: str, arguments: Sequence[str]) -> int:
    """Run Spark's own command beside a server; its exit code. Spark allows no client in a process with a JVM."""
    asked = [sys.executable, "-c", "from sqlx.cli.pipelines import client; client()", *arguments]
    return subprocess.run(asked, check=False, env={**os.environ, "SPARK_REMOTE": remote}).returncode


def client() -> None:
    """Spark's own command, without its stack trace for what a pipeline's author has written."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.cli import main

    sys.argv[0] = "spark-pipelines"
    try:
        main()
    except PySparkException as error:
        sys.exit(str(error))
