"""Views and SQL functions over temporal clauses: the extended text is stored, and compiled at each read.

Spark stores the text of a view or of a function and reads it anew each time. So it is made over plain Spark SQL first,
with Spark's own checks, and then the text that was written is put in the place of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from pyspark.errors import PySparkException

from catalog.definitions import name_text, part_text
from catalog.entries import Entry
from catalog.statements import with_comment
from sqlx.bind.reads import CURRENT_ROWS
from sqlx.errors import BindError, UnsupportedError
from sqlx.plan.nodes import Plan
from sqlx.spark.binder import SparkBinder
from sqlx.sql.parser import read_tail, scan
from sqlx.sql.tokens import Token, tokenize
from udtf.engine.java import copied
from udtf.engine.release import release_of

_NEEDS = (
    "/* extended SQL of sqlx{}, written in `{}`: reading it needs a session made by sqlx.session() or sqlx.enable() */ "
)
_OF_FUNCTION = ", the body of a function"
_WRITTEN_IN = re.compile(r"/\* extended SQL of sqlx(, the body of a function)?, written in `([^`]+)`:")


@dataclass(frozen=True)
class StoredHead:
    """A statement that stores a query, and the query.

    Attributes:
        kind: what is made.
        before: ``CREATE … VIEW … AS`` or ``CREATE … FUNCTION … RETURN``.
        parts: its name, as written.
        query: the query after it.
        temporary: it belongs to the session.
        shared: it is a global temporary view.
    """

    kind: Literal["view", "function"]
    before: str
    parts: tuple[str, ...]
    query: str
    temporary: bool = False
    shared: bool = False

    @property
    def is_own_view(self) -> bool:
        """Whether it is a view that no other session reads."""
        return self.kind == "view" and self.temporary and not self.shared

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters of a function, in lower case; the arguments of their types are among them."""
        if self.kind == "view":
            return frozenset()
        return frozenset(b.name.lower() for a, b in pairwise(tokenize(self.before)) if a.text in ("(", ","))


#: Of each kind the words that may stand before it, and the one behind which the query is.
_KINDS: dict[str, tuple[Literal["view", "function"], frozenset[str], str]] = {
    "VIEW": ("view", frozenset("CREATE OR REPLACE GLOBAL TEMP TEMPORARY".split()), "AS"),
    "FUNCTION": ("function", frozenset("CREATE OR REPLACE TEMP TEMPORARY".split()), "RETURN"),
}


def stored_head(text: str, tokens: tuple[Token, ...]) -> StoredHead | None:
    """The head of a CREATE VIEW … AS or a CREATE FUNCTION … RETURN; None for every other statement."""
    words = [t.word for t in tokens]
    made = next((word for word in words[:6] if word in _KINDS), None)
    if words[:1] != ["CREATE"] or made is None:
        return None
    kind, allowed, last = _KINDS[made]
    before = set(words[: words.index(made)])
    if before - allowed:
        return None
    at = words.index(made) + 1
    at += 3 if words[at : at + 3] == ["IF", "NOT", "EXISTS"] else 0
    start = at
    while at + 2 < len(tokens) and tokens[at + 1].text == ".":
        at += 2
    parts = tuple(t.text for t in tokens[start : at + 1 : 2])
    depth = 0
    for token, following in pairwise(tokens[at + 1 :]):
        depth += (token.text == "(") - (token.text == ")")
        is_last = depth == 0 and token.word == last
        if is_last and (kind == "function" or following.word in ("SELECT", "WITH", "FROM", "")):
            query = text[following.start :].rstrip().rstrip(";")
            temporary = bool(before & {"TEMP", "TEMPORARY"})
            return StoredHead(kind, text[: token.end], parts, query, temporary, "GLOBAL" in before)
    return None


