"""The same expression on Spark and on DuckDB as replay runs it, over the edges of each type."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
from pyspark.errors import PySparkException
from sqlglot import exp

from catalog.spark import columns_of
from sqlx.errors import TemporalSqlError
from sqlx.replay.duckdb import Engine, duckdb_text, parse_sql
from sqlx.replay.proven import calls, family, is_proven, made_as_on_spark, operands, signatures
from sqlx.replay.types import Misfit, TypeTextError, from_duckdb, parse_type, reader_of
from sqlx.testing.slt import plain_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of each letter of a template the types that it stands for, each with the edges of that type as Spark writes them.
EDGES: dict[str, list[tuple[str, list[str]]]] = {
    "i": [
        ("int", ["0", "1", "-1", "3", "7", "-8", "2147483647", "NULL"]),
        ("bigint", ["0", "2", "-3", "9007199254740993", "NULL"]),
    ],
    "f": [("double", ["0.0", "-0.0", "1.5", "-2.5", "0.1", "2.5", "1e15", "1e300", "'NaN'", "'Infinity'", "NULL"])],
    "d": [
        ("decimal(10,2)", ["0", "1.25", "-1.25", "2.50", "-7.00", "99999999.99", "NULL"]),
        ("decimal(18,4)", ["0.0001", "-3.5", "12345678901234.5678", "NULL"]),
        ("decimal(38,10)", ["0.0000000001", "-3.5", "NULL"]),
    ],
    "s": [
        (
            "string",
            [
                "''",
                "'a'",
                "'Abc'",
                "' x y '",
                "'äÖß'",
                "'日本'",
                "'12'",
                "' 7 '",
                "'1.5'",
                "'1e3'",
                "'true'",
                "'2024-02-29'",
                "'2024-1-5'",
                "'2024-01-02 03:04:05'",
                "'a_b%c'",
                "'😀z'",
                "'aXbXa'",
                "NULL",
            ],
        )
    ],
    "b": [("boolean", ["true", "false", "NULL"])],
    "D": [
        (
            "date",
            [
                "'1970-01-01'",
                "'2024-02-29'",
                "'1969-12-31'",
                "'2023-01-31'",
                "'2024-12-30'",
                "'1582-10-04'",
                "'0100-01-01'",
                "NULL",
            ],
        )
    ],
    "T": [
        (
            "timestamp",
            [
                "'1970-01-01 00:00:00'",
                "'2024-02-29 23:59:59.999999'",
                "'1969-12-31 23:59:59.5'",
                "'2023-03-26 02:30:00'",
                "'1901-01-01 00:00:00.000001'",
                "NULL",
            ],
        )
    ],
    "I": [
        (
            "interval day to second",
            [
                f"TIMESTAMP'{since}' - TIMESTAMP'1970-01-01 00:00:00'"
                for since in (
                    "1970-01-01 00:00:00",
                    "1970-01-02 00:00:00",
                    "1970-01-01 23:59:59.999999",
                    "1969-12-31 23:59:59.999999",
                    "1969-11-30 11:30:00",
                    "2024-02-29 00:00:00.5",
                )
            ]
            + ["NULL"],
        )
    ],
    "B": [("binary", ["''", "'ab'", "'abc'", "NULL"])],
    "A": [
        (
            "array<int>",
            ["array(1, 2, 3)", "array(CAST(NULL AS INT))", "CAST(array() AS ARRAY<INT>)", "array(3, 1, 3)", "NULL"],
        )
    ],
    "S": [("array<string>", ["array('b', 'a')", "array('', 'ä')", "CAST(array() AS ARRAY<STRING>)", "NULL"])],
    "M": [("map<string,int>", ["map('a', 1, 'b', 2)", "CAST(map() AS MAP<STRING,INT>)", "NULL"])],
    "k": [("int", ["0", "1", "2", "3", "-1", "NULL"])],
}
_ALPHABET = [*"abcABZ \t017.-+_%,", "é", "ß", "İ", "ﬁ", "日", "😀"]
_TEXTS = ["1e5", "-3.20", "+7", "0x1A", "Infinity", "nan", "2024-02-30", "2024-2-9", "2024-02-09T10:11:12Z", "T", "no"]


def drawn(kind: str, chance: Random) -> str:
    """A random value of a type, as Spark writes it; edges alone would show no last digit that differs."""
    if kind in ("int", "bigint"):
        bits = 31 if kind == "int" else 63
        return str(chance.choice([chance.randint(-20, 20), chance.randint(-(2**bits), 2**bits - 1)]))
    if kind == "double":
        exact, wide = chance.randint(-999, 999) / 8, chance.uniform(-50, 50)
        return repr(chance.choice([exact, round(wide, 2), wide, chance.uniform(-1, 1), 10 ** chance.uniform(-12, 18)]))
    if kind.startswith("decimal"):
        digits, scale = (int(n) for n in re.findall(r"\d+", kind))
        number = chance.randint(-(10 ** chance.randint(1, digits)), 10 ** (digits - 1))
        return f"{Decimal(number).scaleb(-scale, _WIDE):f}"
    if kind == "string":
        letters = "".join(chance.choice(_ALPHABET) for _ in range(chance.randint(0, 9)))
        return "'" + chance.choice([letters, letters, chance.choice(_TEXTS), str(chance.randint(-99, 99))]) + "'"
    day = date.fromordinal(1 + chance.choice([chance.randint(0, 3_600_000), chance.randint(700_000, 760_000)]))
    if kind == "date":
        return f"'{day.isoformat()}'"
    if kind in ("timestamp", "interval day to second"):
        time_us = chance.choice([0, chance.randrange(86_400_000_000)])
        moment = f"'{day.isoformat()} {timedelta(microseconds=time_us)}'"
        return moment if kind == "timestamp" else f"TIMESTAMP{moment} - TIMESTAMP'1970-01-01 00:00:00'"
    if kind == "binary":
        return f"X'{chance.randbytes(chance.randint(0, 5)).hex()}'"
    if kind.startswith("array"):
        element = kind[6:-1]
        items = [chance.choice(["NULL", drawn(element, chance)]) for _ in range(chance.randint(0, 5))]
        items = [item if len(item) < 6 else items[0] for item in items]
        return f"CAST(array({', '.join(items)}) AS {kind})"
    if kind.startswith("map"):
        return f"map('{chance.choice('abc')}', {chance.randint(-9, 9)})"
    return chance.choice(["true", "false"])


GROUPS = {"n": "ifd", "o": "ifdsDTb", "t": "DT", "x": "ifdsDTbB"}
_MOST_ROWS, _RANDOM_ROWS = 150, 100
#: Counts, places and lengths stay small.
_SMALL = tuple(EDGES["k"][0][1])
#: Python rounds to 28 digits by itself.
_WIDE = Context(prec=50)


@dataclass(frozen=True)
class Trial:
    """A template with a type for each of its places: `{0}` is the first."""

    template: str
    types: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @property
    def expression(self) -> str:
        return self.template.format(*(f"c{n}" for n in range(len(self.types))))

    @property
    def rows(self) -> list[tuple[str, ...]]:
        found = list(itertools.product(*self.values))
        step = max(1, len(found) // _MOST_ROWS)
        chance = Random(self.expression)
        places = list(zip(self.types, self.values, strict=True))
        random = [
            tuple(chance.choice(edges) if edges == _SMALL else drawn(kind, chance) for kind, edges in places)
            for _ in range(_RANDOM_ROWS if places else 0)
        ]
        return found[::step] + random


def trials(template: str, places: str) -> list[Trial]:
    """A template with each choice of types: `places` has a letter for each place, its own or a group's."""
    choices = [[typed for letter in GROUPS.get(place, place) for typed in EDGES[letter]] for place in places]
    same = len(places) > 1 and len(set(places)) == 1 and places[0] in GROUPS
    picked = itertools.product(*choices)
    found = [Trial(template, tuple(t for t, _ in pick), tuple(tuple(v) for _, v in pick)) for pick in picked]
    return [t for t in found if not same or len({family_of(x) for x in t.types}) == 1]


