"""The connectors of Spark that come as jars: which of them this machine has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from sqlx.connectors.artifacts import CONNECTORS, Connector
from sqlx.connectors.jars import jars_folder, missing
from sqlx.doctor.finding import Finding


def connector(name: str, environ: Mapping[str, str], asked: bool = False) -> Finding:
    """Whether the jars of a connector are here.

    Args:
        name: one of :data:`sqlx.connectors.artifacts.CONNECTORS`.
        environ: where ``SPARK_HOME`` is looked up.
        asked: whether somebody needs it; else a missing one is only a warning.
    """
    wanted, check = CONNECTORS[name], f"connector {name}"
    lacking = missing(wanted)
    if not lacking:
        return Finding(check, "ok", f"in {jars_folder()}")
    beside = next(_in_spark(wanted, environ), None)
    if beside is not None:
        return Finding(check, "ok", str(beside))
    found = f"{lacking[0]} is not in {jars_folder()}: no {wanted.what}"
    return Finding(check, "problem" if asked else "warning", found, f"sqlx connectors fetch {name}")


def _in_spark(wanted: Connector, environ: Mapping[str, str]) -> Iterator[Path]:
    """The connector's own jar, of whatever version, among those that Spark always loads."""
    spec = find_spec("pyspark")
    homes = [environ.get("SPARK_HOME", ""), str(Path(spec.origin).parent) if spec and spec.origin else ""]
    stem = wanted.artifacts[0].file.partition("_")[0]
    for home in filter(None, homes):
        yield from sorted(Path(home, "jars").glob(f"{stem}_*.jar"))
