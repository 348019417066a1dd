"""What the names in a query mean, as text: a checkpoint goes on under the same meaning only.

A definition may be replaced while a query over it is stopped: the query's text is the same then, and its rows are not.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

from catalog.definitions import name_parts
from sqlx.sql.parser import scan
from sqlx.sql.structure import relations_of
from sqlx.sql.tokens import LexicalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog.entries import Entry
    from catalog.spark import SparkCatalog

#: Facts of a definition that do not change which rows there are, nor when they are.
_WITHOUT_MEANING = frozenset({"name", "columns", "arrival", "late_to", "temporary", "properties"})


def meaning_of(catalog: SparkCatalog, query: str) -> str:
    """The definitions and views that a query reads, those that they read too, one a line, sorted.

    Args:
        catalog: the session's definitions.
        query: the query.
    """
    found: dict[str, str] = {}
    _follow(catalog, query, found)
    return "\n".join(f"{name}: {what}" for name, what in sorted(found.items()) if what)


def _follow(catalog: SparkCatalog, query: str, found: dict[str, str]) -> None:
    for parts in _names(query):
        name = ".".join(parts).lower()
        if name in found or catalog.find(parts) is None:
            continue
        entry = catalog.resolve(parts)
        if entry is not None:
            found[name] = _facts(entry)
            below = entry.relation[1:-1] if entry.relation.startswith("(") else f"SELECT * FROM {entry.relation}"
            _follow(catalog, below, found)
            continue
        view = catalog.view_query(parts)
        found[name] = "" if view is None else " ".join(view.split())
        if view is not None:
            _follow(catalog, view, found)


def _names(query: str) -> Iterator[tuple[str, ...]]:
    """The names of relations, but for common table expressions."""
    try:
        levels = list(scan(query).walk())
    except LexicalError:
        return
    for level in levels:
        for relation in (r for block in level.blocks for item in block.items for r in relations_of(item)):
            if relation.kind == "name" and level.cte_of(relation) is None:
                yield name_parts(relation.parts)


def _facts(entry: Entry) -> str:
    facts = {field.name: getattr(entry, field.name) for field in fields(entry) if field.name not in _WITHOUT_MEANING}
    return json.dumps({name: value for name, value in facts.items() if value}, ensure_ascii=False)