def keeps_text(head: StoredHead, plan: Plan) -> bool:
    """Whether what was written has to be kept.

    Operators need us at each read; EMIT, GRACE PERIOD and LATE TO play no part in a query over bounded rows, and are
    there for a definition that reads the view live.
    """
    if plan.operators():
        return True
    blocks = [block for level in scan(head.query).walk() for block in level.blocks if block.items]
    return head.kind == "view" and any(read_tail(head.query, block).ours for block in blocks)


@contextmanager
def parameters_named(head: StoredHead | None) -> Iterator[None]:
    """Within it a name that an operator does not know is said to be the function's parameter, where it is one.

    Raises:
        UnsupportedError: `UNSUPPORTED.FUNCTION_PARAMETER`.
    """
    try:
        yield
    except BindError as error:
        column = error.parameters.get("column", "")
        if head is None or not error.condition.endswith(".UNKNOWN_COLUMN") or column.lower() not in head.parameters:
            raise
        condition = "UNSUPPORTED.FUNCTION_PARAMETER"
        raise UnsupportedError(condition, error.text, error.span, column=column) from error


def is_body(text: str) -> bool:
    """Whether a text is the stored body of a function: it may read arguments, which only its caller knows."""
    found = _WRITTEN_IN.match(text)
    return found is not None and bool(found[1])


def is_stored(text: str) -> bool:
    """Whether a text is what a view or a function keeps: what is to be said of it was said when it was made."""
    return _WRITTEN_IN.match(text) is not None


def store(head: StoredHead, plan: Plan, binder: SparkBinder) -> None:
    """Make the view or the function over a stand-in of its query, then store what was written in its place.

    Raises:
        AnalysisException: Spark's own, where it cannot be made.
        UnsupportedError: the body of a function is an expression, which Spark reads without us.
    """
    if head.kind == "function" and tokenize(head.query)[0].word not in ("SELECT", "WITH", "FROM", "VALUES"):
        raise UnsupportedError("UNSUPPORTED.FUNCTION_BODY", plan.text, (0, len(plan.text)))
    session: Any = binder.spark._jsparkSession
    session.sql(f"{head.before} {_stand_in(head, plan, binder)}")
    mark = _NEEDS.format(_OF_FUNCTION if head.kind == "function" else "", _current_database(binder))
    if head.kind == "function":
        _store_function(head, mark + head.query, binder)
    else:
        (_store_temporary if head.temporary else _store_view)(head, mark + head.query, binder)


def _stand_in(head: StoredHead, plan: Plan, binder: SparkBinder) -> str:
    """Plain SQL of the same columns that reads the same relations: what Spark refuses of these it refuses here."""
    for node in plan.operators():
        binder.announce(node.name, node.columns)
    read = {name_text(relation.parts) for relation in scan(head.query).read()}
    exist = " AND ".join(f"EXISTS (SELECT 1 FROM {name})" for name in sorted(read)) or "true"
    return f"SELECT * FROM ({binder.standing_in(plan.root.sql)}) WHERE {exist}"


def store_current_rows(parts: tuple[str, ...], entry: Entry, binder: SparkBinder) -> None:
    """Let the view of a definition show the current rows in an order that only we know: it needs us at each read."""
    query = f"SELECT * FROM {CURRENT_ROWS}({name_text(parts)})"
    query = with_comment(query, entry) if entry.temporary else query
    head = StoredHead("view", "", tuple(map(part_text, parts)), query, entry.temporary)
    text = _NEEDS.format("", _current_database(binder)) + query
    (_store_temporary if entry.temporary else _store_view)(head, text, binder)


def _current_database(binder: SparkBinder) -> str:
    """Where names are looked up."""
    session: Any = binder.spark._jsparkSession
    return str(session.sessionState().catalog().getCurrentDatabase())


def _store_view(head: StoredHead, text: str, binder: SparkBinder) -> None:
    state: Any = binder.spark._jsparkSession.sessionState()
    identifier = state.sqlParser().parseTableIdentifier(".".join(head.parts[-2:]))
    table = state.catalog().getTableMetadata(identifier)
    state.catalog().alterTable(_with_text(binder, table, text, "viewText", "viewOriginalText"))


