"""The query of a view as text that means here what it means in the view.

Spark looks up the names in a view's text in the database where it was written; whoever reads the text in another one
would find other relations, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from catalog.definitions import name_text, part_text
from catalog.spark import SparkCatalog
from sqlx.bind.reads import CURRENT_ROWS
from sqlx.sql.edits import Edits
from sqlx.sql.parser import scan
from sqlx.sql.structure import Relation
from sqlx.sql.tokens import LexicalError, Token, tokenize_span


def view_text(catalog: SparkCatalog, parts: tuple[str, ...]) -> str | None:
    """The query of a view; None where it has none, being made of a DataFrame, or the name is that of no view.

    Args:
        catalog: of the session that reads it.
        parts: the view's name.
    """
    view = catalog.view(parts)
    if view is None or view.text is None:
        return None
    here = catalog.current_catalog(), catalog.current_database()
    if view.namespace in ((), here):
        return view.text
    known = view.temporary
    is_temporary = (
        (lambda name: catalog.is_temporary((name,))) if known is None else (lambda name: name.lower() in known)
    )
    try:
        return _within(view.text, view.namespace, is_temporary, keeps_catalog=view.namespace[0] == here[0])
    except LexicalError:  # text that Spark reads and sqlglot does not: no clause of ours is in it
        return view.text


def shows_definitions(catalog: SparkCatalog, parts: tuple[str, ...]) -> bool:
    """Whether a name is that of a view of Spark's over definitions of ours, directly or by way of other views."""
    if catalog.resolve(parts) is not None:
        return False
    text = view_text(catalog, parts)
    try:
        read = [] if text is None else scan(text).read()
    except LexicalError:
        return False
    return any(catalog.resolve(one.parts) is not None or shows_definitions(catalog, one.parts) for one in read)


def _within(text: str, namespace: tuple[str, ...], is_temporary: Callable[[str], bool], *, keeps_catalog: bool) -> str:
    """The text with what is missing before each name of a relation, but for temporary views and paths of files.

    Args:
        text: a query.
        namespace: the catalog and the database in which its names are meant.
        is_temporary: whether a name was that of a temporary view.
        keeps_catalog: the current catalog is the same one: it need not be named.
    """
    root, edits = scan(text), Edits(text)
    calls = [relation for relation in root.relations() if relation.kind == "function"]
    database = _path(namespace[1:] if keeps_catalog else namespace)
    for relation in root.read():
        is_file = len(relation.parts) == 2 and bool({"/", ":"} & set(relation.parts[1]))
        if len(relation.parts) == 1 and not is_temporary(relation.parts[0]):
            _qualify(edits, relation, database)
        elif len(relation.parts) == 2 and not is_file and not keeps_catalog:
            _qualify(edits, relation, _path(namespace[:1]))
    for token in (token for call in calls for token in _arguments(text, call)):
        if not is_temporary(token.name):
            edits.insert(token.start, database)
    return edits.render()


def _path(parts: tuple[str, ...]) -> str:
    return "".join(f"{part_text(part)}." for part in parts)


def _qualify(edits: Edits, relation: Relation, path: str) -> None:
    """Put a path before a relation's name, which may stand inside the call of a window function, or of IDENTIFIER."""
    tokens, first = tokenize_span(edits.text, relation.body), relation.parts[0]
    name = next((token for token in tokens if token.is_name and token.name == first), None)
    if name is None:
        edits.replace(relation.body, path + name_text(relation.parts))
    else:
        edits.insert(name.start, path)


def _arguments(text: str, call: Relation) -> Iterator[Token]:
    """The relations that a table function takes: ``history(t)``, ``deduplicate(TABLE(t), …)``."""
    tokens = tokenize_span(text, call.body)
    for at in range(len(tokens) - 3):
        word, opening, name, closing = tokens[at : at + 4]
        is_relation = word.word == "TABLE" or (at == 0 and call.call in ("history", CURRENT_ROWS))
        if is_relation and opening.text == "(" and name.is_name and closing.text == ")":
            yield name
