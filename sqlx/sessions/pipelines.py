"""Statements of declarative pipelines (Spark 4.1 and newer): a pipeline starts its own queries, so ours start none.

Spark gives the statements of a pipeline's SQL files to the parser of a session and takes their plans into its graph. A
statement with a temporal query gets Spark's own plan, with that query in it; all others are Spark's as they are. Why:
docs/design/20261125_pipelines.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlx.errors import TemporalSqlError, UnsupportedError
from udtf.engine.java import copied, fields_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from sqlx.sql.tokens import Token

#: Classes that read a pipeline's statements: one of them is below the parser on the stack then.
_READERS = re.compile(r"\bat org\.apache\.spark\.sql\.(?:connect\.)?pipelines\.")
_STUB = "SELECT 1 AS stub"
_MISSING = ("BIND.UNKNOWN_RELATION", "TABLE_OR_VIEW_NOT_FOUND")


def in_pipeline(jvm: Any, text: str) -> bool:
    """Whether Java's thread, which waits for our parser, reads the statements of a pipeline.

    Args:
        jvm: Spark's JVM.
        text: the statement: without CREATE in it, it is none that a pipeline takes, and Java is not asked.
    """
    if "create" not in text.lower():
        return False
    stack = str(jvm.org.apache.spark.util.Utils.exceptionString(jvm.java.lang.Throwable()))
    return _READERS.search(stack) is not None


def pipeline_plan(
    jvm: Any,
    text: str,
    tokens: tuple[Token, ...],
    parse: Callable[[str], Any],
    query: Callable[[str], DataFrame | None],
) -> Any:
    """Spark's plan of a statement of a pipeline, with a temporal query in the place of a plain one.

    Args:
        jvm: Spark's JVM.
        text: the statement.
        tokens: its tokens.
        parse: Spark's own parser.
        query: from a temporal query to its rows; None for one of Spark's.

    Returns:
        The plan; None where nothing of it is ours.

    Raises:
        TemporalSqlError: the query is ours and wrong, or reads what is not there yet.
    """
    start = _start_of_query(tokens) if tokens and tokens[0].word == "CREATE" else None
    if start is None:
        return None
    blank = re.sub(r"[^\n]", " ", text[:start])  # carets point into the statement
    try:
        rows = query(blank + text[start:])
    except TemporalSqlError as error:
        if error.condition not in _MISSING or error.span is None:
            raise
        name = text[slice(*error.span)]
        raise UnsupportedError("UNSUPPORTED.PIPELINE_DATASET", text, error.span, name=name) from error
    if rows is None:
        return None
    plan: Any = rows._jdf.queryExecution().analyzed()
    stub = parse(f"{text[:start]}{_STUB}")
    origins = jvm.org.apache.spark.sql.catalyst.trees.CurrentOrigin
    origins.set(stub.origin())
    try:
        return _with_query(stub, plan)
    finally:
        origins.reset()


def _start_of_query(tokens: tuple[Token, ...]) -> int | None:
    """Where the query of CREATE … AS query, or of CREATE FLOW … AS INSERT INTO name [BY NAME] query, begins."""
    depth, after = 0, False
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        opens = token.text == "(" and depth == 1
        if after and (token.word in ("SELECT", "WITH", "FROM", "VALUES", "TABLE") or opens) and depth == int(opens):
            return token.start
        after = after or (token.word == "AS" and depth == 0)
    return None


def _with_query(plan: Any, query: Any) -> Any:
    """A copy of a plan with another query; that of a flow is inside its INSERT."""
    if "query" in fields_of(plan):
        return copied(plan, query=query)
    return copied(plan, flowOperation=_with_query(plan.flowOperation(), query))
