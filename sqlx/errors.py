"""Errors that a user can act on: condition, SQLSTATE, the line with a caret, what was expected, what to write instead.

The texts live in ``error_conditions.json`` (sorted, unique, each with a case in ``tests/errors``); code raises a
condition with parameters and the span of text that it speaks of, never a free string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any
from unicodedata import combining, east_asian_width

from pyspark.errors import AnalysisException, ParseException, PySparkException

_LINE_WIDTH = 120
_OWN_NAMES = re.compile(r"(, )?`__sqlx_\w+`\.(`\w+`)")
#: What could be meant, in Spark's words.
_SUGGESTED = re.compile(r" Did you mean one of the following\? \[([^]]*)\]\.")
_OWN_COLUMN = re.compile(r"(?:.*\.)?`__\w+`|`__sqlx_\w+`\..*")


@cache
def conditions() -> dict[str, dict[str, str]]:
    """All error conditions: name to ``{"message", "sqlstate", "hint"}``; message and hint are format strings."""
    text = files("sqlx").joinpath("error_conditions.json").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, str]] = json.loads(text)
    return loaded


def caret_lines(text: str, start: int, end: int) -> str:
    r"""The line of ``text`` that holds ``start``, and carets under ``text[start:end]``.

    >>> print(caret_lines("SELECT 1\nFROM nope x", 14, 18))
    LINE 2: FROM nope x
                 ^^^^
    """
    start = min(start, len(text))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    number = text.count("\n", 0, start) + 1
    line_end = max(start, line_start + len(text[line_start:line_end].rstrip("\r")))
    window = max(line_start, min(start - 20, line_end - _LINE_WIDTH) if line_end - line_start > _LINE_WIDTH else 0)
    window_end = min(line_end, window + _LINE_WIDTH)
    shown = "".join(" " if c.isspace() else c for c in text[window:window_end])
    head = f"LINE {number}: " + ("…" if window > line_start else "")
    tail = "…" if window_end < line_end else ""
    indent = len(head) + _width(text[window:start])
    carets = max(1, _width(text[start : min(end, window_end)]))
    return f"{head}{shown}{tail}\n{' ' * indent}{'^' * carets}"


def shows_own_names(message: str) -> bool:
    """Whether a message names what the user never wrote: relations that a rewritten statement reads."""
    return "__sqlx_" in message


def _width(text: str) -> int:
    """The columns that a text takes on a terminal: East Asian letters take two, combining marks none."""
    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that names the closest known name, or lists a few, or nothing.

    >>> did_you_mean("rate", ["rates", "orders"])
    'Did you mean `rates`? '
    """
    names = list(dict.fromkeys(known))
    folded = {n.lower(): n for n in names}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"Did you mean `{folded[close[0]]}`? "
    shown = ", ".join(f"`{n}`" for n in names[:8])
    return f"There are: {shown}{', …' if len(names) > 8 else ''}. " if names else ""


class TemporalSqlError(PySparkException):
    """Base of all errors of sqlx.

    Args:
        condition: name in ``error_conditions.json``.
        text: the statement, where the error points into one.
        span: start and end offset in ``text``.
        parameters: values of the message's fields.
    """

    def __init__(
        self, condition: str, text: str | None = None, span: tuple[int, int] | None = None, **parameters: object
    ) -> None:
        entry = conditions()[condition]
        self.condition = condition
        self.text, self.span = text, span
        self.parameters = {name: str(value) for name, value in parameters.items()}
        self.sqlstate = entry["sqlstate"]
        super().__init__(message=self._render(entry))

    def _render(self, entry: dict[str, str]) -> str:
        lines = [f"[{self.condition}] {entry['message'].format(**self.parameters)} SQLSTATE: {self.sqlstate}"]
        if self.text is not None and self.span is not None:
            lines.append(caret_lines(self.text, *self.span))
        hint = entry.get("hint", "").format(**self.parameters).strip()
        if hint:
            lines.append(f"HINT: {hint}")
        return "\n".join(lines)

    def getCondition(self) -> str:
        """The condition's name."""
        return self.condition

    def getErrorClass(self) -> str:
        """The condition's name, under PySpark's older word."""
        return self.condition

    def getSqlState(self) -> str:
        """The five characters of the SQL standard."""
        return self.sqlstate

    def getMessageParameters(self) -> dict[str, str]:
        """The values that the message was made from."""
        return self.parameters

    def getQueryContext(self) -> list[Any]:
        """PySpark's query contexts; the line and caret stand in the message instead."""
        return []

    def getMessage(self) -> str:
        """The whole message: condition, SQLSTATE, line with carets, hint."""
        return str(self._message)

    def __str__(self) -> str:
        return str(self._message)


class TemporalParseError(TemporalSqlError, ParseException):
    """The text does not follow the grammar."""


class BindError(TemporalSqlError, AnalysisException):
    """A name or a type does not fit."""


class UnsupportedError(TemporalSqlError, AnalysisException):
    """Well formed, but this cannot be run, and the message says why."""


class RunError(TemporalSqlError):
    """Something outside the statement failed: a file, a Java, a limit that was reached."""


def _suggested(found: re.Match[str]) -> str:
    """What Spark says could be meant, without columns that only we know of."""
    names = [name for name in found[1].split(", ") if not _OWN_COLUMN.fullmatch(name)]
    return f" Did you mean one of the following? [{', '.join(names)}]." if names else ""


class RefusedBySpark(TemporalSqlError, AnalysisException):
    """Spark's analyzer refused a statement that sqlx had rewritten; the caret is in the text as it was written.

    Args:
        error: Spark's own error: its condition, SQLSTATE and message are kept.
        text: the statement as written.
        span: where Spark pointed to, in that text; None where it did not say.
    """

    def __init__(self, error: PySparkException, text: str, span: tuple[int, int] | None) -> None:
        self.condition = str(error.getCondition() or "SPARK")
        self.text, self.span = text, span
        self.parameters = dict(error.getMessageParameters() or {})
        self.sqlstate = str(error.getSqlState() or "42000")
        message = str(error).split(f" SQLSTATE: {self.sqlstate}")[0].strip()
        shown = r"\1\2" if self.condition.startswith("AMBIGUOUS") else ""  # else one of several that could be meant
        message = _OWN_NAMES.sub(shown, _SUGGESTED.sub(_suggested, message)).removeprefix(f"[{self.condition}] ")
        lines = [f"[{self.condition}] {message} SQLSTATE: {self.sqlstate}"]
        if span is not None:
            lines.append(caret_lines(text, *span))
        PySparkException.__init__(self, message="\n".join(lines))
