"""Reads of definitions in a live query: each becomes a source of the plan, and shows what its rows carry along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from catalog.definitions import name_text
from catalog.entries import Entry
from catalog.relations import alias_text, columns_text
from sqlx.bind.binder import ROW, Binder, InOrder, LiveRead, NotLiveError, RowOrder
from sqlx.bind.reads import live_read
from sqlx.bind.right_side import arrival_of
from sqlx.errors import UnsupportedError
from sqlx.plan.nodes import PlanNode, Source
from sqlx.plan.row_order_paths import RowOrderPaths, shows_row, starred_arguments
from sqlx.plan.select_list import groups
from sqlx.sql.edits import Edits
from sqlx.sql.parser import read_tail
from sqlx.sql.structure import Block, Join, Level, Pipe, Relation
from sqlx.sql.tokens import Span, quoted

#: Under such names queries read live sources and the results of operators.
_LIVE_NAMES = ("__sqlx_live", "__sqlx_rel", "__sqlx_dedup", "__sqlx_agg", "__sqlx_tab")


def check_live_left(text: str, place: Span, left: str, arrival: RowOrder | None) -> RowOrder:
    """What the (left) input of a live operator carries along.

    Raises:
        UnsupportedError: no part of it is live.
    """
    if not any(name in left for name in _LIVE_NAMES):
        raise UnsupportedError("STREAMING.LEFT_NOT_LIVE", text, place.pair)
    return arrival or RowOrder()


@dataclass
class LiveReads:
    """The live reads of one statement.

    Args:
        text: the statement.
        binder: names and types.
        edits: of the statement.
        nodes: of the plan.
        in_order: of a definition how its bounded rows arrived.
        by_name: bounded streams are read by their names.
    """

    text: str
    binder: Binder
    edits: Edits
    nodes: dict[str, PlanNode]
    in_order: InOrder
    by_name: bool = False
    _carried: RowOrderPaths | None = None
    _shown: dict[tuple[int, int], RowOrder] = field(default_factory=dict)
    _handed: dict[int, RowOrder] = field(default_factory=dict)

    def start(self, root: Level, is_operator: Callable[[Join, Level], bool], *, hands_on: bool) -> None:
        """Find out which relations must show what their rows carry along; of a query that hands it on also for that."""
        self._carried = RowOrderPaths(self.text, root, self._order_type)
        self._carried.find(is_operator)
        if hands_on:
            self._carried.into(root)

    def start_bounded(self, root: Level, *, hands_on: bool) -> None:
        """The same of a bounded query: deduplications read event time and order of arrival through other queries."""
        self._carried = RowOrderPaths(self.text, root, self._bounded_type, is_bounded=True)
        self._carried.find_deduplications()
        if hands_on:
            self._carried.into(root)

    def _bounded_type(self, parts: tuple[str, ...]) -> str | None:
        found = self._bounded(parts)
        return self._type_of(*found) if found is not None else None

    def _type_of(self, read: str, carried: RowOrder) -> str | None:
        columns = self.binder.columns(f"SELECT {ROW} FROM {read}")
        return f"{columns[0].type} {carried.is_sequence}" if columns else None

    def _bounded(self, parts: tuple[str, ...]) -> tuple[str, RowOrder] | None:
        """A stream's rows of now with the hidden column, and what is in it; None for anything else."""
        entry = self.binder.entry(parts)
        if entry is None or entry.kind != "stream" or any(column.name.lower() == ROW for column in entry.columns):
            return None
        if self.by_name:
            return self._named(entry, parts)
        ordered = self.in_order(entry)
        order = (entry.sequence_by,) if entry.sequence_by is not None else arrival_of(ordered.entry, self.binder)
        carried = RowOrder(f"({entry.timestamp_by})", order, ordered.is_sequence)
        return _with_row(entry, ordered.entry.relation, carried), carried

    def _named(self, entry: Entry, parts: tuple[str, ...]) -> tuple[str, RowOrder] | None:
        """The same of a stream whose sequence is seen in the columns that it shows."""
        if entry.sequence_by is None:
            return None
        carried = RowOrder(f"({entry.timestamp_by})", (entry.sequence_by,), is_sequence=True)
        read = _with_row(entry, name_text(parts), carried)
        return (read, carried) if self.binder.columns(f"SELECT {ROW} FROM {read}") is not None else None

    def read_bounded(self, relation: Relation, level: Level) -> None:
        """A stream of a bounded query shows what its rows carry along where a deduplication reads it; see `read`."""
        if not self.is_carried(relation):
            return
        inner = level.query_of(relation)
        found = self._bounded(relation.parts) if inner is None and relation.kind == "name" else None
        if inner is not None:
            self._through(relation, inner)
        elif found is not None and relation.travel is None and relation.extra is None:
            self._shown[relation.span.pair] = found[1].of(relation.visible_name or "")
            self.edits.replace(relation.body, found[0])
            if relation.alias is None:
                self.edits.insert(relation.body.end, f" AS {quoted(relation.parts[-1])}")

    def _order_type(self, parts: tuple[str, ...]) -> str | None:
        """What the rows of a definition carry along: the type of their hidden column, and what it means."""
        entry = self.binder.entry(parts)
        if entry is None:
            return None
        try:
            live = self.binder.live(entry)
        except NotLiveError:  # said where it is read
            return None
        return self._type_of(live.name, live.arrival) if live.arrival is not None else None

    def read(self, relation: Relation, level: Level) -> None:
        """A temporal relation becomes a source of the plan; one that hands another's rows on shows what they carry."""
        inner = level.query_of(relation)
        if inner is not None:
            self._through(relation, inner)
        entry = None if inner is not None or relation.kind != "name" else self._read_of(relation)
        if entry is None:
            if relation.windows is not None:  # whoever groups by them makes the windows
                self.edits.replace(relation.body, relation.windows.source)
            return
        live = live_read(self.binder, entry, self.text, relation.body)
        self.nodes.setdefault(live.name, Source(entry))
        span = Span(relation.span.start, relation.body.end) if relation.stream else relation.body
        self.edits.replace(span, self._text(relation, entry, live))
        if relation.alias is None and live.arrival is not None:  # Spark takes an alias after WATERMARK and its kin
            end = span.end if relation.extra is None else relation.extra.end
            self.edits.insert(end, f" AS {quoted(relation.parts[-1])}")

    def _read_of(self, relation: Relation) -> Entry | None:
        """The definition, or the view over definitions, that a name is read live as."""
        entry = self.binder.entry(relation.parts)
        return self.binder.viewed(relation.parts) if entry is None and relation.stream else entry

    def handed_on(self, query: Level) -> RowOrder | None:
        """What the rows of a query carry along in its hidden column, where it was asked for and has one."""
        return self._handed.get(query.blocks[0].span.start) if query.blocks else None

    def _through(self, relation: Relation, inner: Level) -> None:
        handed = self.handed_on(inner)
        if handed is not None and self.is_carried(relation):
            self._shown[relation.span.pair] = handed.of(relation.visible_name or "")

    def is_carried(self, relation: Relation) -> bool:
        """Whether an operator reads what the rows of a relation carry along."""
        return self._carried is not None and relation.span.pair in self._carried.relations

    def _text(self, relation: Relation, entry: Entry, live: LiveRead) -> str:
        if live.arrival is None:
            return live.name
        if self.is_carried(relation):
            self._shown[relation.span.pair] = live.arrival.of(relation.visible_name or "")
            return live.name
        columns = ", ".join(quoted(column.name) for column in entry.columns)
        return f"(SELECT {columns} FROM {live.name})"

    def row_order_of(self, relation: Relation) -> RowOrder | None:
        """What the rows of a relation carry along, as far as it shows it."""
        return self._shown.get(relation.span.pair)

    def row_order_after(self, relation: Relation, before: RowOrder | None) -> RowOrder | None:
        """What the result of a deduplication carries along, where an operator reads it: noted as shown by it."""
        if before is None or not self.is_carried(relation):
            return None
        found = before.behind("")
        self._shown[relation.span.pair] = found.of(relation.given_name)
        return found

    def show(self, relation: Relation, carried: RowOrder) -> None:
        """Note what a relation shows of what its rows carry along."""
        self._shown[relation.span.pair] = carried

    def hand_on(self, block: Block, arrival: RowOrder | None, *, is_table: bool = False) -> None:
        """Let a block between a stream and an operator, and each that shows a table, show what its rows carry along."""
        if arrival is None or self._carried is None or not (is_table or block.span.start in self._carried.blocks):
            return
        if groups(self.text, block, read_tail(self.text, block)):
            return  # its result has an order of its own: hand_on_result
        first = block.items[0]
        is_replaced = not self._carried.is_bounded and any(join.as_of for join in first.joins)
        is_shown = not is_replaced and self.row_order_of(first.relation) == arrival
        if block.select is not None and not (is_shown and shows_row(self.text, block, first.relation)):
            self.edits.insert(block.select.end, row_item(arrival))
        elif block.select is None and not is_shown:  # a SELECT stands there that hides what the operator's result has
            self.edits.insert(block.tail.start, f"{row_item(arrival)} ")
        for end in self._carried.selects.get(block.span.start, ()):
            self.edits.insert(end, f", {ROW}")
        self._handed[block.span.start] = arrival

    def rows_shown(self, block: Block, arrival: RowOrder | None, *, is_replaced: bool) -> frozenset[str]:
        """The relations of a block whose stars show the hidden column, by their names in lower case.

        Args:
            block: its relations are put in.
            arrival: what the rows of the first one carry along.
            is_replaced: the result of a join stands for some of them; live it shows none.
        """
        if is_replaced and not (self._carried is not None and self._carried.is_bounded):
            return frozenset()
        relations = [r for item in block.items for r in (item.relation, *(join.relation for join in item.joins))]
        first = relations[:1] if arrival is not None else []
        shown = [*first, *(r for r in relations if self.row_order_of(r) is not None)]
        return frozenset((r.visible_name or "").lower() for r in shown)

    def hide_row(self, block: Block, shown: frozenset[str], *, is_replaced: bool) -> None:
        """Keep the hidden column out of stars that are arguments: ``struct(*)`` has the fields that a user knows.

        Args:
            block: its relations are put in.
            shown: see `rows_shown`.
            is_replaced: a star without a name is put right already.
        """
        for star, qualifier, excepted in starred_arguments(self.text, block) if shown else ():
            passed = [pipe for pipe in block.level.pipes if pipe.span.start < star.start]
            is_behind = bool(passed) and not self.is_read_again(block.level, passed[-1])
            if is_behind or (qualifier not in shown if qualifier else is_replaced):
                continue
            if excepted is not None:
                self.edits.insert(excepted.end, f"{ROW}, ")
            else:
                self.edits.replace(Span(star.start, star.end), f"* EXCEPT ({ROW})")

    def piped(self, level: Level, pipe: Pipe, name: str) -> RowOrder:
        """What the rows before a pipe operator carry along, where the query before it has a name."""
        handed = self._handed.get(level.blocks[0].span.start) if self._is_piped(pipe) else None
        return handed.of(name) if handed is not None else RowOrder()

    def row_order_behind(self, level: Level, pipe: Pipe, before: RowOrder) -> RowOrder | None:
        """What the result of a pipe operator carries along, where another one of ours reads it."""
        if not self.is_read_again(level, pipe) or before.time is None:
            return None
        self._handed[level.blocks[0].span.start] = found = before.behind("")
        return found

    def is_read_again(self, level: Level, pipe: Pipe) -> bool:
        """Whether another pipe operator of ours reads what the result of one carries along."""
        following = level.pipes[level.pipes.index(pipe) + 1 :]
        return bool(following) and self._is_piped(following[0])

    def _is_piped(self, pipe: Pipe) -> bool:
        return self._carried is not None and pipe.span.start in self._carried.piped

    def hand_on_finals(self, block: Block, carried: RowOrder) -> None:
        """Let a bounded block show what its final results carry along, where a deduplication reads them."""
        if self._carried is None or block.select is None or block.span.start not in self._carried.blocks:
            return
        self._handed[block.span.start] = carried
        self.edits.insert(block.select.end, row_item(carried))

    def hand_on_result(self, block: Block, arrival: RowOrder | None) -> str:
        """A select list item with what the finals of a block carry along, where an operator reads them; else ""."""
        if arrival is None or self._carried is None or block.span.start not in self._carried.blocks:
            return ""
        found = self._handed[block.span.start] = arrival.behind("")
        return row_item(found)


def _with_row(entry: Entry, relation: str, carried: RowOrder) -> str:
    """The rows of a relation under the columns of a definition, with the hidden one."""
    return f"(SELECT {columns_text(entry)}{row_item(carried)} FROM {relation} AS {alias_text(entry)})"


def row_item(carried: RowOrder) -> str:
    """The hidden column as one more item of a select list."""
    return f", {carried.struct} AS {ROW}"
