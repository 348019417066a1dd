"""What hidden columns are called: those by which rows say how they arrived, and which row of a table they are of."""

from __future__ import annotations


def is_order(column: str) -> bool:
    """Whether a column of a fragment or a result is one of those that say how rows arrived."""
    return column.startswith("__o") and column[3:].isdigit()


def is_row_key(column: str) -> bool:
    """Whether a column is one of the key that a row of a live table has."""
    return column.startswith("__u") and column[3:].isdigit()
