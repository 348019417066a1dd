"""A fragment of the plan, run for one row at a time: the row is the only one of its relation, all others are empty."""

from __future__ import annotations

from typing import Any

import duckdb
from sqlglot import exp

from catalog.entries import Column
from sqlx.errors import RunError
from sqlx.plan import Fragment, Operator, PlanNode, Source
from sqlx.replay_duckdb import Engine, duckdb_text, parse_sql
from sqlx.replay_rowwise import RowFunction, row_function
from sqlx.replay_stateless import check_stateless, cte_of, drop_unused_ctes, refuse
from sqlx.replay_types import SparkType, parse_type
from sqlx.replay_values import reader_of

Values = tuple[Any, ...]


def columns_of(node: PlanNode) -> tuple[Column, ...]:
    """The columns of a live relation: a source's, or an operator's result."""
    if isinstance(node, Source):
        return node.entry.columns
    assert isinstance(node, Operator), node
    return node.columns


class FragmentRunner:
    """Runs one fragment.

    Args:
        engine: where SQL runs that is more than picking columns.
        fragment: what to run.
        reads_table: whether it may read a table (the right side of an operator) rather than streams.
        is_bare: leave out its condition.

    Raises:
        UnsupportedError: it would need memory.
    """

    def __init__(self, engine: Engine, fragment: Fragment, reads_table: bool = False, is_bare: bool = False) -> None:
        self.engine, self.fragment = engine, fragment
        self.reads: dict[str, PlanNode] = {}
        self.tree = parse_sql(fragment.sql).copy()
        if is_bare:
            self.tree.set("where", None)
        drop_unused_ctes(self.tree)
        self._name_reads(reads_table)
        check_stateless(self.tree, lambda table: table.name in self.reads)
        self._readers = [reader_of(parse_type(column.type)) for column in fragment.columns]
        self._queries: dict[str, tuple[str, list[int]]] = {}
        self._functions: dict[str, RowFunction | None] = {}

    def run(self, read: str, values: Values) -> list[Values]:
        """The fragment's rows when ``values`` is the only row of the relation ``read``.

        Raises:
            RunError: an expression fails on these values.
        """
        if read not in self._functions:
            self._functions[read] = row_function(self.tree, read, columns_of(self.reads[read]), len(self._readers))
        function = self._functions[read]
        return function(values) if function is not None else self._run_sql(read, values)

    def _run_sql(self, read: str, values: Values) -> list[Values]:
        if read not in self._queries:
            self._queries[read] = self._query(read)
        query, used = self._queries[read]
        kinds = [parse_type(c.type) for c in columns_of(self.reads[read])]
        try:
            rows = self.engine.run(query, [_as_parameter(values[n], kinds[n]) for n in used])
        except duckdb.Error as error:
            raise RunError("REPLAY.CALCULATION", reason=" ".join(str(error).split()), sql=self.fragment.sql) from error
        return [tuple(read(value) for read, value in zip(self._readers, row, strict=True)) for row in rows]

    def _name_reads(self, reads_table: bool) -> None:
        """Give each live relation of the tree a name of its own; CTEs of the same name stay what they are."""
        names = {_path(name): node for name, node in self.fragment.reads}
        for table in list(self.tree.find_all(exp.Table)):
            node = names.get(".".join(part.name.lower() for part in table.parts))
            if node is None or cte_of(table) is not None:
                continue
            if isinstance(node, Source) and node.entry.is_table and not reads_table:
                refuse(f"A plain read of the table `{node.entry.name}`")
            self._replace(table, node)

    def _replace(self, table: exp.Table, node: PlanNode) -> None:
        known = next((name for name, other in self.reads.items() if other is node), None)
        name = known or f"__read{len(self.reads)}"
        self.reads[name] = node
        if not table.alias:
            table.set("alias", exp.TableAlias(this=table.this.copy()))
        for part in ("db", "catalog"):
            table.set(part, None)
        table.set("this", exp.to_identifier(name))

    def _query(self, active: str) -> tuple[str, list[int]]:
        """DuckDB's text, and which values of the row are its parameters."""
        ctes, used = [], []
        for name, node in self.reads.items():
            columns = self._used_columns(columns_of(node))
            items = []
            for index, column in columns:
                kind = parse_type(column.type)
                used += [index] if name == active else []
                value = _parameter(len(used), kind) if name == active else f"CAST(NULL AS {kind.duckdb})"
                items.append(f'{value} AS "{column.name.replace(chr(34), chr(34) * 2)}"')
            empty = "" if name == active else " WHERE false"
            ctes.append(f"{name} AS (SELECT {', '.join(items) or '1 AS __none'}{empty})")
        return f"WITH {', '.join(ctes)} SELECT * FROM ({duckdb_text(self.tree)})", used

    def _used_columns(self, columns: tuple[Column, ...]) -> list[tuple[int, Column]]:
        """Those that the fragment can name: any with a star, else those whose name stands in it."""
        numbered = list(enumerate(columns))
        if self.tree.find(exp.Star):
            return numbered
        named = {identifier.name.lower() for identifier in self.tree.find_all(exp.Identifier)}
        return [(n, c) for n, c in numbered if c.name.lower() in named]


def _path(name: str) -> str:
    return name.replace("`", "").lower()


def _parameter(number: int, kind: SparkType) -> str:
    if kind.name == "map":  # a dict becomes a struct, which loses keys that are no names
        key, value = (field.duckdb for _, field in kind.fields)
        return f"map_from_entries(CAST(${number} AS STRUCT(key {key}, value {value})[]))"
    return f"CAST(${number} AS {kind.duckdb})"


def _as_parameter(value: Any, kind: SparkType) -> Any:
    if kind.name == "map" and value is not None:
        return [{"key": key, "value": item} for key, item in value.items()]
    return value
