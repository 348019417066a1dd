"""The connectors of Spark that come as jars: which of them this machine has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from sqlx.doctor.finding import Finding

CONNECTORS = {"kafka": "spark-sql-kafka-0-10", "delta": "delta-spark", "avro": "spark-avro"}
"""The connectors, and what the name of their jar begins with."""


def connector(name: str, environ: Mapping[str, str], asked: bool = False) -> Finding:
    """Whether the jar of a connector is here, for the PySpark that is here.

    Args:
        name: one of :data:`CONNECTORS`.
        environ: where folders of jars are looked up.
        asked: whether somebody needs it; else a missing one is only a warning.
    """
    check, jars = f"connector {name}", sorted(_jars(CONNECTORS[name], environ))
    if jars:
        return Finding(check, "ok", str(jars[-1]))
    remedy = f"sqlx connectors fetch {name}, or add its jars with spark.jars."
    found = f"not here: USING {name} will not work"
    return Finding(check, "problem" if asked else "warning", found, remedy)


def _jars(prefix: str, environ: Mapping[str, str]) -> Iterator[Path]:
    pattern = re.compile(rf"{re.escape(prefix)}_[\d._]*-?\d.*\.jar")
    for folder in _folders(environ):
        yield from (path for path in folder.rglob("*.jar") if pattern.fullmatch(path.name))


def _folders(environ: Mapping[str, str]) -> Iterator[Path]:
    yield from (Path(folder) for folder in environ.get("SQLX_JARS", "").split(os.pathsep) if folder)
    yield Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sqlx" / "jars"
    spec = find_spec("pyspark")
    for spark in (environ.get("SPARK_HOME"), spec and spec.origin and str(Path(spec.origin).parent)):
        if spark:
            yield Path(spark) / "jars"
