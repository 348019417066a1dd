"""Plain Spark SQL for statements of ours: every operator becomes a call of its table function.

The result runs on any session on which ``udtf.register(spark)`` was called: in dbt, in tools that check SQL themselves,
in a job without our parser.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from catalog.entries import Column
from sqlx.bind.spark_errors import meant
from sqlx.errors import TemporalSqlError, UnsupportedError
from sqlx.plan.nodes import Aggregation, AsOfJoin, Deduplicate, Fragment, Plan
from sqlx.plan.operators import function_of
from sqlx.sessions.session import statements_of
from sqlx.sessions.statements import SessionStatements, may_be_ours
from sqlx.spark.aggregates import call_of
from sqlx.sql.definitions import parse_definition, parse_streaming
from sqlx.sql.explanation import parse_explanation
from sqlx.sql.parser import scan
from sqlx.sql.tokens import Span, statement_spans, tokenize
from sqlx.sql.verification import parse_verification
from udtf.spark.functions import SHARED, SIDE
from udtf.spark.tasks import task_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Sliding windows as plain Spark SQL, for any session: slower than the operator, since rows meet windows in a join.
#
# ::
#
#     k, sliding_window(ts, '10 minutes')
#       =>
#     the ends of windows, [t - size, t] and [t + 1 µs, t + 1 µs + size] of each row, each once per key
#       JOIN the rows ON the same key AND the time between start and end   -- a window without rows finds none
#       GROUP BY key, end


def sliding_text(node: Aggregation, rows: str) -> str:
    """The query that answers an aggregation by sliding windows.

    Args:
        node: the aggregation.
        rows: its input as plain Spark SQL.
    """
    size_us, keys = node.config.window.size_us, [f"__k{n}" for n in range(node.config.n_keys)]
    is_local = any(column.name == "__we" and column.type == "timestamp_ntz" for column in node.columns)
    end = ", ".join([*keys, f"explode(array(__time, {_moved('__time', size_us + 1, is_local)})) AS __we"])
    same = [f"__row.{key} <=> __end.{key}" for key in keys]
    start = _moved("__end.__we", -size_us, is_local)
    grouped = [f"__end.{key}" for key in keys] + ["__end.__we"]
    calls = [f"{call_of(node, n)} AS __a{n}" for n in range(len(node.config.aggregates))]
    return "\n".join(
        [
            f"WITH __rows AS (SELECT * FROM (\n{rows}\n) WHERE __time IS NOT NULL),",
            f"__ends AS (SELECT DISTINCT {end} FROM __rows)",
            f"SELECT {', '.join([*grouped, f'{start} AS __ws', *calls])}",
            "FROM __ends AS __end JOIN __rows AS __row",
            f"ON {' AND '.join([*same, f'__row.__time BETWEEN {start} AND __end.__we'])}",
            f"GROUP BY {', '.join(grouped)}",
        ]
    )


def _moved(time: str, by_us: int, is_local: bool) -> str:
    """A time so many microseconds later, as SQL. NB: a timestamp plus an interval goes by days of the time zone."""
    if is_local:
        return f"{time} + make_dt_interval(0, 0, 0, {by_us} / 1000000BD)"
    return f"timestamp_micros(unix_micros({time}) + {by_us})"


_TASKS = 16
#: How the heads of statements end that plain Spark SQL has no form for.
_LAST_OF_HEAD = frozenset({"TEMPORAL", "STREAM", "TABLE", "QUERY", "QUERIES"})


def compile_text(spark: SparkSession, text: str) -> str:
    """A script as plain Spark SQL.

    Args:
        spark: a sqlx session; it is asked for names and types, and runs nothing.
        text: one or more statements; those of Spark's come back as they were written.

    Raises:
        TemporalSqlError: a temporal statement is wrong, or has no form in plain Spark SQL (`UNSUPPORTED.COMPILE`).
        ParseException: a statement is neither ours nor taken by Spark's parser.
    """
    statements = statements_of(spark)
    compiled = [_statement(statements, span.of(text)) for span in statement_spans(text)]
    return ";\n".join(compiled) + (";\n" if len(compiled) > 1 else "\n")


def _statement(statements: SessionStatements, text: str) -> str:
    _check_has_form(text)
    if not may_be_ours(text):
        refusal = statements.engine.refusal(text)
        near = None if refusal is None else meant(refusal, text)
        if isinstance(near, TemporalSqlError):
            raise near
        return text  # of a newer Spark, perhaps
    definition = parse_definition(text)
    if definition is not None:
        lowered = statements.lower_definition(text, definition)
        return ";\n".join([*lowered.prepare, lowered.final])
    plan = statements.taken_plan(text, portable=True)
    if plan.streaming:
        live = next(relation.span for relation in scan(text).relations() if relation.stream)
        raise UnsupportedError("UNSUPPORTED.COMPILE", text, live.pair, what=live.of(text))
    return plan_text(plan) if plan.operators() else plan.root.sql


def _check_has_form(text: str) -> None:
    """What is about running queries, or about a query and not one, is nothing that plain Spark SQL could say.

    Raises:
        TemporalParseError: it begins like such a statement, but does not follow the grammar.
        UnsupportedError: `UNSUPPORTED.COMPILE`.
    """
    tokens = tokenize(text)
    forms = (parse_explanation, parse_streaming, parse_verification)
    if any(parse(text, tokens) is not None for parse in forms):
        last = next(token for token in tokens if token.word in _LAST_OF_HEAD)
        head = Span(tokens[0].start, last.end)
        raise UnsupportedError("UNSUPPORTED.COMPILE", text, head.pair, what=head.of(text))


def plan_text(plan: Plan) -> str:
    """The root of a plan with a table function call, or plain SQL, in each operator's place."""
    calls: dict[str, str] = {}
    for node in plan.operators():
        calls[node.name] = f"(\n{function_of(node, 'text')(node, calls)}\n)"
    return _filled(plan.root.sql, calls)


