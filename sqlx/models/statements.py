"""What a model becomes: the statements that make it, and the query that they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlx.dialect import LexicalError, tokenize
from sqlx.jinja import RenderError
from sqlx.models.project import Model
from sqlx.splitting import statement_spans
from sqlx.words import QUERY_WORDS

DEFINITIONS = {"stream": "STREAM", "versioned_table": "VERSIONED TABLE", "upsert_table": "UPSERT TABLE"}


@dataclass(frozen=True)
class Query:
    """The one query of a model, on the lines of its file.

    Attributes:
        text: without comments around it and without its semicolon.
        line: where it begins, from 1.
    """

    text: str
    line: int

    @property
    def placed(self) -> str:
        """The query behind as many line breaks as are before it in its file, so that errors name the file's lines."""
        return "\n" * (self.line - 1) + self.text

    def behind(self, head: str) -> str:
        r"""A statement that ends in the query; errors in it name lines of the file.

        >>> Query("SELECT 1", 3).behind("CREATE VIEW v AS")
        '\n\nCREATE VIEW v AS SELECT 1'
        """
        return "\n" * (self.line - 1) + f"{head} {self.text}"


def query_of(model: Model, text: str, inlined: Mapping[str, Query] | None = None) -> Query:
    """The query that a model holds.

    Args:
        model: the model.
        text: its SQL.
        inlined: the ephemeral models that it reads, with all that these read, in order.

    Raises:
        RenderError: it holds something else than one query.
    """
    try:
        spans = statement_spans(text)
        first = tokenize(spans[0].of(text))[0].word if len(spans) == 1 else ""
    except (LexicalError, IndexError):  # an open string or comment: Spark says it best
        return Query(text.strip(), text.count("\n", 0, len(text) - len(text.lstrip())) + 1)
    if first not in QUERY_WORDS and not (len(spans) == 1 and spans[0].of(text).lstrip().startswith("(")):
        found = f"{len(spans)} statements" if len(spans) != 1 else f"a {first} statement"
        msg = f"{model.path} is a model, so it has to hold exactly one query; it holds {found}."
        raise RenderError(msg)
    line = text.count("\n", 0, spans[0].start) + 1
    return Query(_with_inlined(spans[0].of(text), inlined or {}), line)


def _with_inlined(query: str, inlined: Mapping[str, Query]) -> str:
    """The query with ephemeral models as common table expressions before its own."""
    if not inlined:
        return query
    listed = ", ".join(f"{name} AS (\n{other.text}\n)" for name, other in inlined.items())
    tokens = tokenize(query)
    if tokens[0].word != "WITH":
        return f"WITH {listed} {query}"
    recursive = tokens[1].word == "RECURSIVE"
    head = "WITH RECURSIVE" if recursive else "WITH"
    return f"{head} {listed}, {query[tokens[1 if recursive else 0].end :].lstrip()}"


def view(model: Model, query: Query) -> str:
    """CREATE VIEW."""
    return query.behind(f"CREATE OR REPLACE VIEW {model.relation} AS")


def definition(model: Model, query: Query) -> str:
    """CREATE STREAM, VERSIONED TABLE or UPSERT TABLE over the model's query.

    Raises:
        RenderError: an option is missing.
    """
    config, kind = model.config, DEFINITIONS[model.materialized]
    for option in ("timestamp_by",) if model.materialized == "stream" else ("keys", "timestamp_by"):
        if not config.get(option):
            example = "keys='id', timestamp_by='changed_at'" if kind != "STREAM" else "timestamp_by='ordered_at'"
            msg = f"{model.path}: {kind.lower()} needs {option}.\nHINT: config(…, {example})"
            raise RenderError(msg)
    clauses = [f"KEYS ({', '.join(listed(config['keys']))})"] if config.get("keys") else []
    clauses.append(f"TIMESTAMP BY {config['timestamp_by']}")
    clauses += [f"SEQUENCE BY {config['sequence_by']}"] if config.get("sequence_by") else []
    clauses += [f"HISTORY RETENTION INTERVAL {config['retention']}"] if config.get("retention") else []
    return query.behind(f"CREATE OR REPLACE {kind} {model.relation} {' '.join(clauses)} AS")


def streaming_table(model: Model, query: Query, *, anew: bool, trigger: str = "(AVAILABLE NOW)") -> str:
    """CREATE STREAMING TABLE over the model's query.

    Args:
        model: the model.
        query: its query.
        anew: from the beginning of its sources; else from where the last run stopped.
        trigger: what TRIGGER says; "" is as fast as possible.
    """
    config = model.config
    clauses = [f"USING {config['file_format']}"] if config.get("file_format") else []
    clauses += [f"CHECKPOINT '{config['checkpoint']}'"] if config.get("checkpoint") else []
    clauses += [f"TRIGGER {trigger}"] if trigger else []
    clauses += [f"TASKS {config['tasks']}"] if config.get("tasks") else []
    head = "CREATE OR REPLACE STREAMING TABLE" if anew else "CREATE STREAMING TABLE"
    return query.behind(" ".join([head, model.relation, *clauses, "AS"]))


def listed(value: Any) -> Sequence[str]:
    """An option that is one name or several.

    >>> listed("a, b"), listed(["a"]), listed(None)
    (['a', 'b'], ['a'], [])
    """
    if value is None:
        return []
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else [str(part) for part in value]
