"""Finds the jars of connectors, and what a session has to be told to use them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark

from sqlx.connectors.artifacts import CONNECTORS, Connector
from sqlx.errors import RunError, did_you_mean

#: Spark setting and environment variable that ask for connectors: names, separated by commas.
CONF = "sqlx.connectors"
VARIABLE = "SQLX_CONNECTORS"
#: The folder of the jars, where it is not the usual one.
FOLDER_VARIABLE = "SQLX_JARS"


def jars_folder() -> Path:
    """Where jars are kept: ``SQLX_JARS``, else ``~/.cache/sqlx/jars`` (``XDG_CACHE_HOME`` is heeded)."""
    given = os.environ.get(FOLDER_VARIABLE)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given).expanduser().absolute() if given else Path(cache, "sqlx", "jars")


def named(names: Iterable[str]) -> list[Connector]:
    """Connectors by name.

    Raises:
        RunError: there is none of that name.
    """
    found = []
    for name in names:
        if name.lower() not in CONNECTORS:
            raise RunError("CONNECTOR.UNKNOWN", name=name, suggestion=did_you_mean(name, CONNECTORS).strip())
        found.append(CONNECTORS[name.lower()])
    return found


def asked(conf: Mapping[str, str]) -> list[Connector]:
    """The connectors that a session is to have, by its setting or the environment.

    Raises:
        RunError: there is none of that name.
    """
    text = conf.get(CONF, os.environ.get(VARIABLE, ""))
    return named(name.strip() for name in text.split(",") if name.strip())


def missing(connector: Connector, folder: Path | None = None) -> list[str]:
    """The files of a connector that the folder lacks."""
    place = folder or jars_folder()
    return [artifact.file for artifact in connector.artifacts if not (place / artifact.file).is_file()]


def connector_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """What a session's settings have to say besides, so that it has the connectors that are asked for.

    Args:
        conf: the settings; those of jars, extensions and catalogs in them are kept.

    Raises:
        RunError: a connector's jars are not there.
    """
    wanted = asked(conf)
    if not wanted:
        return {}
    folder, settings = jars_folder(), {}
    for connector in wanted:
        lacking = missing(connector, folder)
        if lacking:
            raise _missing(connector, lacking[0], folder)
        settings.update(dict(connector.conf))
        settings.update(dict(connector.conf_43) if is_43() else {})
    jars = [str(folder / artifact.file) for connector in wanted for artifact in connector.artifacts]
    settings["spark.jars"] = ",".join([*_listed(conf, "spark.jars"), *jars])
    if "spark.sql.extensions" in settings:
        extensions = [*_listed(conf, "spark.sql.extensions"), settings["spark.sql.extensions"]]
        settings["spark.sql.extensions"] = ",".join(dict.fromkeys(extensions))
    return settings


def _missing(connector: Connector, jar: str, folder: Path) -> RunError:
    return RunError("CONNECTOR.MISSING", name=connector.name, what=connector.what, jar=jar, folder=folder)


def is_43() -> bool:
    """Whether this is PySpark 4.3 or later."""
    return tuple(int(part) for part in pyspark.__version__.split(".")[:2]) >= (4, 3)


def _listed(conf: Mapping[str, str], name: str) -> list[str]:
    return [part for part in conf.get(name, "").split(",") if part]
