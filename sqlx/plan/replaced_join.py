"""The text that is in an operator's place: its result, with the names that the query knows given back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.entries import Column
from sqlx.bind.binder import ROW
from sqlx.bind.right_side import own_stars, stars
from sqlx.bind.scope import RelationScope
from sqlx.errors import UnsupportedError
from sqlx.plan.keyed_join import Inputs
from sqlx.plan.nodes import AsOfJoin, TableJoin, TableLookup
from sqlx.plan.table_join import MergedColumns
from sqlx.plan.updates import carried_by, updates_in
from sqlx.sql.edits import Edits
from sqlx.sql.structure import Block, FromItem
from sqlx.sql.tokens import Span, Token, quoted, tokenize_span

_BEFORE_OPERANDS = frozenset(
    "SELECT DISTINCT ALL WHERE AND OR NOT ON BY HAVING QUALIFY CASE WHEN THEN ELSE BETWEEN IN LIKE ILIKE RLIKE REGEXP "
    "DIV IS FROM LIMIT OFFSET ESCAPE EXTEND AGGREGATE SET DROP".split()
)


def restored(  # noqa: PLR0913  # what stands in a join's place is made of all that the join has
    number: int,
    node: AsOfJoin | TableJoin | TableLookup,
    left: list[tuple[str, list[tuple[str, Column]]]],
    inputs: Inputs,
    conditions: list[str],
    reason: str | None,
    merged: MergedColumns | None = None,
) -> str:
    """What replaces ``left JOIN right AS OF …`` in the FROM clause.

    Args:
        number: of the operator in the statement.
        node: the operator.
        left: per relation of the left side its name and its needed columns with what they are called in the payload.
        inputs: the operator's inputs.
        conditions: ON conjuncts to test on the picked version.
        reason: name of the reason column that was asked for, or None.
        merged: the columns that belong to neither side.
    """
    alias = f"__sqlx_op{number}"
    views = [_lateral(alias, name, [(place, c.name) for place, c in columns]) for name, columns in left]
    right = [(place, c.name) for place, c in zip(inputs.names[1], inputs.right_needed, strict=True)]
    plain_right = _lateral(alias, inputs.right_name, right)
    source = f"{node.name if merged is None else merged.source(node.name)} AS {alias}"
    if conditions:
        condition = " AND ".join(f"({c})" for c in conditions)
        source = _tested(node, alias, "".join([*views, plain_right]), condition)
    if reason is not None:
        right.append(("__reason", reason))
    shown = source + "".join(views) + _lateral(alias, inputs.right_name, right)
    return shown if merged is None else shown + merged.lateral(alias)


def _lateral(alias: str, name: str, columns: list[tuple[str, str]]) -> str:
    if not columns:
        return ""
    items = ", ".join(f"{alias}.{place} AS {quoted(shown)}" for place, shown in columns)
    return f" CROSS JOIN LATERAL (SELECT {items}) AS {quoted(name)}"


def _tested(node: AsOfJoin | TableJoin | TableLookup, alias: str, laterals: str, condition: str) -> str:
    """The result with the further conditions tested: an inner join drops the row, a left join unmatches it.

    ::

        (SELECT _l0, CASE WHEN ok THEN _r0 END AS _r0 FROM (SELECT op.*, matched AND condition AS ok FROM op)) AS op
    """
    if node.config.join == "inner":
        if updates_in(node) is not None:
            carried = carried_by(node.columns, alias, is_sequence=False)
            condition = f"({condition}) AND NOT {carried.is_gone}"
        return f"(SELECT {alias}.* FROM {node.name} AS {alias}{laterals} WHERE {condition}) AS {alias}"
    flag = f"({alias}.{node.matched} AND coalesce(({condition}), false)) AS __sqlx_ok"
    inner = f"SELECT {alias}.*, {flag} FROM {node.name} AS {alias}{laterals}"
    items = [_when_matched(alias, c.name) for c in node.columns]
    return f"(SELECT {', '.join(items)} FROM ({inner}) AS {alias}) AS {alias}"


def _when_matched(alias: str, column: str) -> str:
    """A column of the result, NULL (or the reason `condition`) where the row was unmatched."""
    if column == "__reason":
        return f"CASE WHEN NOT {alias}.__sqlx_ok THEN coalesce({alias}.__reason, 'condition') END AS __reason"
    if column.startswith(("_l", "__")):  # of the left row, with what it carries along: it is there, matched or not
        return f"{alias}.{column}"
    return f"CASE WHEN {alias}.__sqlx_ok THEN {alias}.{column} END AS {column}"


@dataclass(frozen=True)
class ReplacedJoin:
    """An operator's result where it is in a FROM clause, once the text is rewritten.

    Attributes:
        span: what it replaces.
        number: of the operator.
        columns: of its result, which stars must not show.
        relations: what the query sees in it.
        first: whether it is the first item of the FROM clause.
    """

    span: Span
    number: int
    columns: tuple[Column, ...]
    relations: tuple[RelationScope, ...]
    first: bool

    @property
    def hidden(self) -> list[str]:
        """The result's own columns, and those that USING has merged."""
        own = [f"__sqlx_op{self.number}.{c.name}" for c in self.columns]
        return own + [f"{quoted(r.name)}.{quoted(name)}" for r in self.relations for name in sorted(r.merged)]

    @property
    def owners(self) -> dict[str, str]:
        """Merged column (lower case) to the qualified column that stands for it."""
        merged = {name for r in self.relations for name in r.merged}
        found: dict[str, str] = {}
        for name in sorted(merged):
            owner = next((r for r in self.relations if r.column(name) and name not in r.merged), None)
            if owner is not None:
                found[name] = f"{quoted(owner.name)}.{quoted(owner.column(name).name)}"  # type: ignore[union-attr]
        return found


