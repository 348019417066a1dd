"""Which relation a name belongs to, among the relations that an AS OF join can see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from catalog.entries import Column
from sqlx.errors import BindError, did_you_mean
from sqlx.sql.expressions import field_aliases
from sqlx.sql.tokens import Span, Token

Side = Literal["left", "right"]

_RESERVED = frozenset(
    "AND OR NOT IS NULL TRUE FALSE DISTINCT FROM IN LIKE ILIKE RLIKE REGEXP BETWEEN CASE WHEN THEN ELSE END AS ESCAPE "
    "DIV EXISTS COLLATE ASC DESC NULLS INTERVAL".split()
)
# Words of literals, types and units: a column may have such a name, too.
_SOFT = frozenset(
    "ANY ALL SOME DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ X FIRST LAST TO AT TIME ZONE YEAR MONTH WEEK DAY HOUR "
    "MINUTE SECOND MILLISECOND MICROSECOND YEARS MONTHS WEEKS DAYS HOURS MINUTES SECONDS MILLISECONDS MICROSECONDS "
    "CURRENT_TIMESTAMP CURRENT_DATE CURRENT_TIME CURRENT_USER LOCALTIMESTAMP USER SESSION_USER STRING INT INTEGER "
    "BIGINT LONG SMALLINT SHORT TINYINT BYTE DOUBLE FLOAT REAL DECIMAL DEC NUMERIC BOOLEAN BINARY VARCHAR CHAR ARRAY "
    "MAP STRUCT VARIANT VOID".split()
)
_WORDS = _RESERVED | _SOFT
_BEFORE_NO_NAME = frozenset({"NULLS", "AS", "AT", "TIME", "TO", "INTERVAL"})
_BEHIND_NO_NAME = frozenset({"TIME", "ZONE", "TO", "FROM"})


@dataclass(frozen=True)
class RelationScope:
    """A relation as names see it.

    Attributes:
        name: by which its columns are qualified.
        columns: its columns.
        qualifiers: catalog and schema, where it may be named in full.
        merged: columns that USING or NATURAL has merged into another relation's: they need the name.
    """

    name: str
    columns: tuple[Column, ...]
    qualifiers: tuple[str, ...] = ()
    merged: frozenset[str] = frozenset()

    def column(self, name: str) -> Column | None:
        """The column of that name, whatever its case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True)
class Reference:
    """A column that an expression names: where it is, which side it belongs to, its relation and name."""

    span: Span
    side: Side
    relation: RelationScope
    column: Column
    exact: bool