def _store_temporary(head: StoredHead, text: str, binder: SparkBinder) -> None:
    state: Any = binder.spark._jsparkSession.sessionState()
    jvm: Any = binder.spark.sparkContext._jvm
    catalog = state.catalog()
    name = state.sqlParser().parseTableIdentifier(head.parts[-1]).table()
    raw = catalog.getRawGlobalTempView(name) if head.shared else catalog.getRawTempView(name)
    database = jvm.scala.Option.apply(catalog.globalTempDatabase()) if head.shared else jvm.scala.Option.empty()
    table = _with_text(binder, raw.get().tableMeta(), text, "viewText", "viewOriginalText")
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(name, database)
    relation = jvm.org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation(table, jvm.scala.Option.empty())
    catalog.alterTempViewDefinition(identifier, relation)


def _store_function(head: StoredHead, text: str, binder: SparkBinder) -> None:
    state: Any = binder.spark._jsparkSession.sessionState()
    jvm: Any = binder.spark.sparkContext._jvm
    functions = jvm.org.apache.spark.sql.catalyst.catalog.SQLFunction
    catalog, parser = state.catalog(), state.sqlParser()
    identifier = parser.parseFunctionIdentifier(".".join(head.parts[-2:]))
    if not head.temporary:
        found = functions.fromCatalogFunction(catalog.getFunctionMetadata(identifier), parser)
        catalog.alterFunction(_with_text(binder, found, text, "queryText").toCatalogFunction())
        return
    name = identifier.funcName()
    info = catalog.lookupBuiltinOrTempTableFunction(name)
    if info.isDefined():
        found = _temporary_function(binder, identifier, info.get())
        catalog.registerSQLTableFunction(_with_text(binder, found, text, "queryText"), True)
        return
    found = _temporary_function(binder, identifier, catalog.lookupBuiltinOrTempFunction(name).get())
    catalog.registerSQLScalarFunction(_with_text(binder, found, text, "queryText"), True)


def _temporary_function(binder: SparkBinder, identifier: Any, info: Any) -> Any:
    """A temporary SQL function as Spark knows it; before 4.2 only what its catalog keeps can be read back."""
    jvm: Any = binder.spark.sparkContext._jvm
    catalog, parser = jvm.org.apache.spark.sql.catalyst.catalog, binder.spark._jsparkSession.sessionState().sqlParser()
    if release_of(binder.spark.version) >= (4, 2):
        return catalog.SQLFunction.fromExpressionInfo(info, parser)
    kind = catalog.FunctionResourceType.fromString("file")
    facts = catalog.FunctionResource(kind, f"000{info.getUsage()}")  # the first of the pieces, by their numbers
    kept = catalog.CatalogFunction(identifier, info.getClassName(), jvm.PythonUtils.toSeq([facts]))
    return catalog.SQLFunction.fromCatalogFunction(kept, parser)


@contextmanager
def where_written(session: Callable[[], Any], text: str) -> Iterator[None]:
    """Within it the names in the text of a temporal view or function mean what they did when it was made.

    Args:
        session: Java's session; most texts are no stored ones, and never ask for it.
        text: any statement.
    """
    found = _WRITTEN_IN.match(text)
    if found is None:
        yield
        return
    state = session().sessionState()
    catalogs, current = state.catalogManager(), state.catalogManager().currentNamespace()
    name = current[:]  # an array of the same type and length: one name
    name[0] = found[2]
    with suppress(PySparkException):  # the schema is gone: the names will not be found, and that is what is said
        catalogs.setCurrentNamespace(name)
    try:
        yield
    finally:
        catalogs.setCurrentNamespace(current)


def _with_text(binder: SparkBinder, kept: Any, text: str, *places: str) -> Any:
    """A copy of what the catalog keeps with another text; every other field as it is."""
    jvm: Any = binder.spark.sparkContext._jvm
    return copied(kept, **dict.fromkeys(places, jvm.scala.Option.apply(text)))
