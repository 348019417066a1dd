"""Aggregates that keep no partial state, in replay: computed from the rows that were kept, as Spark computes them.

DuckDB has most of them under the same names and rounds otherwise, or takes other types. So the few that are asked for
most have their rule here, and all others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from math import ceil, floor
from typing import Any

import duckdb
from packaging.version import Version
from sqlglot import exp

from sqlx.errors import RunError, UnsupportedError
from sqlx.plan.nodes import Aggregation, TableAggregation
from sqlx.replay.duckdb import Engine, duckdb_text, parse_sql
from sqlx.replay.proven import as_on_spark, family
from sqlx.replay.types import parse_type, reader_of
from sqlx.sql.expressions import AggregateCall, find_aggregates
from sqlx.sql.tokens import tokenize

_Rule = Callable[[list[Any]], Any]
_JOINED = frozenset({"string", "int", "boolean", "date"})


@dataclass(frozen=True)
class _Kept:
    """An aggregate over kept rows.

    Attributes:
        query: its values over the argument rows, its parameters, as a list in order of arrival without NULLs.
        types: of the argument columns, as DuckDB names them.
        rule: from these values to its own.
    """

    query: str
    types: tuple[str, ...]
    rule: _Rule


class Evaluator:
    """Computes the n-th aggregate of a node from its argument rows.

    Args:
        engine: where SQL runs.
        node: the aggregation.

    Raises:
        UnsupportedError: `REPLAY.NOT_PROVEN` for one that is not known to answer as on Spark; it knows the place of
            the call, and not the text.
    """

    def __init__(self, engine: Engine, node: Aggregation | TableAggregation) -> None:
        self._engine, self._node = engine, node
        types = {column.name: parse_type(column.type) for column in node.input.columns}
        self._kept: dict[int, _Kept] = {}
        for number, (call, aggregate) in enumerate(zip(node.calls, node.config.aggregates, strict=True)):
            if call is not None:
                arguments = [types[f"__a{number}_{m}"].duckdb for m in range(aggregate.arguments)]
                self._kept[number] = self._read(number, call, arguments)

    def __call__(self, number: int, rows: Sequence[tuple[Any, ...]]) -> Any:
        """The value over argument rows, in order of arrival.

        Raises:
            RunError: it cannot be computed.
        """
        kept = self._kept[number]
        parameters: list[Any] = [[row[m] for row in rows] for m in range(len(kept.types))]
        try:
            ((values,),) = self._engine.run(kept.query, parameters)
        except duckdb.Error as error:
            call = self._node.calls[number] or ""
            raise RunError("REPLAY.CALCULATION", reason=" ".join(str(error).split()), sql=call) from error
        value = kept.rule(values) if values else None
        return reader_of(parse_type(self._node.config.aggregates[number].type))(value)

    def _read(self, number: int, call: str, types: list[str]) -> _Kept:
        tree = parse_sql(f"SELECT {call} FROM __rows").expressions[0]
        condition = tree.expression.this if isinstance(tree, exp.Filter) else None
        (written,) = find_aggregates(call, tokenize(call))
        value, rule, takes = _rule_of(written, tree.this if isinstance(tree, exp.Filter) else tree)
        if value is None or rule is None:
            raise self._refused(number, types)
        items = [f'unnest(CAST(${m + 1} AS {kind}[])) AS "__a{number}_{m}"' for m, kind in enumerate(types)]
        if not items:
            raise self._refused(number, types)
        rows = f"SELECT {', '.join(items)}"
        select = exp.select(exp.alias_(value.copy(), "__v")).from_("__rows")
        select = select.where(condition.copy()) if condition is not None else select

        def types_of(asked: exp.Select, values: list[exp.Expr]) -> list[str]:
            bare = exp.select(*[exp.alias_(v.copy(), f"__t{n}") for n, v in enumerate(values)]).from_("__rows")
            return self._engine.types(f"WITH __rows AS ({self._nothing(number, types)}) {duckdb_text(bare)}")

        try:
            as_on_spark(select, types_of)
        except UnsupportedError:
            raise self._refused(number, types) from None
        (found,) = types_of(select, [value])
        if family(found) not in takes or found == "FLOAT":
            raise self._refused(number, [found])
        query = f"WITH __rows AS ({rows}) SELECT list(__v) FILTER (__v IS NOT NULL) FROM ({duckdb_text(select)})"
        return _Kept(query, tuple(types), rule)

    def _refused(self, number: int, types: Sequence[str]) -> UnsupportedError:
        over = ", ".join(family(kind) for kind in types) or "nothing"
        call = re.sub(r"__a\d+_(\d+)", r"column\1", self._node.calls[number] or "")
        return UnsupportedError("REPLAY.NOT_PROVEN", None, self._node.place(f"call {number}"), call=call, over=over)

    @staticmethod
    def _nothing(number: int, types: list[str]) -> str:
        return "SELECT " + ", ".join(f'CAST(NULL AS {kind}) AS "__a{number}_{m}"' for m, kind in enumerate(types))


def _rule_of(written: AggregateCall, call: exp.Expr) -> tuple[exp.Expr | None, _Rule | None, frozenset[str]]:
    """What an aggregate is over, its rule, and the families of types that it is known for.

    DuckDB's parser takes several functions for one, and leaves out arguments: what was written decides.
    """
    name, numbers = written.name, frozenset({"int", "float"})
    if name == "median" and isinstance(call, exp.Median):
        return _plain(call.this), _percentile(0.5), numbers
    if name == "percentile" and isinstance(call, exp.Anonymous) and len(written.arguments) == 2:
        value, fraction = call.expressions
        return _plain(value), _percentile_at(fraction), numbers
    if name == "percentile_cont" and isinstance(call, exp.WithinGroup) and len(call.expression.expressions) == 1:
        (ordered,) = call.expression.expressions
        return ordered.this, _percentile_at(call.this.this, is_reverse=bool(ordered.args.get("desc"))), numbers
    if name in ("listagg", "string_agg") and isinstance(call, exp.GroupConcat):
        separator = call.args.get("separator")
        text = separator.name if isinstance(separator, exp.Literal) and separator.is_string else None
        joins = None if text is None and separator is not None else _join(text or "")
        return _plain(call.this), joins, _JOINED
    return None, None, frozenset()


def _plain(value: exp.Expr) -> exp.Expr | None:
    """The value, where nothing but one is written: neither DISTINCT nor an order."""
    return None if isinstance(value, (exp.Distinct, exp.Order)) else value


def _percentile_at(fraction: exp.Expr, *, is_reverse: bool = False) -> _Rule | None:
    if not isinstance(fraction, exp.Literal) or fraction.is_string or not 0 <= float(fraction.name) <= 1:
        return None
    return _percentile(float(fraction.name), is_reverse=is_reverse)


def _percentile(fraction: float, *, is_reverse: bool = False) -> _Rule:
    """Spark's percentile: between the neighbours of the place, in doubles, rounded as the Spark that is installed does.

    >>> _percentile(0.5)([1, 10, 4, 2]), _percentile(0.9)([0.1, 0.7]), _percentile(0.25, is_reverse=True)([1, 2, 3])
    (3.0, 0.64, 2.5)
    """

    def rule(values: list[Any]) -> float:
        # NaN is the greatest, as everywhere in Spark.
        ordered = sorted(map(float, values), key=lambda value: (value != value, value), reverse=is_reverse)
        place = (len(ordered) - 1) * fraction
        lower, higher = floor(place), ceil(place)
        if lower == higher or ordered[lower] == ordered[higher]:
            return ordered[lower]
        if _weighs():
            return (higher - place) * ordered[lower] + (place - lower) * ordered[higher]
        return ordered[lower] + (ordered[higher] - ordered[lower]) * (place - lower)

    return rule


@cache
def _weighs() -> bool:
    """Before 4.3 Spark adds both neighbours, each weighed by its distance; since then it goes from one to the other."""
    return Version(version("pyspark")) < Version("4.3.dev0")


def _join(separator: str) -> _Rule:
    """Spark's listagg without an order: as the rows came.

    >>> _join("-")([True, "a", 1])
    'true-a-1'
    """
    return lambda values: separator.join(str(v).lower() if isinstance(v, bool) else str(v) for v in values)
