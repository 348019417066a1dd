"""Aggregates that keep no partial state, in replay: DuckDB computes them from the rows that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from sqlx.errors import RunError
from sqlx.plan import Aggregation
from sqlx.replay_duckdb import Engine, duckdb_text, parse_sql
from sqlx.replay_types import SparkType, parse_type
from sqlx.replay_values import reader_of


class Evaluator:
    """Computes the n-th aggregate of a node from its argument rows.

    Args:
        engine: where SQL runs.
        node: the aggregation.
    """

    def __init__(self, engine: Engine, node: Aggregation) -> None:
        self._engine, self._node = engine, node
        self._queries: dict[int, str] = {}
        types = {column.name: parse_type(column.type) for column in node.input.columns}
        self._types = {
            n: [types[f"__a{n}_{m}"] for m in range(aggregate.arguments)]
            for n, aggregate in enumerate(node.config.aggregates)
        }

    def __call__(self, number: int, rows: Sequence[tuple[Any, ...]]) -> Any:
        """The value over argument rows, in order of arrival.

        Raises:
            RunError: it cannot be computed.
        """
        kinds = self._types[number]
        if number not in self._queries:
            self._queries[number] = self._query(number, kinds)
        parameters: list[Any] = [[row[m] for row in rows] for m in range(len(kinds))] or [len(rows)]
        try:
            ((value,),) = self._engine.run(self._queries[number], parameters)
        except duckdb.Error as error:
            call = self._node.calls[number] or ""
            raise RunError("REPLAY.CALCULATION", reason=" ".join(str(error).split()), sql=call) from error
        return reader_of(parse_type(self._node.config.aggregates[number].type))(value)

    def _query(self, number: int, kinds: list[SparkType]) -> str:
        items = [f'unnest(CAST(${m + 1} AS {kind.duckdb}[])) AS "__a{number}_{m}"' for m, kind in enumerate(kinds)]
        rows = f"SELECT {', '.join(items)}" if items else "SELECT unnest(range(CAST($1 AS BIGINT)))"
        call = duckdb_text(parse_sql(f"SELECT {self._node.calls[number]} FROM __rows"))
        return f"WITH __rows AS ({rows}) {call}"
