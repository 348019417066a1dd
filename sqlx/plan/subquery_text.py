"""Cutting a query out of a statement: what it must bring along, and what may not be left behind."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from sqlx.bind.scope import RelationScope
from sqlx.errors import TemporalParseError, UnsupportedError
from sqlx.sql.edits import Edits
from sqlx.sql.structure import Block, FromItem, Join, Level
from sqlx.sql.tokens import CLAUSE_PAIRS, Span, Token, tokenize


def is_query(text: str) -> bool:
    """Whether a statement is a query alone: a command would be executed by asking for its columns."""
    first = next(iter(tokenize(text)), None)
    if first is None or first.word not in ("SELECT", "FROM", "VALUES", "WITH", ""):
        return False
    return first.word not in ("WITH", "FROM") or not _writes(text)


def _writes(text: str) -> bool:
    """Whether a command follows: WITH x AS (…) INSERT INTO t …, or FROM x INSERT INTO t, is not a query."""
    depth = 0
    for token in tokenize(text):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.word in ("INSERT", "MERGE", "UPDATE", "DELETE"):
            return True
    return False


def stands_in(name: str, sql: str) -> bool:
    """Whether a query reads a relation: its name is more there than part of a longer one, an alias, or a qualifier.

    >>> stands_in("r", "SELECT r.v FROM (SELECT v FROM x) AS `r`"), stands_in("r", "SELECT r.v FROM `r`")
    (False, True)
    """
    found = rf"(?<!\w)(?<!\bAS )(?<!\bAS `){re.escape(name)}(?!\w|`?\.)"
    return name in sql and re.search(found, sql, re.IGNORECASE) is not None


def read_by_left(join: Join) -> list[Span]:
    """The expressions of a join that are put into the query of its left side."""
    clause = join.as_of
    spans = (join.on, clause.time if clause else None, clause.known if clause else None)
    return [span for span in spans if span is not None]


def operand_start(block: Block, item: FromItem) -> int:
    """Where the left operand begins: its FROM item; all of FROM where LATERAL looks back over a comma."""
    lateral = item.relation.lateral or any(j.relation.lateral for j in item.joins)
    return block.items[0].start if lateral and item in block.items else item.start


def with_clause(text: str, edits: Edits, level: Level, *spans: Span) -> str:
    """The WITH clause that a query cut out of ``level`` needs to see the same common table expressions."""
    names = set[str]().union(*(_names(text, span) for span in spans))
    used: list[str] = []
    for cte in reversed(level.visible_ctes()):
        if cte.name.lower() in names:
            used.insert(0, edits.render(cte.span))
            names |= _names(text, cte.span)
    recursive = "RECURSIVE " if level.recursive else ""
    return f"WITH {recursive}{', '.join(used)} " if used else ""


def _names(text: str, span: Span) -> set[str]:
    return {t.name.lower() for t in tokenize(text) if t.is_name and span.start <= t.start < span.end}


def check_leftovers(text: str, edits: Edits) -> None:
    """A temporal clause that nothing has taken is in the wrong place, or is of an operator to come.

    Raises:
        TemporalParseError: there is one.
    """
    tokens = tokenize(text)
    for at, (token, following) in enumerate(pairwise(tokens)):
        pair = (token.word, following.word)
        if pair in CLAUSE_PAIRS - {("AS", "OF")} and not edits.covers(token.start) and not _is_name(tokens, at):
            span = (token.start, following.end)
            raise TemporalParseError("PARSE.CLAUSE_PLACE", text, span, clause=" ".join(pair))


def _is_name(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether two words that look like a clause are a name: `t.known AS k`, `known AS k`, `WITH reason AS (…)`."""
    before, after = tokens[at - 1].text if at else "", [token.word or token.text for token in tokens[at + 2 : at + 4]]
    pair = (tokens[at].word, tokens[at + 1].word)
    is_known = pair == ("KNOWN", "AS") and after[:1] != ["OF"]
    is_cte = pair == ("WITH", "REASON") and (after == ["AS", "("] or after[:1] == ["("])
    return before == "." or is_known or is_cte


def merge_using(text: str, item: FromItem, left: tuple[RelationScope, ...], stop: int) -> tuple[RelationScope, ...]:
    """Mark the columns that USING and NATURAL of Spark's own joins have merged.

    Raises:
        UnsupportedError: a FULL JOIN merges both sides into a column of neither.
    """
    shown = {v.name: v for v in left}
    before = {item.relation.visible_name}
    for join in item.joins:
        name = join.relation.visible_name
        if join.span.end > stop or join.as_of is not None or name not in shown:
            continue
        names = frozenset(t.name.lower() for t in join.using)
        if "NATURAL" in join.kind:
            others = {c.name.lower() for n in before if n in shown for c in shown[n].columns}
            names = frozenset(c.name.lower() for c in shown[name].columns) & others
        if names and "FULL" in join.kind:
            raise UnsupportedError("UNSUPPORTED.FULL_USING", text, join.span.pair)
        for hidden in before & shown.keys() if "RIGHT" in join.kind else {name}:
            assert hidden is not None
            own = names & {c.name.lower() for c in shown[hidden].columns}
            shown[hidden] = replace(shown[hidden], merged=shown[hidden].merged | own)
        before.add(name)
    return tuple(shown[v.name] for v in left)
