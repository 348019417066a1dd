"""Functions of Spark that DuckDB lacks, or has otherwise: what they answer, in DuckDB's words.

Each answers as on a session of Spark in UTC with ANSI mode on. That it does is not said here: it is tried over the
edges of types and over random values (`tests/spark/test_replay_functions.py`), and what differs is refused.
"""

from __future__ import annotations

import calendar
import math
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote_plus

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

if TYPE_CHECKING:
    import duckdb

PREFIX = "__sqlx_"
#: A double has up to 309 digits before its point.
_WIDE = Context(prec=800)

# Macros, by the name that Spark has for the function. A name may have several, of different numbers of arguments.

_NAMED: dict[str, str] = {
    # numbers
    "isnan": "(x) AS coalesce(isnan(CAST(x AS DOUBLE)), false)",
    "nanvl": "(a, b) AS CASE WHEN isnan(CAST(a AS DOUBLE)) THEN CAST(b AS DOUBLE) ELSE CAST(a AS DOUBLE) END",
    "negative": "(x) AS -x",
    "positive": "(x) AS x",
    "pmod": "(a, b) AS CASE WHEN a IS NOT NULL AND b = 0 THEN error('REMAINDER_BY_ZERO')"
    " WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END",
    "factorial": "(n) AS CASE WHEN CAST(n AS INTEGER) BETWEEN 0 AND 20"
    " THEN CAST(factorial(CAST(n AS INTEGER)) AS BIGINT) END",
    "bit_count": "(x) AS CAST(bit_count(CAST(x AS BIGINT)) AS INTEGER)",
    "getbit": "(x, place) AS CAST((CAST(x AS BIGINT) >> CAST(place AS INTEGER)) & 1 AS TINYINT)",
    "e": "() AS CAST(2.718281828459045 AS DOUBLE)",
    "nullifzero": "(x) AS nullif(x, 0)",
    "zeroifnull": "(x) AS coalesce(x, 0)",
    "try_add": "(a, b) AS TRY(a + b)",
    "try_subtract": "(a, b) AS TRY(a - b)",
    "try_multiply": "(a, b) AS TRY(a * b)",
    # NB: NaN becomes NULL on its way to Python and back.
    "rint": "(x) AS CASE WHEN isfinite(CAST(x AS DOUBLE)) THEN __sqlx_half_even(x) ELSE CAST(x AS DOUBLE) END",
    # texts
    "octet_length": "(s) AS CAST(octet_length(encode(s)) AS INTEGER)",
    "space": "(n) AS CASE WHEN n IS NOT NULL THEN repeat(' ', greatest(n, 0)) END",
    "unhex": "(s) AS CASE WHEN regexp_full_match(s, '[0-9a-fA-F]*')"
    " THEN unhex(CASE WHEN len(s) % 2 = 1 THEN '0' || s ELSE s END) END",
    # dates and times
    "date_sub": "(d, n) AS CAST(d AS DATE) - CAST(n AS INTEGER)",
    "date_from_unix_date": "(n) AS DATE '1970-01-01' + CAST(n AS INTEGER)",
    "unix_seconds": "(t) AS (epoch_us(t) - (epoch_us(t) % 1000000 + 1000000) % 1000000) // 1000000",
    "unix_millis": "(t) AS (epoch_us(t) - (epoch_us(t) % 1000 + 1000) % 1000) // 1000",
    "unix_timestamp": "(t) AS (epoch_us(t) - (epoch_us(t) % 1000000 + 1000000) % 1000000) // 1000000",
    "dayname": "(t) AS strftime(CAST(t AS DATE), '%a')",
    "monthname": "(t) AS strftime(CAST(t AS DATE), '%b')",
    "months_between": "(a, b) AS __sqlx_months(epoch_us(a), epoch_us(b))",
    # arrays and maps
    "array_distinct": "(a) AS list_filter(a, lambda x, i: i = list_position(a, x))",
    "array_union": "(a, b) AS list_filter(a || b, lambda x, i: i = list_position(a || b, x))",
    "array_except": "(a, b) AS list_filter(a, lambda x, i: i = list_position(a, x) AND list_position(b, x) IS NULL)"
    " || CASE WHEN b IS NULL THEN NULL ELSE [] END",
    "array_intersect": "(a, b) AS list_filter(a, lambda x, i: i = list_position(a, x)"
    " AND list_position(b, x) IS NOT NULL) || CASE WHEN b IS NULL THEN NULL ELSE [] END",
    "arrays_overlap": "(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL"
    " WHEN list_has_any(list_filter(a, lambda x: x IS NOT NULL), list_filter(b, lambda x: x IS NOT NULL)) THEN true"
    " WHEN len(a) > 0 AND len(b) > 0 AND (list_count(a) < len(a) OR list_count(b) < len(b)) THEN NULL ELSE false END",
    "array_contains": "(a, x) AS CASE WHEN a IS NULL OR x IS NULL THEN NULL WHEN list_contains(a, x) THEN true"
    " WHEN list_count(a) < len(a) THEN NULL ELSE false END",
    "array_remove": "(a, x) AS CASE WHEN x IS NOT NULL THEN list_filter(a, lambda y: y IS NULL OR y <> x) END",
    "array_join": "(a, d) AS array_to_string(list_filter(a, lambda x: x IS NOT NULL), d)",
    "array_position": "(a, x) AS CASE WHEN a IS NULL OR x IS NULL THEN NULL"
    " ELSE CAST(coalesce(list_position(a, x), 0) AS BIGINT) END",
    "array_repeat": "(x, n) AS CASE WHEN n IS NOT NULL THEN list_transform(range(greatest(n, 0)), lambda i: x) END",
    "flatten": "(a) AS CASE WHEN list_count(a) = len(a) THEN flatten(a) END",
    "get": "(a, i) AS CASE WHEN CAST(i AS INTEGER) >= 0 THEN a[CAST(i AS BIGINT) + 1] END",
    "element_at": "(a, i) AS CASE WHEN a IS NOT NULL AND (i = 0 OR abs(i) > len(a))"
    " THEN error('INVALID_ARRAY_INDEX_IN_ELEMENT_AT') ELSE a[i] END",
    "try_element_at": "(a, i) AS CASE WHEN a IS NOT NULL AND i = 0 THEN error('INVALID_INDEX_OF_ZERO') ELSE a[i] END",
    "map_contains_key": "(m, k) AS CASE WHEN m IS NOT NULL THEN list_contains(map_keys(m), k) END",
}  # fmt: skip

