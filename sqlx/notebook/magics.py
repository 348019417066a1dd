"""``%%sqlx`` and ``%sqlx``: SQL in the cells of a notebook."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, cast

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import DisplayHandle, display

from sqlx.cli.output import fetch
from sqlx.cli.progress import watched
from sqlx.cli.scripts import Statement, error_place, split
from sqlx.cli.start import tell_remarks
from sqlx.cli.streams import StreamOptions, start_stream
from sqlx.failures import CommandError, interrupts, message_of
from sqlx.notebook.arguments import Options, read
from sqlx.notebook.live import Latest, LiveView, Show, follow
from sqlx.notebook.plots import Picture, plot
from sqlx.notebook.tables import Rows
from sqlx.sql.definitions import StreamingTable, parse_streaming
from sqlx.sql.tokens import LexicalError, tokenize

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from pyspark.sql import SparkSession


# Errors in a notebook: our message with its caret, and no stack trace.


class CellError(Exception):
    """A cell failed; the notebook stops there, and shows the message alone.

    Args:
        message: what to show.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in the place of a stack trace."""
        return str(self).splitlines()


@contextmanager
def told() -> Iterator[None]:
    """Turn an interrupt, and errors that have words of their own, into :class:`CellError`.

    ``SQLX_DEBUG`` leaves errors as they are.

    Raises:
        CellError: the message of the error.
    """
    try:
        with interrupts():
            yield
    except KeyboardInterrupt:
        raise CellError("Interrupted.") from None
    except Exception as error:
        message = None if isinstance(error, CellError) or os.environ.get("SQLX_DEBUG") else message_of(error)
        if message is None:
            raise
        raise CellError("\n".join([*getattr(error, "__notes__", []), message])) from None


T = TypeVar("T")
_GOES_ON = "{name} goes on. STOP STREAMING QUERY {name} ends it, SHOW STREAMING QUERIES lists all."
_CONF = {"spark.log.level": "ERROR"}


@magics_class
class SqlMagics(Magics):
    """The magics of one notebook."""

    @no_var_expand
    @line_cell_magic
    def sqlx(self, line: str, cell: str | None = None) -> Rows | Picture | None:
        """Run SQL: ``%%sqlx [options]`` over a cell of statements, or ``%sqlx [options] statement``.

        Options: ``--limit N`` shows more rows; ``-o NAME`` keeps the DataFrame of the last query in a variable;
        ``--plot X,Y[,BY]`` draws it. A query that reads a stream is shown live until the cell is interrupted:
        ``--once`` reads what is there now, ``--refresh SECONDS`` looks less often, and ``--background`` starts a
        streaming table without a view.

        Args:
            line: what is after the magic.
            cell: the lines below; None for a line magic.

        Returns:
            The result of ``%sqlx``, whose ``frame`` is the DataFrame; a cell displays its results.

        Raises:
            CellError: what went wrong, in words.
        """
        with told():
            options, rest = read(line)
            statements = split(rest if cell is None else f"{rest}\n{cell}".strip("\n"), "cell")
            statements = tuple(statement for statement in statements if statement.text.strip())
            if not statements:
                raise CommandError("There is no statement.", "Write SQL in the lines below %%sqlx, or after %sqlx.")
            shown: Rows | Picture | None = None
            for statement in statements:
                if shown is not None:
                    display(shown)
                with error_place(statement) if len(statements) > 1 else nullcontext():
                    shown = self._run(statement, options, statement is statements[-1])
            if cell is None:
                return shown
            if shown is not None:
                display(shown)
            return None

    def _run(self, statement: Statement, options: Options, is_last: bool) -> Rows | Picture | None:
        spark = self._session()
        if _starts_a_stream(statement.text) and not _is_remote(spark):
            self._live(spark, statement, options)
            return None
        frame = _done(spark, lambda: spark.sql(statement.text))
        if is_last and options.out:
            self._notebook.user_ns[options.out] = frame
        if frame.isStreaming:
            self._live(spark, statement, options)
            return None
        if not frame.columns:
            return None
        if is_last and options.plot:
            x, y, *by = options.plot
            return _done(spark, lambda: plot(frame, x, y, by[0] if by else None))
        return Rows(_done(spark, lambda: fetch(frame, options.limit)), frame)

    def _live(self, spark: SparkSession, statement: Statement, options: Options) -> None:
        """Start a stream and show it."""
        if _is_remote(spark):
            msg = "A live view is of a stream in the notebook's own process, and this session is Spark Connect's."
            raise CommandError(msg, "Write CREATE STREAMING TABLE … AS; DESCRIBE STREAMING QUERY says how far it is.")
        latest = None if _starts_a_stream(statement.text) else Latest(options.limit)
        if options.background and latest is not None:
            raise CommandError("--background needs a table that the rows go to.", "Write CREATE STREAMING TABLE … AS.")
        if options.plot:
            raise CommandError("--plot draws a bounded query.", "Write the stream into a table, and draw that.")
        query = start_stream(spark, statement, True, StreamOptions(once=options.once), latest)  # type: ignore[arg-type]
        if query is None:  # IF NOT EXISTS found it running
            return
        interrupted = False
        if not options.background:
            interrupted = follow(query, latest, _shower(self._notebook), options.refresh)
        if latest is None and (interrupted or options.background):
            _say(_GOES_ON.format(name=query.name))

    @property
    def _notebook(self) -> InteractiveShell:
        assert self.shell is not None  # IPython's own type says that it may be
        return self.shell

    def _session(self) -> SparkSession:
        """The notebook's session: its variable ``spark``, the one that is active, or a new one in ``spark``."""
        from pyspark.sql import SparkSession

        from sqlx.sessions import session as sessions

        names = self._notebook.user_ns
        found = names.get("spark")
        if _is_remote(found):  # its server knows the language
            return cast("SparkSession", found)
        if not isinstance(found, SparkSession):
            found = SparkSession.getActiveSession()
        if found is None:
            _say("Starting Spark …")
            found = sessions.session(app="notebook", conf=_CONF)
        names.setdefault("spark", found)
        return sessions.enable(found)


def _is_remote(session: object) -> bool:
    """Whether a session is a client of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _done(spark: SparkSession, work: Callable[[], T]) -> T:
    """Do work; an interrupt cancels it."""
    return work() if _is_remote(spark) else watched(spark, "running", work)


def _starts_a_stream(text: str) -> bool:
    try:
        return isinstance(parse_streaming(text, tokenize(text)), StreamingTable)
    except LexicalError:  # Spark says it best
        return False


def _shower(shell: InteractiveShell) -> Show:
    """Shows views in one place: a notebook replaces what is there, a terminal gets the last one only."""
    if not hasattr(shell, "kernel"):
        return _show_on_terminal
    handle: Any = DisplayHandle()
    shown: list[Any] = []

    def show(view: LiveView, _is_last: bool) -> None:
        (handle.update if shown else handle.display)(view)
        shown[:] = [view]

    return show


def _show_on_terminal(view: LiveView, is_last: bool) -> None:
    if is_last:
        display(view)
    elif sys.stderr.isatty():
        print(f"\r\033[K{view.query.name}: {view.line}", end="\r", file=sys.stderr, flush=True)  # noqa: T201


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - beside the results, as a notebook shows it


def register(shell: InteractiveShell) -> None:
    """Bring the magics into a notebook.

    Args:
        shell: IPython's shell, as ``%load_ext`` hands it over.
    """
    shell.register_magics(SqlMagics)
    tell_remarks(_say)
