"""Aggregates that calculate: sums and averages over Spark's types, variance, and rows that the engine computes.

Source: Spark's Sum, Average and CentralMomentAgg (ANSI mode).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final, TypeAlias

from udtf.errors import OperatorError
from udtf.operators import window_aggregate_accumulators as simple
from udtf.operators.window_aggregate_accumulators import Accumulator, Arguments
from udtf.operators.window_aggregate_config import Aggregate
from udtf.state.buffer import bytes_of

#: Computes an aggregate that only the engine knows: its number among the aggregates, and the arguments of its rows.
Evaluate: TypeAlias = Callable[[int, Sequence[Arguments]], Any]

_EXACT: Final = Context(prec=80)  # two decimals of 38 digits add, and divide, without rounding away what is shown
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_LEAST, _GREATEST = -(2**63), 2**63 - 1


class Sum(Accumulator):
    """sum over the type of its result; the partial sums must fit it."""

    __slots__ = ("_type", "_value")

    def __init__(self, type_name: str) -> None:
        """Start without a value."""
        self._type = type_name
        self._value: Any = None

    def add(self, arguments: Arguments) -> None:
        if arguments[0] is not None:
            self._value = self._plus(arguments[0])

    def merge(self, later: Sum) -> None:
        self.add((later._value,))

    def value(self) -> Any:
        return self._value

    def _plus(self, new: Any) -> Any:
        old = self._value
        if self._type == "double":
            return (0.0 if old is None else old) + float(new)
        if isinstance(new, Decimal):
            return fitting(new if old is None else _EXACT.add(old, new), self._type)
        total = new if old is None else old + new
        if self._type == "bigint" and not _LEAST <= total <= _GREATEST:
            raise OperatorError.arithmetic_overflow("sum", self._type)
        return total


class Average(Accumulator):
    """avg: of decimals exact, rounded half up to the scale of the result; of other numbers a double."""

    __slots__ = ("_rows", "_total", "_type")

    def __init__(self, type_name: str) -> None:
        """Start with no row."""
        self._type, self._rows = type_name, 0
        self._total: Any = None

    def add(self, arguments: Arguments) -> None:
        if arguments[0] is not None:
            self._take(arguments[0], 1)

    def merge(self, later: Average) -> None:
        if later._rows:
            self._take(later._total, later._rows)

    def value(self) -> Any:
        if not self._rows:
            return None
        if isinstance(self._total, Decimal):
            scale = int(_parts(self._type)[1])
            ratio = _EXACT.divide(self._total, Decimal(self._rows))
            rounded = ratio.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_EXACT)
            return fitting(rounded, self._type)
        return self._total / self._rows

    def _take(self, value: Any, rows: int) -> None:
        if _DECIMAL.fullmatch(self._type):
            self._total = _EXACT.add(self._total or Decimal(0), value)
        else:
            self._total = (self._total or 0.0) + float(value)
        self._rows += rows


class Variance(Accumulator):
    """The variances and standard deviations: Welford's update, Chan's merge, as Spark has them."""

    __slots__ = ("_function", "_m2", "_mean", "_rows")

    def __init__(self, function: str) -> None:
        """Start with no row."""
        self._function, self._rows, self._mean, self._m2 = function, 0.0, 0.0, 0.0

    def add(self, arguments: Arguments) -> None:
        if arguments[0] is None:
            return
        self._rows += 1.0
        delta = float(arguments[0]) - self._mean
        step = delta / self._rows
        self._mean += step
        self._m2 += delta * (delta - step)

    def merge(self, later: Variance) -> None:
        if not later._rows:
            return
        rows = self._rows + later._rows
        delta = later._mean - self._mean
        step = delta / rows
        self._m2 += later._m2 + delta * step * self._rows * later._rows
        self._mean += step * later._rows
        self._rows = rows

    def value(self) -> float | None:
        is_population = self._function in ("stddev_pop", "var_pop")
        divisor = self._rows - (0.0 if is_population else 1.0)
        if divisor <= 0.0:
            return None
        variance = self._m2 / divisor
        return math.sqrt(variance) if self._function.startswith("std") else variance


class KeptRows(Accumulator):
    """The arguments of all rows, for an aggregate that the engine computes; they are what counts as stored."""

    __slots__ = ("_bytes", "rows")

    def __init__(self) -> None:
        """Start with no row."""
        self.rows: list[Arguments] = []
        self._bytes = 0

    def add(self, arguments: Arguments) -> None:
        self.rows.append(arguments)
        self._bytes += bytes_of(arguments)

    def merge(self, later: KeptRows) -> None:
        self.rows += later.rows
        self._bytes += later._bytes

    def value(self) -> list[Arguments]:
        return list(self.rows)

    @property
    def stored_bytes(self) -> int:
        return self._bytes


def fitting(value: Decimal, type_name: str) -> Decimal:
    """The value, if its digits before the point fit the type.

    Raises:
        OperatorError: `OPERATOR.ARITHMETIC_OVERFLOW`.
    """
    precision, scale = _parts(type_name)
    if abs(value) >= Decimal(1).scaleb(precision - scale):
        raise OperatorError.arithmetic_overflow("an aggregate", type_name)
    return value


def _parts(type_name: str) -> tuple[int, int]:
    found = _DECIMAL.fullmatch(type_name)
    return (int(found[1]), int(found[2])) if found else (38, 18)


_VARIANCES: Final = ("stddev", "stddev_samp", "std", "stddev_pop", "var_samp", "variance", "var_pop")


def new_accumulator(aggregate: Aggregate) -> Accumulator:
    """What begins a group.

    >>> total = new_accumulator(Aggregate("sum", 1)); total.add((2,)); total.add((None,)); total.value()
    2

    Raises:
        OperatorError: `OPERATOR.INVALID_OPTION`, no such function.
    """
    inner = _of_function(simple.SYNONYMS.get(aggregate.function, aggregate.function), aggregate)
    is_distinct = aggregate.distinct or aggregate.function == "collect_set"
    return simple.Distinct(inner) if is_distinct else inner


def _of_function(function: str, aggregate: Aggregate) -> Accumulator:
    if function == "count":
        return simple.Count()
    if function == "count_if":
        return simple.CountIf()
    if function in ("sum", "avg"):
        return Sum(aggregate.type) if function == "sum" else Average(aggregate.type)
    if function in simple.Fold.STEPS:
        return simple.Fold(function)
    if function in ("first", "last"):
        return simple.Pick(function == "last", aggregate.ignore_nulls)
    if function in ("max_by", "min_by"):
        return simple.PickBy(function == "max_by")
    if function in ("collect_list", "collect_set"):
        return simple.Collect()
    if function in _VARIANCES:
        return Variance(function)
    if function == "rows":
        return KeptRows()
    raise OperatorError.invalid_option("function", function, "an aggregate function that is known here, or 'rows'")
