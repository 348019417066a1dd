"""Aggregates that rows are taken out of are those of the rows that are left, whatever came and went."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from udtf.aggregates import Aggregate
from udtf.errors import OperatorError
from udtf.operators.table_aggregate.subtracting import subtracting

INTS = st.none() | st.integers(-3, 3)
FLOATS = st.none() | st.floats(width=64)
DECIMALS = st.none() | st.decimals(-99, 99, places=2)


def reference(function: str, values: Iterable[Any], distinct: bool) -> Any:
    """What SQL says of the values, in a few words of Python."""
    found = [value for value in values if value is not None]
    found = list(dict.fromkeys(found)) if distinct else found
    if function == "count":
        return len(found)
    if not found:
        return None
    if function in ("min", "max"):
        return min(found) if function == "min" else max(found)
    return sum(found) if function == "sum" else float(Fraction(sum(found), len(found)))


@given(st.data(), st.sampled_from(["count", "sum", "avg", "min", "max"]), st.booleans(), st.lists(INTS, max_size=12))
def test_what_is_left_counts(data: st.DataObject, function: str, distinct: bool, values: list[int | None]) -> None:
    aggregate = Aggregate(function, 1, distinct=distinct, type="double" if function == "avg" else "bigint")
    state = subtracting(aggregate)
    assert state is not None
    left: list[int | None] = []
    for value in values:
        state.add((value,))
        left.append(value)
        if data.draw(st.booleans()):
            gone = left.pop(data.draw(st.integers(0, len(left) - 1)))
            state.subtract((gone,))
        if data.draw(st.booleans()):
            state = pickle.loads(pickle.dumps(state))
        assert state.value() == reference(function, left, distinct)


@given(st.lists(FLOATS, max_size=8), st.lists(FLOATS, max_size=8))
def test_sums_of_floats_do_not_depend_on_what_came_and_went(kept: list[float | None], gone: list[float | None]) -> None:
    state = subtracting(Aggregate("sum", 1, type="double"))
    assert state is not None
    for value in [*gone, *kept]:
        state.add((value,))
    for value in gone:
        state.subtract((value,))
    found = [value for value in kept if value is not None]
    try:
        wanted = math.fsum(found) if found else None
    except ValueError:  # both infinities
        wanted = math.nan
    except OverflowError:
        return  # of intermediate sums, which there are none of here
    assert state.value() == wanted or (math.isnan(state.value()) and math.isnan(wanted or 0.0))


@given(st.lists(DECIMALS, min_size=1, max_size=8))
def test_decimals_are_exact(values: list[Decimal | None]) -> None:
    state = subtracting(Aggregate("sum", 1, type="decimal(38,2)"))
    assert state is not None
    for value in values:
        state.add((value,))
    assert state.value() == reference("sum", values, distinct=False)


def test_a_sum_that_does_not_fit_says_so() -> None:
    state = subtracting(Aggregate("sum", 1))
    assert state is not None
    state.add((2**63 - 1,))
    state.add((1,))
    with pytest.raises(OperatorError, match="ARITHMETIC_OVERFLOW"):
        state.value()
    state.subtract((2,))
    assert state.value() == 2**63 - 2


@pytest.mark.parametrize("function", ["first", "collect_list", "stddev", "rows"])
def test_others_need_the_rows(function: str) -> None:
    assert subtracting(Aggregate(function, 1)) is None
