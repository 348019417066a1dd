"""Plain Spark SQL on DuckDB: a database in memory for a script, fragments transpiled, and the binder that asks it."""

from __future__ import annotations

import itertools
import re
import weakref
from collections import deque
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from catalog import MemoryCatalog
from catalog.binding import AnalysisError
from catalog.definitions import name_parts, name_text, shown_name
from catalog.entries import Column, Entry
from sqlx.bind.binder import LiveRead
from sqlx.errors import BindError, UnsupportedError
from sqlx.replay.functions import MACROS, ReplayedSpark, named, register, taken
from sqlx.replay.generators import check_generators, unnested
from sqlx.replay.types import TypeTextError, common_type, from_duckdb, parse_type
from sqlx.sql.tokens import Span

if TYPE_CHECKING:
    from collections.abc import Sequence


_NO_FUNCTION = re.compile(r"Function with name (\S+) does not exist")
_TIMESTAMPS = (exp.StrToTime, exp.TimestampFromParts, exp.Timestamp)


@lru_cache(maxsize=1024)
def parse_sql(text: str) -> exp.Expr:
    """The tree of a plain Spark query; copy it before changing it.

    Raises:
        BindError: sqlglot does not read it.
    """
    try:
        tree = sqlglot.parse_one(text, read=ReplayedSpark)
    except ParseError as error:
        raise _refused(str(error.errors[0]["description"] if error.errors else error)) from error
    except SqlglotError as error:
        raise _refused(str(error)) from error
    tree = _with_spark_answers(tree.transform(_as_spark_means))
    for select in tree.find_all(exp.Select):  # a column is called as the query writes it, not as it was defined
        select.set("expressions", [_called(item) for item in select.expressions])
    return tree


def _has_months(kind: exp.DataType) -> bool:
    """Whether a type is an interval of years and months, which DuckDB does not tell from one of days."""
    is_interval = isinstance(kind.this, exp.Interval)
    return is_interval and any(unit.name in ("YEAR", "MONTH") for unit in kind.find_all(exp.Var))


def _called(item: exp.Expr) -> exp.Expr:
    is_column = isinstance(item, exp.Column) and not isinstance(item.this, exp.Star)
    return exp.alias_(item, item.name, quoted=True) if is_column else item


#: Functions whose results have another type on DuckDB.
_RESULTS: dict[type[exp.Expr], str] = {
    **dict.fromkeys((exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfMonth, exp.DayOfYear), "int"),
    exp.WeekOfYear: "int",
    **dict.fromkeys((exp.Hour, exp.Minute, exp.Second, exp.Extract, exp.DateDiff, exp.UnixDate), "int"),
    **dict.fromkeys((exp.Length, exp.BitLength, exp.StrPosition, exp.ArraySize), "int"),
    exp.Sign: "double", exp.AddMonths: "date", exp.DateTrunc: "date",
    exp.TimestampTrunc: "timestamptz",
}  # fmt: skip


_OPERATORS: dict[type[exp.Expr], str] = {exp.Div: "divided", exp.IntDiv: "div"}


def _with_spark_answers(tree: exp.Expr) -> exp.Expr:
    """Put what answers as Spark in the place of functions that DuckDB has otherwise; from the inside out."""
    for node in reversed(list(tree.walk())):
        other = _other(node)
        if other is None:
            continue
        other.meta["spark"] = node.sql(dialect="spark")
        if node is tree:
            return other
        node.replace(other)
    return tree


def _other(node: exp.Expr) -> exp.Expr | None:
    kept = node.copy
    if isinstance(node, exp.TsOrDsToDate) and node.args.get("safe") and not node.args.get("format"):
        return exp.cast(node.this.copy(), "date")
    if isinstance(node, exp.DayOfWeek):  # Sunday is 1
        return exp.cast(exp.Add(this=kept(), expression=exp.Literal.number(1)), "int")
    if isinstance(node, exp.TimestampDiff):  # whole units, not the borders between
        unit = exp.Literal.string(str(node.unit).lower())
        return exp.Anonymous(this="date_sub", expressions=[unit, node.expression.copy(), node.this.copy()])
    if type(node) in _OPERATORS:
        return named(_OPERATORS[type(node)], [node.this.copy(), node.expression.copy()])
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        return taken("item", [node.this.copy(), node.expressions[0].copy()])
    is_whole = isinstance(node, (exp.Ceil, exp.Floor)) and not node.args.get("decimals")
    if isinstance(node, (exp.Upper, exp.Lower)) or is_whole:
        return named(type(node).__name__.lower(), [node.this.copy()])
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("isnull", "isnotnull") and len(node.expressions) == 1:
        test = exp.Is(this=node.expressions[0].copy(), expression=exp.null())
        return test if node.name.lower() == "isnull" else exp.Not(this=test)
    if isinstance(node, exp.Tuple) and isinstance(node.parent, (exp.Select, exp.Alias)):
        return _struct_of(node)
    result = _RESULTS.get(type(node))
    return exp.cast(kept(), result) if result else None


