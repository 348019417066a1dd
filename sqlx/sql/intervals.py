"""Interval literals of fixed length, read to microseconds: the one home of what `INTERVAL …` means in our clauses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn

from sqlx.errors import TemporalParseError
from sqlx.sql.tokens import Token


def duration(microseconds: int) -> str:
    """A length of time for people.

    >>> duration(5_400_000_000)
    '1 h 30 min'
    """
    units = {"d": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1000, "µs": 1}
    parts = []
    for name, size in units.items():
        count, microseconds = divmod(microseconds, size)
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts) or "0 s"


_UNIT_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_MONTHS = frozenset({"MONTH", "YEAR", "QUARTER"})
_MOST_US = 2**63 - 1
_NUMBER = re.compile(r"\s*([+-]?)\s*(\d+\.?\d*|\.\d+)\s*")
_SECOND = r"(?P<SECOND>\d{1,2}(?:\.\d{1,9})?)"
# What Spark reads before `X TO Y`; the first field may be as large as it likes, the others stay within their unit.
_RANGES = {
    ("DAY", "HOUR"): r"(?P<DAY>\d+) +(?P<HOUR>\d{1,2})",
    ("DAY", "MINUTE"): r"(?P<DAY>\d+) +(?P<HOUR>\d{1,2}):(?P<MINUTE>\d{1,2})",
    ("DAY", "SECOND"): r"(?P<DAY>\d+) +(?P<HOUR>\d{1,2}):(?P<MINUTE>\d{1,2}):" + _SECOND,
    ("HOUR", "MINUTE"): r"(?P<HOUR>\d+):(?P<MINUTE>\d{1,2})",
    ("HOUR", "SECOND"): r"(?P<HOUR>\d+):(?P<MINUTE>\d{1,2}):" + _SECOND,
    ("MINUTE", "SECOND"): r"(?P<MINUTE>\d+):" + _SECOND,
}
_LIMIT = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}


def parse_interval(
    tokens: Sequence[Token], i: int, what: str, text: str, *, allow_negative: bool = False
) -> tuple[int, int]:
    """Read an interval literal of fixed length.

    Args:
        tokens: the statement's tokens.
        i: index of the token at which the interval begins.
        what: the clause that takes it, for messages.
        text: the statement, for carets.
        allow_negative: whether a value below zero is fine.

    Returns:
        Its length in microseconds, and the index after it.

    Raises:
        TemporalParseError: PARSE.INTERVAL, PARSE.INTERVAL_MONTHS or PARSE.INTERVAL_NEGATIVE.

    >>> from sqlx.sql.tokens import tokenize
    >>> parse_interval(tokenize("INTERVAL '1 02:03:04.5' DAY TO SECOND"), 0, "GRACE", "")
    (93784500000, 5)
    """
    reader = _Reader(tokens, i, what, text)
    value_us = reader.read()
    if abs(value_us) > _MOST_US:
        reader.fail()
    if value_us < 0 and not allow_negative:
        reader.raise_("PARSE.INTERVAL_NEGATIVE", found=reader.found())
    return value_us, reader.at


class _Reader:
    """The position in the tokens, and what an error says of it."""

    def __init__(self, tokens: Sequence[Token], at: int, what: str, text: str) -> None:
        self.tokens, self.start, self.at, self.what, self.text = tokens, at, at, what, text

    def read(self) -> int:
        sign = self._sign()
        if self._word() != "INTERVAL":
            self.fail()
        self.at += 1
        inner = self._sign()
        value = self._string() if self._is_string() else self._units(self._number())
        return sign * inner * value

    def found(self) -> str:
        """What is there, as written, up to the token that was read last or refused."""
        if self.start >= len(self.tokens):
            return "the end of the text"
        start, end = self._span()
        return f"`{self.text[start:end] or self.tokens[self.start].text}`"

    def fail(self, refused: int = 0) -> NoReturn:
        """Raise PARSE.INTERVAL; ``refused`` tokens from the position on belong to what is shown."""
        self.at = min(self.at + refused, len(self.tokens))
        self.raise_("PARSE.INTERVAL", found=self.found())

    def raise_(self, condition: str, **parameters: str) -> NoReturn:
        raise TemporalParseError(condition, self.text, self._span(), what=self.what, **parameters)

    def _span(self) -> tuple[int, int]:
        if self.start >= len(self.tokens):
            end = self.tokens[-1].end if self.tokens else 0
            return end, end + 1
        return self.tokens[self.start].start, self.tokens[max(self.start, self.at - 1)].end

    def _word(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead].word if self.at + ahead < len(self.tokens) else ""

    def _is_string(self) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].kind == "string"

    def _sign(self) -> int:
        sign = 1
        while self.at < len(self.tokens) and self.tokens[self.at].text in ("+", "-"):
            sign = -sign if self.tokens[self.at].text == "-" else sign
            self.at += 1
        return sign

    def _string(self) -> int:
        """A string: with its units inside, before a unit, or before `X TO Y`."""
        content = self.tokens[self.at].text.lstrip("rRnN")[1:-1]
        first, last = self._word(1).removesuffix("S"), self._word(3).removesuffix("S")
        if self._word(2) == "TO" and first:
            self.at += 4
            return self._range(content, first, last)
        if first in _UNIT_US or first in _MONTHS:
            number = _NUMBER.fullmatch(content)
            if number is None:
                self.fail(refused=2)
            return self._units(Fraction(number[1] + number[2]))
        self.at += 1
        return self._inside(content)

    def _range(self, content: str, first: str, last: str) -> int:
        if first in _MONTHS:
            self.raise_("PARSE.INTERVAL_MONTHS")
        pattern = _RANGES.get((first, last))
        match = pattern and re.fullmatch(rf"\s*(?P<sign>[+-]?)\s*{pattern}\s*", content)
        if not match:
            self.fail()
        fields = {name: Fraction(value) for name, value in match.groupdict().items() if name != "sign"}
        if any(value >= _LIMIT[name] for name, value in fields.items() if name != first):
            self.fail()
        value = int(sum(value * _UNIT_US[name] for name, value in fields.items()))
        return -value if match["sign"] == "-" else value

    def _inside(self, content: str) -> int:
        """`1 hour 30 minutes`, as the content of one string."""
        rest = re.sub(r"^\s*interval\s", "", content, flags=re.IGNORECASE).strip()
        if not rest:
            self.fail()
        value = 0
        while rest:
            number = _NUMBER.match(rest)
            unit = re.match(r"[a-zA-Z]+\s*", rest[number.end() :]) if number else None
            if number is None or unit is None:
                self.fail()
            value += self._microseconds(Fraction(number[1] + number[2]), unit[0].strip().upper())
            rest = rest[number.end() + unit.end() :]
        return value

    def _number(self) -> Fraction:
        """A number as a token; `.5` is two."""
        dot = self.at < len(self.tokens) and self.tokens[self.at].text == "."
        self.at += dot
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None or _NUMBER.fullmatch(token.text) is None:
            self.fail(refused=1)
        return Fraction(("." if dot else "") + token.text)

    def _units(self, number: Fraction) -> int:
        """Values with their units; the position is at the first value."""
        value = 0
        while True:
            self.at += 2
            if self.at > len(self.tokens):
                self.fail()
            value += self._microseconds(number, self.tokens[self.at - 1].word)
            following = self._following()
            if following is None:
                return value
            number = following

    def _following(self) -> Fraction | None:
        """The next value of `1 DAY 2 HOURS`, if one follows; the position moves over its sign."""
        signed = self.at < len(self.tokens) and self.tokens[self.at].text in ("+", "-")
        unit = self._word(1 + signed).removesuffix("S")
        if unit not in _UNIT_US and unit not in _MONTHS:
            return None
        token = self.tokens[self.at + signed]
        number = _NUMBER.fullmatch(token.text.strip("'\"") if token.kind == "string" else token.text)
        if number is None:
            return None
        sign = -1 if signed and self.tokens[self.at].text == "-" else 1
        self.at += signed
        return sign * Fraction(number[1] + number[2])

    def _microseconds(self, number: Fraction, unit: str) -> int:
        unit = unit.removesuffix("S")
        if unit in _MONTHS:
            self.raise_("PARSE.INTERVAL_MONTHS")
        if unit not in _UNIT_US or (number.denominator > 1 and unit != "SECOND"):
            self.fail()  # Spark: only seconds may have a fraction
        return int(number * _UNIT_US[unit])
