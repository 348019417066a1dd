"""Who is behind a session: whose streaming queries are whose, and who did what."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from sqlx.errors import RunError
from sqlx.failures import CommandError
from udtf.engine.java import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.streaming.registry import RunningQuery

_log = logging.getLogger("sqlx")

#: From the id of a Spark session to the name of the user who logged in for it, if it is a client's.
UserOf = Callable[[str], "str | None"]


class Owners:
    """Streaming queries are stopped and replaced by who started them, or by an administrator.

    Args:
        servers: who has logged in, for each server.
        admins: names of administrators.
    """

    def __init__(self, servers: Iterable[UserOf], admins: Iterable[str]) -> None:
        self._servers, self._admins = tuple(servers), frozenset(admins)

    def user_of(self, spark: SparkSession) -> str | None:
        """The user of a session; None where it is the server's own."""
        java: Any = spark._jsparkSession
        identity = str(java.sessionUUID())
        return next((user for user_of in self._servers if (user := user_of(identity)) is not None), None)

    def check(self, spark: SparkSession, query: RunningQuery) -> None:
        """Refuse to end a query that somebody else has started.

        Raises:
            RunError: it is somebody else's, and the user of the session is no administrator.
        """
        user = self.user_of(spark)
        if user is not None and user != query.owner and user not in self._admins:
            raise RunError("SERVE.NOT_YOURS", name=query.name, owner=query.owner or "the server")


# Who did what: Spark's own events of statements, a line of JSON each.


_EVENT = re.compile(r"SparkListener(?P<door>ThriftServer|Connect)(?P<what>\w+)$")
_QUERY = re.compile(r'\bquery: "((?:[^"\\]|\\.)*)"')
_WORDS = {
    "SessionCreated": "opened", "SessionStarted": "opened", "SessionClosed": "closed",
    "OperationStart": "started", "OperationStarted": "started", "OperationError": "failed", "OperationFailed": "failed",
    "OperationFinish": "finished", "OperationFinished": "finished", "OperationCanceled": "canceled",
    "OperationTimeout": "timed out",
}  # fmt: skip


class Audit:
    """Writes down who came, what they asked for and how it ended.

    Args:
        path: the file that lines are added to, readable by its owner only; None is standard error.
        user_of: from the id of a session of Spark Connect to who logged in for it.

    Raises:
        CommandError: the file cannot be written.
    """

    def __init__(self, path: Path | None, user_of: UserOf) -> None:
        self._user_of, self._lock = user_of, Lock()
        self._out: TextIO = sys.stderr
        self._people: dict[str, tuple[str, str]] = {}
        self._running: dict[str, tuple[str, int]] = {}
        if path is not None:
            try:
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                self._out = os.fdopen(file, "a", encoding="utf-8")
            except OSError as error:
                msg = f"--audit {path}: this file cannot be written: {(error.strerror or str(error)).lower()}."
                raise CommandError(msg, "Name a file in a folder that is there; lines are added to it.") from error

    def accept(self, event_json: str) -> None:
        """An event of Spark's, called from Java; a line that cannot be made is said, and stops nobody."""
        try:
            record = self._record(json.loads(event_json))
            with self._lock:
                if record is not None and not self._out.closed:
                    self._out.write(json.dumps(record, ensure_ascii=False) + "\n")
                    self._out.flush()
        except (ValueError, KeyError, TypeError, OSError, Py4JError) as error:
            _log.warning("A statement could not be written down: %s: %s", type(error).__name__, error)

    def close(self) -> None:
        """Take no more lines."""
        with self._lock:
            if self._out is not sys.stderr:
                self._out.close()

    def _record(self, event: dict[str, Any]) -> dict[str, Any] | None:
        found = _EVENT.search(str(event.get("Event", "")))
        what = _WORDS.get(found["what"]) if found else None
        if found is None or what is None:
            return None
        session, operation = str(event.get("sessionId", "")), str(event.get("id") or event.get("operationId") or "")
        at_ms = int(event.get("finishTime") or event.get("startTime") or event.get("eventTime") or 0)
        record: dict[str, Any] = {"time": datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")}
        if what == "started":
            self._running[operation] = (session, at_ms)
        elif operation:
            session, since_ms = self._running.pop(operation, (session, at_ms))
            record["seconds"] = (at_ms - since_ms) / 1000
        door = found["door"].removesuffix("Server")
        name, address = self._who(event, session, door)
        record = {**record, "event": what, "user": name, "address": address, "door": door}
        record |= {"session": session, "id": operation, "statement": _statement(event), "error": _reason(event)}
        if what == "closed":
            self._people.pop(session, None)
        return {key: value for key, value in record.items() if value not in ("", None)}

    def _who(self, event: dict[str, Any], session: str, door: str) -> tuple[str, str]:
        if session not in self._people or event.get("ip"):
            said = str(event.get("userName") or event.get("userId") or "")
            known = self._user_of(session) if door == "Connect" else None
            self._people[session] = known or said, str(event.get("ip", ""))
        return self._people[session]

    class Java:
        """What py4j is to implement."""

        implements: ClassVar[list[str]] = ["java.util.function.Consumer"]


def _statement(event: dict[str, Any]) -> str:
    """What was asked for, on one line; of Spark Connect's plans their SQL, if they have one."""
    text = str(event.get("statement") or event.get("statementText") or "")
    written = _QUERY.search(text) if "statementText" in event else None
    if written is not None:
        with suppress(ValueError):
            return str(json.loads(f'"{written[1]}"'))
    return text if written is None else written[1]


def _reason(event: dict[str, Any]) -> str:
    return str(event.get("errorMsg") or event.get("errorMessage") or "").strip().partition("\n")[0]
