"""What rows of a live table carry along on Spark: time and order of the update, and the key that it is known by.

An update goes as up to three rows, of which the last order column says which they are: the row before, the row now, and
one of nothing but the key. Each passes plain SQL by itself; whoever reads them puts together what is left.

Why so: docs/design/20261123_tables.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catalog.entries import Column
from sqlx.bind.binder import RowOrder
from sqlx.plan.nodes import Aggregation, CorrectedJoin, Fragment, Operator, TableAggregation, TableChanges, TableJoin
from udtf.columns.names import is_order, is_row_key

TableGiver = Aggregation | CorrectedJoin | TableAggregation | TableChanges | TableJoin

#: The one order column of updates whose rows have no order that holds across tasks: the greatest event time so far, µs.
_BY_TIME = Column("__o0", "bigint")


def order_of(fragment: Fragment, *, is_sequence: bool) -> tuple[Column, ...]:
    """The order columns of an input that its updates keep; lanes end where they are merged."""
    found = tuple(c for c in fragment.columns if is_order(c.name))
    return found if found and (is_sequence or not found[0].type.startswith("struct<")) else ()


def update_columns(kept: Sequence[Column], keys: Iterable[Column]) -> tuple[Column, ...]:
    """The hidden columns of updates: event time, the order that is kept or the time so far, a number, and the key."""
    order = [Column(f"__o{n}", column.type) for n, column in enumerate(kept or (_BY_TIME,))]
    named = [Column(f"__u{n}", column.type) for n, column in enumerate(keys)]
    return (Column("__event_time", "timestamp"), *order, Column(f"__o{len(order)}", "bigint"), *named)


def carried_by(columns: Sequence[Column], alias: str, *, is_sequence: bool) -> RowOrder:
    """The hidden columns of an operator's result as expressions; alias "" is none."""
    prefix = f"{alias}." if alias else ""
    order = tuple(f"{prefix}{c.name}" for c in columns if is_order(c.name))
    key = tuple(f"{prefix}{c.name}" for c in columns if is_row_key(c.name))
    return RowOrder(f"{prefix}__event_time", order, is_sequence, key)


def kept_orders(node: TableGiver) -> int:
    """How many order columns of the rows that cause an update the result keeps, its number aside."""
    given = [c for c in node.inputs[0].columns if is_order(c.name)]
    order = [c for c in node.columns if is_order(c.name)]
    if isinstance(node, (CorrectedJoin, TableJoin)):
        return 1 if node.common_sequence else 0
    return len(given) if order[:-1] == given else 0


def updates_in(node: Operator) -> str | None:
    """The column by which rows of a result say which update they are of; None where it is no live table."""
    orders = [c.name for c in node.columns if is_order(c.name)]
    return orders[-1] if orders and node.gives_changes and isinstance(node, TableGiver) else None
