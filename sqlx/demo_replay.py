"""The demo's data as it came in: files of flights and weather in the order in which somebody heard of them."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
_MICROSECONDS_UTC = pa.timestamp("us", "UTC")


def replay_rows(folder: Path, inputs: str = "*") -> int:
    """How many rows the files of both folders have, or of one; 0 before they are written."""
    return sum(pq.read_metadata(path).num_rows for path in (folder / LIVE).glob(f"{inputs}/*.parquet"))


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
    late = pa.array([number % _EVERY_LATE_REPORT == 0 for number in range(1, sorted_.num_rows + 1)])
    delay_us = pc.if_else(late, _LATE_REPORT_DELAY_US, _REPORT_DELAY_US)
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
