"""Scripts and models: files read, rendered, split into statements, and run in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlx.cli.jinja import Rendered, in_order, parse_variables, render_file
from sqlx.cli.output import Result, fetch, note, out, show
from sqlx.cli.progress import watched
from sqlx.failures import CommandError
from sqlx.sql.explanation import parse_explanation
from sqlx.sql.tokens import tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MATERIALIZATIONS = ("view", "table", "ephemeral")


@dataclass(frozen=True)
class Statement:
    """One statement of a script.

    Attributes:
        text: without comments around it and without its semicolon.
        place: where it is, for messages: ``FILE.sql, statement 2 (line 14)``.
    """

    text: str
    place: str


@dataclass(frozen=True)
class Script:
    """What one file, or the text of ``-e``, asks to be run.

    Attributes:
        statements: in order.
        model: the name under which its one query is to be known, and how it is materialized.
    """

    statements: tuple[Statement, ...]
    model: tuple[str, str] | None = None


def read_scripts(files: Iterable[Path], assignments: Iterable[str]) -> list[Script]:
    """Read, render and split files; a model is after those that it refers to.

    Args:
        files: scripts of plain statements, or dbt-style models.
        assignments: ``name=value`` of ``--var``.

    Raises:
        CommandError: a file is missing, or a model is not one query.
        RenderError: Jinja refuses a file, or an assignment is broken.
    """
    variables = parse_variables(assignments)
    rendered = [render_file(_readable(path), variables) for path in files]
    known = {name for file in rendered for name in file.refs}
    return [_script(file, known) for file in in_order(rendered)]


def _readable(path: Path) -> Path:
    if path.is_dir():
        msg = f"{path} is a folder, not a file."
        hint = f"Name its files: {path}/*.sql; a dbt project is built by `sqlx dbt build --project-dir {path}`."
        raise CommandError(msg, hint)
    if not path.exists():
        msg = f"There is no file {path}."
        raise CommandError(msg)
    return path


def _script(file: Rendered, referred: set[str]) -> Script:
    statements = split(file.text, str(file.path))
    materialized = str(file.config.get("materialized", "ephemeral"))
    if materialized not in MATERIALIZATIONS:
        msg = f"{file.path}: materialized='{materialized}' cannot be run here."
        raise CommandError(msg, f"Choose one of {', '.join(MATERIALIZATIONS)}, or run the model with dbt.")
    if file.name not in referred and "materialized" not in file.config:
        return Script(statements)
    if len(statements) != 1 or not is_query(statements[0].text):
        msg = f"{file.path} is a model, so it has to hold exactly one query; it holds {len(statements)} statements."
        raise CommandError(msg)
    return Script(statements, (file.name, materialized))


def split(text: str, name: str) -> tuple[Statement, ...]:
    r"""The statements of a text.

    >>> [(s.text, s.place) for s in split("-- one\nSELECT 1;\nSELECT 2", "x.sql")]
    [('SELECT 1', 'x.sql, statement 1 (line 2)'), ('SELECT 2', 'x.sql, statement 2 (line 3)')]
    """
    from sqlx.sql.tokens import LexicalError, statement_spans

    try:
        spans = statement_spans(text)
    except LexicalError:  # an open string or comment: Spark says it best
        return (Statement(text, name),)
    return tuple(
        Statement(span.of(text), f"{name}, statement {number} (line {text.count(chr(10), 0, span.start) + 1})")
        for number, span in enumerate(spans, start=1)
    )


def is_query(text: str) -> bool:
    """Whether a statement is a query by its first word.

    >>> is_query("WITH a AS (SELECT 1) SELECT * FROM a"), is_query("(SELECT 1)"), is_query("DROP TABLE t")
    (True, True, False)
    """
    words = text.lstrip("( \n").split(None, 1)
    return bool(words) and words[0].upper() in ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


def run_scripts(spark: SparkSession, scripts: Sequence[Script], limit: int) -> None:
    """Run scripts in order, and print each result.

    Args:
        spark: the session.
        scripts: as :func:`read_scripts` gives them.
        limit: the most rows to print of a result.
    """
    total = sum(len(script.statements) for script in scripts)
    number = shown = 0
    for script in scripts:
        for statement in script.statements:
            number += 1
            with error_place(statement):
                result = _run(spark, script, statement, limit, f"statement {number}/{total}")
            if result is not None:
                out.print(end="\n" if shown else "")
                show(result)
                shown += 1


class error_place:
    """Notes the place of a statement on an error that leaves it."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            error.add_note(f"{self.statement.place}:")


