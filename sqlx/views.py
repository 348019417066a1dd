"""CREATE VIEW over clauses of ours: the extended text is stored, and compiled at each read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlx.dialect import Token, quoted
from sqlx.plan import Plan
from sqlx.spark_binder import SparkBinder

_NEEDS = (
    "/* extended SQL of sqlx, written in `{}`: "
    "reading this view needs a session made by sqlx.session() or sqlx.enable() */ "
)
_WRITTEN_IN = re.compile(r"/\* extended SQL of sqlx, written in `([^`]+)`:")


@dataclass(frozen=True)
class ViewHead:
    """``CREATE [OR REPLACE] VIEW … AS`` and the query behind it."""

    before: str
    parts: tuple[str, ...]
    query: str
    temporary: bool = False
    shared: bool = False


def view_head(text: str, tokens: tuple[Token, ...]) -> ViewHead | None:
    """The head of a CREATE VIEW … AS; None for every other statement."""
    words = [t.word for t in tokens]
    if words[:1] != ["CREATE"] or "VIEW" not in words[:6]:
        return None
    before = set(words[: words.index("VIEW")])
    if before - {"CREATE", "OR", "REPLACE", "GLOBAL", "TEMP", "TEMPORARY"}:
        return None
    at = words.index("VIEW") + 1
    at += 3 if words[at : at + 3] == ["IF", "NOT", "EXISTS"] else 0
    start = at
    while at + 2 < len(tokens) and tokens[at + 1].text == ".":
        at += 2
    parts = tuple(t.text for t in tokens[start : at + 1 : 2])
    depth = 0
    for index in range(at + 1, len(tokens) - 1):
        token = tokens[index]
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.word == "AS" and tokens[index + 1].word in ("SELECT", "WITH", "FROM", ""):
            query = text[tokens[index + 1].start :].rstrip().rstrip(";")
            temporary = bool(before & {"TEMP", "TEMPORARY"})
            return ViewHead(text[: token.end], parts, query, temporary, "GLOBAL" in before)
    return None


def create_view(head: ViewHead, plan: Plan, binder: SparkBinder) -> None:
    """Create the view over a stand-in of its columns, then store the extended text in its place.

    Raises:
        AnalysisException: Spark's own, where the view cannot be made.
    """
    for node in plan.operators():
        binder.announce(node.name, node.columns)
    columns = binder.columns(plan.root.sql)
    if columns is None:
        raise binder.refusal() or AssertionError(plan.root.sql)
    items = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in columns)
    session: Any = binder.spark._jsparkSession
    session.sql(f"{head.before} SELECT {items}")
    catalog = session.sessionState().catalog()
    identifier = session.sessionState().sqlParser().parseTableIdentifier(".".join(head.parts[-2:]))
    table = catalog.getTableMetadata(identifier)
    catalog.alterTable(_with_text(binder, table, _NEEDS.format(catalog.getCurrentDatabase()) + head.query))


def create_temporary_view(head: ViewHead, sql: str, binder: SparkBinder) -> None:
    """Create the view over plain Spark SQL, then store the extended text in its place.

    Spark keeps the text of a temporary view and reads it anew each time: the plain SQL would read the results of the
    day on which the view was made.

    Raises:
        AnalysisException: Spark's own, where the view cannot be made.
    """
    session: Any = binder.spark._jsparkSession
    jvm: Any = binder.spark.sparkContext._jvm
    session.sql(f"{head.before} {sql}")
    catalog = session.sessionState().catalog()
    name = session.sessionState().sqlParser().parseTableIdentifier(head.parts[-1]).table()
    raw = catalog.getRawGlobalTempView(name) if head.shared else catalog.getRawTempView(name)
    database = jvm.scala.Option.apply(catalog.globalTempDatabase()) if head.shared else jvm.scala.Option.empty()
    table = _with_text(binder, raw.get().tableMeta(), _NEEDS.format(catalog.getCurrentDatabase()) + head.query)
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(name, database)
    relation = jvm.org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation(table, jvm.scala.Option.empty())
    catalog.alterTempViewDefinition(identifier, relation)


@contextmanager
def where_written(java_session: Any, text: str) -> Iterator[None]:
    """Within it the names in the text of a view of ours mean what they did when it was made."""
    found = _WRITTEN_IN.match(text)
    catalog = java_session.sessionState().catalog() if found else None
    current = catalog.getCurrentDatabase() if catalog else None
    if found is None or catalog is None or found[1] == current:
        yield
        return
    catalog.setCurrentDatabase(found[1])
    try:
        yield
    finally:
        catalog.setCurrentDatabase(current)


def _with_text(binder: SparkBinder, table: Any, text: str) -> Any:
    """A copy of a CatalogTable with another view text; every other field as it is."""
    jvm: Any = binder.spark.sparkContext._jvm
    iterator = table.productElementNames()
    fields = [iterator.next() for _ in range(int(table.productArity()))]
    values = [
        jvm.scala.Option.apply(text) if name in ("viewText", "viewOriginalText") else table.productElement(n)
        for n, name in enumerate(fields)
    ]
    return table.copy(*values)