#: What stands for operators, and for functions that become others.
MACROS = (
    *(f"{PREFIX}{name}{body}" for name, body in _NAMED.items()),
    "__sqlx_item(a, i) AS CASE WHEN i < 0 OR i >= len(a) THEN error('INVALID_ARRAY_INDEX')"
    " ELSE a[CAST(i AS BIGINT) + 1] END",
    "__sqlx_value(m, k) AS m[k]",
    "__sqlx_round(x, digits) AS CASE WHEN isfinite(x) THEN __sqlx_half_up(x, digits) ELSE x END",
    "timestamp_seconds(x) AS make_timestamptz(CAST(x * CAST(1000000 AS BIGINT) AS BIGINT))",
    "timestamp_millis(x) AS make_timestamptz(CAST(x AS BIGINT) * 1000)",
    "timestamp_micros(x) AS make_timestamptz(CAST(x AS BIGINT))",
    "__sqlx_try_whole(s) AS CASE WHEN regexp_full_match(trim(s), '[+-]?\\d+') THEN trim(s) END",
    "__sqlx_whole(s) AS CASE WHEN s IS NULL OR regexp_full_match(trim(s), '[+-]?\\d+') THEN trim(s) ELSE error(s) END",
    "__sqlx_day(s) AS CASE WHEN regexp_matches(lower(s), '^\\s*[+-]?(inf|epoch)') THEN error(s) ELSE s END",
    "weekday(x) AS CAST(isodow(CAST(x AS DATE)) - 1 AS INTEGER)",
    "__sqlx_divided(a, b) AS CASE WHEN a IS NOT NULL AND b = 0 THEN error('DIVIDE_BY_ZERO') ELSE a / b END",
    "__sqlx_div(a, b) AS CASE WHEN a IS NOT NULL AND b = 0 THEN error('DIVIDE_BY_ZERO')"
    " ELSE CAST(a AS BIGINT) // CAST(b AS BIGINT) END",
)


# Where DuckDB has no words, in Python. NULL gives NULL, but for an answer that is NULL itself.


def _ceil(value: float) -> int:
    return 0 if math.isnan(value) else math.ceil(value)  # infinity raises, as on Spark