def _run(spark: SparkSession, script: Script, statement: Statement, limit: int, what: str) -> Result | None:
    def work() -> Result | None:
        if script.model is not None:
            _materialize(spark, script.model, statement)
            return None
        return answer(spark, statement.text, limit)

    return watched(spark, what, work)


def answer(spark: SparkSession, text: str, limit: int) -> Result | None:
    """Run one statement; its first rows, or None where it has no columns.

    Args:
        spark: the session.
        text: the statement.
        limit: the most rows to take.
    """
    frame = spark.sql(text)
    return fetch(frame, limit) if frame.columns else None


def _materialize(spark: SparkSession, model: tuple[str, str], statement: Statement) -> None:
    name, materialized = model
    if materialized == "view":
        spark.sql(f"CREATE OR REPLACE VIEW {name} AS {statement.text}")
        return
    frame: DataFrame = spark.sql(statement.text)
    if materialized == "table":
        frame.write.mode("overwrite").saveAsTable(name)
    else:
        frame.createOrReplaceTempView(name)
    note(f"{name}: {materialized}")


def carrying_out_definitions(spark: SparkSession, scripts: Iterable[Script]) -> Iterator[Statement]:
    """All statements in order; after a definition it is carried out, so that names bind. No row is written.

    Args:
        spark: the session.
        scripts: as :func:`read_scripts` gives them.
    """
    for script in scripts:
        for statement in script.statements:
            with error_place(statement):
                yield statement
                if is_definition(statement.text):
                    spark.sql(statement.text)
                elif script.model is not None:
                    spark.sql(statement.text).createOrReplaceTempView(script.model[0])


def holds_query(text: str) -> bool:
    """Whether a statement is a query or has one inside; a definition has none of its own.

    >>> holds_query("INSERT INTO t SELECT 1"), holds_query("CACHE TABLE t AS SELECT 1"), holds_query("SHOW TABLES")
    (True, True, False)
    >>> holds_query("CREATE VIEW v AS SELECT 1")
    False
    """
    words = [word.strip("(").upper() for word in text.split()]
    around = words[:1] in (["INSERT"], ["MERGE"], ["CREATE"], ["CACHE"], ["REPLACE"]) and not is_definition(text)
    return is_query(text) or (around and bool({"SELECT", "FROM"} & set(words)))


def explained_query(text: str) -> str:
    """What there is to explain of a statement: itself where it holds a query, or the query of EXPLAIN TEMPORAL.

    >>> explained_query("EXPLAIN TEMPORAL SELECT 1"), explained_query("SELECT 1"), explained_query("SHOW TABLES")
    ('SELECT 1', 'SELECT 1', '')
    """
    start = parse_explanation(text, tokenize(text))
    if start is not None:
        return text[start:].strip()
    return text if holds_query(text) else ""


def is_definition(text: str) -> bool:
    """Whether a statement only says what names mean: views, our definitions, functions, settings.

    >>> is_definition("CREATE TEMPORARY VIEW v AS SELECT 1"), is_definition("CREATE TABLE t AS SELECT 1")
    (True, False)
    """
    words = [word.strip("(;").upper() for word in text.split(None, 7)[:7]]
    if words[:1] in (["SET"], ["USE"], ["DECLARE"]):
        return True
    head = [word for word in words if word not in ("OR", "REPLACE", "TEMPORARY", "TEMP", "GLOBAL")][:3]
    return head[:2] in (["CREATE", "VIEW"], ["CREATE", "STREAM"], ["CREATE", "FUNCTION"]) or head in (
        ["CREATE", "VERSIONED", "TABLE"],
        ["CREATE", "UPSERT", "TABLE"],
    )
