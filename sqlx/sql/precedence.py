"""Which operator of an expression takes which operands, by the precedence that Spark's grammar gives them.

Source: SqlBaseParser.g4 of Spark 4.3: `booleanExpression`, `predicate`, `valueExpression`.
"""

from __future__ import annotations

from typing import Final

from sqlx.sql.tokens import Token

_LEVELS: Final[dict[str, int]] = {
    sign: level
    for level, signs in enumerate(
        (
            "OR",
            "AND",
            "NOT !",
            "IS IN BETWEEN LIKE ILIKE RLIKE REGEXP",
            "= == <=> <> != < <= > >= !< !>",
            "|",
            "^",
            "&",
            "<< >> >>>",
            "+ - ||",
            "* / % DIV",
            "~",
        )
    )
    for sign in signs.split()
}
_PREDICATE, _UNARY = _LEVELS["IS"], _LEVELS["~"]
_PRIMARY: Final = _UNARY + 1
#: Words beside which an expression ends or begins: of CASE, CAST and EXTRACT.
_BRANCHES: Final = frozenset({"CASE", "WHEN", "THEN", "ELSE", "END", "AS", "FROM"})
_OPEN, _CLOSE = frozenset({"(", "[", "{", "CASE"}), frozenset({")", "]", "}", "END"})


def stands_alone(tokens: tuple[Token, ...], at: int, end: int) -> bool:
    """Whether a part of an expression is an operand of its own: `a + b` is none in `2 * a + b`, and `2 * a` is one.

    Args:
        tokens: of the expression.
        at: where the part begins.
        end: after its last token.
    """
    level = _lowest(tokens[at:end])
    return level == _PRIMARY or (_holds(tokens, at - 1, level - 1, "([,") and _holds(tokens, end, level, ")],"))


def top_level(tokens: tuple[Token, ...]) -> list[tuple[int, Token]]:
    """The tokens outside of parentheses and CASE … END, each with its place."""
    depth = 0
    found: list[tuple[int, Token]] = []
    for index, token in enumerate(tokens):
        closes = _sign(token) in _CLOSE
        depth -= closes
        if depth == 0 and not closes:
            found.append((index, token))
        depth += _sign(token) in _OPEN
    return found


def conjunctions(top: list[tuple[int, Token]]) -> list[int]:
    """The places of each AND at the top level that is none of BETWEEN … AND …."""
    found, betweens = [], 0
    for index, token in top:
        if token.word == "BETWEEN":
            betweens += 1
        elif token.word == "AND" and betweens:
            betweens -= 1
        elif token.word == "AND":
            found.append(index)
    return found


def _holds(tokens: tuple[Token, ...], at: int, most: int, ends: str) -> bool:
    """Whether what is beside a part leaves it whole: an end, or an operator that binds no tighter than `most`."""
    if not 0 <= at < len(tokens):
        return True
    token, level = tokens[at], _level(tokens, at)
    return token.text in tuple(ends) or token.word in _BRANCHES if level is None else level <= most


def _lowest(tokens: tuple[Token, ...]) -> int:
    """The level of the operator that is applied last."""
    top = top_level(tokens)
    ands = conjunctions(top)
    levels = [_level(tokens, at) for at, token in top if token.word != "AND" or at in ands]
    return min((level for level in levels if level is not None), default=_PRIMARY)


def _level(tokens: tuple[Token, ...], at: int) -> int | None:
    """How tightly an operator binds; None where it is none."""
    sign = _sign(tokens[at])
    follows_operand = at > 0 and _ends_operand(tokens[at - 1])
    if sign in ("+", "-") and not follows_operand:
        return _UNARY
    if sign == "NOT" and follows_operand:
        return _PREDICATE  # NOT IN, NOT LIKE
    return _LEVELS.get(sign)


def _ends_operand(token: Token) -> bool:
    sign = _sign(token)
    return sign in _CLOSE or not (token.kind == "op" or sign in _LEVELS or sign in _BRANCHES)


def _sign(token: Token) -> str:
    return token.word or token.symbol
