"""Columns of an aggregation as numbers, and numbers as columns: arguments of folds, values of aggregates."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import ints_of, is_present, one_chunk, truth_of
from udtf.errors import OperatorError
from udtf.operators.window_aggregate import folds
from udtf.operators.window_aggregate.config import OF_POPULATION, Fold, arrow_type, fold_of, widened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.aggregates import Aggregate

_EXACT: Final = Context(prec=80)
_FITS: Final = 2**47  # 20,000 of these are less than 64 bits


class Aggregates:
    """All aggregates of an operator, laid out for folding.

    Attributes:
        folds: the table that the loops read.
        ints, floats: how many numbers of each kind a slot has; at least one.
    """

    def __init__(self, aggregates: Sequence[Aggregate], has_wide_sums: bool = False) -> None:
        """Lay them out; all of them are compiled, see `is_compiled`.

        Args:
            aggregates: in the order of the output.
            has_wide_sums: sums of integers are folded in 128 bits, so that only what is shown must fit its type.
        """
        found = [fold_of(aggregate) for aggregate in aggregates]
        found = [widened(fold) if fold and has_wide_sums else fold for fold in found]
        self._plans: list[tuple[Aggregate, Fold]] = [(a, f) for a, f in zip(aggregates, found, strict=True) if f]
        assert len(self._plans) == len(found), "the planner asks `is_compiled` first"
        self.folds = np.zeros((len(found), 6), np.int64)
        ints = floats = of_int = of_float = 0
        for number, (_, fold) in enumerate(self._plans):
            argument = of_float if fold.takes_floats else of_int
            self.folds[number] = (fold.fold, argument, ints, floats, fold.width, fold.needs)
            ints, floats = ints + fold.ints, floats + fold.floats
            of_int, of_float = of_int + fold.takes_ints, of_float + fold.takes_floats
        self.ints, self.floats = max(ints, 1), max(floats, 1)

    def arguments(self, rows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """Arguments that are integers, those that are floats, and which rows each aggregate counts."""
        ints, floats, counted = [], [], np.ones((len(self._plans), len(rows)), np.bool_)
        for number, (aggregate, fold) in enumerate(self._plans):
            columns = [one_chunk(rows[f"__a{number}_{place}"]) for place in range(aggregate.arguments)]
            for column in columns:
                if column.null_count:
                    counted[number] &= is_present(column)
            if aggregate.has_filter:
                counted[number] &= truth_of(one_chunk(rows[f"__a{number}_f"]))
            if fold.function == "count_if":
                counted[number] &= truth_of(columns[0])
            if fold.takes_floats:
                floats.append(_floats(columns[0]))
            elif fold.takes_ints:
                ints.append(_ints(columns[0]))
        return _stacked(ints, len(rows), np.int64), _stacked(floats, len(rows), np.float64), counted

    def states(self, windows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The numbers of windows that have travelled: a line for each, as slots have them."""
        ints, floats = (
            np.stack([one_chunk(windows[f"{kind}{place}"]).to_numpy() for place in range(count)], axis=1)
            for kind, count in (("i", self.ints), ("f", self.floats))
        )
        return ints, floats

    def values(
        self, ints: NDArray[np.int64], floats: NDArray[np.float64], present: NDArray[np.bool_] | None = None
    ) -> list[pa.Array]:
        """The columns of the aggregates of some slots' states; NULL where `present` is false."""
        columns = []
        for number, (aggregate, fold) in enumerate(self._plans):
            _, _, at, place, _, needs = self.folds[number]
            missing = ints[:, at] < needs
            if present is not None:
                missing |= ~present
            columns.append(
                _value(aggregate, fold, ints[:, at : at + fold.ints], floats[:, place : place + fold.floats], missing)
            )
        return columns


def _ints(column: pa.Array) -> NDArray[np.int64]:
    """Integers, or what is one in disguise; anything at NULLs."""
    kind = column.type
    if pa.types.is_decimal128(kind):
        words = np.frombuffer(column.buffers()[1] or b"", np.int64)
        return words[2 * column.offset : 2 * (column.offset + len(column)) : 2]
    values = ints_of(column)
    assert values is not None, "folds over ints are chosen for types that are one in disguise"
    return values


