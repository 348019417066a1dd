"""An AS OF join of a query with EMIT CORRECTIONS: results that a late version changes are given anew.

Its result is a table: each row of it belongs to one row of the stream, and changes with the versions that answer it.

Source: KIP-914 ("Attempt 2": older results are made right), semantics.md 2, 6, C.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, NoReturn

from sqlx.errors import BindError, UnsupportedError
from sqlx.plan.as_of_join import AsOfJoinBuilder
from sqlx.plan.context import Context
from sqlx.plan.keyed_join import Inputs
from sqlx.plan.nodes import CorrectedJoin, Deduplicate, Operator, TableLookup
from sqlx.plan.table_reads import ROW_OF_STREAM, KeyColumn, ShownTable
from sqlx.plan.updates import order_of, update_columns
from sqlx.sql.expressions import Conjunct
from sqlx.sql.structure import Join
from sqlx.sql.tokens import Span, tokenize
from udtf.columns.names import is_row_key

_BY_ARRIVAL: dict[type[Operator], str] = {
    TableLookup: "a plain join with an upsert table shows the row of the moment, which later rows do not correct",
    Deduplicate: "DEDUPLICATE keeps a row by when it arrived, and what was let through is not taken back",
}


class CorrectedJoinBuilder(AsOfJoinBuilder):
    """Builds one AS OF join with corrections.

    Args:
        context, join, inputs: see the base.
        left: what the left side shows, where its own rows are corrected; None where it is a stream.
        own: the relations of the stream, whose columns no correction changes.
    """

    outlives_text: ClassVar[bool] = False

    def __init__(
        self, context: Context, join: Join, inputs: Inputs, left: ShownTable | None, own: frozenset[str]
    ) -> None:
        super().__init__(context, join, inputs)
        self.left, self._own = left, own

    def read(self) -> None:
        """Read the condition and the times.

        Raises:
            TemporalParseError, BindError, UnsupportedError: what was written cannot be joined or corrected so.
        """
        super().read()
        options, clause = self.clause.options, self.clause
        if clause.grace_us is not None:
            self._refuse("results do not wait: they go out at once and are corrected", options["GRACE PERIOD"])
        if clause.known is not None:
            self._refuse("what was known at a time does not change later", options["KNOWN AS OF"])
        for written in [self.as_of, *self.parts.left_keys] if self.left is not None else []:
            self._check_own(written)

    def build(self, name: str) -> tuple[CorrectedJoin, tuple[Conjunct, ...]]:
        """The plan node, and the ON conjuncts that are still to be tested on the picked version.

        Raises:
            TemporalParseError, BindError, UnsupportedError: what was written cannot be joined so.
        """
        plain, further = super().build(name)
        left = tuple(name for name in plain.config.left_columns if name != "__event_time")
        columns = tuple(column for column in plain.columns if column.name == "__reason" or column.name[:2] != "__")
        config = replace(plain.config, left_columns=left, name="corrected_join")
        node = CorrectedJoin(
            name, plain.left, plain.right, config, columns, plain.table, plain.late_to,
            plain.common_sequence, plain.left_names, plain.right_names, plain.places,
            is_changed=self.left is not None,
        )  # fmt: skip
        if self.inputs.arrival is not None:
            kept = order_of(plain.left, is_sequence=True)[:1] if plain.common_sequence else ()
            changed = tuple(column for column in plain.left.columns if is_row_key(column.name))
            keys = changed if node.is_changed else node.result_keys
            node = replace(node, columns=(*columns, *update_columns(kept, keys)))
        return node, further

    @property
    def keys(self) -> tuple[KeyColumn, ...]:
        """The key of the result, which no column shows."""
        if self.left is not None:
            return self.left.keys
        return tuple(KeyColumn(frozenset(), label=ROW_OF_STREAM) for _ in range(max(1, len(self.parts.left_keys)) + 1))

    def _check_ahead(self) -> None:
        """Results do not wait; TOLERANCE says how long a row may still be answered, and is kept."""
        if self.clause.tolerance_us is None:
            direction = str(self.direction).upper()
            raise BindError("AS_OF_JOIN.NEEDS_TOLERANCE", self.text, self.direction_span.pair, direction=direction)

    def _check_own(self, written: str) -> None:
        """Of a row whose results are corrected the key and the time stay: they are of the stream's own columns.

        Raises:
            UnsupportedError: one is of a version.
        """
        for reference in self.scope.references(tokenize(written)):
            if reference.side == "left" and reference.relation.name.lower() not in self._own:
                column = f"{reference.relation.name}.{reference.column.name}"
                self._refuse(f"`{column}` can be corrected itself", self.join.on or self.clause.head)

    def _refuse(self, reason: str, span: Span) -> NoReturn:
        raise UnsupportedError("UNSUPPORTED.EMIT_CORRECTIONS", self.text, span.pair, reason=reason)


def check_corrected(context: Context) -> None:
    """All of a query with EMIT CORRECTIONS can be corrected.

    Raises:
        UnsupportedError: `UNSUPPORTED.EMIT_CORRECTIONS`: what an operator gave depends on when rows arrived.
    """
    emit = context.tables.corrections
    if emit is None or not context.streaming:
        return
    for node in context.nodes.values():
        reason = _BY_ARRIVAL.get(type(node)) if isinstance(node, Operator) else None
        if reason is not None:
            raise UnsupportedError("UNSUPPORTED.EMIT_CORRECTIONS", context.text, emit.head.pair, reason=reason)
