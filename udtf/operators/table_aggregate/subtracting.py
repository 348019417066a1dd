"""Aggregates that a row can be taken out of again, without the other rows of its group.

Sums of floats are kept exactly and rounded once, so that they do not depend on what came and went.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final, Protocol

from udtf.aggregates import EXACT, SYNONYMS, Aggregate, Arguments, fitting, rounded_ratio
from udtf.errors import OperatorError
from udtf.record import canonical_key, order_key

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_FLOAT_BITS: Final = 1074  # every double is a whole number of 2 ** -1074


class Subtracting(Protocol):
    """One aggregate of one group."""

    def add(self, arguments: Arguments) -> None:
        """Take one row's arguments."""
        ...

    def subtract(self, arguments: Arguments) -> None:
        """Take out a row that was added."""
        ...

    def value(self) -> Any:
        """The result so far."""
        ...


class Counted:
    """count and count_if."""

    def __init__(self, function: str) -> None:
        """Start with no row."""
        self._is_condition, self._rows = function == "count_if", 0

    def add(self, arguments: Arguments) -> None:
        self._rows += self._counts(arguments)

    def subtract(self, arguments: Arguments) -> None:
        self._rows -= self._counts(arguments)

    def value(self) -> int:
        return self._rows

    def _counts(self, arguments: Arguments) -> bool:
        return bool(arguments[0]) if self._is_condition else all(value is not None for value in arguments)


class Total:
    """sum and avg, exactly: doubles as whole numbers of 2 ** -1074."""

    def __init__(self, function: str, type_name: str) -> None:
        """Start with no row."""
        self._is_average, self._type = function == "avg", type_name
        self._rows = 0
        self._total: Any = None
        self._bits = 0  # of a double, the total of what is finite
        self._others: dict[str, int] = {}  # NaN and the infinities

    def add(self, arguments: Arguments) -> None:
        self._take(arguments[0], 1)

    def subtract(self, arguments: Arguments) -> None:
        self._take(arguments[0], -1)

    def value(self) -> Any:
        if not self._rows:
            return None
        if self._type == "double":
            return self._float()
        if isinstance(self._total, Decimal):
            is_sum = not self._is_average
            return fitting(self._total, self._type) if is_sum else rounded_ratio(self._total, self._rows, self._type)
        if self._type == "bigint" and not _LEAST <= self._total <= _GREATEST:
            raise OperatorError.arithmetic_overflow("sum", self._type)
        return self._total

    def _take(self, value: Any, sign: int) -> None:
        if value is None:
            return
        self._rows += sign
        if isinstance(value, Decimal):
            change = value if sign > 0 else value.copy_negate()
            self._total = change if self._total is None else EXACT.add(self._total, change)
        elif self._type != "double":
            self._total = sign * value if self._total is None else self._total + sign * value
        elif math.isfinite(value):
            number, divisor = float(value).as_integer_ratio()
            self._bits += sign * (number << (_FLOAT_BITS + 1 - divisor.bit_length()))
        else:
            name = str(float(value))
            self._others[name] = self._others.get(name, 0) + sign

    def _float(self) -> float:
        found = [float(name) for name, rows in self._others.items() if rows]
        divisor = (self._rows if self._is_average else 1) << _FLOAT_BITS
        try:
            return math.fsum(found) if len(set(found)) == 1 else math.nan if found else self._bits / divisor
        except OverflowError:
            return math.inf if self._bits > 0 else -math.inf


class Extreme:
    """min and max: how many rows have each value, and the values in order, with such as have gone meanwhile.

    Of values that are equal -0.0 is less than 0.0: what came first does not matter.
    """

    def __init__(self, function: str) -> None:
        """Start with no row."""
        self._is_max = function == "max"
        self._rows: dict[Any, tuple[Any, int]] = {}
        self._heap: list[Any] = []

    def add(self, arguments: Arguments) -> None:
        (value,) = arguments
        if value is not None:
            key = _value_key(value)
            if key not in self._rows:
                heapq.heappush(self._heap, _Ordered(value, self._is_max))
            self._rows[key] = value, self._rows.get(key, (value, 0))[1] + 1

    def subtract(self, arguments: Arguments) -> None:
        (value,) = arguments
        if value is not None:
            key = _value_key(value)
            kept, rows = self._rows[key]
            if rows == 1:
                del self._rows[key]
            else:
                self._rows[key] = kept, rows - 1

    def value(self) -> Any:
        while self._heap:
            found = self._rows.get(_value_key(self._heap[0].value))
            if found is not None:
                return found[0]
            heapq.heappop(self._heap)
        return None

    def __getstate__(self) -> tuple[bool, list[tuple[Any, int]]]:
        # NB: keys are made again, since a NaN in one equals itself only as the one object of its process.
        return self._is_max, list(self._rows.values())

    def __setstate__(self, state: tuple[bool, list[tuple[Any, int]]]) -> None:
        self._is_max = state[0]
        self._rows = {_value_key(value): (value, rows) for value, rows in state[1]}
        self._heap = [_Ordered(value, self._is_max) for value, _ in state[1]]
        heapq.heapify(self._heap)


def _value_key(value: Any) -> Any:
    return canonical_key((value,)), _is_negative_zero(value)


def _is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0


class _Ordered:
    """A value in Spark's ordering of its type, or the other way round."""

    __slots__ = ("_is_max", "_key", "value")

    def __init__(self, value: Any, is_max: bool) -> None:
        self.value, self._is_max = value, is_max
        self._key = order_key((value,)), not _is_negative_zero(value)

    def __lt__(self, other: _Ordered) -> bool:
        return other._key < self._key if self._is_max else self._key < other._key


class DistinctArguments:
    """Any of these over distinct arguments: how many rows have each."""

    def __init__(self, inner: Subtracting, rows: Iterable[tuple[Arguments, int]] = ()) -> None:
        """Give `inner` what is distinct; it has got the arguments of `rows`, each of so many rows."""
        self._inner = inner
        self._rows = {canonical_key(arguments): (arguments, count) for arguments, count in rows}

    def add(self, arguments: Arguments) -> None:
        key = canonical_key(arguments)
        first, rows = self._rows.get(key, (arguments, 0))
        self._rows[key] = first, rows + 1
        if not rows:
            self._inner.add(first)

    def subtract(self, arguments: Arguments) -> None:
        key = canonical_key(arguments)
        first, rows = self._rows.pop(key)
        if rows > 1:
            self._rows[key] = first, rows - 1
        else:
            self._inner.subtract(first)

    def value(self) -> Any:
        return self._inner.value()

    def __reduce__(self) -> tuple[Any, ...]:
        return DistinctArguments, (self._inner, list(self._rows.values()))


def subtracting(aggregate: Aggregate) -> Subtracting | None:
    """What begins a group; None where an aggregate needs the rows of its group.

    >>> total = subtracting(Aggregate("sum", 1)); total.add((2,)); total.add((3,)); total.subtract((2,)); total.value()
    3
    """
    function = SYNONYMS.get(aggregate.function, aggregate.function)
    inner: Subtracting
    if function in ("count", "count_if"):
        inner = Counted(function)
    elif function in ("sum", "avg"):
        inner = Total(function, aggregate.type)
    elif function in ("min", "max"):
        inner = Extreme(function)
    else:
        return None
    return DistinctArguments(inner) if aggregate.distinct else inner