def apply_names(text: str, block: Block, edits: Edits, standing: ReplacedJoin, with_row: frozenset[str]) -> None:
    """Let stars and names that USING has merged mean what they meant before the rewriting.

    Args:
        text: the statement.
        block: of it.
        edits: for what has to be written otherwise.
        standing: the join that was replaced.
        with_row: the relations whose stars show the hidden column; those that are arguments must not.
    """
    tokens = tokenize_span(text, block.select)
    if block.pipe and not tokens_of_hive(text, block):
        edits.insert(block.tail.start, f" |> SELECT * EXCEPT ({', '.join(standing.hidden)}) ")
        return
    tokens = tokens or tokens_of_hive(text, block)
    own = own_stars(tokens)
    for star in stars(tokens):
        before = next((t for t in reversed(tokens) if t.end <= star.start), None)
        if before is None or before.text != ".":
            following = [t for t in tokens if t.start >= star.end][:2]
            rows = [r for r in standing.relations if star not in own and r.name.lower() in with_row]
            if (following[:1] and following[0].word == "EXCEPT") or not _is_all(text, block, standing):
                _except(edits, star, following, standing, [f"{quoted(r.name)}.{ROW}" for r in rows])
            else:
                all_of = [f"{quoted(r.name)}.*" + (f" EXCEPT ({ROW})" if r in rows else "") for r in standing.relations]
                edits.replace(Span(star.start, star.end), ", ".join(all_of))
    owners = standing.owners
    _check_later_using(text, block, standing.span, set(owners))
    for token in _own_names(text, block, standing.span) if owners else ():
        if token.name.lower() in owners:
            edits.replace(Span(token.start, token.end), owners[token.name.lower()])


def tokens_of_hive(text: str, block: Block) -> tuple[Token, ...]:
    """What follows the FROM clause of ``FROM a SELECT x``, without subqueries; () where pipes follow it."""
    inner = [level.span for level in block.level.children if level.blocks]
    tokens = tuple(t for t in tokenize_span(text, block.tail) if not any(s.start <= t.start < s.end for s in inner))
    piped = next((n for n, t in enumerate(tokens) if t.text == "|>"), len(tokens))
    return tokens if block.pipe and any(t.word in ("SELECT", "MAP", "REDUCE") for t in tokens[:piped]) else ()


