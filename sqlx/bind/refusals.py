"""What the compiler has to say: why a query cannot be bound, and the defaults that could surprise."""

from __future__ import annotations

from collections.abc import Iterator

from sqlx.bind.binder import Binder
from sqlx.bind.scope import name_chains
from sqlx.errors import BindError, TemporalSqlError, UnsupportedError, did_you_mean
from sqlx.sql.structure import Block, FromItem, Join, Level, Relation
from sqlx.sql.tokens import Span, Token, tokenize_span

# Names that an AS OF join cannot see although they stand near: of the query around it, or across a comma.


_VAGUE = ("BIND.UNKNOWN_COLUMN", "REPLAY.QUERY_REFUSED")


def explain_binding_error(error: Exception, text: str, block: Block, join: Join, binder: Binder) -> Exception:
    """A better error than the given one, where a name that the join cannot see is its reason; else the given one.

    Args:
        error: what was raised while the join was bound.
        text: the statement.
        block: the query block of the join.
        join: the join.
        binder: knows the columns of the relations around it.
    """
    if isinstance(error, TemporalSqlError) and error.condition not in _VAGUE:
        return error
    known = isinstance(error, BindError) and error.span is not None
    span = Span(*error.span) if known else Span(block.items[0].start, join.span.end)  # type: ignore[attr-defined]
    tokens = tokenize_span(text, span)
    around = {name: r for r in _around(block) if (name := _name(r))}
    beside = {_name(r) for item in block.items for r in _relations(item)}
    for chain in name_chains(tokens):
        where = (chain[0].start, chain[-1].end)
        column, first = ".".join(t.name for t in chain), chain[0].name.lower()
        if known and len(chain) > 1 and first in beside:
            return _across_comma(error, text, block, join, first, where)
        if _is_around(chain, around, tokens, binder, known):
            return UnsupportedError("UNSUPPORTED.CORRELATED", text, where, column=column)
    return error


def _across_comma(
    error: Exception, text: str, block: Block, join: Join, name: str, where: tuple[int, int]
) -> Exception:
    own = next((i for i in block.items if i.start <= join.span.start < i.end), None)
    if own is None or name in {_name(r) for r in _relations(own)}:
        return error
    return BindError("KEYED_JOIN.BEHIND_COMMA", text, where, name=name)


def _is_around(
    chain: list[Token], around: dict[str, Relation], tokens: tuple[Token, ...], binder: Binder, known: bool
) -> bool:
    """Whether a name is one of a relation around the query; without qualifier its columns are asked for."""
    if len(chain) > 1:
        first = chain[0].name.lower()
        return first in around and not _declares(tokens, first)
    for relation in around.values() if known else ():
        columns = binder.columns(f"SELECT * FROM {'.'.join(relation.parts)}") if relation.parts else None
        if any(c.name.lower() == chain[0].name.lower() for c in columns or ()):
            return True
    return False


def _declares(tokens: tuple[Token, ...], name: str) -> bool:
    """Whether a name is alone somewhere, as the name of a relation does."""
    following = (*(t.text for t in tokens[1:]), "")
    return any(t.is_name and t.name.lower() == name and f != "." for t, f in zip(tokens, following, strict=True))


def _around(block: Block) -> Iterator[Relation]:
    """The relations of the queries around a block, which a correlated subquery could name."""
    level = block.level
    while level.parent is not None and level.cte is None:
        for outer in level.parent.blocks:
            if outer.span.start <= level.span.start < outer.span.end:
                for item in outer.items:
                    yield from (r for r in _relations(item) if r.query is not level)
        level = level.parent


def _relations(item: FromItem) -> Iterator[Relation]:
    for relation in (item.relation, *(j.relation for j in item.joins)):
        yield relation
        if relation.group is not None:
            yield from _relations(relation.group)


def _name(relation: Relation) -> str:
    return (relation.visible_name or "").lower()


def check_relation(binder: Binder, text: str, relation: Relation, body: str) -> None:
    """A name that the engine does not know, said with a caret.

    Raises:
        BindError: there is no such relation.
    """
    if relation.kind == "name":
        check_known(binder, text, relation.body, ".".join(relation.parts), body)


def check_known(binder: Binder, text: str, span: Span, name: str, body: str) -> None:
    """A name in ``span`` that the engine does not know, asked for as ``body``.

    Raises:
        BindError: there is no such relation.
    """
    if binder.columns(f"SELECT * FROM {body}") is None:
        suggestion = did_you_mean(name, binder.names())
        raise BindError("BIND.UNKNOWN_RELATION", text, span.pair, name=name, suggestion=suggestion)


def undefined_stream(binder: Binder, text: str, root: Level) -> UnsupportedError:
    """The error for a stream of Spark's own, which an operator of the statement reads."""
    read = root.read()
    found = next((r for r in read if r.stream and binder.entry(r.parts) is None), None)
    found = found or next((r for r in read if binder.is_stream(f"SELECT * FROM {r.body.of(text)}")), None)
    if found is None:
        return UnsupportedError("STREAMING.UNDEFINED", text, (0, len(text)), name="The input", hint="")
    name = ".".join(found.parts)
    hint = f"Write CREATE STREAM s FROM {name} TIMESTAMP BY column, and read STREAM s."
    if binder.entry(found.parts) is not None:
        hint = f"Read it live: STREAM {name}."
    return UnsupportedError("STREAMING.UNDEFINED", text, found.body.pair, name=name, hint=hint)


def check_names(text: str, relations: list[tuple[str, Relation | None]]) -> None:
    """Every relation of a join has a name of its own: the last is the right side.

    Raises:
        BindError: two have the same.
    """
    seen: set[str] = set()
    for name, relation in relations:
        if name.lower() in seen:
            place = relation or next(r for _, r in reversed(relations) if r is not None)
            span = place.alias or place.body
            raise BindError("KEYED_JOIN.DUPLICATE_NAME", text, (span.start, span.end), name=name)
        seen.add(name.lower())
