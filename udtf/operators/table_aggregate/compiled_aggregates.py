"""What groups remember of one aggregate, as arrays: rows are added and taken out in compiled loops.

The answers are those of `udtf.operators.table_aggregate.subtracting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udtf.columns.arrays import floats_of, ints_of, longs_in
from udtf.columns.hashes import hashes_or_none
from udtf.columns.keys import GroupKeys
from udtf.columns.order import longs_of, of_longs, order_of
from udtf.columns.rows import FEWEST_ROWS
from udtf.errors import OperatorError
from udtf.numba_cache import compiled, inlined
from udtf.operators.table_aggregate import exact_loops, loops
from udtf.operators.table_aggregate.exact_loops import BITS, MORE
from udtf.operators.table_aggregate.loops import GROUP, ROW, SIGN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udtf.aggregates import Aggregate

inlined(
    exact_loops.add_bits, exact_loops.add_long, exact_loops.magnitude, exact_loops.negate, exact_loops.multiply_add,
    exact_loops.divide, exact_loops.scaled, exact_loops.rounded, exact_loops.quotient,
    loops.double_of, loops.meld, loops.push, loops.least,
)  # fmt: skip
_count = compiled(loops.count)
_add_whole = compiled(loops.add_whole)
_add_doubles = compiled(loops.add_doubles, exact_loops)
_add_decimals = compiled(loops.add_decimals, exact_loops)
_first_and_last = compiled(loops.first_and_last)
_extreme = compiled(loops.extreme)
_push_all = compiled(loops.push_all)
#: Of rows of updates 0 where they are what was before, 1 of what is now; and their update.
At: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
_EXACT = 1 << 53  # a double has every whole number up to here
_DECIMAL_LIMBS = 4


class Counted:
    """count and count_if, and of every other aggregate how many rows count.

    Args:
        number: of the aggregate, for the names of its columns in segments.
        aggregate: of the query.

    Attributes:
        counted: by group.
    """

    def __init__(self, number: int, aggregate: Aggregate) -> None:
        """Know no group."""
        self.aggregate, self._number = aggregate, number
        self.counted = np.zeros(0, np.int64)

    def grow(self, more: int) -> None:
        """Have room for more groups."""
        self.counted = np.pad(self.counted, (0, more))

    def take(self, arguments: Sequence[pa.Array], moves: NDArray[np.int64], sent: int) -> Any:
        """Take rows out and put others in.

        Args:
            arguments: per row.
            moves: see `loops.move`; the sign is 0 of a row that does not count.
            sent: how many updates of the result there are.

        Returns:
            what `shown` takes.

        Raises:
            OperatorError: `OPERATOR.ARITHMETIC_OVERFLOW`; this object must not be used then.
        """
        return self._count(moves, sent)

    def shown(self, found: Any, at: At, is_gone: NDArray[np.bool_]) -> pa.Array:
        """The values of rows of updates.

        Args:
            found: what `take` gave.
            at: which of them.
            is_gone: per row: it is nothing but a key.
        """
        return pa.array(found[at], mask=is_gone)

    def columns(self, groups: NDArray[np.int64]) -> dict[str, pa.Array]:
        """What is remembered of groups, for a segment."""
        return {f"counted{self._number}": pa.array(self.counted[groups])}

    def put(self, groups: NDArray[np.int64], table: pa.Table) -> None:
        """Put what `columns` gave."""
        self.counted[groups] = longs_in(table, f"counted{self._number}")

    @property
    def nbytes(self) -> int:
        """Memory of it."""
        return int(self.counted.nbytes)

    def _count(self, moves: NDArray[np.int64], sent: int) -> NDArray[np.int64]:
        found = np.empty((2, sent), np.int64)
        _count(moves, self.counted, found)
        return found


class WholeTotal(Counted):
    """sum and avg of whole numbers."""

    def __init__(self, number: int, aggregate: Aggregate) -> None:
        """Know no group."""
        super().__init__(number, aggregate)
        self._totals = np.zeros(0, np.int64)

    def grow(self, more: int) -> None:
        super().grow(more)
        self._totals = np.pad(self._totals, (0, more))

    def take(self, arguments: Sequence[pa.Array], moves: NDArray[np.int64], sent: int) -> Any:
        totals, values = np.empty((2, sent), np.int64), ints_of(arguments[0])
        if not _add_whole(moves, values, self._totals, totals):
            raise OperatorError.arithmetic_overflow("sum", self.aggregate.type)
        return totals, self._count(moves, sent)

    def shown(self, found: Any, at: At, is_gone: NDArray[np.bool_]) -> pa.Array:
        total, counted = found[0][at], found[1][at]
        is_null = is_gone | (counted == 0)
        if self.aggregate.function == "sum":
            return pa.array(total, mask=is_null)
        ratio = total / np.maximum(counted, 1)
        for row in np.flatnonzero(np.abs(total) > _EXACT).tolist():  # rounded once, not twice
            ratio[row] = int(total[row]) / max(1, int(counted[row]))
        return pa.array(ratio, mask=is_null)

    def columns(self, groups: NDArray[np.int64]) -> dict[str, pa.Array]:
        return super().columns(groups) | {f"total{self._number}": pa.array(self._totals[groups])}

    def put(self, groups: NDArray[np.int64], table: pa.Table) -> None:
        super().put(groups, table)
        self._totals[groups] = longs_in(table, f"total{self._number}")

    @property
    def nbytes(self) -> int:
        return super().nbytes + int(self._totals.nbytes)


class DoubleTotal(Counted):
    """sum and avg of doubles, exactly. Of the range of a double those limbs are kept that some value has needed."""

    def __init__(self, number: int, aggregate: Aggregate) -> None:
        """Know no group."""
        super().__init__(number, aggregate)
        self._limbs, self._low = np.zeros((0, 0), np.int64), 0
        self._others = np.zeros((0, 3), np.int64)

    def grow(self, more: int) -> None:
        super().grow(more)
        self._limbs = np.pad(self._limbs, ((0, more), (0, 0)))
        self._others = np.pad(self._others, ((0, more), (0, 0)))

    def take(self, arguments: Sequence[pa.Array], moves: NDArray[np.int64], sent: int) -> Any:
        counted, bits = self._count(moves, sent), floats_of(arguments[0]).view(np.int64)
        counts = bits[moves[ROW][moves[SIGN] != 0]]
        exponents = (counts >> 52) & 0x7FF
        exponents = np.maximum(exponents[exponents < 0x7FF], 1) - 1
        if len(exponents):
            self._widen(int(exponents.min()) // BITS, int(exponents.max()) // BITS + 3)
        totals = np.empty((2, sent), np.float64)
        scratch = np.empty(self._limbs.shape[1] + 2 * MORE, np.int64)
        _add_doubles(
            moves,
            bits,
            self._low,
            self._limbs,
            self._others,
            counted,
            self.aggregate.function == "avg",
            scratch,
            totals,
        )
        return totals, counted

    def shown(self, found: Any, at: At, is_gone: NDArray[np.bool_]) -> pa.Array:
        return pa.array(found[0][at], mask=is_gone | (found[1][at] == 0), from_pandas=False)

    def columns(self, groups: NDArray[np.int64]) -> dict[str, pa.Array]:
        limbs = {self._limb(place): pa.array(self._limbs[groups, place]) for place in range(self._limbs.shape[1])}
        others = {f"other{self._number}_{n}": pa.array(self._others[groups, n]) for n in range(3)}
        return super().columns(groups) | limbs | others

    def put(self, groups: NDArray[np.int64], table: pa.Table) -> None:
        super().put(groups, table)
        prefix = f"limb{self._number}_"
        places = [int(name.removeprefix(prefix)) for name in table.column_names if name.startswith(prefix)]
        if places:
            self._widen(min(places), max(places) - 1)
        self._limbs[groups] = 0
        for place in places:
            self._limbs[groups, place - self._low] = longs_in(table, f"{prefix}{place}")
        for n in range(3):
            self._others[groups, n] = longs_in(table, f"other{self._number}_{n}")

    @property
    def nbytes(self) -> int:
        return super().nbytes + int(self._limbs.nbytes) + int(self._others.nbytes)

    def _limb(self, place: int) -> str:
        return f"limb{self._number}_{place + self._low}"

    def _widen(self, low: int, high: int) -> None:
        """Have limbs from `low` to before `high`, and two above them."""
        size = self._limbs.shape[1]
        if not size:
            self._low = low
        below, above = max(0, self._low - low), max(0, high + 2 - self._low - size)
        if below or above:
            self._limbs, self._low = np.pad(self._limbs, ((0, 0), (below, above))), self._low - below


class DecimalTotal(Counted):
    """sum and avg of decimals that are a long in disguise."""

    def __init__(self, number: int, aggregate: Aggregate, scale: int, result: pa.Decimal128Type) -> None:
        """Know no group."""
        super().__init__(number, aggregate)
        self._limbs, self._result = np.zeros((0, _DECIMAL_LIMBS), np.int64), result
        self._factor = 10 ** (result.scale - scale) if aggregate.function == "avg" else 0

    def grow(self, more: int) -> None:
        super().grow(more)
        self._limbs = np.pad(self._limbs, ((0, more), (0, 0)))

    def take(self, arguments: Sequence[pa.Array], moves: NDArray[np.int64], sent: int) -> Any:
        counted, totals = self._count(moves, sent), np.empty((2, 2, sent), np.int64)
        scratch = np.empty(_DECIMAL_LIMBS, np.int64)
        _add_decimals(moves, longs_of(arguments[0]), self._limbs, counted, self._factor, scratch, totals)
        return totals, counted

    def shown(self, found: Any, at: At, is_gone: NDArray[np.bool_]) -> pa.Array:
        which, update = at
        halves = np.ascontiguousarray(found[0][which, :, update])
        is_there = pa.array(~is_gone & (found[1][at] != 0)).buffers()[1]
        return pa.Array.from_buffers(self._result, len(update), [is_there, pa.py_buffer(halves)])

    def columns(self, groups: NDArray[np.int64]) -> dict[str, pa.Array]:
        limbs = {f"limb{self._number}_{n}": pa.array(self._limbs[groups, n]) for n in range(_DECIMAL_LIMBS)}
        return super().columns(groups) | limbs

    def put(self, groups: NDArray[np.int64], table: pa.Table) -> None:
        super().put(groups, table)
        for n in range(_DECIMAL_LIMBS):
            self._limbs[groups, n] = longs_in(table, f"limb{self._number}_{n}")

    @property
    def nbytes(self) -> int:
        return super().nbytes + int(self._limbs.nbytes)


class Values:
    """The values that rows of groups have, and how many rows each.

    Args:
        types: of a value.

    Attributes:
        rows: by value.
        changed: codes of those that the last micro-batch had.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        """Know no value."""
        self._keys = GroupKeys([pa.int64(), *types])
        self.rows = self.changed = np.zeros(0, np.int64)
        self._next_pack = FEWEST_ROWS

    @property
    def size(self) -> int:
        """How many there are, and such as no row has."""
        return self._keys.size

    @property
    def nbytes(self) -> int:
        """Memory of it."""
        return self._keys.nbytes + int(self.rows.nbytes)

    def of_batch(self, arguments: Sequence[pa.Array], moves: NDArray[np.int64]) -> NDArray[np.int64]:
        """The codes of the values of a micro-batch's rows; -1 of those that do not count."""
        wanted = np.unique(moves[ROW][moves[SIGN] != 0])
        groups = np.zeros(len(arguments[0]), np.int64)
        groups[moves[ROW]] = moves[GROUP]
        codes, taken = np.full(len(groups), -1, np.int64), pa.array(wanted)
        codes[wanted] = self.place(groups[wanted], [argument.take(taken) for argument in arguments])
        self.changed = np.unique(codes[wanted])
        return codes

    def place(self, groups: NDArray[np.int64], values: Sequence[pa.Array]) -> NDArray[np.int64]:
        """The codes of values; unknown ones get new ones."""
        columns = [pa.array(groups), *values]
        codes = self._keys.place(columns, hashes_or_none(columns))
        known = len(self.rows)
        if self.size > known:
            self.rows = np.pad(self.rows, (0, max(self.size, 2 * known) - known))
        return codes

    def take(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[pa.Array]]:
        """The groups and the values of codes."""
        (groups, *values), _ = self._keys.take(codes)
        return groups.to_numpy(), values

    def current(self) -> NDArray[np.int64]:
        """The codes of those that rows have."""
        return np.flatnonzero(self.rows[: self.size] > 0)

    def put(self, groups: NDArray[np.int64], values: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Put how many rows have values; the codes of the values."""
        codes = self.place(groups, values)
        self.rows[codes] = rows
        return codes

    def make_room(self) -> bool:
        """Forget values that no row has, where they are most of them; codes from before mean nothing then."""
        if self.size < self._next_pack:
            return False
        codes = self.current()
        rows = self.rows[codes]
        self.rows = np.zeros(len(codes), np.int64)
        self.rows[self._keys.keep(codes)] = rows
        self._next_pack = max(FEWEST_ROWS, 2 * self.size)
        return True


class Heaps(Values):
    """Values that are longs, the least of each group on top of a heap."""

    def __init__(self) -> None:
        """Know no value."""
        super().__init__([pa.int64()])
        self.order, self.nodes = np.empty(0, np.int64), np.zeros((0, 3), np.int64)
        self.roots = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        return super().nbytes + int(self.order.nbytes + self.nodes.nbytes + self.roots.nbytes)

    def grow(self, more: int) -> None:
        """Have room for more groups."""
        self.roots = np.pad(self.roots, (0, more), constant_values=-1)

    def place(self, groups: NDArray[np.int64], values: Sequence[pa.Array]) -> NDArray[np.int64]:
        known = self.size
        codes = super().place(groups, values)
        more = len(self.rows) - len(self.order)
        if more > 0:
            self.order, self.nodes = np.pad(self.order, (0, more)), np.pad(self.nodes, ((0, more), (0, 0)))
        new = np.arange(known, self.size)
        _, (order,) = self.take(new)
        self.order[new] = order.to_numpy()
        return codes

    def put(self, groups: NDArray[np.int64], values: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = super().put(groups, values, rows)
        self._push(codes, groups)
        return codes

    def make_room(self) -> bool:
        if not super().make_room():
            return False
        codes = np.arange(self.size)
        groups, (order,) = self.take(codes)
        self.order, self.nodes = order.to_numpy().copy(), np.zeros((self.size, 3), np.int64)
        self.roots[:] = -1
        self._push(codes, groups)
        return True

    def _push(self, codes: NDArray[np.int64], groups: NDArray[np.int64]) -> None:
        _push_all(groups, codes, self.order, self.rows, self.nodes, self.roots)


class Extreme(Counted):
    """min and max of what is a long in disguise."""

    def __init__(self, number: int, aggregate: Aggregate, result: pa.DataType) -> None:
        """Know no group."""
        super().__init__(number, aggregate)
        self.values, self._result = Heaps(), result
        self._sign = -1 if aggregate.function == "max" else 0  # ~x orders the other way round

    def grow(self, more: int) -> None:
        self.values.grow(more)

    def take(self, arguments: Sequence[pa.Array], moves: NDArray[np.int64], sent: int) -> Any:
        values = self.values
        values.make_room()
        codes = values.of_batch([pa.array(order_of(arguments[0]) ^ self._sign)], moves)
        found = np.empty((2, sent), np.int64)
        _extreme(moves, codes, values.order, values.rows, values.nodes, values.roots, found)
        is_there = found >= 0
        shown = np.zeros_like(found)
        shown[is_there] = values.order[found[is_there]] ^ self._sign
        return shown, is_there

    def shown(self, found: Any, at: At, is_gone: NDArray[np.bool_]) -> pa.Array:
        return of_longs(found[0][at], self._result, is_gone | ~found[1][at])

    def columns(self, groups: NDArray[np.int64]) -> dict[str, pa.Array]:
        return {}

    def put(self, groups: NDArray[np.int64], table: pa.Table) -> None:
        del groups, table  # there are values only


class Distinct:
    """Lets an aggregate see distinct arguments only.

    Args:
        types: of the arguments.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        """Know no value."""
        self.values = Values(types)

    def filter(self, arguments: Sequence[pa.Array], moves: NDArray[np.int64]) -> None:
        """Write 0 as the sign of a row whose arguments others of its group have."""
        self.values.make_room()
        _first_and_last(moves, self.values.of_batch(arguments, moves), self.values.rows)


def kept_of(number: int, aggregate: Aggregate, arguments: Sequence[pa.DataType], result: pa.DataType) -> Counted:
    """What groups remember of an aggregate.

    Args:
        number: of it.
        aggregate: see `is_compiled`.
        arguments: the types of its arguments.
        result: its type.
    """
    if aggregate.function in ("count", "count_if"):
        return Counted(number, aggregate)
    (kind,) = arguments
    if aggregate.function in ("min", "max"):
        return Extreme(number, aggregate, result)
    if pa.types.is_floating(kind):
        return DoubleTotal(number, aggregate)
    if pa.types.is_decimal(kind):
        return DecimalTotal(number, aggregate, kind.scale, result)
    return WholeTotal(number, aggregate)