def _is_all(text: str, block: Block, standing: ReplacedJoin) -> bool:
    """Whether a star shows the operator's relations, each with all of its columns, and nothing else.

    It can be written as their stars then. Spark takes long to leave out columns: the square of their number.
    """
    after = next(iter(tokenize_span(text, block.tail)), None)
    names = [relation.name.lower() for relation in standing.relations]
    is_alone = len(block.items) == 1 and (block.items[0].start, block.items[0].end) == standing.span.pair
    is_last = after is None or after.word not in ("LATERAL", "PIVOT", "UNPIVOT")
    is_plain = all(r.name and r.columns and not r.merged for r in standing.relations)
    return is_alone and is_last and is_plain and len(set(names)) == len(names)


def _except(edits: Edits, star: Token, following: list[Token], standing: ReplacedJoin, rows: list[str]) -> None:
    """``*`` to ``k, * EXCEPT (…)``: without what is hidden, the merged columns first as Spark has them."""
    owners = list(standing.owners.values()) if standing.first else []
    hidden = ", ".join([*standing.hidden, *rows, *owners])
    if [t.text.upper() for t in following] == ["EXCEPT", "("]:
        edits.insert(following[1].end, f"{', '.join([*standing.hidden, *rows])}, ")
        return
    edits.insert(star.start, "".join(f"{owner}, " for owner in owners))
    edits.insert(star.end, f" EXCEPT ({hidden})")


def _check_later_using(text: str, block: Block, without: Span, merged: set[str]) -> None:
    """A later RIGHT or FULL join that merges a merged column again would show another side's values in it.

    Raises:
        UnsupportedError: there is one.
    """
    for join in (join for item in block.items for join in item.joins):
        names = [t for t in join.using if t.name.lower() in merged]
        if names and join.span.start >= without.end and ("RIGHT" in join.kind or "FULL" in join.kind):
            raise UnsupportedError(
                "UNSUPPORTED.USING_AGAIN", text, join.span.pair, kind=join.kind, column=names[0].name
            )


def _begins_operand(before: Token) -> bool:
    """Whether a name after this token can be a column: after an operand it would be an alias."""
    if before.kind == "op":
        return before.text not in (".", ")", "]")
    return before.kind == "word" and before.word in _BEFORE_OPERANDS


def _own_names(text: str, block: Block, without: Span) -> Iterator[Token]:
    """Unqualified names in a block that can be columns of its FROM clause; not those inside subqueries."""
    inner = [level.span for level in block.level.children if level.blocks]
    tokens = tokenize_span(text, block.span)
    joins = [join for item in block.items for join in item.joins]
    listed = {t.start for join in joins for t in (*join.using, *join.relation.columns)}
    for before, token, after in zip((None, *tokens), tokens, (*tokens[1:], None), strict=False):
        nested = any(span.start <= token.start < span.end for span in inner)
        if nested or without.start <= token.start < without.end or not token.is_name:
            continue
        if token.start in listed or (before is not None and not _begins_operand(before)):
            continue
        if after is None or after.text not in (".", "("):
            yield token


def shorten_qualifiers(text: str, block: Block, edits: Edits, item: FromItem, replaced: list[Span]) -> None:
    """``db.orders.id`` to ``orders.id`` where the relation now is in an operator's result."""
    for relation in (item.relation, *(j.relation for j in item.joins)):
        if relation.alias is not None or len(relation.parts) < 2 or not _inside(relation.span, replaced):
            continue
        tokens = tokenize_span(text, block.span)
        for at in range(len(tokens)):
            dotted = tokens[at : at + 2 * len(relation.parts)]
            names = tuple(t.name.lower() for t in dotted[::2])
            if names == tuple(p.lower() for p in relation.parts) and all(t.text == "." for t in dotted[1::2]):
                span = Span(dotted[0].start, dotted[-1].end)
                if len(dotted) == 2 * len(relation.parts) and not edits.covers(span.start):
                    edits.replace(span, f"{quoted(relation.parts[-1])}.")


def _inside(span: Span, others: list[Span]) -> bool:
    return any(o.start <= span.start and span.end <= o.end for o in others)
