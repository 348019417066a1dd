"""The window acts of the demo: final results beside those on change, in lines and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pyspark.sql import SparkSession

    from sqlx.streaming.totals import Totals

ACTS = ("windows/final.sql", "windows/changes.sql")
FINAL, CHANGES = "hourly_final", "hourly_changes"
AIRPORT, DAY = "EWR", "8 March 2013"
_DAY_BEGINS = "2013-03-08T05:00:00Z"
"""Midnight in New York; the picture counts hours from here."""
_HOUR_US = 3_600_000_000
_GRACE_HOURS = 3
_SHOWN_HOURS = (5, 27)
_ON_CHANGE, _FINAL = "#1f77b4", "#d95f02"


@dataclass(frozen=True)
class Update:
    """A result as it was given out.

    Attributes:
        hour: that it is of, in hours since the day began.
        known: when it was known, likewise.
        departures, mean_delay: of the hour, as far as they were known.
    """

    hour: int
    known: float
    departures: int
    mean_delay: float


def window_counts(final: Totals, changes: Totals) -> list[str]:
    r"""What the two queries gave out for the same rows, as lines.

    >>> from sqlx.streaming.totals import Totals
    >>> final = Totals(rows=9543, batches=2, observed={"window": {"emitted": 81, "late": 17, "buffered_rows": 9}})
    >>> changes = Totals(rows=9543, batches=2, observed={"window": {"emitted": 9526, "late": 17}})
    >>> print("\n".join(window_counts(final, changes)))
    Departures by airport and hour, 9,543 rows in 2 micro-batches:
         81 results of EMIT FINAL, each hour once
      9,526 results of EMIT CHANGES, every update
         17 departures too late for their hour, in late_departures
          9 hours still open
    """
    counted = [
        (final.sum("emitted"), "results of EMIT FINAL, each hour once"),
        (changes.sum("emitted"), "results of EMIT CHANGES, every update"),
        (final.sum("late"), "departures too late for their hour, in late_departures"),
        (final.sum("buffered_rows"), "hours still open"),
    ]
    width = max(len(f"{count:,}") for count, _ in counted) + 2
    head = f"Departures by airport and hour, {final.rows:,} rows in {final.batches:,} micro-batches:"
    return [head, *(f"{count:>{width},} {what}" for count, what in counted)]


def draw(spark: SparkSession, path: Path) -> Path:
    """Draw a day of both tables as PNG.

    Args:
        spark: the session in which the acts have run.
        path: of the picture; what is there is replaced.
    """
    from matplotlib.figure import Figure  # half a second to import, and only the demo needs it

    # A result is final once a departure of an hour that begins so much later has been heard of: about then.
    final = updates(spark, FINAL, f"hour + INTERVAL '{1 + _GRACE_HOURS}' HOUR")
    changes = updates(spark, CHANGES, "heard_at")
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    counts, delays = figure.subplots(2, 1, sharex=True)
    figure.suptitle(f"{AIRPORT}, {DAY}: EMIT CHANGES and EMIT FINAL with a grace of {_GRACE_HOURS} hours")
    _draw_counts(counts, changes, final)
    _draw_delays(delays, changes, final)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path


def updates(spark: SparkSession, table: str, known: str) -> list[Update]:
    """The results of the day in the order in which they were known."""
    begins = f"TIMESTAMP '{_DAY_BEGINS}'"
    since = f"unix_micros({{}}) - unix_micros({begins})"
    rows = spark.sql(
        f"SELECT {since.format('hour')}, {since.format(known)}, departures, mean_delay FROM {table} "
        f"WHERE origin = '{AIRPORT}' AND hour >= {begins} AND hour < {begins} + INTERVAL '24' HOUR ORDER BY 2, 3"
    ).collect()
    return [Update(hour // _HOUR_US, known_us / _HOUR_US, count, delay) for hour, known_us, count, delay in rows]


def shown_so_far(found: list[Update]) -> tuple[list[float], list[int]]:
    """How many departures all results together showed, and from when on.

    >>> shown_so_far([Update(6, 6.2, 1, 0.0), Update(7, 7.1, 1, 0.0), Update(6, 7.5, 2, 9.0)])
    ([6.2, 7.1, 7.5], [1, 2, 3])
    """
    latest: dict[int, int] = {}
    times, totals = [], []
    for one in found:
        latest[one.hour] = one.departures
        times.append(one.known)
        totals.append(sum(latest.values()))
    return times, totals


def known_at_their_end(changes: list[Update]) -> dict[int, float]:
    """The mean delay of each hour as it was known when the hour ended.

    >>> known_at_their_end([Update(6, 6.2, 1, 0.0), Update(6, 6.9, 2, 4.0), Update(6, 7.5, 3, 40.0)])
    {6: 4.0}
    """
    return {one.hour: one.mean_delay for one in changes if one.known < one.hour + 1}


def _draw_counts(axes: Axes, changes: list[Update], final: list[Update]) -> None:
    for found, label, colour in ((changes, "on change", _ON_CHANGE), (final, "final", _FINAL)):
        times, totals = shown_so_far(found)
        first, last = _SHOWN_HOURS
        axes.step(
            [first, *times, last], [0, *totals, *totals[-1:]], where="post", color=colour, linewidth=1.8, label=label
        )
    axes.set_ylabel("departures shown so far")
    axes.legend(frameon=False, loc="upper left")
    _plain(axes)


def _draw_delays(axes: Axes, changes: list[Update], final: list[Update]) -> None:
    early, late = known_at_their_end(changes), {one.hour: one.mean_delay for one in final}
    for found, label, colour in ((early, "on change, when the hour ended", _ON_CHANGE), (late, "final", _FINAL)):
        axes.plot([hour + 0.5 for hour in found], list(found.values()), "o-", color=colour, markersize=4, label=label)
    axes.set_ylabel("mean delay of the hour, minutes")
    axes.set_xlabel("hour of the day in New York; above when it was known, below the hour that it is of")
    axes.set_xlim(*_SHOWN_HOURS)
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])  # room for the legend
    axes.set_xticks(range(*_SHOWN_HOURS, 2), [f"{hour % 24}:00" for hour in range(*_SHOWN_HOURS, 2)])
    axes.legend(frameon=False, loc="upper left")
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.grid(visible=True, axis="y", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
