"""Rows in a notebook: a table in HTML, and the same as text."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from sqlx.cli.output import WIDEST, Result, count, natural_widths, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NULL = '<span style="opacity: 0.5">NULL</span>'


class Rows:
    """The first rows of a query, as a notebook shows them.

    Args:
        result: the rows.
        frame: the query that they come from.

    Attributes:
        result: the rows.
        frame: the DataFrame, to go on with.
    """

    def __init__(self, result: Result, frame: DataFrame | None = None) -> None:
        self.result, self.frame = result, frame

    def _repr_html_(self) -> str:
        return html_table(self.result)

    def __repr__(self) -> str:
        """The table as text."""
        return text_table(self.result)


def html_table(result: Result) -> str:
    """A table in HTML; all that comes from data is escaped.

    Args:
        result: the rows.
    """
    if result.names == ("plan",):
        return "".join(f"<pre>{escape(row[0] or '')}</pre>" for row in result.rows)
    sides = ["right" if is_number else "left" for is_number in result.is_number]
    head = _html_row("th", result.names, sides)
    body = "".join(_html_row("td", row, sides) for row in result.rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><small>{count(result)}</small>"


def _html_row(tag: str, cells: tuple[str | None, ...], sides: list[str]) -> str:
    parts = (
        f'<{tag} style="text-align: {side}">{_NULL if cell is None else escape(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(parts)}</tr>"


def text_table(result: Result) -> str:
    """A table as text.

    Args:
        result: the rows.
    """
    if result.names == ("plan",):
        return "\n".join(row[0] or "" for row in result.rows)
    return "\n".join(_lines(result))


def _lines(result: Result) -> Iterator[str]:
    widths = [min(width, WIDEST) for width in natural_widths(result)]
    yield _line(result.names, widths, result.is_number)
    yield "  ".join("─" * width for width in widths)
    for row in result.rows:
        yield _line(row, widths, result.is_number)
    yield f"({count(result)})"


def _line(cells: tuple[str | None, ...], widths: list[int], is_number: tuple[bool, ...]) -> str:
    placed = []
    for cell, width, right in zip(cells, widths, is_number, strict=True):
        text = shown(cell)
        if cell_len(text) > width:
            text = set_cell_size(text, width - 1) + "…"
        space = " " * (width - cell_len(text))
        placed.append(space + text if right else text + space)
    return "  ".join(placed).rstrip()
