"""A plain join of two live tables: by the primary keys of both, or by columns of the left and the key of the right.

Source: KIP-914 ("table-table joins"), semantics.md 8, 9, A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from catalog.entries import Column
from sqlx.bind.scope import RelationScope
from sqlx.errors import UnsupportedError
from sqlx.plan.context import Context
from sqlx.plan.keyed_join import Inputs, KeyedJoinBuilder
from sqlx.plan.nodes import Fragment, TableJoin
from sqlx.plan.table_reads import KeyColumn, ShownTable
from sqlx.plan.updates import order_of, update_columns
from sqlx.sql.expressions import Conjunct
from sqlx.sql.structure import Join
from sqlx.sql.tokens import quoted, tokenize
from udtf.operators.table_join.logic import JoinKind, TableJoinConfig

_KINDS: dict[str, JoinKind] = {
    "": "inner",
    "INNER": "inner",
    "LEFT": "left",
    "LEFT OUTER": "left",
    "FULL": "full",
    "FULL OUTER": "full",
}


class TableJoinBuilder(KeyedJoinBuilder):
    """Builds one join of two tables.

    Args:
        context, join, inputs: see the base.
        left: what the left side shows.
        right: the same of the right side.
    """

    outlives_text: ClassVar[bool] = False

    def __init__(self, context: Context, join: Join, inputs: Inputs, left: ShownTable, right: ShownTable) -> None:
        super().__init__(context, join, inputs)
        self.left, self.right = left, right
        self.kind: JoinKind = _KINDS.get(join.kind, "inner")

    def check_kind(self) -> None:
        """INNER, LEFT and FULL are kept up to date.

        Raises:
            UnsupportedError: the join is of another kind.
        """
        if self.join.kind not in _KINDS:
            span = (self.join.span.start, self.join.span.start + len(self.join.kind))
            raise UnsupportedError("TABLE_JOIN.KIND", self.text, span, kind=self.join.kind)

    def read(self) -> None:
        """Read the condition.

        Raises:
            BindError, UnsupportedError: what was written cannot be joined so.
        """
        super().read()
        if not self.inputs.right.keys:
            raise UnsupportedError("TABLE_JOIN.NO_KEY", self.text, self.join.relation.span.pair, table=self.right.name)
        self.check_keys()
        place = (self.join.on or self.join.span).pair
        if self.kind == "full" and self.parts.further:
            raise UnsupportedError("TABLE_JOIN.FULL_CONDITION", self.text, self.parts.further[0].span.pair)
        if self.kind == "full" and self._is_foreign:
            raise UnsupportedError("TABLE_JOIN.FULL_FOREIGN", self.text, place, table=self.left.name)

    def build(self, name: str) -> tuple[TableJoin, tuple[Conjunct, ...]]:
        """The plan node, and the ON conjuncts that are still to be tested on what was joined.

        Raises:
            BindError, UnsupportedError: what was written cannot be joined so.
        """
        left_side, right_side = self.projections()
        left_payload, right_payload = self.inputs.payload_items()
        left_columns, right_columns = tuple(left_payload), tuple(right_payload)
        if self.kind == "left" and self.parts.further:  # a NULL payload may be a row, or none: the flag tells
            right_columns = (*right_columns, f"_r{len(right_columns)}")
            right_payload[right_columns[-1]] = "true"
        left_side.add(left_payload)
        right_side.add(right_payload)
        if self.left.carried is not None and self.right.carried is not None:
            left_side.add(self.left.carried.named)
            right_side.add(self.right.carried.of(self.inputs.right_name).named)
        written = dict(left_side.items), dict(right_side.items)
        self.cast_keys(left_side, right_side)
        keeps_right = self._keeps(self.right, self.parts.right_keys, written[1] == right_side.items)
        keeps_left = not self._is_foreign and self._keeps(
            self.left, self.parts.left_keys, written[0] == left_side.items
        )
        left, right = left_side.fragment(), right_side.fragment()
        self.check_carried(left, right)
        config = TableJoinConfig(
            join=self.kind,
            n_keys=len(self.parts.left_keys),
            left_columns=left_columns,
            right_columns=right_columns,
            is_foreign=self._is_foreign,
        )
        columns = tuple(c for c in (*left.columns, *right.columns) if not c.name.startswith("__"))
        is_common = self._is_common(left, right)
        left_names, right_names = self.inputs.shown_names()
        node = TableJoin(
            name, left, right, config, columns, f"{self.left.name} and {self.right.name}",
            common_sequence=is_common, left_names=left_names, right_names=right_names, keys=self._places(),
            keeps=(keeps_left, keeps_right),
        )  # fmt: skip
        if self.left.carried is not None:
            kept = order_of(left, is_sequence=True)[:1] if is_common else ()
            keys = (c for c in left.columns if c.name.startswith("__u" if self._is_foreign else "__k"))
            node = replace(node, columns=(*columns, *update_columns(kept, keys)))
        return node, tuple(self.parts.further)

    def _keeps(self, side: ShownTable, keys: Sequence[str], as_written: bool) -> bool:
        """Whether a side shows a definition as it is, and they meet by its key and nothing else, in its own types."""
        met = [self._key(side, expression) for expression in keys]
        by_key = as_written and None not in met and len(met) == len(set(met)) == len(side.keys)
        return by_key and side.read is not None and not side.read.shows_every_update

    def _is_common(self, left: Fragment, right: Fragment) -> bool:
        """Whether both sides have a SEQUENCE BY of one type, by which their updates interleave."""
        sides = (self.left.carried, self.right.carried)
        if not all(carried is not None and carried.is_sequence for carried in sides):
            return False
        types = [{c.name: c.type for c in side.columns}.get("__o0") for side in (left, right)]
        return types[0] == types[1]

    @property
    def keys(self) -> tuple[KeyColumn, ...]:
        """The key of the result, in the order in which its updates have it."""
        if self._is_foreign:
            return self.left.keys
        found = []
        for left, right in self._pairs():
            shown = left.names if self.kind == "left" else left.names | right.names
            column = {token.name.lower() for token in self.join.using} & {name for _, name in right.names}
            merged = frozenset((self.merged_name, name) for name in column)
            found.append(KeyColumn(merged, shown) if self.kind == "full" else KeyColumn(shown))
        return tuple(found)

    @property
    def merged_name(self) -> str:
        """The relation that shows the columns which USING of a FULL JOIN has merged."""
        return f"__sqlx_using{self.join.span.start}"

    @property
    def _is_foreign(self) -> bool:
        """Whether the sides meet by anything but the key of both."""
        pairs = self._pairs()
        covered = {left for left, _ in pairs}
        return len(pairs) != len(self.parts.left_keys) or covered != set(self.left.keys) or len(covered) != len(pairs)

    def _pairs(self) -> list[tuple[KeyColumn, KeyColumn]]:
        """The columns of both keys that are compared, in the order of ON."""
        found = []
        for left, right in zip(self.parts.left_keys, self.parts.right_keys, strict=True):
            own, other = self._key(self.left, left), self._key(self.right, right)
            found += [(own, other)] if own is not None and other is not None else []
        return found

    def _key(self, side: ShownTable, expression: str) -> KeyColumn | None:
        """The column of a side's key that an expression is."""
        tokens = tokenize(expression)
        if not all(token.is_name or token.text == "." for token in tokens):
            return None
        column, relation = tokens[-1].name.lower(), tokens[-3].name.lower() if len(tokens) > 2 else None
        names = [r.name.lower() for r in side.relations if r.column(column) and column not in r.merged]
        asked = relation if relation is not None else next(iter(names), "")
        return next((key for key in side.keys if (asked, column) in key.names), None)

    def _places(self) -> tuple[tuple[int, int], ...]:
        """Where result columns are the key: their place, and which column of the key they are."""
        found: list[tuple[int, int]] = []
        shown = [(r.name.lower(), c.name.lower()) for r, c in self.inputs.left_needed]
        shown += [(self.inputs.right_name.lower(), c.name.lower()) for c in self.inputs.right_needed]
        for number, key in enumerate(self.keys):
            found += [(place, number) for place, name in enumerate(shown) if name in key.names | key.either]
        return tuple(found)


