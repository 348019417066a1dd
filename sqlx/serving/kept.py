"""The streaming queries that come back with the server: a file each, beside the tables that they write.

A query is kept when CREATE STREAMING TABLE has started it, and no longer when STOP STREAMING QUERY has stopped it.
What ends with the server, in good order or not, is started again with the next one and goes on from its checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pyspark.errors import PySparkException

from catalog.definitions import name_text
from sqlx.failures import message_of
from sqlx.sessions.classic import statements_of
from sqlx.sql.definitions import StreamingTable, parse_streaming
from sqlx.sql.tokens import tokenize
from sqlx.streaming.registry import RunningQuery
from sqlx.streaming.start import Starter
from udtf.spark.tasks import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT = 1
_OURS = ("spark.sql.", "sqlx.")


@dataclass(frozen=True)
class Restarted:
    """How a query came back.

    Attributes:
        name: its table.
        error: why it did not; None where it runs.
    """

    name: str
    error: str | None = None


class KeptQueries:
    """The queries that are to run, as files.

    Args:
        folder: where the files are.
        spark: the session that clients' sessions are made from.
    """

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._folder, self._spark = folder, spark

    def started(self, spark: SparkSession, statement: StreamingTable, query: RunningQuery) -> None:
        """Keep a query, with what its text relies on: the current database, and the settings of its session."""
        if statement.trigger.available_now:
            return  # it ends by itself
        facts = {
            "format": _FORMAT,
            "name": query.name,
            "statement": statement.text,
            "catalog": spark.catalog.currentCatalog(),
            "database": spark.catalog.currentDatabase(),
            "owner": query.owner,
            "tasks": statement.tasks or configured_tasks(spark),
            "conf": _settings(spark, self._spark),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._path(query.name).with_suffix(".draft")
        draft.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(self._path(query.name))

    def stopped(self, query: RunningQuery) -> None:
        """Keep a query no longer."""
        self._path(query.name).unlink(missing_ok=True)

    def restart(self) -> list[Restarted]:
        """Start all that are kept, each in a session of its own; what cannot be started stays kept."""
        return [self._restart(path) for path in sorted(self._folder.glob("*.json"))]

    def _path(self, name: str) -> Path:
        return self._folder / f"{quote(name.lower(), safe='')}.json"

    def _restart(self, path: Path) -> Restarted:
        name = path.stem
        try:
            facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            name = facts["name"]
            self._start(facts)
        except (ValueError, KeyError, TypeError) as error:
            return Restarted(name, f"{path} is damaged: {error}")
        except (PySparkException, OSError) as error:
            return Restarted(name, message_of(error) or str(error))
        return Restarted(name)

    def _start(self, facts: dict[str, Any]) -> None:
        session = self._spark.newSession()
        for setting, value in facts["conf"].items():
            session.conf.set(setting, value)
        session.sql(f"USE {name_text((facts['catalog'], facts['database']))}")
        text = facts["statement"]
        made = parse_streaming(text, tokenize(text))
        if not isinstance(made, StreamingTable):
            raise ValueError(text)
        # OR REPLACE was meant once: from then on the query goes on.
        made = replace(made, replace=False, if_not_exists=False, tasks=facts["tasks"])
        owner = facts.get("owner")
        Starter(session, made, partial(statements_of(session).live, made), owner=owner).start()


def _settings(spark: SparkSession, base: SparkSession) -> dict[str, str]:
    """What a session has set otherwise than the one that it was made from."""
    ours, theirs = _all(spark), _all(base)
    changed = {name: value for name, value in ours.items() if name.startswith(_OURS) and theirs.get(name) != value}
    return {name: value for name, value in changed.items() if spark.conf.isModifiable(name)}


def _all(spark: SparkSession) -> dict[str, str]:
    jvm: Any = spark.sparkContext._jvm
    java: Any = spark._jsparkSession
    found = jvm.scala.jdk.javaapi.CollectionConverters.asJava(java.sessionState().conf().getAllConfs())
    return {str(name): str(value) for name, value in found.items()}