class Scope:
    """The relations before an AS OF join, and its right side.

    Args:
        text: the statement, for carets.
        left, right: what each side shows.
        is_variable: whether a name that is no column is a variable of the session: a constant.
    """

    def __init__(
        self,
        text: str,
        left: tuple[RelationScope, ...],
        right: RelationScope | None,
        is_variable: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.text, self.left, self.right, self._is_variable = text, left, right, is_variable

    def references(self, tokens: tuple[Token, ...]) -> list[Reference]:
        """The columns that the tokens of an expression name.

        Raises:
            BindError: a name is unknown or fits two relations.
        """
        outside, subqueries = split_subqueries(tokens)
        found = [reference for chain in name_chains(outside) for reference in self._resolve(chain)]
        for token in soft_names(outside):
            found += self._resolve([token]) if self._unqualified([token], _span(token)) else []
        for inner in subqueries:  # its own names are Spark's to check; what it reads of the join counts
            found += [r for chain in name_chains(inner) for r in self._correlated(chain, inner)]
        return found

    def _correlated(self, chain: list[Token], subquery: tuple[Token, ...]) -> list[Reference]:
        """What a qualified name in a subquery refers to here, unless a relation of the subquery has that name."""
        owns = any(
            t.name.lower() == chain[0].name.lower() and after.text != "."
            for t, after in pairwise((*subquery, subquery[-1]))
            if t.is_name
        )
        return [] if owns else self._qualified(chain, Span(chain[0].start, chain[-1].end))

    def _resolve(self, chain: list[Token]) -> list[Reference]:
        """The one column of that name; none where it is a variable."""
        span = Span(chain[0].start, chain[-1].end)
        found = self._qualified(chain, span) or self._unqualified(chain, span)
        if len(found) == 1:
            return found
        name = ".".join(t.name for t in chain)
        if found:
            candidates = " or ".join(f"{r.relation.name}.{r.column.name}" for r in found)
            raise BindError("KEYED_JOIN.AMBIGUOUS_COLUMN", self.text, span.pair, column=name, candidates=candidates)
        if self._is_variable(span.of(self.text)):
            return []
        raise BindError("BIND.UNKNOWN_COLUMN", self.text, span.pair, column=name, suggestion=self._suggestion(chain))

    def _sides(self) -> Iterator[tuple[Side, RelationScope]]:
        for relation in self.left:
            yield "left", relation
        if self.right is not None:
            yield "right", self.right

    def _qualified(self, chain: list[Token], span: Span) -> list[Reference]:
        found: list[Reference] = []
        for side, relation in self._sides():
            for at in range(min(len(chain) - 1, 3)):
                column = (
                    relation.column(chain[at + 1].name) if chain[at].name.lower() == relation.name.lower() else None
                )
                if column is not None and (at == 0 or relation.qualifiers):
                    found.append(Reference(span, side, relation, column, exact=at + 2 == len(chain)))
        return found

    def _unqualified(self, chain: list[Token], span: Span) -> list[Reference]:
        found: list[Reference] = []
        for side, relation in self._sides():
            column = relation.column(chain[0].name)
            if column is not None and column.name.lower() not in relation.merged:
                found.append(Reference(span, side, relation, column, exact=len(chain) == 1))
        return found

    def _suggestion(self, chain: list[Token]) -> str:
        first = chain[0].name.lower()
        for _, relation in self._sides():
            if len(chain) > 1 and relation.name.lower() == first:
                return did_you_mean(chain[1].name, [c.name for c in relation.columns])
        names = [c.name for _, r in self._sides() for c in r.columns]
        if len(chain) > 1:
            return did_you_mean(chain[0].name, [r.name for _, r in self._sides()])
        return did_you_mean(chain[0].name, names)


def split_subqueries(tokens: tuple[Token, ...]) -> tuple[tuple[Token, ...], list[tuple[Token, ...]]]:
    """The tokens without subqueries in parentheses, and the tokens inside each of them."""
    outside: list[Token] = []
    subqueries: list[tuple[Token, ...]] = []
    depth = start = 0
    for index, token in enumerate(tokens):
        if depth:
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                subqueries.append(tokens[start:index])
        elif token.text == "(" and index + 1 < len(tokens) and tokens[index + 1].word in ("SELECT", "WITH", "FROM"):
            depth, start = 1, index + 1
        else:
            outside.append(token)
    return tuple(outside), subqueries


def name_chains(tokens: tuple[Token, ...]) -> Iterator[list[Token]]:
    """Dotted names in an expression that are columns: no functions, keywords, types, aliases, lambda variables."""
    bound = {
        t.name.lower() for n, t in enumerate(tokens[:-1]) if t.is_name and tokens[n + 1].text == "->"
    } | _lambda_lists(tokens)
    fields = field_aliases(tokens)
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if not token.is_name or index in fields:
            index += 2 if token.text in (":", "::") and index + 1 < len(tokens) else 1
            continue
        chain = [token]
        is_field = index > 0 and tokens[index - 1].text == "."  # xs[0].field, f(x).field
        is_alias = index > 0 and tokens[index - 1].word == "AS"  # struct(x AS field)
        index += 1
        while index + 1 < len(tokens) and tokens[index].text == "." and tokens[index + 1].is_name:
            chain.append(tokens[index + 1])
            index += 2
        called = index < len(tokens) and tokens[index].text == "("
        literal = index < len(tokens) and tokens[index].kind == "string"
        keyword = len(chain) == 1 and token.word in _WORDS
        if not (
            called
            or keyword
            or is_field
            or is_alias
            or (literal and keyword)
            or token.name.lower() in bound
            or _is_named_argument(tokens, index)
        ):
            yield chain


def soft_names(tokens: tuple[Token, ...]) -> Iterator[Token]:
    """Words like DAY or DATE that stand where a column may: they are one where a relation has it."""
    for before, token, after in zip((None, *tokens), tokens, (*tokens[1:], None), strict=False):
        if token.word not in _SOFT or (after is not None and after.text in (".", "(", "->", "=>", "<")):
            continue
        behind_value = before is not None and (before.kind in ("number", "string") or before.text in (".", ":", "::"))
        in_phrase = before is not None and before.word in _BEFORE_NO_NAME
        begins = after is not None and (after.kind == "string" or after.word in _BEHIND_NO_NAME)
        if not (behind_value or in_phrase or begins):
            yield token


def _span(token: Token) -> Span:
    return Span(token.start, token.end)


def _is_named_argument(tokens: tuple[Token, ...], index: int) -> bool:
    return index < len(tokens) and tokens[index].text == "=>"


def _lambda_lists(tokens: tuple[Token, ...]) -> set[str]:
    """Names in ``(a, b) ->``."""
    names: set[str] = set()
    for index, token in enumerate(tokens):
        if token.text == "->" and index and tokens[index - 1].text == ")":
            at = index - 2
            while at >= 0 and tokens[at].text != "(":
                names.add(tokens[at].name.lower())
                at -= 1
    return names
