"""An entry as the properties of a Spark view, and back; temporary views have none, so theirs stand in a comment."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from catalog.entries import Column, Entry

PREFIX = "sqlx."
#: Marks the tables that were made for a definition: the name of the definition.
OWNER = "sqlx.of"
#: Which shape the properties have; a reader refuses what it does not know.
FORMAT = "1"
_TEXTS = (
    "kind",
    "name",
    "relation",
    "timestamp_by",
    "sequence_by",
    "delete_when",
    "late_to",
    "valid_from",
    "valid_to",
    "alias",
    "topic",
)
_NUMBERS = ("retention_us", "max_future_us")
_FLAGS = ("temporary", "from_stream")
_LISTS = ("keys", "arrival", "properties", "columns")
_COMMENT = re.compile(r"/\* sqlx:([A-Za-z0-9+/=]+) \*/")


def to_properties(entry: Entry) -> dict[str, str]:
    """The facts of an entry under their property names; what is not given is left out.

    >>> entry = Entry("stream", "orders", (Column("ts", "timestamp"),), "`t`", "ts")
    >>> to_properties(entry)["sqlx.timestamp_by"]
    'ts'
    >>> from_properties(to_properties(entry)) == entry
    True
    """
    facts: dict[str, str] = {"format": FORMAT}
    facts |= {name: str(value) for name in (*_TEXTS, *_NUMBERS) if (value := getattr(entry, name)) not in (None, "")}
    facts |= {name: "true" for name in _FLAGS if getattr(entry, name)}
    facts |= {name: json.dumps(_plain(getattr(entry, name))) for name in _LISTS if getattr(entry, name)}
    return {PREFIX + name: value for name, value in facts.items()}


def from_properties(properties: dict[str, str]) -> Entry | None:
    """The entry that the properties of a view describe; None where it is no definition, or one of a newer format."""
    if properties.get(PREFIX + "format") != FORMAT:
        return None
    facts = {name[len(PREFIX) :]: value for name, value in properties.items() if name.startswith(PREFIX)}
    values: dict[str, Any] = {name: facts.get(name) for name in _TEXTS if name in facts}
    values |= {name: int(facts[name]) for name in _NUMBERS if name in facts}
    values |= {name: True for name in _FLAGS if name in facts}
    lists = {name: json.loads(facts.get(name, "[]")) for name in _LISTS}
    values |= {name: tuple(lists[name]) for name in ("keys", "arrival")}
    values["properties"] = tuple((key, value) for key, value in lists["properties"])
    values["columns"] = tuple(Column(name, kind) for name, kind in lists["columns"])
    return Entry(**{"relation": "", **values})


def with_comment(query: str, entry: Entry) -> str:
    """A query that carries the entry in a comment after its SELECT."""
    packed = base64.b64encode(json.dumps(to_properties(entry)).encode()).decode()
    return query.replace("SELECT ", f"SELECT /* sqlx:{packed} */ ", 1)


def from_comment(query: str) -> Entry | None:
    """The entry that the text of a temporary view carries, or None."""
    found = _COMMENT.search(query, 0, 200_000)
    return from_properties(json.loads(base64.b64decode(found[1]))) if found else None


def _plain(values: tuple[Any, ...]) -> list[Any]:
    return [[value.name, value.type] if isinstance(value, Column) else value for value in values]