def _struct_of(row: exp.Tuple) -> exp.Struct:
    """``(k, v + 1)`` where it is shown: a struct whose fields are called like their columns, or by their places."""
    fields = []
    for number, value in enumerate(row.expressions, 1):
        name = value.alias_or_name if isinstance(value, (exp.Alias, exp.Column)) else f"col{number}"
        inner = value.this if isinstance(value, exp.Alias) else value
        fields.append(exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=inner.copy()))
    return exp.Struct(expressions=fields)


def _as_spark_means(node: exp.Expr) -> exp.Expr:
    """Where sqlglot's reading and Spark's differ: a CAST fails on what cannot be cast; results have Spark's types."""
    if isinstance(node, exp.TryCast) and not node.args.get("safe"):
        return exp.Cast(this=node.this, to=node.args["to"])
    if isinstance(node, exp.DataType) and node.this == exp.DType.TIMESTAMP:  # of to_timestamp(x), never of CAST
        return exp.DataType.build("timestamptz")
    if isinstance(node, exp.Quantile):  # percentile lies between two rows, DuckDB's quantile is one of them
        return exp.Anonymous(this="quantile_cont", expressions=[node.this, node.args["quantile"]])
    if isinstance(node.parent, exp.Cast):
        return node
    if isinstance(node, _TIMESTAMPS):
        return exp.cast(node, "timestamptz")
    return exp.cast(node, "date") if isinstance(node, exp.TsOrDsAdd) else node


def duckdb_text(tree: exp.Expr) -> str:
    """A tree of Spark SQL in DuckDB's words.

    Raises:
        BindError: there is no such way.
    """
    try:
        return unnested(tree).sql(dialect="duckdb")
    except SqlglotError as error:
        raise _refused(str(error)) from error


def _refused(reason: str) -> BindError:
    """DuckDB's reason; where it is a function that it has not, what it suggests instead is none of Spark's."""
    missing = _NO_FUNCTION.search(reason)
    if missing is not None:
        reason, written = f"it has no function `{missing[1]}`", f"{missing[1]}("
        return BindError("REPLAY.QUERY_REFUSED", reason=reason, written=written)
    return BindError("REPLAY.QUERY_REFUSED", reason=" ".join(reason.split()))


_numbers = itertools.count(1)
_attaching = Lock()
#: Databases whose engine is gone; the next one that is made detaches them.
_left: deque[str] = deque()


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    """The one DuckDB of this process: to start another takes fifty times as long as to attach a database to it."""
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    register(connection)
    return connection


