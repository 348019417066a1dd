"""All checks, in the order in which a person would ask."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlx.connectors.artifacts import CONNECTORS
from sqlx.doctor import jars, packages, places, programs
from sqlx.doctor.finding import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Wanted:
    """What somebody wants to do on this machine; a check of it that fails is a problem, not a warning.

    Attributes:
        ports: the ports to serve on; the default ones where there are none.
        host: the address to serve on.
        connectors: the connectors that are needed.
        warehouse: the folder of a warehouse; None looks at none.
    """

    ports: Sequence[int] = ()
    host: str = "127.0.0.1"
    connectors: Sequence[str] = ()
    warehouse: Path | None = None


def examine(wanted: Wanted, environ: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Look at everything, one finding after the other.

    Args:
        wanted: what somebody wants to do.
        environ: the environment variables; default: this process's own.
    """
    environ = os.environ if environ is None else environ
    yield programs.python()
    yield programs.java_home(environ)
    yield from packages.needed()
    yield from packages.spark_home(environ)
    yield programs.workers_python(environ)
    yield packages.connect()
    for name in CONNECTORS:
        yield jars.connector(name, environ, name in wanted.connectors)
    for number in wanted.ports or places.SERVED:
        yield places.port(number, wanted.host, asked=bool(wanted.ports))
    if wanted.warehouse is not None:
        yield places.warehouse(wanted.warehouse)


def run(spark: SparkSession) -> Finding:
    """Whether Spark runs a query of ours through its Python workers.

    Args:
        spark: a session of ours that has just been started.
    """
    spark.sql("CREATE TEMPORARY VIEW __doctor_rates AS SELECT 'a' AS k, TIMESTAMP '2026-01-01' AS ts, 1 AS rate")
    row = spark.sql(
        "SELECT r.rate FROM (SELECT 'a' AS k, TIMESTAMP '2026-01-02' AS ts) o "
        "ASOF JOIN __doctor_rates r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k"
    ).first()
    if row is None or row[0] != 1:
        remedy = "This is a bug of ours; please report it."
        return Finding("a query", "problem", f"an AS OF join answered {row}", remedy)
    return Finding("a query", "ok", f"Spark {spark.version} and its workers answer an AS OF join")
