"""Both sides of a join as one relation: the tagged union, and its way back into two tables.

`__side` is 'L' or 'R'. The key columns are shared, and so are the times: the left's `__as_of` travels as `__time` and
its `__known` as `__seq`, so that a row is not wider than it must be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

SIDE: Final = "__side"
#: The left's name of a column, and the name it has in the union.
SHARED: Final = {"__as_of": "__time", "__known": "__seq"}


def tagged_union(left: DataFrame, right: DataFrame) -> DataFrame:
    """One DataFrame of both; columns of the other side are NULL."""
    from pyspark.sql import functions as F  # its usual name

    lefts = left.withColumnsRenamed(SHARED).withColumn(SIDE, F.lit("L"))
    return lefts.unionByName(right.withColumn(SIDE, F.lit("R")), allowMissingColumns=True)


def split_union(batches: Sequence[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
    """The left and the right table of a union's batches (at least one), each in the order given."""
    union = pa.Table.from_batches(batches)
    is_left = pc.equal(union[SIDE], "L")
    left, right = union.filter(is_left), union.filter(pc.invert(is_left))
    own = {shared: name for name, shared in SHARED.items() if name not in left.column_names}
    return left.rename_columns([own.get(name, name) for name in left.column_names]), right
