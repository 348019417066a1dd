"""The one input shape of record-by-record logic, its changes and refused rows, and the order of its values.

The treatment of tombstones and NULL keys (semantics.md A, 4.1, 6.1) starts here: a row says what it is, the operators
ask `has_null_key` and `is_tombstone` and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from udtf.time import Micros

Side: TypeAlias = Literal["L", "R"]
Key: TypeAlias = tuple[Any, ...]
Op: TypeAlias = Literal["insert", "update_before", "update_after", "delete"]

_NAN: Final = math.nan


class Row(NamedTuple):
    """One row of one input of an operator, in arrival order.

    Attributes:
        side: "L" is the stream, "R" the table.
        key: the key columns; any of them NULL makes it a null key.
        time: left: the AS OF time; right: the version's time. Microseconds, None where it is NULL.
        payload: the values that go to the output.
        event_time: left: the row's own event time, which is the time of its result (semantics.md 6.4).
        sequence: left: KNOWN AS OF; right: SEQUENCE BY; only where the join has KNOWN AS OF.
        ties: right: the values of TIES BY.
        is_tombstone: right: this row deletes its key from `time` on.
        passes: right: the filter over the table is true for this version (semantics.md 6.8).
    """

    side: Side
    key: Key
    time: Micros | None
    payload: tuple[Any, ...] = ()
    event_time: Micros | None = None
    sequence: Micros | None = None
    ties: tuple[Any, ...] = ()
    is_tombstone: bool = False
    passes: bool = True

    @property
    def has_null_key(self) -> bool:
        """True where any key column is NULL: such a row never matches, such a table row is never stored."""
        return any(value is None for value in self.key)


def left_row(key: Key, as_of: Micros | None, payload: tuple[Any, ...] = (), known: Micros | None = None) -> Row:
    """A stream's row whose event time is its AS OF time.

    >>> left_row(("EUR",), 7, (1,)).event_time
    7
    """
    return Row("L", key, as_of, payload, event_time=as_of, sequence=known)


def right_row(key: Key, time: Micros | None, payload: tuple[Any, ...] | None, **more: Any) -> Row:
    """A table's row; payload None is a tombstone.

    >>> right_row(("EUR",), 7, None).is_tombstone
    True
    """
    return Row("R", key, time, payload or (), event_time=time, is_tombstone=payload is None, **more)


class Change(NamedTuple):
    """One change of a result: what happened, the result's event time, and the output columns in order."""

    op: Op
    time: Micros | None
    values: tuple[Any, ...]


class Update(NamedTuple):
    """One update of a table's row, as the operator that keeps the table sends it on (semantics.md 5, 10, 12, 15).

    Attributes:
        key: the key columns; the bounds of a window, microseconds, stand last.
        time: the update's event time.
        old: the row before, all output columns with the key first; None: there was none.
        new: the row now; None: it is deleted.
        gone: what a deletion shows where there is no old row: the key's columns, NULL in all others.
    """

    key: Key
    time: Micros | None
    old: tuple[Any, ...] | None
    new: tuple[Any, ...] | None
    gone: tuple[Any, ...] | None = None


class LateRow(NamedTuple):
    """A row that was refused, with the four columns of semantics.md B7."""

    row: Row
    reason: str
    operator: str
    stream_time: Micros | None
    lateness: Micros | None


def canonical_key(key: Key) -> Key:
    """The key as something hashable with Spark's equality: NaN equals NaN, -0.0 equals 0.0, lists become tuples.

    >>> canonical_key((float("nan"), -0.0)) == canonical_key((float("-nan"), 0.0))
    True
    """
    return tuple(_canonical(value) for value in key)


def _canonical(value: Any) -> Any:
    # NB: tuples compare by identity first, so that one NaN object equals itself inside a key.
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value
    if isinstance(value, dict):
        return tuple((name, _canonical(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_canonical(item) for item in value)
    return bytes(value) if isinstance(value, bytearray) else value


class _Descending:
    """Turns the order of one value around inside a sort key."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]  # order only


def order_key(values: Sequence[Any]) -> tuple[Any, ...]:
    """Sort key: column by column in Spark's ordering, NULL first, NaN last (semantics.md B13).

    Strings compare by code point, which is the order of their UTF-8 bytes.

    >>> sorted([("b",), (None,), ("a",)], key=order_key)
    [(None,), ('a',), ('b',)]
    """
    return tuple(_order_of(value) for value in values)


def ties_key(values: Sequence[Any], ties: Sequence[tuple[str, str]]) -> tuple[Any, ...]:
    """Sort key of TIES BY: per column ('asc' | 'desc', nulls 'first' | 'last'); the greatest wins.

    >>> ties_key((1,), [("desc", "last")]) < ties_key((None,), [("desc", "last")])
    True
    """
    return tuple(_tie_of(value, *tie) for value, tie in zip(values, ties, strict=True))


def _tie_of(value: Any, direction: str, nulls: str) -> tuple[Any, ...]:
    if value is None:
        return (0,) if nulls == "first" else (2,)
    ordered = _order_of(value)
    return (1, _Descending(ordered) if direction == "desc" else ordered)


def _order_of(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value)
    if isinstance(value, dict):
        return (1, order_key(list(value.values())))
    if isinstance(value, (list, tuple)):
        return (1, order_key(value))
    return (1, 0, value)
