"""The operands of joins of ours: what is known of them, and right ones other than versioned tables under AS OF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlx.cut import with_clause
from sqlx.errors import UnsupportedError
from sqlx.reads import live_read
from sqlx.right_side import RightSide, RightSideReader, entry_side, renamed

if TYPE_CHECKING:
    from catalog.entries import Entry
    from sqlx.compiler import Compiler
    from sqlx.scope import Visible
    from sqlx.structure import Join, Level, Relation


@dataclass
class Known:
    """What the compiler knows of one relation of a FROM clause while it walks over its joins."""

    visible: Visible
    relation: Relation | None = None


def any_right(compiler: Compiler, reader: RightSideReader, relation: Relation, level: Level) -> RightSide:
    """MATCH_CONDITION and ASOF take any relation; a versioned table gives its versions.

    Raises:
        BindError, UnsupportedError: there is no such relation, or it cannot stand there.
    """
    entry = compiler.binder.entry(relation.parts) if relation.kind == "name" else None
    if entry is not None and entry.kind == "versioned":
        return reader.read(relation, level)
    if compiler.streaming:
        return reader.read(relation, level)
    prefix = with_clause(compiler.text, compiler.edits, level, relation.span)
    body = compiler.edits.render(relation.body)
    body += "".join(f" {part.of(compiler.text)}" for part in (relation.travel, relation.extra) if part is not None)
    sql = f"{prefix}SELECT * FROM {body}"
    columns = compiler.bound(sql, relation)
    arrival = compiler.binder.arrival(body) if not prefix else "monotonically_increasing_id()"
    sql = f"{prefix}SELECT *, {arrival} AS __order0 FROM {body}"
    side = RightSide(sql, columns, ("__order0",), (), None, relation.visible_name or "the right side")
    return renamed(side, relation.columns, compiler.text) if relation.columns else side


def upsert_side(compiler: Compiler, entry: Entry, join: Join) -> RightSide:
    """The rows of an upsert table as a stream looks them up.

    Raises:
        UnsupportedError: it is another kind of definition.
    """
    if entry.kind == "versioned":
        span = join.relation.body.pair
        raise UnsupportedError("UNSUPPORTED.VERSIONED_PLAIN_JOIN", compiler.text, span, table=entry.name)
    if entry.kind == "stream":
        hint = "Join the stream with a table: CREATE VERSIONED TABLE or CREATE UPSERT TABLE."
        what = "A join of two streams"
        raise UnsupportedError("UNSUPPORTED.STREAM_FRAGMENT", compiler.text, join.span.pair, what=what, hint=hint)
    return entry_side(entry, compiler.binder, live_read(compiler.binder, entry, compiler.text, join.relation.body))
