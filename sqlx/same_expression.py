"""Whether two pieces of SQL are the same expression, token by token: what GROUP BY has, and what stands elsewhere."""

from __future__ import annotations

from collections.abc import Container

from sqlx.dialect import Token

_COMPARE = frozenset({"=", "==", "<=>", "<>", "!=", "<", ">", "<=", ">="})
_BRANCH = frozenset({"CASE", "WHEN", "THEN", "ELSE", "END"})
_LOGIC = frozenset({"AND", "OR", "NOT", "IS", "IN", "LIKE", "ILIKE", "RLIKE", "BETWEEN"})


def normal(tokens: tuple[Token, ...]) -> tuple[str, ...]:
    """An expression as it can be compared with another: names and words whatever their case."""
    return tuple(t.name.lower() if t.is_name else t.text for t in tokens)


def match(tokens: tuple[Token, ...], at: int, key: tuple[str, ...], columns: Container[str]) -> int:
    """How many tokens spell the key from a position on; 0: they do not. `o.k` and `k` are the same column.

    Args:
        tokens: of an expression.
        at: the position.
        key: what `normal` makes of it.
        columns: lower-case names of the columns; what stands before a dot is one of them, or a relation.
    """
    length = len(key)
    if not is_chain(key):
        return length if normal(tokens[at : at + length]) == key and _stands_alone(tokens, at, at + length) else 0
    chain = 1
    while at + chain + 1 < len(tokens) and tokens[at + chain].text == "." and tokens[at + chain + 1].is_name:
        chain += 2
    own = normal(tokens[at : at + chain])
    follows = tokens[at + chain].text if at + chain < len(tokens) else ""
    if not tokens[at].is_name or follows == "(":
        return 0
    if own[:length] == key:
        return length  # what follows are fields of it
    path, name = (own, key) if len(own) > len(key) else (key, own)
    is_same = path[0] not in columns and path[len(path) - len(name) :] == name
    return chain if is_same else 0


def is_chain(key: tuple[str, ...]) -> bool:
    """Whether a key is a column: names with dots between them."""
    return all(part == "." if n % 2 else part.isidentifier() for n, part in enumerate(key)) and len(key) % 2 == 1


def _stands_alone(tokens: tuple[Token, ...], at: int, end: int) -> bool:
    """Whether the tokens are an operand of their own: `a + b` is none in `2 * a + b`.

    NB: what this does not see to be one is refused as not grouped, so it may be strict.
    """
    inner = tokens[at:end]
    before, after = (tokens[at - 1] if at else None), (tokens[end] if end < len(tokens) else None)
    if _is_primary(inner):
        return True
    is_logic = any(token.word in _LOGIC or token.text in _COMPARE for token in inner)
    words = _BRANCH if is_logic else _BRANCH | _LOGIC
    signs = frozenset[str]() if is_logic else _COMPARE
    outside = [(before, ("(", ",", "[")), (after, (")", ",", "]"))]
    return all(t is None or t.text in ends or t.word in words or t.text in signs for t, ends in outside)


def _is_primary(tokens: tuple[Token, ...]) -> bool:
    """Whether it is one token, a call, or something in parentheses."""
    opens = 1 if tokens[0].is_name and tokens[0].word != "NOT" else 0
    if len(tokens) <= opens or tokens[opens].text != "(":
        return len(tokens) == 1
    depth = 0
    for number, token in enumerate(tokens[opens:], opens):
        depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "op" else 0
        if depth == 0:
            return number == len(tokens) - 1
    return False
