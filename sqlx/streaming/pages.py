"""The queries of a process as a page with plots, as JSON, and as metrics for Prometheus; and all that on Spark's UI."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from sqlx.streaming.observed import Snapshot, families, snapshot
from sqlx.streaming.registry import queries_of
from udtf.engine import engine_of

if TYPE_CHECKING:
    from jinja2 import Template
    from prometheus_client.core import Metric
    from pyspark.sql import SparkSession

    from sqlx.streaming.registry import Registry

#: How often a query is looked at for the plots, and how many looks they show: half an hour.
_LOOK_SECONDS: Final = 2.0
_LOOKS: Final = 900
_WIDTH, _HEIGHT = 320, 48
#: What is plotted: the title, and the number.
PLOTS: Final = (
    ("rows/s", "rows_per_second"),
    ("micro-batch, ms", "batch_ms"),
    ("behind event time, s", "lag_s"),
    ("rows in state", "state_rows"),
    ("refused rows", "refused"),
)


@dataclass(frozen=True)
class Plot:
    """One number over time, drawn.

    Attributes:
        title: what it is.
        points: of an SVG polyline.
        last, most: the latest and the largest value.
    """

    title: str
    points: str
    last: float
    most: float


class Recorder:
    """Looks at all queries of a process now and then, and keeps what it saw.

    Args:
        queries: those of the process.
    """

    def __init__(self, queries: Registry) -> None:
        self._queries = queries
        self._seen: dict[str, deque[dict[str, float]]] = {}
        self._stopped = threading.Event()
        threading.Thread(target=self._look, name="sqlx metrics", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def now(self) -> list[Snapshot]:
        """All queries as they are now."""
        return [snapshot(query) for query in self._queries.all()]

    def plots(self, name: str) -> list[Plot]:
        """What was seen of a query, drawn."""
        seen = list(self._seen.get(name, ()))
        return [plot(title, [one[number] for one in seen]) for title, number in PLOTS] if seen else []

    def _look(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            try:
                for one in self.now():
                    self._seen.setdefault(one.name, deque(maxlen=_LOOKS)).append(_numbers(one))
            except Exception:  # noqa: BLE001  # Spark has stopped, or is stopping: there is nothing to see
                return


def _numbers(one: Snapshot) -> dict[str, float]:
    return {
        "rows_per_second": one.rows_per_second,
        "batch_ms": one.batch_ms,
        "lag_s": 0.0 if one.lag_ms is None else one.lag_ms / 1000,
        "state_rows": one.state_rows,
        "refused": one.refused,
    }


def plot(title: str, values: Sequence[float]) -> Plot:
    """Values as a line, the largest at the top.

    >>> plot("rows", [0, 5, 10]).points
    '0.0,48.0 160.0,24.0 320.0,0.0'
    """
    most = max(values)
    step, scale = _WIDTH / max(len(values) - 1, 1), _HEIGHT / (most or 1)
    points = " ".join(f"{n * step:.1f},{_HEIGHT - value * scale:.1f}" for n, value in enumerate(values))
    return Plot(title, points, values[-1], most)


def _json(recorder: Recorder) -> tuple[str, bytes]:
    return "application/json", (
        json.dumps([one.as_dict() for one in recorder.now()], ensure_ascii=False) + "\n"
    ).encode()


class _Collector:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterable[Metric]:
        """What Prometheus is to know."""
        yield from families(self._recorder.now())


def _prometheus(recorder: Recorder) -> tuple[str, bytes]:
    from prometheus_client.core import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(recorder))
    return CONTENT_TYPE_LATEST, generate_latest(registry)


def _page(recorder: Recorder) -> tuple[str, bytes]:
    shown = [(one, recorder.plots(one.name)) for one in recorder.now()]
    at = time.strftime("%H:%M:%S")
    facts = {"queries": shown, "at": at, "width": _WIDTH, "height": _HEIGHT, "seconds": int(_LOOK_SECONDS)}
    return "text/html; charset=utf-8", _template().render(**facts).encode()


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader

    return Environment(loader=PackageLoader("sqlx.streaming", "."), autoescape=True).get_template("queries.html.j2")


#: From a path to what is there: content type and text.
ANSWERS: Final[dict[str, Callable[[Recorder], tuple[str, bytes]]]] = {
    "/": _page,
    "/queries": _page,
    "/queries.json": _json,
    "/metrics": _prometheus,
}


class UiPages:
    """The same on Spark's own UI, below ``/sqlx/``, for whoever may see that.

    Args:
        spark: whose UI it is.

    Attributes:
        url: where they are; None where the session has no UI.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.url = engine_of(spark).ui_pages("/sqlx", self._answer)
        self._recorder = None if self.url is None else Recorder(queries_of(spark))

    def _answer(self, path: str) -> tuple[str, str] | None:
        if path not in ANSWERS or self._recorder is None:
            return None
        kind, body = ANSWERS[path](self._recorder)
        return kind, body.decode()


def show_on_ui(spark: SparkSession) -> None:
    """Have the pages on Spark's UI, once."""
    queries = queries_of(spark)
    if queries.pages is None:
        queries.pages = UiPages(spark)
