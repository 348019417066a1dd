"""What the command line prints: results as tables that fit the terminal, messages on stderr."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sqlx.failures import interrupts, message_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)

_NARROWEST = 8
WIDEST = 60
_BETWEEN = 3
"""What the box puts between two columns."""


@dataclass(frozen=True)
class Result:
    """Rows as text.

    Attributes:
        names: the columns.
        is_number: per column, whether it is set to the right.
        rows: None is NULL.
        has_more: whether rows were left out.
    """

    names: tuple[str, ...]
    is_number: tuple[bool, ...]
    rows: tuple[tuple[str | None, ...], ...]
    has_more: bool


def complain(message: str) -> None:
    """Print an error: its first line is out, carets stay under what they point to."""
    first, _, rest = message.partition("\n")
    err.print(Text(first, style="bold red"), soft_wrap=True)
    if rest:
        err.print(Text(rest), soft_wrap=True)


def note(message: str) -> None:
    """Say something beside the results."""
    err.print(Text(message, style="dim"), soft_wrap=True)


def fetch(frame: DataFrame, limit: int) -> Result:
    """Run a query and take its first rows, written as Spark writes them.

    Args:
        frame: the query.
        limit: the most rows to take.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, NumericType

    types = [field.dataType for field in frame.schema.fields]
    places = [f"c{n}" for n in range(len(types))]  # names may be there twice
    columns = [
        F.hex(place) if isinstance(kind, BinaryType) else F.col(place).cast("string")
        for place, kind in zip(places, types, strict=True)
    ]
    found = frame.limit(limit + 1).toDF(*places).select(*columns).collect()
    rows = tuple(tuple(row) for row in found[:limit])
    return Result(tuple(frame.columns), tuple(isinstance(t, NumericType) for t in types), rows, len(found) > limit)


def show(result: Result) -> None:
    """Print a result, as wide as the terminal and no wider; whole where the output goes into a file or a pipe."""
    if result.names == ("plan",):
        for row in result.rows:
            out.print(row[0] or "", soft_wrap=True)
        return
    widths = natural_widths(result)
    if not out.is_terminal:
        _print_table(result, widths, sum(widths) + _BETWEEN * (len(widths) + 1))
    else:
        fitted = fit([min(width, WIDEST) for width in widths], out.width)
        _print_table(result, fitted, out.width)
        if len(fitted) < len(widths):
            note(f"… and {len(widths) - len(fitted)} more columns: {', '.join(result.names[len(fitted) :])}")
    note(count(result))


def natural_widths(result: Result) -> list[int]:
    """The terminal cells that each column asks for."""
    cells = zip(result.names, *result.rows, strict=True)
    return [max(cell_len(shown(cell)) for cell in column) for column in cells]


def fit(widths: Sequence[int], room: int) -> list[int]:
    """The widths that columns get: wide ones give way first, and what does not fit at all is left out at the end.

    >>> fit([5, 30, 40], 50), fit([10] * 9, 50)
    ([5, 18, 18], [9, 9, 9, 9])
    """
    widths = list(widths)
    while len(widths) > 1 and sum(min(w, _NARROWEST) + _BETWEEN for w in widths) > room:
        widths.pop()
    while (over := sum(w + _BETWEEN for w in widths) - room) > 0 and max(widths) > _NARROWEST:
        widest = max(widths)
        at = [n for n, width in enumerate(widths) if width == widest]
        below = max((w for w in widths if w < widest), default=0)
        step = max(1, min(widest - max(below, _NARROWEST), -(-over // len(at))))
        for n in at:
            widths[n] = widest - step
    return widths


def _print_table(result: Result, widths: Sequence[int], room: int) -> None:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name, width, is_number in zip(result.names, widths, result.is_number, strict=False):
        justify = "right" if is_number else "left"
        table.add_column(Text(name), justify=justify, width=width, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for row in result.rows:
        table.add_row(*[Text(shown(v), style="dim" if v is None else "") for v in row[: len(widths)]])
    terminal, out.width = out.width, room
    out.print(table)
    out.width = terminal


def shown(cell: str | None) -> str:
    """A cell on one line."""
    return "NULL" if cell is None else cell.replace("\n", "⏎")


def count(result: Result) -> str:
    """How many rows are shown, and whether there are more.

    >>> count(Result(("a",), (True,), (("1",),), has_more=False))
    '1 row'
    """
    number = len(result.rows)
    rows = f"{number:,} row{'' if number == 1 else 's'}"
    return f"the first {rows}; --limit shows more" if result.has_more else rows


# How commands end when something goes wrong: a message on stderr, and an exit code.


INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as shells count."""


@contextmanager
def reported() -> Iterator[None]:
    """Turn errors into a message on stderr and an exit code.

    Raises:
        typer.Exit: 1 after an error, 130 after Ctrl-C.
    """
    try:
        with interrupts():
            yield
    except KeyboardInterrupt:
        complain("Interrupted.")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise  # whoever read our output has had enough: typer ends quietly
    except Exception as error:
        message = message_of(error)
        if message is None or os.environ.get("SQLX_DEBUG"):
            raise
        complain("\n".join([*getattr(error, "__notes__", []), message]))
        raise typer.Exit(1) from None
