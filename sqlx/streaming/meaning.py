"""What the names in a query mean, as text: a checkpoint goes on under the same meaning only.

A definition may be replaced while a query over it is stopped: the query's text is the same then, and its rows are not.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

from catalog.definitions import name_parts
from catalog.relations import source_query
from sqlx.spark.view_text import view_text
from sqlx.sql.parser import scan
from sqlx.sql.tokens import LexicalError

if TYPE_CHECKING:
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
    meanings: dict[str, str] = {}
    _follow(catalog, query, meanings)
    return "\n".join(f"{name}: {what}" for name, what in sorted(meanings.items()))


def _follow(catalog: SparkCatalog, query: str, meanings: dict[str, str]) -> None:
    try:
        read = scan(query).read()
    except LexicalError:  # of a view's text, which Spark reads and sqlglot does not
        return
    for relation in read:
        parts = name_parts(relation.parts)
        name = ".".join(parts).lower()
        found = None if name in meanings else catalog.find(parts)
        if found is None:
            continue
        if found.entry is not None:
            meanings[name] = _facts(found.entry)
            _follow(catalog, source_query(found.entry), meanings)
        elif (view := view_text(catalog, parts)) is not None:
            meanings[name] = " ".join(view.split())
            _follow(catalog, view, meanings)


def _facts(entry: Entry) -> str:
    facts = {field.name: getattr(entry, field.name) for field in fields(entry) if field.name not in _WITHOUT_MEANING}
    return json.dumps({name: value for name, value in facts.items() if value}, ensure_ascii=False)
