"""What an aggregate of one group remembers: it takes rows one by one, and another one that precedes none of its rows.

Values are those of Spark: NULLs are left out, nothing but NULLs gives NULL, NaN equals itself and is the greatest.
Folding is strictly sequential, so that sums of floats do not depend on how rows were cut into batches.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, TypeAlias

from udtf.record import canonical_key, order_key
from udtf.state.buffer import bytes_of

Arguments: TypeAlias = tuple[Any, ...]


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

    #: By function; the earlier value stands on the left.
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
