"""The right side of a join that picks a row of a table: the table itself, or projections and filters over it.

It is a versioned table under AS OF, and an upsert table where a stream is joined with one. A filter is tested on the
row that was picked (semantics.md 6.8), so it may not remove rows before the pick: it becomes the flag ``__pass``.
Projections carry the hidden columns along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NoReturn

from catalog.entries import Column, Entry
from catalog.relations import versions_sql
from sqlx.bind.binder import Binder, InOrder, LiveRead
from sqlx.bind.reads import live_read, names_versions, query_behind
from sqlx.bind.spark_errors import refused_in
from sqlx.errors import BindError, UnsupportedError, did_you_mean
from sqlx.sql.parser import scan
from sqlx.sql.precedence import top_level
from sqlx.sql.structure import Block, Level, Relation
from sqlx.sql.tokens import Token, quoted, tokenize_span

_FORBIDDEN = {"DISTINCT": "DISTINCT", "OVER": "a window function"}
_GENERATORS = frozenset("EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE INLINE_OUTER STACK".split())


@dataclass(frozen=True)
class RightSide:
    """Versions of the right side as a query.

    Attributes:
        sql: a query that yields the visible columns and the hidden ones, a row a version.
        columns: the visible columns.
        hidden: names of the hidden columns that it has.
        keys: key column of the table to the visible column that shows it (None where it is not shown).
        entry: the definition behind it; None for any other relation (MATCH_CONDITION, ASOF).
        name: what messages call it.
        time: the visible column that is the table's TIMESTAMP BY; None where it is not shown, or an expression.
        is_sequence: a SEQUENCE BY says how its rows arrived.
        core: `sql` without the columns that a query may read or not, as text that says what a state is of; "" is all.
    """

    sql: str
    columns: tuple[Column, ...]
    hidden: tuple[str, ...]
    keys: tuple[tuple[str, str | None], ...]
    entry: Entry | None
    name: str
    time: str | None = None
    is_sequence: bool = False
    core: str = ""


class RightSideReader:
    """Finds the table behind a relation.

    Args:
        binder: names and types.
        text: the statement, for carets.
        streaming: read the table live; then its rows come from the relation of its own name.
        kind: of the table: 'versioned', or 'upsert'.
        in_order: of a bounded table how its rows arrived.
    """

    def __init__(
        self,
        binder: Binder,
        text: str,
        streaming: bool,
        kind: str = "versioned",
        in_order: InOrder | None = None,
    ) -> None:
        self.binder, self.text, self.streaming, self.kind, self.in_order = binder, text, streaming, kind, in_order

    def read(self, relation: Relation, level: Level) -> RightSide:
        """The versions behind a relation.

        Raises:
            BindError: the name is unknown, or is not a versioned table.
            UnsupportedError: it is more than projections and filters over one versioned table.
        """
        self.span = relation.body
        return self._relation(replace(relation, travel=None), level, self.text)

    def _relation(self, relation: Relation, level: Level, text: str) -> RightSide:
        extra = relation.travel or relation.extra
        if extra is not None:
            self._refuse(f"`{extra.of(text)}`")
        side = self._unnamed(relation, level, text)
        return renamed(side, relation.columns, text) if relation.columns else side

    def _unnamed(self, relation: Relation, level: Level, text: str) -> RightSide:
        """The relation without the names that its alias gives the columns."""
        if relation.kind == "name":
            return self._name(relation, level, text)
        if relation.kind == "query" and relation.query is not None:
            return self._query(relation.query, text, relation.visible_name or "the subquery")
        found = {"function": "a table function", "deduplicated": "DEDUPLICATE"}
        return self._refuse(found.get(relation.kind, "more than one relation"))

    def _name(self, relation: Relation, level: Level, text: str) -> RightSide:
        name = relation.parts[-1]
        cte = level.cte_of(relation)
        if cte is not None:
            side = self._query(cte.query, text, name)
            return renamed(side, cte.columns, text) if cte.columns else side
        entry = self.binder.entry(relation.parts)
        if entry is not None:
            return self._entry(entry)
        view = self.binder.view_text(relation.parts)
        if view is not None and names_versions(self.binder, scan(view)):
            return self._query(scan(view), view, name)
        return self._not_versioned(".".join(relation.parts), None)

    def _not_versioned(self, name: str, entry: Entry | None) -> NoReturn:
        if entry is None and self.binder.columns(f"SELECT * FROM {quoted_path(name)}") is None:
            suggestion = did_you_mean(name, self.binder.names())
            raise BindError("BIND.UNKNOWN_RELATION", self.text, self.span.pair, name=name, suggestion=suggestion)
        found = {"stream": "a stream", "upsert": "an upsert table"}[entry.kind] if entry else "a plain table of Spark's"
        raise BindError("AS_OF_JOIN.TABLE_NOT_VERSIONED", self.text, self.span.pair, table=name, found=found)

    def _entry(self, entry: Entry) -> RightSide:
        if self.kind == "upsert":
            return self._upsert(entry)
        if entry.kind != "versioned":
            self._not_versioned(entry.name, entry)
        behind = query_behind(self.binder, entry)
        if behind is not None:
            return self._derived(entry, self._query(scan(behind), behind, entry.name))
        if not self.streaming:
            return entry_side(entry if self.in_order is None else self.in_order(entry).entry, self.binder, None)
        return entry_side(entry, self.binder, live_read(self.binder, entry, self.text, self.span))

    def _upsert(self, entry: Entry) -> RightSide:
        if entry.kind == "versioned":
            raise UnsupportedError("UNSUPPORTED.VERSIONED_PLAIN_JOIN", self.text, self.span.pair, table=entry.name)
        return entry_side(entry, self.binder, live_read(self.binder, entry, self.text, self.span))

    def _derived(self, entry: Entry, side: RightSide) -> RightSide:
        """A table that is derived from another has its versions: what the definition says beside that must agree.

        Raises:
            UnsupportedError: `AS_OF_JOIN.DERIVED`: it does not.
        """
        shown = {(column or "").lower() for _, column in side.keys}
        base = side.entry
        assert base is not None, "a query over a versioned table has one behind it"
        differs = {
            "KEYS": {key.lower() for key in entry.keys} != shown,
            "TIMESTAMP BY": side.time is None or (_time_of(entry) or "").lower() != side.time.lower(),
            "HISTORY RETENTION": entry.retention_us not in (None, base.retention_us),
            "SEQUENCE BY": entry.sequence_by is not None,
            "APPLY AS DELETE WHEN": entry.delete_when is not None,
            "LATE TO": entry.late_to is not None,
        }
        clause = next((clause for clause, found in differs.items() if found), None)
        if clause is not None:
            parameters = {"table": entry.name, "base": base.name, "clause": clause}
            raise UnsupportedError("AS_OF_JOIN.DERIVED", self.text, self.span.pair, **parameters)
        return side

    def _query(self, level: Level, text: str, name: str) -> RightSide:
        block = self._only_block(level)
        item = block.items[0]
        inner = self._relation(item.relation, level, text)
        alias = item.relation.visible_name or "__sqlx_h"
        select = self._select_list(block, text, inner)
        passes = self._passes(block, text, inner, alias)
        hidden = tuple(h for h in inner.hidden if h != "__pass")
        carried = [f"{alias}.{h} AS {h}" for h in hidden] + [f"{p} AS __pass" for p in passes]
        sql, core = (
            f"SELECT {select}, {', '.join(carried)} FROM ({rows}) AS {alias}"
            for rows in (inner.sql, inner.core or inner.sql)
        )
        all_hidden = (*hidden, *(("__pass",) if passes else ()))
        columns = self.binder.columns(sql)
        if columns is None:
            refusal, tested = self.binder.refusal(), ", ".join([select, *passes])
            if self.binder.columns(f"SELECT {tested} FROM ({inner.sql}) AS {alias}") is not None:
                self._refuse("an aggregate")  # fine by itself, but not beside the time of each version
            raise refused_in(refusal or AssertionError("refused without a reason"), text, block.span)
        shown = tuple(c for c in columns if c.name not in all_hidden)
        lineage = _lineage(tokenize_span(text, block.select), inner)
        keys = tuple((key, _shown_as(lineage, column)) for key, column in inner.keys)
        time = _shown_as(lineage, inner.time)
        return RightSide(sql, shown, all_hidden, keys, inner.entry, name, time, inner.is_sequence, core)

    def _only_block(self, level: Level) -> Block:
        if len(level.blocks) != 1 or level.recursive:
            self._refuse("a set operation" if level.blocks else "no FROM clause")
        block = level.blocks[0]
        if not block.items:
            self._refuse("no FROM clause")
        if block.pipe or block.select is None or len(block.items) != 1 or block.items[0].joins:
            self._refuse("more than one relation" if not block.pipe else "pipe operators")
        return block

    def _select_list(self, block: Block, text: str, inner: RightSide) -> str:
        """The select list as written, its stars without the hidden columns."""
        tokens = tokenize_span(text, block.select)
        made = generators(tokens)
        for token in tokens:
            if token.word in _FORBIDDEN:
                self._refuse(_FORBIDDEN[token.word])
            if token in made:
                self._refuse(f"a generator, {token.text}")  # a version would become several rows, or none
        assert block.select is not None
        pieces: list[str] = []
        at = block.select.start
        for star in stars(tokens):
            pieces += [text[at : star.end], f" EXCEPT ({', '.join(inner.hidden)})"]
            at = star.end
        return "".join([*pieces, text[at : block.select.end]])

    def _passes(self, block: Block, text: str, inner: RightSide, alias: str) -> list[str]:
        tokens = tokenize_span(text, block.tail)
        passes = [f"{alias}.__pass"] if "__pass" in inner.hidden else []
        if not tokens:
            return passes
        if tokens[0].word != "WHERE" or any(
            t.word in ("GROUP", "HAVING", "ORDER", "LIMIT", "QUALIFY", "WINDOW") for t in tokens
        ):
            self._refuse(f"{tokens[0].text} …")
        condition = text[tokens[0].end : block.tail.end].strip()
        return [" AND ".join([*(f"coalesce({p}, true)" for p in passes), f"coalesce(({condition}), false)"])]

    def _refuse(self, found: str) -> NoReturn:
        condition = "TABLE_LOOKUP.RIGHT_SIDE" if self.kind == "upsert" else "AS_OF_JOIN.RIGHT_SIDE"
        raise UnsupportedError(condition, self.text, self.span.pair, found=found)


def renamed(side: RightSide, names: tuple[Token, ...], text: str) -> RightSide:
    """The same rows under the column names of an alias: ``AS r (id, price)``, ``WITH r (id, price) AS …``.

    Raises:
        BindError: there are more or fewer columns than names.
    """
    if len(names) != len(side.columns):
        span = (names[0].start, names[-1].end)
        raise BindError(
            "KEYED_JOIN.COLUMN_LIST", text, span, name=side.name, listed=len(names), found=len(side.columns)
        )
    shown = dict(zip((c.name for c in side.columns), (t.name for t in names), strict=True))
    items = [f"{quoted_path(old)} AS {quoted_path(new)}" for old, new in shown.items()]
    sql = f"SELECT {', '.join([*items, *side.hidden])} FROM ({side.sql}) AS __sqlx_h"
    columns = tuple(Column(shown[c.name], c.type) for c in side.columns)
    keys = tuple((key, None if column is None else shown.get(column, column)) for key, column in side.keys)
    return replace(side, sql=sql, columns=columns, keys=keys, time=shown.get(side.time or ""), core="")


def entry_side(entry: Entry, binder: Binder, live: LiveRead | None) -> RightSide:
    """The versions of a table of our catalog, as they arrived; live ones carry their order of arrival along."""
    source = entry if live is None else live.of(entry)
    by_arrival = live is None and entry.sequence_by is None and entry.valid_from is None
    arrival = arrival_of(entry, binder) if by_arrival else ()
    is_sequence = entry.sequence_by is not None
    if live is not None and live.arrival is not None:
        arrival, is_sequence = live.arrival.order, live.arrival.is_sequence
    hidden = ["__time"]
    hidden += ["__seq"] if entry.sequence_by else []
    hidden += ["__deleted"] if source.delete_when or entry.valid_from else []
    hidden += ["__arrival"] if entry.valid_from else []
    hidden += [f"__order{n}" for n in range(len(arrival))]
    keys = tuple((key, key) for key in entry.keys)
    in_one_scan, names = live is not None and live.arrival is not None, tuple(hidden)
    sql, core = (versions_sql(one, arrival, in_one_scan=in_one_scan) for one in (source, replace(source, columns=())))
    return RightSide(sql, entry.columns, names, keys, entry, entry.name, _time_of(entry), is_sequence, core)


def _time_of(entry: Entry) -> str | None:
    """The column that is the event time of a definition; None where that is an expression."""
    named = entry.timestamp_by.strip("`").lower()
    return next((column.name for column in entry.columns if column.name.lower() == named), None)


def arrival_of(entry: Entry, binder: Binder) -> tuple[str, ...]:
    """How the rows arrived: what the definition kept of it, else what the binder knows of its relation."""
    kept = entry.arrival
    return kept if kept and not any("_metadata" in k for k in kept) else (binder.arrival(entry.relation),)


def generators(tokens: tuple[Token, ...]) -> list[Token]:
    """The calls that make several rows of one, or none, by their names."""
    return [a for a, b in pairwise(tokens) if a.word in _GENERATORS and b.text == "("]


def stars(tokens: tuple[Token, ...]) -> list[Token]:
    """The stars that stand for columns, in a select list: neither products nor ``count(*)``."""
    found: list[Token] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if token.text != "*" or token.kind != "op":
            continue
        if (
            before is None
            or before.text in (",", ".")
            or before.word in ("DISTINCT", "ALL", "SELECT")
            or (before.text == "(" and index > 1 and tokens[index - 2].word != "COUNT" and tokens[index - 2].is_name)
        ):
            found.append(token)
    return found


def own_stars(tokens: tuple[Token, ...]) -> list[Token]:
    """The stars that are items themselves, and not arguments: ``struct(*)`` shows one column."""
    own = {token.start for _, token in top_level(tokens)}
    return [star for star in stars(tokens) if star.start in own]


def qualifier_of(tokens: Sequence[Token], at: int) -> str:
    """The lower-case name before the dot before a token; "" where there is none."""
    return tokens[at - 2].name.lower() if at >= 2 and tokens[at - 1].text == "." else ""


def quoted_path(name: str) -> str:
    """A dotted name with each part in backticks."""
    return ".".join(quoted(part) for part in name.replace("`", "").split("."))


def _shown_as(lineage: dict[str, str], column: str | None) -> str | None:
    if column is None:
        return None
    return next((shown for shown, source in lineage.items() if source.lower() == column.lower()), None)


def _lineage(tokens: tuple[Token, ...], inner: RightSide) -> dict[str, str]:
    """Output column to the inner column that it shows unchanged."""
    lineage: dict[str, str] = {}
    for item in _split_commas(tokens):
        if item and item[-1].text == "*":
            lineage.update({c.name: c.name for c in inner.columns})
            continue
        names = [t for t in item if t.is_name and t.word != "AS"]
        dotted = [n for n, t in enumerate(item) if t.text == "."]
        plain = all(t.is_name or t.text == "." for t in item) and len(dotted) <= 1
        if plain and names:
            source = item[dotted[0] + 1] if dotted else item[0]
            lineage[item[-1].name] = source.name
    return lineage


def _split_commas(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    parts: list[tuple[Token, ...]] = []
    depth = start = 0
    for index, token in enumerate(tokens):
        depth += (token.text in "([") - (token.text in ")]") if token.kind == "op" and len(token.text) == 1 else 0
        if token.text == "," and depth == 0:
            parts.append(tokens[start:index])
            start = index + 1
    return [*parts, tokens[start:]]
