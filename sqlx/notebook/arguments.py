"""What is after ``%sqlx`` and ``%%sqlx``: options, then SQL that no shell has looked at."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from sqlx.failures import CommandError

_OPTION = re.compile(r"\s*(--[a-z]+|-[a-z])(?![\w-])[ \t=]*")
_VALUE = re.compile(r"\S+")
_USAGE = "Options: --limit N, -o NAME (or --out NAME), --plot X,Y[,BY], --once, --background, --refresh SECONDS."


@dataclass(frozen=True)
class Options:
    """The options of a cell.

    Attributes:
        limit: the most rows to show.
        out: the variable that keeps the DataFrame of the last query; "" for none.
        plot: the columns of a picture: x, y and, if there is a third, one line for each of its values.
        once: a stream reads what is there now, then ends.
        background: a streaming table runs on without a view.
        refresh: seconds between two looks at a stream.
    """

    limit: int = 20
    out: str = ""
    plot: tuple[str, ...] = field(default=())
    once: bool = False
    background: bool = False
    refresh: float = 1.0


def _whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def _variable(text: str) -> str:
    if not text.isidentifier():
        raise ValueError(text)
    return text


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if len(names) not in (2, 3) or not all(names):
        raise ValueError(text)
    return names


_READ: dict[str, Callable[[str], Any]] = {
    "limit": _whole,
    "out": _variable,
    "plot": _columns,
    "refresh": _seconds,
}


def read(line: str) -> tuple[Options, str]:
    """The options at the beginning of a line, and the SQL after them as it was written.

    Args:
        line: what is after the magic's name.

    Raises:
        CommandError: there is no such option, or its value does not fit.

    >>> read("--limit 5 -o top SELECT 'a  b'")
    (Options(limit=5, out='top', plot=(), once=False, background=False, refresh=1.0), "SELECT 'a  b'")
    """
    found: dict[str, Any] = {}
    at = 0
    while option := _OPTION.match(line, at):
        name = {"-o": "out"}.get(option[1], option[1].removeprefix("--"))
        at = option.end()
        if name in _READ:
            value = _VALUE.match(line, at)
            found[name] = _read(name, value[0] if value else "")
            at = value.end() if value else at
        elif name in {item.name for item in fields(Options)}:
            found[name] = True
        else:
            msg = f"%%sqlx has no option {option[1]}."
            raise CommandError(msg, _USAGE)
    return Options(**found), line[at:].strip()


def _read(name: str, text: str) -> Any:
    try:
        return _READ[name](text)
    except ValueError:
        msg = f"--{name} does not take {text}." if text else f"--{name} needs a value."
        raise CommandError(msg, _USAGE) from None