class Engine:
    """A database in memory, in UTC; it holds empty relations by which queries are bound, and never a row."""

    def __init__(self) -> None:
        name = f"__sqlx_{next(_numbers)}"
        with _attaching:
            self.connection = _instance().cursor()
            while _left:
                self.connection.execute(f"DETACH DATABASE {_left.popleft()}")
            self.connection.execute(f"ATTACH ':memory:' AS {name}")
        weakref.finalize(self, _left.append, name)
        for statement in (f"USE {name}", "SET TimeZone = 'UTC'", *(f"CREATE MACRO {macro}" for macro in MACROS)):
            self.connection.execute(statement)

    def schema(self, text: str) -> tuple[Column, ...]:
        """The result columns of a Spark query, in Spark's types.

        Raises:
            BindError: DuckDB refuses it.
        """
        tree = parse_sql(text)
        check_generators(tree)
        if tree.find(exp.Lambda) is not None:
            raise BindError("REPLAY.QUERY_REFUSED", reason="it calculates by `x -> …`", written="->")
        if any(_has_months(kind) for kind in tree.find_all(exp.DataType)):
            raise BindError("REPLAY.QUERY_REFUSED", reason="Python has no value for an interval of months", written="")
        query = duckdb_text(tree)
        try:
            found = self.connection.sql(query)
            types = [from_duckdb(kind).text for kind in found.types]
        except (duckdb.Error, TypeTextError) as error:
            raise _refused(str(error)) from error
        return tuple(Column(name, kind) for name, kind in zip(found.columns, types, strict=True))

    def types(self, query: str) -> list[str]:
        """The types of a query's columns, as DuckDB names them; it is not run.

        Raises:
            BindError: DuckDB refuses it.
        """
        try:
            return [str(kind) for kind in self.connection.sql(query).types]
        except duckdb.Error as error:
            raise _refused(str(error)) from error

    def define(self, parts: tuple[str, ...], columns: tuple[Column, ...]) -> None:
        """Make an empty relation known, so that queries over it can be bound."""
        quoted = ['"' + part.replace('"', '""') + '"' for part in parts]
        items = [
            f'CAST(NULL AS {parse_type(c.type).duckdb}) AS "{c.name.replace(chr(34), chr(34) * 2)}"' for c in columns
        ]
        for count in range(1, len(parts)):
            self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(quoted[:count])}")
        select = f"SELECT {', '.join(items) or '1 AS __none'} WHERE false"
        self.connection.execute(f"CREATE OR REPLACE VIEW {'.'.join(quoted)} AS {select}")

    def run(self, query: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a DuckDB query, in its order.

        Raises:
            duckdb.Error: a value cannot be calculated.
        """
        rows: list[tuple[Any, ...]] = self.connection.execute(query, parameters).fetchall()
        return rows


class DuckDbBinder:
    """Binds the query of a replay script: names from its definitions, types from DuckDB.

    Args:
        engine: knows a relation per definition.
        catalog: the definitions.
    """

    carries_row_order = False
    case_sensitive = False

    def __init__(self, engine: Engine, catalog: MemoryCatalog) -> None:
        self.engine, self.catalog = engine, catalog
        self._refusal: Exception | None = None

    def entry(self, parts: tuple[str, ...]) -> Entry | None:
        """The definition of that name, or None."""
        return self.catalog.resolve(shown_name(parts))

    def columns(self, query: str) -> tuple[Column, ...] | None:
        """The result columns of a query, or None where DuckDB refuses it."""
        try:
            return self.engine.schema(query)
        except BindError as error:
            self._refusal = error
            return None

    def is_stream(self, query: str) -> bool:
        """Replay has its definitions alone."""
        del query
        return False

    def refusal(self) -> Exception | None:
        """Why the last query was refused."""
        return self._refusal

    def announce(self, name: str, columns: tuple[Column, ...]) -> None:
        """Let queries read the result of an operator."""
        self.engine.define((name,), columns)

    def common_type(self, left: str, right: str) -> str | None:
        """The type in which Spark compares two types, or None where it refuses to."""
        try:
            common = common_type(parse_type(left), parse_type(right))
        except TypeTextError:
            return None
        return None if common is None else common.text

    def arrival(self, relation: str) -> str:
        """Order of arrival; live rows have it by themselves."""
        del relation
        return "row_number() OVER ()"

    def insert_target(self, entry: Entry) -> str | None:
        """Rows are pushed, never inserted."""
        del entry
        return None

    def state_relation(self, name: str, text: str, span: Span) -> str:
        """There are no checkpoints."""
        del name
        raise UnsupportedError("UNSUPPORTED.STATE_HERE", text, span.pair)

    def live(self, entry: Entry) -> LiveRead:
        """Records are pushed under the definition's own name."""
        return LiveRead(name_text(name_parts(entry.name)))

    def names(self) -> tuple[str, ...]:
        """The names of the definitions."""
        return self.catalog.names()

    def is_variable(self, name: str) -> bool:
        """Replay has no variables."""
        del name
        return False

    def is_parameter(self, name: str) -> bool:
        """Replay has no functions."""
        del name
        return False

    def view_text(self, parts: tuple[str, ...]) -> str | None:
        """A replay script has no views."""
        del parts
        return None

    def viewed(self, parts: tuple[str, ...]) -> Entry | None:
        """A replay script has no views."""
        del parts
        return None


class EngineAnalyzer:
    """What the catalog asks while a definition is bound."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def columns(self, query: str) -> tuple[Column, ...]:
        """The result columns of a query.

        Raises:
            AnalysisError: it is refused.
        """
        try:
            return self.engine.schema(query)
        except BindError as error:
            reason = error.parameters["reason"]
            raise AnalysisError(reason, *_missing(reason)) from error


def _missing(reason: str) -> tuple[str, str]:
    """The column or the relation that DuckDB did not find, by its message."""
    for marker, place in (('Referenced column "', 0), ("Table with name ", 1)):
        if marker in reason:
            name = reason.split(marker, 1)[1]
            name = name.split('"')[0] if place == 0 else name.split(" does not exist")[0]
            return (name, "") if place == 0 else ("", name)
    return "", ""
