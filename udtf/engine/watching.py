"""How a running query is, as the engine that runs it says: its reports, what it does now, and why it failed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_MOST_CAUSES: Final = 20
_CAUSE: Final = "\nCaused by: "
_PLACE: Final = re.compile(r"\n\t(?:at |\.\.\. \d+ more)")
_KIND: Final = re.compile(r"^[\w.$]+: ")
_QUERY: Final = "\n=== Streaming Query ==="
_SUMS: Final = ("numInputRows", "processedRowsPerSecond")
_INITIALIZING: Final = "Initializing"


class Watched(Protocol):
    """One running query.

    Attributes:
        look_seconds: how often it may be asked.
    """

    look_seconds: float

    @property
    def is_reachable(self) -> bool:
        """Whether it can be asked: a client that closed its session has left it alone."""
        ...

    def causes(self) -> list[str] | None:
        """The messages of the exception that ended it and of that one's causes, the outermost first; None without."""
        ...

    def reports(self, after: int) -> list[str]:
        """Spark's reports, as JSON, of the micro-batches after one with a number, those that it still has."""
        ...

    def is_in_batch(self) -> bool:
        """Whether a micro-batch is being computed now."""
        ...

    def is_starting(self) -> bool:
        """Whether it has not looked at its sources yet."""
        ...


class ClassicWatched:
    """A query of this process's JVM."""

    look_seconds = 0.02

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._java: Any = query._jsq  # noqa: SLF001 - PySpark's handle into the JVM
        self.is_reachable = True

    def causes(self) -> list[str] | None:
        """From the exceptions themselves."""
        exception = self._java.exception()
        return _causes(exception.get()) if exception.isDefined() else None

    def reports(self, after: int) -> list[str]:
        """From the latest back: the JVM holds a hundred of them."""
        unseen: list[str] = []
        for progress in reversed(list(self._java.recentProgress())):
            if int(progress.batchId()) <= after:
                break
            unseen.append(str(progress.json()))
        return unseen[::-1]

    def is_in_batch(self) -> bool:
        """Whether its trigger is active."""
        return self._query.isActive and bool(self._java.status().isTriggerActive())

    def is_starting(self) -> bool:
        """By what its status says."""
        return self._query.isActive and str(self._java.status().message()).startswith(_INITIALIZING)


def _causes(error: Any) -> list[str]:
    found: list[str] = []
    while error is not None and len(found) < _MOST_CAUSES:
        kind, message = str(error.getClass().getSimpleName()), error.getMessage()
        found.append(str(message) if message else kind)
        error = error.getCause()
    return found


class ConnectWatched:
    """A query that a server runs."""

    look_seconds = 0.2  # each look is a call over the network

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    @property
    def is_reachable(self) -> bool:
        """As long as its session is open."""
        session: Any = self._query._session  # type: ignore[attr-defined]  # noqa: SLF001 - its session in this process
        return not session.is_stopped

    def causes(self) -> list[str] | None:
        """From the text of the exception, with Java's stack trace where the server sends one."""
        exception = self._query.exception()
        if exception is None:
            return None
        return _texts(str(exception))

    def reports(self, after: int) -> list[str]:
        """All that the server has, without those that were seen."""
        found = [json.loads(progress.json) for progress in self._query.recentProgress]
        return [json.dumps(_named(report)) for report in found if int(report["batchId"]) > after]

    def is_in_batch(self) -> bool:
        """Whether its trigger is active."""
        return self._query.isActive and bool(self._query.status["isTriggerActive"])

    def is_starting(self) -> bool:
        """By what its status says."""
        return self._query.isActive and str(self._query.status["message"]).startswith(_INITIALIZING)


def _texts(exception: str) -> list[str]:
    r"""What an exception and its causes say, from a text with Java's stack trace.

    >>> _texts("no\n=== Streaming Query ===\n\tat a.B\nCaused by: a.E: 1\n2\n\tat a.B\nCaused by: b.E: 3")
    ['no', '1\n2', '3']
    """
    first, *causes = exception.split(_CAUSE)
    said = (_KIND.sub("", _PLACE.split(cause)[0]) for cause in causes[:_MOST_CAUSES])
    return [first.partition(_QUERY)[0].removeprefix("(STREAM_FAILED) "), *said]


def _named(report: dict[str, Any]) -> dict[str, Any]:
    """A report whose counters have their names, with the sums that PySpark leaves out when it reads one."""
    observed = report.get("observedMetrics", {})
    of_sources = [[source.get(name) for source in report.get("sources", ())] for name in _SUMS]
    sums = [sum(value for value in values if isinstance(value, int | float)) for values in of_sources]  # NaN is a text
    counters = {name: counters_named(counted) for name, counted in observed.items()}
    return {**report, **dict(zip(_SUMS, sums, strict=True)), "observedMetrics": counters}


def counters_named(counted: dict[str, Any]) -> dict[str, Any]:
    """Counters by their names, of one operator: a server sends values, and a schema beside them.

    >>> counters_named({"values": [3], "schema": {"fields": [{"name": "late"}]}}), counters_named({"late": 3})
    ({'late': 3}, {'late': 3})
    """
    if counted.keys() != {"values", "schema"}:
        return counted
    return dict(zip([field["name"] for field in counted["schema"]["fields"]], counted["values"], strict=True))
