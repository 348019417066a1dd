"""What an aggregate of one group remembers: it takes rows one by one, and another one that precedes none of its rows.

Values are those of Spark: NULLs are left out, nothing but NULLs gives NULL, NaN equals itself and is the greatest.
Folding is strictly sequential, so that sums of floats do not depend on how rows were cut into batches.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, ClassVar, Final, TypeAlias

from udtf.errors import OperatorError
from udtf.record import canonical_key, order_key
from udtf.state.buffer import bytes_of

Arguments: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Aggregate:
    """One aggregate function of the query.

    Attributes:
        function: its name in lower case, as `count`; 'rows' where its rows are kept for the engine to compute it.
        arguments: how many argument columns it has, `__a<n>_0 ..`; count(*) has none.
        distinct: of equal arguments only the first counts.
        ignore_nulls: first, last: look for values that are not NULL.
        has_filter: only rows whose column `__a<n>_f` is true count.
        type: Spark's name of the result's type, as `bigint` or `decimal(20,2)`.
    """

    function: str
    arguments: int = 0
    distinct: bool = False
    ignore_nulls: bool = False
    has_filter: bool = False
    type: str = "bigint"


class Accumulator:
    """One aggregate of one group."""

    __slots__ = ()

    def add(self, arguments: Arguments) -> None:
        """Take one row's arguments."""
        raise NotImplementedError

    def merge(self, later: Any) -> None:
        """Take over all rows of `later`, another one of the same aggregate, as if they came after one's own."""
        raise NotImplementedError

    def value(self) -> Any:
        """The result so far; it shares nothing with what changes later."""
        raise NotImplementedError

    @property
    def stored_bytes(self) -> int:
        """What the result counts towards a limit of bytes (semantics.md B5)."""
        return bytes_of(self.value())


