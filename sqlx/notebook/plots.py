"""A picture of a query with one call."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog.definitions import part_text
from sqlx.errors import BindError, RunError, UnsupportedError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_INCHES = (8.0, 4.0)
_MOST_LINES = 12


class Picture:
    """A drawn query; a notebook shows it.

    Attributes:
        figure: matplotlib's figure.
        axes: its axes, to go on with: ``picture.axes.set_title("…")``.
    """

    def __init__(self, figure: Figure, axes: Axes) -> None:
        self.figure, self.axes = figure, axes

    def _repr_png_(self) -> bytes:
        with io.BytesIO() as file:
            self.figure.savefig(file, format="png", dpi=110)
            return file.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write it into a file, in the format that its name says (png, svg, pdf).

        Args:
            path: where to.

        Returns:
            The path.
        """
        self.figure.savefig(path)
        return Path(path)


def plot(frame: DataFrame, x: str, y: str | Sequence[str], by: str | None = None, limit: int = 10_000) -> Picture:
    """Draw columns of a bounded query: lines over time and numbers, bars over everything else.

    Args:
        frame: the query; it runs now.
        x: the column across. A window is at its start.
        y: one column of numbers upwards, or several.
        by: draw one line for each value of this column (the 12 that come first).
        limit: the most rows to take; more are left out, and the picture says so.

    Returns:
        The picture.

    Raises:
        BindError: there is no such column, or it holds no numbers.
        UnsupportedError: the query is a live stream.
        RunError: matplotlib is not installed.
    """
    from pyspark.sql.types import StringType

    if frame.isStreaming:
        raise UnsupportedError("PLOT.OF_A_STREAM")
    columns = [x, *([y] if isinstance(y, str) else y), *([by] if by else [])]
    types = {name: _type_of(frame, name) for name in columns}
    for name in columns[1 : len(columns) - bool(by)]:
        _require_numbers(name, types[name])
    if by:
        types[by] = StringType()
    figure, axes = _canvas()
    taken = frame.select(*[_drawable(name, types[name], n) for n, name in enumerate(columns)]).limit(limit + 1)
    rows = [tuple(row) for row in taken.collect()]
    _draw(axes, rows[:limit], columns, bool(by), _is_line(types[x]))
    if len(rows) > limit:
        axes.set_title(f"the first {limit:,} rows", fontsize="small", loc="right")
    return Picture(figure, axes)


def _type_of(frame: DataFrame, name: str) -> DataType:
    found = next((field.dataType for field in frame.schema.fields if field.name.lower() == name.lower()), None)
    if found is None:
        raise BindError("PLOT.UNKNOWN_COLUMN", name=name, suggestion=did_you_mean(name, frame.columns))
    return found


def _require_numbers(name: str, kind: DataType) -> None:
    from pyspark.sql.types import NumericType

    if not isinstance(kind, NumericType):
        raise BindError("PLOT.NO_NUMBERS", name=name, type=kind.simpleString())


def _is_line(kind: DataType) -> bool:
    from pyspark.sql.types import DateType, NumericType, StructType, TimestampNTZType, TimestampType

    window = isinstance(kind, StructType) and "start" in kind.names
    return window or isinstance(kind, NumericType | DateType | TimestampType | TimestampNTZType)


def _drawable(name: str, kind: DataType, number: int) -> Column:
    """A column as matplotlib can draw it: times as the session shows them, numbers as floats, all else as text."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DateType, NumericType, StructType, TimestampNTZType, TimestampType

    column, place = F.col(part_text(name)), f"c{number}"  # the same column may be asked for twice
    if isinstance(kind, StructType) and "start" in kind.names:
        return column["start"].cast("timestamp_ntz").alias(place)
    if isinstance(kind, TimestampType | TimestampNTZType | DateType):
        return column.cast("timestamp_ntz").alias(place)
    return column.cast("double" if isinstance(kind, NumericType) else "string").alias(place)


def _canvas() -> tuple[Figure, Axes]:
    """A figure without pyplot: nothing of the caller's own figures and back end is touched."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise RunError("PLOT.NO_MATPLOTLIB") from None
    figure = Figure(figsize=_INCHES, layout="constrained")
    return figure, figure.add_subplot()


def _draw(axes: Axes, rows: list[tuple[Any, ...]], columns: list[str], has_by: bool, is_line: bool) -> None:
    values = columns[1 : len(columns) - has_by]
    for label, part in _groups(rows, has_by).items():
        known = sorted((row for row in part if row[0] is not None), key=lambda row: row[0]) if is_line else part
        across = [row[0] if is_line else str(row[0]) for row in known]
        for n, name in enumerate(values, start=1):
            upwards = [float("nan") if row[n] is None else row[n] for row in known]
            text = label if has_by and len(values) == 1 else f"{label} {name}".strip()
            if is_line:
                axes.plot(across, upwards, label=text, marker="." if len(known) < 40 else "", linewidth=1.2)
            else:
                axes.bar(across, upwards, label=text, alpha=0.8)
    axes.set_xlabel(columns[0])
    axes.set_ylabel(", ".join(values))
    axes.grid(alpha=0.3)
    if has_by or len(values) > 1:
        axes.legend()


def _groups(rows: list[tuple[Any, ...]], has_by: bool) -> dict[str, list[tuple[Any, ...]]]:
    if not has_by:
        return {"": rows}
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        label = "NULL" if row[-1] is None else str(row[-1])
        if label in found or len(found) < _MOST_LINES:
            found.setdefault(label, []).append(row)
    return found