@dataclass(frozen=True)
class MergedColumns:
    """The columns that USING of a FULL JOIN merges: they belong to neither side, a relation of their own shows them.

    Attributes:
        scope: that relation.
        expressions: of its columns, over the operator's result.
    """

    scope: RelationScope
    expressions: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the operator's result has beside its own columns."""
        return tuple(Column(f"__m{n}", column.type) for n, column in enumerate(self.scope.columns))

    def source(self, name: str) -> str:
        """The operator's result with these columns."""
        items = [f"{expression} AS {c.name}" for expression, c in zip(self.expressions, self.columns, strict=True)]
        return f"(SELECT *, {', '.join(items)} FROM {name})"

    def lateral(self, alias: str) -> str:
        """The relation that shows them, behind those of the sides."""
        shown = zip(self.columns, self.scope.columns, strict=True)
        items = ", ".join(f"{alias}.{own.name} AS {quoted(column.name)}" for own, column in shown)
        return f" CROSS JOIN LATERAL (SELECT {items}) AS {quoted(self.scope.name)}"

    def seen(self, sides: tuple[RelationScope, ...]) -> tuple[RelationScope, ...]:
        """What the query sees: these columns first, and those of the sides by their full names alone."""
        names = {column.name.lower() for column in self.scope.columns}
        own = (names & {column.name.lower() for column in side.columns} for side in sides)
        return self.scope, *(replace(s, merged=s.merged | merged) for s, merged in zip(sides, own, strict=True))


def merged_columns(builder: TableJoinBuilder) -> MergedColumns | None:
    """What USING of a FULL JOIN merges, as far as the query can read it."""
    names = [token.name.lower() for token in builder.join.using] if builder.kind == "full" else []
    expressions, columns = [], []
    for name in names:
        left = [(n, c) for n, (_, c) in enumerate(builder.inputs.left_needed) if c.name.lower() == name]
        right = [n for n, c in enumerate(builder.inputs.right_needed) if c.name.lower() == name]
        if left and right:
            (place, column), *_ = left
            expressions.append(f"coalesce(_l{place}, _r{right[0]})")
            columns.append(column)
    scope = RelationScope(builder.merged_name, tuple(columns))
    return MergedColumns(scope, tuple(expressions)) if columns else None