def family_of(type_text: str) -> str:
    """The family of a type of Spark's."""
    return family(parse_type(type_text).duckdb.replace(", ", ","))


def signatures_of(trial: Trial) -> set[str]:
    """How the calculations of a trial are listed."""
    engine, tree = Engine(), parse_sql(f"SELECT {trial.expression} AS x FROM t")
    return {next(iter(signatures(node, kinds))) for node, kinds in _calculations(engine, tree.expressions[0], trial)}


def is_calculated(trial: Trial) -> bool:
    """Whether replay calculates a trial."""
    engine, tree = Engine(), parse_sql(f"SELECT {trial.expression} AS x FROM t").copy()
    found = _calculations(engine, tree.expressions[0], trial)
    return all(made_as_on_spark(node, kinds) or is_proven(node, kinds) for node, kinds in found)


def _calculations(engine: Engine, tree: exp.Expr, trial: Trial) -> list[tuple[exp.Expr, list[str]]]:
    """The calculations of a trial, inner ones first, with the families of their operands."""
    items = ", ".join(f"CAST(NULL AS {parse_type(kind).duckdb}) AS c{n}" for n, kind in enumerate(trial.types)) or "1"

    def family_in(value: exp.Expr) -> str:
        if isinstance(value, (exp.Var, exp.IntervalSpan)):
            return type(value).__name__.lower()
        return family(engine.types(f"SELECT {duckdb_text(value)} FROM (SELECT {items}) AS t")[0])

    return [(node, [family_in(value) for value in operands(node)]) for node in reversed(list(calls(tree)))]