def _floor(value: float) -> int:
    return 0 if math.isnan(value) else math.floor(value)


def _half_even(value: float) -> float:
    return float(round(value))


def _half_up(value: float, digits: int) -> float:
    """Of the number as it is written; zero has no sign then."""
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _WIDE)) + 0.0


def _initcap(text: str) -> str:
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def _substring_index(text: str, delimiter: str, count: int) -> str:
    """Spark's occurrences may overlap."""
    if not delimiter or not count:
        return ""
    at = -1 if count > 0 else len(text) - len(delimiter) + 1
    for _ in range(abs(count)):
        at = text.find(delimiter, at + 1) if count > 0 else text.rfind(delimiter, 0, at - 1 + len(delimiter))
        if at < 0:
            return text
    return text[:at] if count > 0 else text[at + len(delimiter) :]


def _find_in_set(text: str, among: str) -> int:
    return 0 if "," in text or text not in among.split(",") else among.split(",").index(text) + 1


def _levenshtein(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for number, letter in enumerate(left, 1):
        last, row[0] = row[0], number
        for place, other in enumerate(right, 1):
            last, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, last + (letter != other))
    return row[-1]


def _chr(code: int) -> str:
    return "" if code < 0 else chr(code & 0xFF)


def _crc32(data: bytes) -> int:
    return zlib.crc32(data)


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*-._").replace("~", "%7E")


def _months(late_us: int, early_us: int) -> float:
    """Whole months and, of 31 days, what is more."""
    late, early = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us) for us in (late_us, early_us))
    months = (late.year - early.year) * 12 + late.month - early.month
    is_last = [t.day == calendar.monthrange(t.year, t.month)[1] for t in (late, early)]
    if late.day == early.day or all(is_last):
        return float(months)
    seconds = [((t.day * 24 + t.hour) * 60 + t.minute) * 60 + t.second for t in (late, early)]
    found = months + (seconds[0] - seconds[1]) / (31 * 24 * 60 * 60)
    return math.floor(found * 1e8 + 0.5) / 1e8


