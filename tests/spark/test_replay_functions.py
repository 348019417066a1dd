"""What replay calculates is proven: each listed function answers on DuckDB as on Spark, over the edges of its types.

`--complete` makes the list, `sqlx/replay/proven.json`, anew: what agrees for all types of a family is on it.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from catalog.entries import Column
from sqlx.errors import TemporalSqlError, UnsupportedError
from sqlx.replay import proven as listed
from sqlx.replay.aggregates import Evaluator
from sqlx.replay.duckdb import Engine
from tests.harness.engines import Trial, agree, is_calculated, signatures_of, trials
from tests.harness.marks import gated
from tests.harness.releases import RELEASE, since
from tests.harness.slt_live import SETTINGS
from udtf.aggregates import Aggregate

LIST = Path(listed.__file__).with_name("proven.json")
DATA = Path(__file__).parents[1] / "data" / "spark_expressions.txt"
#: Every how many trials the gate takes one: all of them take seven minutes.
_STEP = 256
OLDER = pytest.mark.skipif(RELEASE >= (4, 3), reason="all of the list is made anew there")


# A line has the types of the places of an expression (tests/harness/engines.py), a tab, and the expression.
TEMPLATES = [line.split("\t") for line in DATA.read_text(encoding="utf-8").splitlines()]
TRIALS = [trial for places, text in TEMPLATES for trial in trials(text, places)]


def names_of(trial: Trial) -> set[str]:
    try:
        return signatures_of(trial)
    except TemporalSqlError:  # DuckDB does not know it
        return set()


def agreed(trials: list[tuple[set[str], bool]]) -> set[str]:
    """The calculations that agree in all their trials; one that others are part of is judged without those.

    What a function becomes on DuckDB may hold casts and additions that have trials of their own: where such a trial
    fails, it is the function that does.
    """
    alone: dict[str, bool] = {}
    for names, same in trials:
        if len(names) == 1:
            (name,) = names
            alone[name] = alone.get(name, True) and same
    verdicts = dict(alone)
    for names, same in trials:
        others = {name for name in names if not alone.get(name, False)}
        for name in others if len(names) > 1 else ():
            verdicts[name] = verdicts.get(name, True) and same
    return {name for name, same in verdicts.items() if same}


@pytest.fixture(autouse=True)
def interpreted(spark):
    """Each expression would be compiled to Java, for a handful of rows."""
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name in SETTINGS:
        spark.conf.unset(name)


@pytest.mark.full
@pytest.mark.timeout(3600)
@since((4, 3), "what the list is made from; on older ones what is on it is tried")
def test_the_list_is_what_agrees(spark, golden):
    answers = [(names_of(trial), agree(spark, trial)) for trial in TRIALS]
    approximate = {kind.__name__ for kind in listed._APPROXIMATE}
    found = sorted(
        name
        for name in agreed([(names, same) for names, same in answers if same is not None])
        if name.partition("(")[0] not in approximate
    )
    golden(LIST, json.dumps(found, indent=0, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("step", [_STEP, pytest.param(_STEP // 16, marks=[pytest.mark.full, OLDER])])
def test_what_is_listed_agrees(spark, step):
    differing = []
    for trial in TRIALS[::step]:
        names = names_of(trial)
        if RELEASE < (4, 1) and '""' in trial.expression:  # two quotes are not yet one there
            continue
        if names and names <= listed.proven() and agree(spark, trial) is False:
            differing.append((trial.expression, trial.types))
    assert differing == []


def spelled(template: str) -> str:
    """What Spark calls the function or the operator of a template, as `upper` and `LIKE`, without units and types."""
    call = re.match(r"([a-z_0-9]+)\(", template)
    if call is not None:
        return call[1]
    words = re.sub(r"\{\d\}|'[^']*'|\bINTERVAL\b.*|\bAS [A-Z_]+|\d[\d.]*D?|[a-z.()\[\],]", " ", template).split()
    return "CASE" if words[:1] == ["CASE"] else " ".join(words[:2]) or "[]"


@pytest.mark.full
def test_two_hundred_functions_and_operators_are_listed_each_over_its_types():
    names: set[str] = set()
    for trial in TRIALS:
        name = spelled(trial.template)
        if name not in names and (found := names_of(trial)) and found <= listed.proven():
            names.add(name)
    assert len(names) >= 200, sorted(names)
    assert len(listed.proven()) >= 1000


#: Of more operands than any that are listed.
MANY = (
    ("s", "{0} IN ('a', 'Abc', '12', '', 'x')"),
    ("s", "{0} NOT IN ('a', 'Abc', NULL, '')"),
    ("i", "{0} IN (1, 3, 7, -8, 0)"),
    ("f", "{0} IN (0.1, 2.5, -2.5, 7.25)"),
    ("d", "{0} IN (1.25, 2.5, -3.50, 0.0001)"),
    ("T", "{0} IN (TIMESTAMP'2024-02-29 00:00:00', TIMESTAMP'1970-01-01', NULL, TIMESTAMP'2024-02-29 23:59:59')"),
    ("D", "{0} IN (DATE'2024-02-29', DATE'1970-01-01', DATE'0001-01-01', DATE'9999-12-31')"),
    ("sisb", "concat({0}, {1}, {2}, {3}, '!')"),
    ("sss", "concat_ws(',', {0}, {1}, {2}, 'x', {0})"),
    ("iii", "greatest({0}, {1}, {2}, 5, {0})"),
    ("sss", "least({0}, {1}, {2}, 'm')"),
    ("TTT", "least({0}, {1}, {2}, {0})"),
    ("ii", "array({0}, {1}, 3, {0})"),
    ("ss", "array({0}, {1}, 'x')"),
    ("s", "substring({0}, 2, 3)"),
    ("s", "substr({0}, 7, 100)"),
    ("s", "substring({0}, 1, 0)"),
    ("s", "try_cast({0} AS INT)"),
    ("s", "try_cast({0} AS BIGINT)"),
    ("s", "{0} RLIKE '^[a-zA-Z]+b|X{{1,2}}a|[^0-9a-z ]'"),
    ("s", "{0} RLIKE '(a|b|1)+[e5]?'"),
    ("s", "regexp_extract({0}, '([a-z]+)X([a-z]*)', 2)"),
    ("s", "regexp_extract({0}, '([0-9]+)-([0-9]*)', 1)"),
    ("s", "regexp_extract({0}, '[a-z ]+', 0)"),
    ("T", "date_format({0}, 'yyyy/MM/dd HH:mm')"),
    ("T", "date_format({0}, 'mm.ss')"),
    ("bd", "CASE WHEN {0} THEN {1} END"),
    ("bd", "if({0}, NULL, {1})"),
)


@pytest.mark.parametrize("many", gated(MANY, (MANY[0], MANY[7])))
def test_what_goes_on_as_it_began_agrees(spark, many):
    places, text = many
    calculated = [trial for trial in trials(text, places) if is_calculated(trial)]
    assert calculated
    assert [trial.types for trial in calculated if agree(spark, trial) is False] == []


AGGREGATES = (
    "median({})",
    "median({} * 3)",
    "median({}) FILTER (WHERE {} > 2)",
    *(f"percentile({{}}, {at})" for at in (0, 0.1, 0.25, 0.37, 0.5, 0.9, 1)),
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY {})",
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY {} DESC)",
    "listagg({}, ', ')",
    "string_agg({}) FILTER (WHERE {} IS NOT NULL)",
)
VALUES = {
    "int": [["7"], ["3", "NULL", "-2", "3", "1", "9"], ["NULL"], [str(n * n % 17) for n in range(20)]],
    "double": [
        ["0.1", "0.7", "NULL", "0.3"],
        ["1e308", "-1e308"],
        ["0.1", "double('NaN')", "0.2", "0.7"],
        ["1.1", "2.7"],
    ],
    "string": [["'b'", "''", "NULL", "'a'", "'ü'"], ["NULL"]],
    "boolean": [["true", "NULL", "false"]],
    "date": [["DATE'2024-02-29'", "NULL", "DATE'0001-01-01'"]],
}


@pytest.mark.parametrize("kind", gated(VALUES, ["double"]))
def test_aggregates_of_kept_rows_are_spark_s(spark, kind):
    """What has a rule in sqlx/replay/aggregates.py, over a batch of one group; other types are refused."""
    differing, known = [], 0
    calls = [call for call in AGGREGATES if kind in ("int", "double") or call.startswith(("listagg", "string_agg"))]
    for call, values in itertools.product(calls, VALUES[kind]):
        rows = ", ".join(f"(CAST({value} AS {kind}))" for value in values)
        (row,) = spark.sql(f"SELECT {call.replace('{}', 'v')} AS x FROM VALUES {rows} AS t(v)").collect()
        given = [one[0] for one in spark.sql(f"SELECT v FROM VALUES {rows} AS t(v)").collect()]
        node = SimpleNamespace(
            calls=[call.replace("{}", "__a0_0")],
            input=SimpleNamespace(columns=[Column("__a0_0", kind)]),
            config=SimpleNamespace(aggregates=[Aggregate("rows", 1, type="string" if "agg" in call else "double")]),
            place=lambda _: None,
        )
        try:
            found = Evaluator(Engine(), node)(0, [(value,) for value in given])
        except UnsupportedError:
            assert kind == "double", call
            continue
        known += 1
        if repr(found) != repr(row.x):
            differing.append((call, values, found, row.x))
    assert differing == []
    assert known > 0