def _floats(column: pa.Array) -> NDArray[np.float64]:
    """Floats; anything at NULLs."""
    if column.null_count:
        column = pc.fill_null(column, 0)
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return values


def _stacked(columns: Sequence[NDArray[Any]], rows: int, kind: Any) -> NDArray[Any]:
    return np.stack(columns) if columns else np.empty((0, rows), kind)


def _value(
    aggregate: Aggregate, fold: Fold, ints: NDArray[np.int64], floats: NDArray[np.float64], missing: NDArray[np.bool_]
) -> pa.Array:
    """The column of one aggregate from its part of the states.

    Raises:
        OperatorError: `OPERATOR.ARITHMETIC_OVERFLOW`.
    """
    kind, mask = arrow_type(aggregate.type), missing if missing.any() else None
    if fold.fold == folds.COUNT:
        return pa.array(ints[:, 0], mask=mask)
    if fold.fold == folds.SUM_WIDE and fold.function == "avg":
        return _decimal_average(ints, missing, kind)
    if pa.types.is_decimal128(kind):
        high = ints[:, 2] if fold.fold == folds.SUM_WIDE else ints[:, 1] >> 63
        return _decimals(ints[:, 1], high, missing, kind)
    if fold.fold == folds.MOMENTS:
        return pa.array(_spread(fold.function, ints[:, 0], floats[:, 1], missing), mask=mask)
    if fold.takes_floats:
        found = floats[:, 0] / np.where(missing, 1, ints[:, 0]) if fold.function == "avg" else floats[:, 0]
        return pa.array(found.astype(kind.to_pandas_dtype()), mask=mask)
    found_ints = ints[:, 1]
    if fold.fold == folds.SUM_WIDE and ((found_ints >> 63 != ints[:, 2]) & ~missing).any():
        raise OperatorError.arithmetic_overflow("sum", aggregate.type)
    if pa.types.is_boolean(kind):
        return pa.array(found_ints != 0, mask=mask)
    if pa.types.is_date32(kind):
        return pa.array(found_ints.astype(np.int32), mask=mask).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(found_ints, pa.int64(), mask=mask).view(kind)
    return pa.array(found_ints.astype(kind.to_pandas_dtype()), mask=mask)


def _spread(
    function: str, counts: NDArray[np.int64], squares: NDArray[np.float64], missing: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Variances and their roots."""
    divisors = counts - (0 if function in OF_POPULATION else 1)
    found: NDArray[np.float64] = squares / np.where(missing, 1, divisors)
    return np.sqrt(found) if function.startswith("std") else found


def _decimals(
    low: NDArray[np.int64], high: NDArray[np.int64], missing: NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    words = np.ascontiguousarray(np.stack([low, high], axis=1))
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(kind, len(low), [validity, pa.py_buffer(words)])


def _decimal_average(ints: NDArray[np.int64], missing: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Rounded half up; the argument has four digits less after the point than the result (Spark)."""
    counts, low = np.where(missing, 1, ints[:, 0]), np.where(missing, 0, ints[:, 1])
    fits = (low >> 63 == ints[:, 2]) & (low > -_FITS) & (low < _FITS) & (counts < _FITS)
    if (fits | missing).all():
        rounded = np.sign(low) * ((20_000 * np.abs(low) + counts) // (2 * counts))
        return _decimals(rounded, rounded >> 63, missing, kind)
    unit, ten_thousand = Decimal(1).scaleb(-kind.scale), 10_000
    values: list[Decimal | None] = []
    for is_missing, (count, low, high) in zip(missing.tolist(), ints.tolist(), strict=True):
        if is_missing:
            values.append(None)
            continue
        total = ((high << 64) + (low % 2**64)) * ten_thousand
        ratio = _EXACT.divide(Decimal(total), Decimal(count)).quantize(Decimal(1), ROUND_HALF_UP, _EXACT)
        values.append(_EXACT.multiply(ratio, unit))
    return pa.array(values, kind)