#: What stands in macros and for functions that sqlglot knows: Unicode's special cases and NaN as Java has them.
_RULES: dict[str, tuple[Callable[..., Any], list[str], str]] = {
    "upper": (str.upper, ["VARCHAR"], "VARCHAR"),
    "lower": (str.lower, ["VARCHAR"], "VARCHAR"),
    "ceil": (_ceil, ["DOUBLE"], "BIGINT"),
    "floor": (_floor, ["DOUBLE"], "BIGINT"),
    "half_up": (_half_up, ["DOUBLE", "INTEGER"], "DOUBLE"),
    "half_even": (_half_even, ["DOUBLE"], "DOUBLE"),
    "months": (_months, ["BIGINT", "BIGINT"], "DOUBLE"),
}
#: By the name that Spark has for the function.
_PYTHON: dict[str, tuple[Callable[..., Any], list[str], str]] = {
    "initcap": (_initcap, ["VARCHAR"], "VARCHAR"),
    "substring_index": (_substring_index, ["VARCHAR", "VARCHAR", "INTEGER"], "VARCHAR"),
    "find_in_set": (_find_in_set, ["VARCHAR", "VARCHAR"], "INTEGER"),
    "levenshtein": (_levenshtein, ["VARCHAR", "VARCHAR"], "INTEGER"),
    "chr": (_chr, ["BIGINT"], "VARCHAR"),
    "crc32": (_crc32, ["BLOB"], "BIGINT"),
    "url_encode": (_url_encode, ["VARCHAR"], "VARCHAR"),
}


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions in Python known to an engine."""
    for name, (function, arguments, result) in {**_RULES, **_PYTHON}.items():
        connection.create_function(PREFIX + name, function, arguments, result)  # type: ignore[arg-type]


def named(name: str, arguments: Sequence[exp.Expr], written: str = "") -> exp.Anonymous:
    """A call of one of these; an error shows what was written.

    >>> named("pmod", [exp.column("a"), exp.column("b")]).meta["spark"]
    'PMOD(a, b)'
    """
    call = exp.Anonymous(this=PREFIX + name, expressions=list(arguments))
    shown = exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])
    call.meta["spark"] = written or shown.sql(dialect="spark")
    return call


def taken(name: str, arguments: Sequence[exp.Expr]) -> exp.Anonymous:
    """An element of an array or, by a key that is a text, a value of a map."""
    is_value = arguments[-1].is_string
    return named("value" if is_value else name, arguments)


def _part(arguments: list[exp.Expr]) -> exp.Expr:
    return exp.Extract(this=exp.Var(this=arguments[0].name.upper()), expression=arguments[1])


def _trimmed(arguments: list[exp.Expr]) -> exp.Expr:
    return exp.Trim(this=arguments[0], expression=arguments[1] if len(arguments) > 1 else None)


#: What DuckDB has under another name.
_OTHERS: dict[str, Callable[[list[exp.Expr]], exp.Expr]] = {
    "BTRIM": _trimmed,
    "MID": exp.Substring.from_arg_list,
    "CARDINALITY": exp.ArraySize.from_arg_list,
    "DATE_PART": _part, "DATEPART": _part,
    "CHAR": partial(named, "chr"),
    "BIT_GET": partial(named, "getbit"),
    "ELEMENT_AT": partial(taken, "element_at"), "TRY_ELEMENT_AT": partial(taken, "try_element_at"),
    "TO_UNIX_TIMESTAMP": partial(named, "unix_timestamp"),
}  # fmt: skip


class ReplayedSpark(Spark):
    """Spark's SQL as replay reads it: what it calculates by itself keeps its name, and two quotes in a text are one."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's words, but for that."""

        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]

    class Parser(SparkParser):
        """Spark's parser, but for these functions."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
            **SparkParser.FUNCTIONS,
            **{name.upper(): partial(named, name) for name in (*_NAMED, *_PYTHON)},
            **_OTHERS,
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parser
            for name, parser in SparkParser.FUNCTION_PARSERS.items()
            if name not in ("CHR", "CHAR", "INITCAP")
        }
        PIPE_SYNTAX_TRANSFORM_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            **SparkParser.PIPE_SYNTAX_TRANSFORM_PARSERS,
            "DROP": lambda self, query: self._dropped(query),
            "SELECT": lambda self, query: self._selected(query),
            "SET": lambda self, query: self._set(query),
        }

        _is_lateral = False

        def _parse_lateral(self) -> exp.Lateral | None:
            """What follows it, pipe operators too, is of the query that it is in; sqlglot takes them for its own."""
            around, self._is_lateral = self._is_lateral, True
            try:
                return super()._parse_lateral()
            finally:
                self._is_lateral = around

        def _parse_select(
            self,
            nested: bool = False,
            table: bool = False,
            parse_subquery_alias: bool = True,
            parse_set_operation: bool = True,
            consume_pipe: bool = True,
        ) -> exp.Expr | None:
            consume_pipe = consume_pipe and not self._is_lateral
            return super()._parse_select(nested, table, parse_subquery_alias, parse_set_operation, consume_pipe)

        def _dropped(self, query: exp.Select) -> exp.Select:
            """``|> DROP a, b``, which sqlglot does not read: the query without these columns."""
            self._advance()
            return self._without(query, self._parse_csv(self._parse_column))

        def _set(self, query: exp.Select) -> exp.Select:
            """``|> SET a = e``, which sqlglot does not read: the query with other values in these columns."""
            self._advance()
            values = self._parse_csv(self._parse_set_value)
            query.select(exp.Star(replace=values), append=False, copy=False)
            return self._build_pipe_cte(query, [exp.Star()])

        def _parse_set_value(self) -> exp.Expr:
            column, is_set = self._parse_column(), self._match(TokenType.EQ)
            value = self._parse_assignment() if is_set else None
            if column is None or value is None:
                self.raise_error("Expected column = expression")
            return exp.alias_(value or exp.Null(), column.name if column else "")

        def _selected(self, query: exp.Select) -> exp.Select:
            """``|> SELECT * EXCEPT (a, b)`` is the same; sqlglot makes a subquery of it, which hides what has names."""
            start = self._index
            if self._match_text_seq("SELECT", "*", "EXCEPT", "("):
                columns = self._parse_csv(self._parse_column)
                is_closed = self._match(TokenType.R_PAREN)
                if is_closed and (self._curr is None or self._curr.token_type == TokenType.PIPE_GT):
                    return self._without(query, columns)
            self._retreat(start)
            return self._parse_pipe_syntax_select(query)

        def _without(self, query: exp.Select, columns: list[exp.Expr]) -> exp.Select:
            return query.select(exp.Star(except_=columns), append=False, copy=False)
