"""The prompt of ``sqlx sql``: history, completion, statements over several lines, errors without a stack trace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped,unused-ignore]

from sqlx.cli.output import complain, note, out, show
from sqlx.cli.progress import watched
from sqlx.cli.scripts import answer, split
from sqlx.failures import message_of

if TYPE_CHECKING:
    from prompt_toolkit.document import Document
    from pyspark.sql import SparkSession

PROMPT, CONTINUED = "sqlx> ", "  ... "
LEAVING = ("exit", "quit", r"\q")
_GREETING = "Statements end with a semicolon; Tab completes; \\q or Ctrl-D leaves."
_PHRASES = (
    "AS OF", "ASOF JOIN", "CREATE OR REPLACE TEMPORARY VERSIONED TABLE", "CREATE STREAM", "CREATE UPSERT TABLE",
    "CREATE VERSIONED TABLE", "DESCRIBE", "DIRECTION BACKWARD", "DIRECTION FORWARD", "DIRECTION NEAREST", "EXCLUSIVE",
    "EXPLAIN TEMPORAL", "FOR SYSTEM_TIME AS OF", "GRACE PERIOD", "HISTORY RETENTION INTERVAL", "INCLUSIVE", "KEYS",
    "KNOWN AS OF", "MATCH_CONDITION", "SEQUENCE BY", "SHOW STREAMS", "SHOW TABLES", "SHOW VERSIONED TABLES", "TIES BY",
    "TIMESTAMP BY", "TOLERANCE INTERVAL", "WITH REASON", "history(",
)  # fmt: skip
_WORDS = (
    "ALL AND ANTI AS ASC BETWEEN BY CASE CAST CROSS DATE DESC DISTINCT ELSE END EXCEPT EXISTS FROM FULL GROUP HAVING "
    "IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LATERAL LEFT LIKE LIMIT NOT NULL ON OR ORDER OUTER OVER PARTITION "
    "RIGHT SELECT SEMI TABLE THEN TIMESTAMP UNION USING VALUES VIEW WHEN WHERE WINDOW WITH"
).split()


def is_complete(text: str) -> bool:
    """Whether Enter sends what was typed: it ends with a semicolon outside of strings and comments, or leaves.

    >>> is_complete("SELECT 1"), is_complete("SELECT 1;  -- done"), is_complete("SELECT ';"), is_complete("exit")
    (False, True, False, True)
    """
    from sqlx.sql.tokens import LexicalError, tokenize

    if not text.strip() or text.strip().lower() in LEAVING:
        return True
    try:
        tokens = tokenize(text)
    except LexicalError:
        return False
    return not tokens or tokens[-1].text == ";"


class SqlCompleter(Completer):
    """Completes our phrases, SQL's words, and the names that the catalog has.

    Args:
        names: gives the catalog's names; asked for once until :meth:`forget`.
    """

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._ask = names
        self._names: list[str] | None = None

    def forget(self) -> None:
        """Ask for the names again: a statement has run."""
        self._names = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """What the word before the cursor may become; names first."""
        word = document.get_word_before_cursor(WORD=True).rpartition("(")[2].rpartition(",")[2]
        if not word:
            return
        if self._names is None:
            self._names = sorted(self._ask())
        for known in (*self._names, *_PHRASES, *_WORDS):
            if known.lower().startswith(word.lower()):
                yield Completion(known, start_position=-len(word))


def catalog_names(spark: SparkSession) -> list[str]:
    """The tables and views of the current database, and the temporary ones."""
    try:
        return [row["tableName"] for row in spark.sql("SHOW TABLES").collect()]
    except Exception:  # noqa: BLE001 - a completion must not end the prompt
        return []


def history_file() -> Path:
    """Where the prompt keeps its history: ``SQLX_HISTORY``, or the user's state folder."""
    given = os.environ.get("SQLX_HISTORY")
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return Path(given) if given else state / "sqlx" / "history"


def _history() -> History:
    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:  # a home that cannot be written: the prompt works without
        return InMemoryHistory()
    return FileHistory(str(path))


def prompt_session(completer: Completer) -> PromptSession[str]:
    """A prompt that reads on until the statement is complete."""
    keys = KeyBindings()

    @Condition
    def is_done() -> bool:
        return is_complete(session.default_buffer.text)

    @keys.add("enter", filter=is_done)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    session: PromptSession[str] = PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=CONTINUED,
        history=_history(),
        completer=completer,
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=keys,
    )
    return session


def interact(spark: SparkSession, limit: int) -> None:
    """Read statements and run them until the user leaves.

    Args:
        spark: the session.
        limit: the most rows to print of a result.
    """
    completer = SqlCompleter(lambda: catalog_names(spark))
    prompt = prompt_session(completer)
    note(_GREETING)
    while True:
        try:
            text = prompt.prompt()
        except KeyboardInterrupt:  # the line is given up, not the prompt
            continue
        except EOFError:
            return
        if text.strip().lower() in LEAVING:
            return
        execute(spark, text, limit)
        completer.forget()


def execute(spark: SparkSession, text: str, limit: int) -> None:
    """Run what was typed and print its results; an error or Ctrl-C ends the statement only.

    Args:
        spark: the session.
        text: one or more statements.
        limit: the most rows to print of a result.
    """
    for statement in split(text, "prompt"):
        began = time.monotonic()
        try:
            result = watched(spark, "running", partial(answer, spark, statement.text, limit))
        except KeyboardInterrupt:
            complain("Interrupted.")
            return
        except Exception as error:  # noqa: BLE001 - whatever it was, the prompt stays
            complain(message_of(error) or f"{type(error).__name__}: {error}")
            return
        if result is not None:
            show(result)
        note(f"{time.monotonic() - began:.1f} s")
        out.print()