def on_duckdb(trial: Trial) -> tuple[str, list[Any]]:
    """Type and values, row by row; "error" where a row fails."""
    engine, tree = Engine(), parse_sql(f"SELECT {trial.expression} AS x FROM t").copy()
    for node, kinds in _calculations(engine, tree.expressions[0], trial):
        made_as_on_spark(node, kinds)
    text = duckdb_text(tree)
    rows = [
        ", ".join(
            f"CAST({_literal(v, k)} AS {parse_type(k).duckdb}) AS c{n}"
            for n, (v, k) in enumerate(zip(row, trial.types, strict=True))
        )
        for row in trial.rows
    ]
    try:
        return _run(engine, text, rows)
    except _FAILS:
        kind, found = "", []
    for row in rows:
        try:
            kind, values = _run(engine, text, [row])
            found += values
        except _FAILS:
            found.append("error")
    return kind, found


_FAILS = (duckdb.Error, TypeTextError, Misfit, ValueError, OverflowError)


def _run(engine: Engine, text: str, rows: list[str]) -> tuple[str, list[Any]]:
    """Type and values, in the order of the rows."""
    relation = engine.connection.sql(f"WITH t AS ({' UNION ALL '.join(f'SELECT {row or 1}' for row in rows)}) {text}")
    kind = from_duckdb(relation.types[0]).text
    read = reader_of(parse_type(kind))
    return kind, [shown(read(value)) for (value,) in relation.fetchall()]


def _literal(value: str, kind: str) -> str:
    return str(duckdb_text(parse_sql(f"SELECT CAST({value} AS {kind})").expressions[0]))


def on_spark(spark: SparkSession, trial: Trial) -> tuple[str, list[Any]]:
    """The same on Spark."""
    rows = [", ".join(f"CAST({v} AS {k})" for v, k in zip(row, trial.types, strict=True)) or "1" for row in trial.rows]
    names = ", ".join(f"c{n}" for n in range(len(trial.types))) or "c0"

    def query(over: list[str]) -> str:
        return f"SELECT {trial.expression} AS x FROM VALUES {', '.join(f'({row})' for row in over)} AS t({names})"

    frame = spark.sql(query(rows))
    kind = columns_of(frame.schema)[0].type
    try:
        return kind, [shown(plain_value(row[0])) for row in frame.collect()]
    except (PySparkException, ValueError, OverflowError):  # Python's dates have no year 0
        return kind, [_one(spark, query([row])) for row in rows]


def _one(spark: SparkSession, query: str) -> Any:
    try:
        return shown(plain_value(spark.sql(query).collect()[0][0]))
    except (PySparkException, ValueError, OverflowError):
        return "error"


def shown(value: Any) -> Any:
    """A value that equals another one just where both are the same; -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value + 0.0)
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    if isinstance(value, datetime):  # whether it has a zone, its type says
        return repr(value.replace(tzinfo=None))
    if isinstance(value, Decimal):
        return f"decimal {value.normalize()}"
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return repr(value)


def agree(spark: SparkSession, trial: Trial) -> bool | None:
    """Whether both engines answer alike; None where Spark refuses the expression as a whole."""
    try:
        expected = on_spark(spark, trial)
    except PySparkException:
        return None
    try:
        return _alike(on_duckdb(trial), expected)
    except TemporalSqlError:
        return False


def _alike(found: tuple[str, Any], expected: tuple[str, Any]) -> bool:
    """The same values of the same type; of decimals the scale counts, since replay has no limit of their digits.

    A fifth of the edges may fail on DuckDB alone: that is said, and no answer is wrong. Random numbers are often large.
    """
    types = [re.sub(r"decimal\(\d+,", "decimal(", kind) for kind in (found[0], expected[0])]
    differing = [value for value, wanted in zip(found[1], expected[1], strict=True) if value != wanted]
    only_fails = set(differing) <= {"error"} if all(isinstance(v, str) for v in differing) else False
    has_answers = any(value not in ("error", "None") for value in found[1])
    edges = list(zip(found[1], expected[1], strict=True))[:-_RANDOM_ROWS] or [(0, 0)]
    fails = sum(1 for value, wanted in edges if value != wanted)
    return types[0] == types[1] and only_fails and has_answers and fails * 5 <= len(edges)
