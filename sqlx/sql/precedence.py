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
_NOT, _PREDICATE, _UNARY = _LEVELS["NOT"], _LEVELS["IS"], _LEVELS["~"]
_PRIMARY: Final = _UNARY + 1
_ENDS: Final = (frozenset({"(", ",", "["}), frozenset({")", ",", "]"}))
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
    return level == _PRIMARY or (_holds(tokens, at - 1, level - 1, 0) and _holds(tokens, end, level, 1))


def _holds(tokens: tuple[Token, ...], at: int, most: int, side: int) -> bool:
    """Whether what is beside a part leaves it whole: an end, or an operator that binds no tighter than `most`."""
    if not 0 <= at < len(tokens):
        return True
    token, level = tokens[at], _level(tokens, at)
    is_end = token.text in _ENDS[side] or token.word in _BRANCHES
    return is_end if level is None else level <= most


def _lowest(tokens: tuple[Token, ...]) -> int:
    """The level of the operator that is applied last."""
    lowest, depth, is_between = _PRIMARY, 0, False
    for at, token in enumerate(tokens):
        sign = token.word or token.symbol
        depth += (sign in _OPEN) - (sign in _CLOSE)
        level = None if depth or sign in _CLOSE else _level(tokens, at)
        is_range = sign == "AND" and is_between  # of BETWEEN … AND …
        if level is not None and not is_range:
            lowest = min(lowest, level)
        is_between = (is_between or sign == "BETWEEN") and not is_range if depth == 0 else is_between
    return lowest


def _level(tokens: tuple[Token, ...], at: int) -> int | None:
    """How tightly an operator binds; None where it is none."""
    sign = tokens[at].word or tokens[at].symbol
    follows_operand = at > 0 and _ends_operand(tokens[at - 1])
    if sign in ("+", "-") and not follows_operand:
        return _UNARY
    if sign == "NOT" and follows_operand:
        return _PREDICATE  # NOT IN, NOT LIKE
    return _LEVELS.get(sign)


def _ends_operand(token: Token) -> bool:
    sign = token.word or token.symbol
    return sign in _CLOSE or not (token.kind == "op" or sign in _LEVELS or sign in _BRANCHES)
