"""Runs a ``sql replay`` block of the documentation: definitions, INSERT INTO in the order of arrival, one query."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb

from catalog.definitions import Definition
from sqlx.replay.driver import Change, ReplayDriver
from sqlx.sql.definitions import parse_definition
from sqlx.sql.tokens import statement_spans
from tests.harness.doc_blocks import shown

_INSERT = re.compile(r"INSERT\s+INTO\s+(\w+)\s+(VALUES\b.*)", re.IGNORECASE | re.DOTALL)


def replayed(text: str) -> list[list[str]]:
    """The columns and rows that the query of a block sends, as its result block writes them.

    ``_change_type`` is a column of the rows where not all of them are inserts, or the query sends changes.
    """
    statements = [span.of(text) for span in statement_spans(text)]
    inserts = [match for statement in statements if (match := _INSERT.fullmatch(statement))]
    rest = [statement for statement in statements if not _INSERT.fullmatch(statement)]
    driver = ReplayDriver(";\n".join(rest))
    columns = {name: names for name, names in map(_columns, rest) if names}
    changes = [
        change
        for insert in inserts
        for values in duckdb.sql(insert[2]).fetchall()
        for change in driver.push(
            [(insert[1], dict(zip(columns[insert[1].lower()], map(_pushed, values), strict=True)))]
        )
    ]
    return list(_table(changes, "EMIT" in rest[-1] and "EMIT FINAL" not in rest[-1]))


def _columns(statement: str) -> tuple[str, list[str]]:
    definition = parse_definition(statement)
    if not isinstance(definition, Definition):
        return "", []
    return definition.name[-1].lower(), [column.name for column in definition.columns]


def _pushed(value: Any) -> Any:
    if isinstance(value, Decimal):  # DuckDB reads 1.05 as a decimal, and every numeric column takes a float
        return float(value)
    return value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) else value


def _table(changes: list[Change], sends_changes: bool) -> Iterator[list[str]]:
    assert changes, "the query sends nothing"
    ops = [[change.op] if sends_changes else [] for change in changes]
    yield [*changes[0].row, *(["_change_type"] if sends_changes else [])]
    for change, op in zip(changes, ops, strict=True):
        assert sends_changes or change.op == "insert"
        yield [*map(shown, change.row.values()), *op]