class Count(Accumulator):
    """count(*), and count(a, b): rows where no argument is NULL."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        """Start with no row."""
        self._rows = 0

    def add(self, arguments: Arguments) -> None:
        self._rows += all(value is not None for value in arguments)

    def merge(self, later: Count) -> None:
        self._rows += later._rows

    def value(self) -> int:
        return self._rows


class CountIf(Count):
    """count_if: rows where the condition is true."""

    __slots__ = ()

    def add(self, arguments: Arguments) -> None:
        self._rows += bool(arguments[0])


def is_less(one: Any, other: Any) -> bool:
    """Spark's ordering of one type.

    >>> is_less(1.0, float("nan")), is_less(float("nan"), float("nan"))
    (True, False)
    """
    return order_key((one,)) < order_key((other,))


class Fold(Accumulator):
    """What combines two values into one of their kind: min, max, the logical and the bitwise functions."""

    __slots__ = ("_function", "_value")

    #: By function; the earlier value is on the left.
    STEPS: ClassVar[dict[str, Callable[[Any, Any], Any]]] = {
        "min": lambda old, new: new if is_less(new, old) else old,
        "max": lambda old, new: new if is_less(old, new) else old,
        "bool_and": lambda old, new: old and new,
        "bool_or": lambda old, new: old or new,
        "bit_and": operator.and_,
        "bit_or": operator.or_,
        "bit_xor": operator.xor,
    }

    def __init__(self, function: str) -> None:
        """Start without a value."""
        self._function = function
        self._value: Any = None

    def add(self, arguments: Arguments) -> None:
        if self._value is None:
            self._value = arguments[0]
        elif arguments[0] is not None:
            self._value = self.STEPS[self._function](self._value, arguments[0])

    def merge(self, later: Fold) -> None:
        self.add((later._value,))

    def value(self) -> Any:
        return self._value


class Pick(Accumulator):
    """first and last, by arrival; with `ignore_nulls` among the values that are not NULL."""

    __slots__ = ("_ignores_nulls", "_is_last", "_picked")

    def __init__(self, is_last: bool, ignores_nulls: bool) -> None:
        """Start with nothing picked."""
        self._is_last, self._ignores_nulls = is_last, ignores_nulls
        self._picked: Arguments = ()

    def add(self, arguments: Arguments) -> None:
        if self._ignores_nulls and arguments[0] is None:
            return
        if self._is_last or not self._picked:
            self._picked = arguments

    def merge(self, later: Pick) -> None:
        if later._picked:
            self.add(later._picked)

    def value(self) -> Any:
        return self._picked[0] if self._picked else None


class PickBy(Accumulator):
    """max_by(x, y), min_by(x, y): x where y is extreme; rows with y NULL do not count, among equals the last wins."""

    __slots__ = ("_is_max", "_picked")

    def __init__(self, is_max: bool) -> None:
        """Start with nothing picked."""
        self._is_max = is_max
        self._picked: Arguments = ()

    def add(self, arguments: Arguments) -> None:
        if arguments[1] is None:
            return
        if not self._picked or not self._is_beaten(arguments[1], self._picked[1]):
            self._picked = arguments

    def merge(self, later: PickBy) -> None:
        if later._picked:
            self.add(later._picked)

    def value(self) -> Any:
        return self._picked[0] if self._picked else None

    def _is_beaten(self, new: Any, old: Any) -> bool:
        return is_less(new, old) if self._is_max else is_less(old, new)


class Collect(Accumulator):
    """collect_list: the values that are not NULL, in the order of arrival."""

    __slots__ = ("_bytes", "_values")

    def __init__(self) -> None:
        """Start empty."""
        self._values: list[Any] = []
        self._bytes = 0

    def add(self, arguments: Arguments) -> None:
        if arguments[0] is not None:
            self._values.append(arguments[0])
            self._bytes += bytes_of(arguments[0])

    def merge(self, later: Collect) -> None:
        self._values += later._values
        self._bytes += later._bytes

    def value(self) -> list[Any]:
        return list(self._values)

    @property
    def stored_bytes(self) -> int:
        return self._bytes


class Distinct(Accumulator):
    """Any aggregate of distinct arguments: of equal ones the first counts."""

    __slots__ = ("_inner", "_seen")

    def __init__(self, inner: Accumulator, seen: Iterable[Arguments] = ()) -> None:
        """Give `inner` what is distinct, and is not among what it has `seen`."""
        self._inner = inner
        self._seen = {canonical_key(arguments): arguments for arguments in seen}

    def add(self, arguments: Arguments) -> None:
        key = canonical_key(arguments)
        if key not in self._seen:
            self._seen[key] = arguments
            self._inner.add(arguments)

    def merge(self, later: Distinct) -> None:
        for arguments in later._seen.values():
            self.add(arguments)

    def value(self) -> Any:
        return self._inner.value()

    @property
    def stored_bytes(self) -> int:
        return self._inner.stored_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        # NB: keys are made again, since a NaN in one equals itself only as the one object of its process.
        return Distinct, (self._inner, list(self._seen.values()))


#: Other names of the functions here.
SYNONYMS: Final = {
    "first_value": "first",
    "any_value": "first",
    "last_value": "last",
    "array_agg": "collect_list",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
}


# Aggregates that calculate: sums and averages over Spark's types, variance, and rows that the engine computes.
#
# Source: Spark's Sum, Average and CentralMomentAgg (ANSI mode).


#: Computes an aggregate that only the engine knows: its number among the aggregates, and the arguments of its rows.
Evaluate: TypeAlias = Callable[[int, Sequence[Arguments]], Any]

EXACT: Final = Context(prec=80)  # two decimals of 38 digits add, and divide, without rounding away what is shown
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_MICROSECOND: Final = timedelta(microseconds=1)
_MICROSECONDS: Final = "decimal(19,0)"


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
            return fitting(new if old is None else EXACT.add(old, new), self._type)
        if isinstance(new, timedelta):
            return _longer("sum", self._type, old, new)
        total = new if old is None else old + new
        if self._type == "bigint" and not _LEAST <= total <= _GREATEST:
            raise OperatorError.arithmetic_overflow("sum", self._type)
        return total


def _longer(function: str, type_name: str, old: timedelta | None, new: timedelta) -> timedelta:
    """The sum of two intervals, which Spark keeps in 64 bits."""
    total_us = (old or timedelta()) // _MICROSECOND + new // _MICROSECOND
    if not _LEAST <= total_us <= _GREATEST:
        raise OperatorError.arithmetic_overflow(function, type_name)
    return timedelta(microseconds=total_us)


class Average(Accumulator):
    """avg: of decimals and intervals exact, rounded half up to the last digit; of other numbers a double."""

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
            return rounded_ratio(self._total, self._rows, self._type)
        if isinstance(self._total, timedelta):
            mean_us = rounded_ratio(Decimal(self._total // _MICROSECOND), self._rows, _MICROSECONDS)
            return timedelta(microseconds=int(mean_us))
        return self._total / self._rows

    def _take(self, value: Any, rows: int) -> None:
        if _DECIMAL.fullmatch(self._type):
            self._total = EXACT.add(self._total or Decimal(0), value)
        elif isinstance(value, timedelta):
            self._total = _longer("avg", self._type, self._total, value)
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


def rounded_ratio(total: Decimal, rows: int, type_name: str) -> Decimal:
    """The average of decimals, half up to the scale of the result's type.

    Raises:
        OperatorError: `OPERATOR.ARITHMETIC_OVERFLOW`.
    """
    ratio = EXACT.divide(total, Decimal(rows))
    rounded = ratio.quantize(Decimal(1).scaleb(-int(_parts(type_name)[1])), rounding=ROUND_HALF_UP, context=EXACT)
    return fitting(rounded, type_name)


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
    inner = _of_function(SYNONYMS.get(aggregate.function, aggregate.function), aggregate)
    is_distinct = aggregate.distinct or aggregate.function == "collect_set"
    return Distinct(inner) if is_distinct else inner


def _of_function(function: str, aggregate: Aggregate) -> Accumulator:
    if function == "count":
        return Count()
    if function == "count_if":
        return CountIf()
    if function in ("sum", "avg"):
        return Sum(aggregate.type) if function == "sum" else Average(aggregate.type)
    if function in Fold.STEPS:
        return Fold(function)
    if function in ("first", "last"):
        return Pick(function == "last", aggregate.ignore_nulls)
    if function in ("max_by", "min_by"):
        return PickBy(function == "max_by")
    if function in ("collect_list", "collect_set"):
        return Collect()
    if function in _VARIANCES:
        return Variance(function)
    if function == "rows":
        return KeptRows()
    raise OperatorError.invalid_option("function", function, "an aggregate function that is known here, or 'rows'")


class Aggregates:
    """All aggregates of a group: where their arguments lie in a payload, and their values."""

    def __init__(self, aggregates: Sequence[Aggregate], evaluate: Evaluate | None) -> None:
        """Lay out the payload."""
        self._aggregates, self._evaluate = aggregates, evaluate
        self._places: list[tuple[int, int, int | None]] = []
        self.width = 0
        for aggregate in aggregates:
            if aggregate.function == "rows" and evaluate is None:
                raise OperatorError.invalid_option("evaluate", None, "a function, for aggregates of kind 'rows'")
            start, stop = self.width, self.width + aggregate.arguments
            self._places.append((start, stop, stop if aggregate.has_filter else None))
            self.width = stop + aggregate.has_filter

    def new(self) -> list[Accumulator]:
        """Of a group without rows."""
        return [new_accumulator(aggregate) for aggregate in self._aggregates]

    def add(self, states: Sequence[Accumulator], payload: Arguments) -> None:
        """Count a row."""
        for state, (start, stop, condition) in zip(states, self._places, strict=True):
            if condition is None or payload[condition]:
                state.add(payload[start:stop])

    def arguments(self, number: int, payload: Arguments) -> Arguments | None:
        """Those of one aggregate; None where the row does not count for it."""
        start, stop, condition = self._places[number]
        return payload[start:stop] if condition is None or payload[condition] else None

    def of_rows(self, number: int, payloads: Iterable[Arguments]) -> Any:
        """The result of one aggregate over all rows of a group."""
        state = new_accumulator(self._aggregates[number])
        for payload in payloads:
            found = self.arguments(number, payload)
            if found is not None:
                state.add(found)
        return self._value(number, state)

    def values(self, states: Sequence[Accumulator]) -> tuple[Any, ...]:
        """The results so far."""
        return tuple(self._value(number, state) for number, state in enumerate(states))

    def _value(self, number: int, state: Accumulator) -> Any:
        is_kept = self._aggregates[number].function == "rows"
        return self._evaluate(number, state.value()) if is_kept and self._evaluate else state.value()
