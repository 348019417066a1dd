"""A live stream joined with an upsert table: the row that the table shows when the stream's row arrives.

Source: KIP-914 "stream-table join" with an unversioned table, semantics.md 6.1 and 6.2.
"""

from __future__ import annotations

from sqlx.plan.keyed_join import KeyedJoinBuilder, result_columns
from sqlx.plan.nodes import TableLookup
from sqlx.sql.expressions import Conjunct
from udtf.operators.table_lookup.logic import TableLookupConfig

#: The column of the right side that tells a row of NULLs from none.
_IS_THERE = "r_is_there"


class TableLookupBuilder(KeyedJoinBuilder):
    """Builds one plain join of a stream with an upsert table."""

    def read(self) -> None:
        """Read the condition.

        Raises:
            BindError, UnsupportedError: what was written cannot be joined so.
        """
        super().read()
        self.check_keys()

    def build(self, name: str) -> tuple[TableLookup, tuple[Conjunct, ...]]:
        """The plan node, and the ON conjuncts that are still to be tested on the row that was found.

        Raises:
            BindError, UnsupportedError: what was written cannot be joined so.
        """
        left_side, right_side = self.projections()
        left_payload, right_payload = self.inputs.payload_items()
        left_columns, right_columns = self.inputs.payload_names()
        right_side.add(self.inputs.hidden_items("__deleted", "__pass"))
        if self.inputs.arrival is not None:
            right_side.add(self.inputs.hidden_items("__time"))
        left_carried, right_carried = self.inputs.row_order_items("CAST(NULL AS TIMESTAMP)")
        for side, carried, payload in (
            (left_side, left_carried, left_payload),
            (right_side, right_carried, right_payload),
        ):
            side.add(carried)
            side.add_payload(payload)
        if self.is_left and self.parts.further:  # a NULL payload may be a row, or none: the flag tells
            right_columns = (*right_columns, _IS_THERE)
            right_side.add({_IS_THERE: "true"})
        self.cast_keys(left_side, right_side)
        left, right = left_side.fragment(), right_side.fragment()
        self.check_carried(left, right)
        config = TableLookupConfig(
            join="left" if self.is_left else "inner",
            n_keys=max(1, len(self.parts.left_keys)),
            left_columns=left_columns,
            right_columns=right_columns,
        )
        columns = result_columns(left, right, with_reason=False)
        table, is_common = self.inputs.right.name, self.inputs.is_common(left, right)
        node = TableLookup(name, left, right, config, columns, table, None, is_common, *self.inputs.shown_names())
        return node, tuple(self.parts.further)
