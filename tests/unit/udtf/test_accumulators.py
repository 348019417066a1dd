"""Aggregates one by one: SQL's rules for NULL, Spark's for NaN, exact types, and that merging is like coming after."""

from __future__ import annotations

import copy
import math
import pickle
from decimal import Decimal

import pytest

from udtf.aggregates import Aggregate, new_accumulator
from udtf.errors import OperatorError

NAN = math.nan
# function, arguments of the rows, result; options of the aggregate.
TABLE = [
    ("count", [(), ()], 2, {}),
    ("count", [(1, None), (1, 2), (None, None)], 1, {"arguments": 2}),
    ("count", [(1,), (1,), (NAN,), (float("-nan"),), (0.0,), (-0.0,), (None,)], 3, {"distinct": True}),
    ("count_if", [(True,), (False,), (None,)], 1, {}),
    ("sum", [(1,), (None,), (2,)], 3, {}),
    ("sum", [(1,), (1,), (2,)], 3, {"distinct": True}),
    ("sum", [(0.1,), (0.2,), (0.3,)], 0.1 + 0.2 + 0.3, {"type": "double"}),
    ("sum", [(Decimal("9" * 20 + ".99"),)] * 2, Decimal("199999999999999999999.98"), {"type": "decimal(32,2)"}),
    ("avg", [(1,), (2,), (None,)], 1.5, {"type": "double"}),
    ("avg", [(Decimal("0.01"),), (Decimal("0.02"),)], Decimal("0.015000"), {"type": "decimal(14,6)"}),
    ("avg", [(Decimal(2),), (Decimal(0),), (Decimal(0),)], Decimal("0.6667"), {"type": "decimal(14,4)"}),
    ("min", [(NAN,), (1.0,), (None,)], 1.0, {"type": "double"}),
    ("max", [("a",), ("ä",), ("b",)], "ä", {"type": "string"}),
    ("var_pop", [(1,), (3,), (None,)], 1.0, {"type": "double"}),
    ("variance", [(1,), (3,)], 2.0, {"type": "double"}),
    ("var_samp", [(1,)], None, {"type": "double"}),
    ("stddev", [(1,), (3,)], math.sqrt(2.0), {"type": "double"}),
    ("stddev_pop", [(Decimal(1),), (Decimal(3),)], 1.0, {"type": "double"}),
    ("first", [(None,), (1,)], None, {}),
    ("any_value", [(None,), (1,), (2,)], 1, {"ignore_nulls": True}),
    ("last_value", [(1,), (None,)], None, {}),
    ("last", [(1,), (None,)], 1, {"ignore_nulls": True}),
    ("array_agg", [(2,), (None,), (1,), (2,)], [2, 1, 2], {}),
    ("collect_set", [(2,), (None,), (1,), (2,)], [2, 1], {}),
    ("every", [(True,), (None,), (False,)], False, {}),
    ("bool_or", [(True,), (None,), (False,)], True, {}),
    ("bit_and", [(6,), (3,), (None,)], 2, {}),
    ("bit_or", [(6,), (3,)], 7, {}),
    ("bit_xor", [(6,), (3,)], 5, {}),
    ("max_by", [("a", 1), ("b", 2), ("c", 2), ("d", None)], "c", {}),
    ("min_by", [("a", NAN), ("b", 1.0), (None, 0.5)], None, {}),
    ("rows", [(1, None), (None, 2)], [(1, None), (None, 2)], {"arguments": 2}),
]
ROWS = [(function, rows, result, options) for function, rows, result, options in TABLE]


def folded(aggregate, rows):
    accumulator = new_accumulator(aggregate)
    for row in rows:
        accumulator.add(row)
    return accumulator


def aggregate_of(function, rows, options):
    return Aggregate(function, **{"arguments": len(rows[0]), **options})


@pytest.mark.parametrize(("function", "rows", "result", "options"), ROWS)
def test_each_function_has_its_value(function, rows, result, options):
    accumulator = folded(aggregate_of(function, rows, options), rows)
    assert accumulator.value() == result
    assert type(accumulator.value()) is type(result)
    assert accumulator.stored_bytes >= 0


@pytest.mark.parametrize(("function", "rows", "result", "options"), ROWS)
def test_merging_is_as_if_the_later_rows_came_after(function, rows, result, options):
    aggregate = aggregate_of(function, rows, options)
    for cut in range(len(rows) + 1):
        early, late = folded(aggregate, rows[:cut]), pickle.loads(pickle.dumps(folded(aggregate, rows[cut:])))
        early.merge(late)
        assert early.value() == (pytest.approx(result) if isinstance(result, float) else result)
        assert early.stored_bytes == folded(aggregate, rows).stored_bytes


@pytest.mark.parametrize(("function", "rows", "result", "options"), ROWS)
def test_a_restored_one_goes_on(function, rows, result, options):
    aggregate = aggregate_of(function, rows, options)
    for cut in range(len(rows) + 1):
        accumulator = pickle.loads(pickle.dumps(folded(aggregate, rows[:cut])))
        for row in rows[cut:]:
            accumulator.add(row)
        assert accumulator.value() == result


@pytest.mark.parametrize(("function", "rows", "result", "options"), ROWS)
def test_nothing_gives_null_or_zero_or_an_empty_list(function, rows, result, options):
    empty = 0 if function.startswith("count") else [] if isinstance(result, list) else None
    aggregate = aggregate_of(function, rows, options)
    assert new_accumulator(aggregate).value() == empty
    nulls = [] if function in ("count", "rows") and not options.get("arguments") else [(None,) * len(rows[0])]
    assert folded(aggregate, nulls * (function != "rows")).value() == empty


def test_nan_is_the_greatest_and_equals_itself():
    values = [(NAN,), (1.0,), (math.inf,), (float("-nan"),)]
    assert math.isnan(folded(Aggregate("max", 1), values).value())
    assert folded(Aggregate("min", 1), values).value() == 1.0
    assert len(folded(Aggregate("collect_set", 1), values).value()) == 3


def test_values_do_not_change_later():
    accumulator = folded(Aggregate("collect_list", 1), [(1,)])
    before = accumulator.value()
    accumulator.add((2,))
    assert (before, accumulator.value()) == ([1], [1, 2])


def test_floats_are_added_one_by_one():
    values = [(1e100,), (1.0,), (-1e100,)]
    assert folded(Aggregate("sum", 1, type="double"), values).value() == 0.0


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([(2**63 - 1,), (1,)], "bigint"),
        ([(-(2**63),), (-1,)], "bigint"),
        ([(Decimal(99),), (Decimal(1),)], "decimal(2,0)"),
    ],
)
def test_a_sum_that_does_not_fit_its_type_is_an_error(values, name):
    accumulator = folded(Aggregate("sum", 1, type=name), values[:1])
    with pytest.raises(OperatorError, match=r"\[OPERATOR.ARITHMETIC_OVERFLOW\].*overflows"):
        accumulator.add(values[1])
    with pytest.raises(OperatorError, match=r"OPERATOR.ARITHMETIC_OVERFLOW"):
        copy.copy(accumulator).merge(folded(Aggregate("sum", 1, type=name), values[1:]))


def test_a_function_that_is_not_known_is_refused():
    with pytest.raises(OperatorError, match=r"\[OPERATOR.INVALID_OPTION\] function must be .* got 'median'"):
        new_accumulator(Aggregate("median", 1))