def sliding_call(node: Aggregation, calls: dict[str, str]) -> str:
    """Sliding windows as a join of rows with the ends of windows."""
    return sliding_text(node, _filled(node.input.sql, calls))


def _filled(sql: str, calls: dict[str, str]) -> str:
    for name, call in calls.items():
        sql = call.join(re.split(rf"\b{name}\b", sql))
    return sql


def as_of_call(node: AsOfJoin, calls: dict[str, str]) -> str:
    """``SELECT * FROM as_of(options, TABLE(union) PARTITION BY task)``."""
    options = node.config.to_json().replace("\\", "\\\\").replace("'", "\\'")
    columns = _union_columns(node)
    left = _side(node.left, "L", columns, calls, node.config.n_keys)
    right = _side(node.right, "R", columns, calls, node.config.n_keys)
    return f"SELECT * FROM as_of('{options}', TABLE(\n{left}\nUNION ALL\n{right}\n) PARTITION BY __task)"


def deduplicate_call(node: Deduplicate, calls: dict[str, str]) -> str:
    """``SELECT * FROM deduplicate(TABLE(input) PARTITION BY task ORDER BY arrival, options)``."""
    options = node.config.to_json().replace("\\", "\\\\").replace("'", "\\'")
    items = ["*", f"{task_sql(node.config.n_keys, _TASKS)} AS __task"]
    order = ["__seq" if node.config.has_sequence else "__time"]
    order += [c.name for c in node.input.columns if c.name.startswith("__arrival")]
    if len(order) == 1 and not node.config.has_sequence:
        items.append("monotonically_increasing_id() AS __arrival0")
        order.append("__arrival0")
    rows = f"SELECT {', '.join(items)} FROM (\n{_filled(node.input.sql, calls)}\n)"
    placed = f"TABLE(\n{rows}\n) PARTITION BY __task ORDER BY ({', '.join(order)})"
    return f"SELECT * FROM deduplicate({placed}, options => '{options}')"


def _union_columns(node: AsOfJoin) -> list[Column]:
    """The columns of both sides under the names that they have in the union."""
    columns: dict[str, Column] = {}
    for column in (*node.left.columns, *node.right.columns):
        name = SHARED.get(column.name, column.name)
        columns.setdefault(name, Column(name, column.type))
    return list(columns.values())


def _side(fragment: Fragment, side: str, columns: list[Column], calls: dict[str, str], n_keys: int) -> str:
    own = {SHARED.get(c.name, c.name): c.name for c in fragment.columns}
    items = [f"{own[c.name]} AS {c.name}" if c.name in own else f"CAST(NULL AS {c.type}) AS {c.name}" for c in columns]
    task = task_sql(n_keys, _TASKS)
    return f"SELECT '{side}' AS {SIDE}, {', '.join(items)}, {task} AS __task FROM (\n{_filled(fragment.sql, calls)}\n)"
