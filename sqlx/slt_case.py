"""One .slt file as data: its directives, definitions, inputs, query and expected blocks, and how values are written.

The format is described in :mod:`sqlx.slt`.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlx.errors import TemporalParseError
from sqlx.replay_types import INTEGRAL, SparkType
from sqlx.replay_values import to_micros

MODES = ("replay", "batch", "oracle")
BLOCKS = ("emits", "final", "late", "error")
_DIRECTIVE = re.compile(r"#\s*(title|source|modes|notimpl|notyet|never)\b\s*(\w*)\s*:\s*(.*)")
_INPUT = re.compile(r"input\s+([\w.`]+)\s*(?:\(([^)]*)\))?\s*(?:#.*)?$")
_TOKEN = re.compile(r"[Xx]?'(?:[^']|'')*'|\S+")
_TIME = re.compile(r"@(-?\d+)(us|ms|s|m|h|d)?")
_UNITS = {None: 1, "us": 1, "ms": 1000, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}


@dataclass(frozen=True)
class Input:
    """Rows of one ``input`` block: the relation, the columns if they are named, and the words of each row."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass
class Case:
    """One test case.

    Attributes:
        path: the file.
        title, source: what it shows, and where that is written.
        modes: the modes in which it runs.
        not_run: mode to why it does not run there.
        definitions, query, oracle: SQL; the last in DuckDB's words, or "".
        inputs: in order of arrival.
        blocks: "emits", "final", "late", "error" to the words of their lines.
        condition: of the expected error, or "".
    """

    path: Path
    title: str = ""
    source: str = ""
    modes: tuple[str, ...] = ("replay",)
    not_run: dict[str, str] = field(default_factory=dict)
    definitions: str = ""
    query: str = ""
    oracle: str = ""
    inputs: list[Input] = field(default_factory=list)
    blocks: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    condition: str = ""

    @property
    def script(self) -> str:
        """Definitions and query."""
        return f"{self.definitions.rstrip().rstrip(';')};\n{self.query}"


def read_case(path: Path) -> Case:
    """Read a file.

    Raises:
        TemporalParseError: `SLT.FORMAT`, a line has no place where it stands.
    """
    return parse_case(path.read_text(encoding="utf-8"), path)


def parse_case(text: str, path: Path = Path("case.slt")) -> Case:
    """Read the text of a file.

    Raises:
        TemporalParseError: `SLT.FORMAT`, a line has no place where it stands.
    """
    case, section, at = Case(path), "definitions", 0
    for line in text.splitlines(keepends=True):
        span, at = (at, at + len(line.rstrip())), at + len(line)
        if line.startswith("#"):
            _directive(case, line)
        elif not line.strip():
            continue
        elif (opened := _open(case, line.rstrip(), text, span)) is not None:
            section = opened
        else:
            _add(case, section, line)
    if not case.query.strip() or not ({"emits", "final", "error"} & set(case.blocks)):
        raise _wrong(text, (0, 0), "a query and a block `---- emits`, `---- final` or `---- error`")
    return case


def _wrong(text: str, span: tuple[int, int], expected: str) -> TemporalParseError:
    return TemporalParseError("SLT.FORMAT", text, span, expected=expected)


def _directive(case: Case, line: str) -> None:
    match = _DIRECTIVE.match(line)
    if match is None:
        return
    name, mode, value = match[1], match[2], match[3].strip()
    if name == "modes":
        case.modes = tuple(value.split())
    elif name in ("title", "source"):
        setattr(case, name, value)
    else:
        case.not_run[mode] = f"{name}: {value}"


def _open(case: Case, line: str, text: str, span: tuple[int, int]) -> str | None:
    """The section that a line opens, or None for a line of a section."""
    if line in ("query", "oracle"):
        return line
    if line.startswith("----"):
        words = line[4:].split("#")[0].split()
        if not words or words[0] not in BLOCKS or (words[0] == "error" and len(words) != 2):
            raise _wrong(text, span, "`---- emits`, `---- final`, `---- late` or `---- error CONDITION`")
        case.blocks[words[0]] = []
        case.condition = words[1] if words[0] == "error" else case.condition
        return words[0]
    match = _INPUT.match(line)
    if match is None:
        return None
    columns = tuple(name.strip() for name in match[2].split(",")) if match[2] else ()
    case.inputs.append(Input(match[1], columns, ()))
    return "input"


def _add(case: Case, section: str, line: str) -> None:
    if section in ("definitions", "query", "oracle"):
        setattr(case, section, getattr(case, section) + line)
    elif section == "input":
        last = case.inputs[-1]
        case.inputs[-1] = Input(last.name, last.columns, (*last.rows, words_of(line)))
    else:
        case.blocks[section].append(tuple(line.split()) if section == "error" else words_of(line))


def words_of(line: str) -> tuple[str, ...]:
    """The values of a line; ``#`` begins a comment.

    >>> words_of("@10 EUR 'a b' NULL  # why")
    ('@10', 'EUR', "'a b'", 'NULL')
    """
    words = _TOKEN.findall(line)
    return tuple(words[: words.index("#")] if "#" in words else words)


def value_of(word: str, kind: SparkType) -> Any:
    """The value that a word means for a column of a type.

    Raises:
        ValueError: it means none.

    >>> value_of("@5ms", SparkType("timestamp")), value_of("'a b'", SparkType("string"))
    (5000, 'a b')
    """
    if word == "NULL":
        return None
    time = _TIME.fullmatch(word)
    if time is not None and kind.name in ("timestamp", "timestamp_ntz", *INTEGRAL):
        return int(time[1]) * _UNITS[time[2]]
    if kind.name == "binary":
        return bytes.fromhex(word[2:-1])
    text = word[1:-1].replace("''", "'") if word.startswith("'") else word
    if kind.fields:
        return json.loads(text)
    return _SCALARS[kind.name](text) if kind.name in _SCALARS else text


_SCALARS: dict[str, Any] = {
    **dict.fromkeys(INTEGRAL, int),
    "double": float,
    "float": float,
    "decimal": Decimal,
    "boolean": {"true": True, "false": False}.__getitem__,
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "timestamp_ntz": dt.datetime.fromisoformat,
}


def word_of(value: Any) -> str:
    """How a value is written.

    >>> [word_of(v) for v in (None, 1.5, "a b", True, dt.datetime(1970, 1, 1, tzinfo=dt.UTC))]
    ['NULL', '1.5', "'a b'", 'true', '@0']
    """
    if value is None:
        return "NULL"
    if isinstance(value, dt.datetime):
        return f"@{to_micros(value)}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (bytes, bytearray)):
        return f"X'{value.hex()}'"
    if isinstance(value, (list, dict)):
        value = json.dumps(value, default=str)
    text = str(value)
    plain = isinstance(value, (int, float, Decimal, dt.date)) or re.fullmatch(r"[^\s'@#-][^\s'#]*", text)
    return text if plain and text != "NULL" else "'" + text.replace("'", "''") + "'"


def words_of_row(values: Iterable[Any]) -> tuple[str, ...]:
    """A row as words."""
    return tuple(word_of(value) for value in values)
