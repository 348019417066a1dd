"""Sessions of Spark Connect that understand the language; the server is a stock one and never hears of it.

What a statement of ours means is found out here, by asking the server (`udtf.engine.connect`), and what reaches the
server is plain Spark SQL over DataFrames whose Python functions the workers import from an archive of the session.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import re
import socket
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException, PySparkException

from catalog.definitions import Definition, name_text
from catalog.statements import NOTHING, literal
from sqlx.bind.reads import names_versions
from sqlx.bind.spark_errors import meant, of_rewritten
from sqlx.errors import RunError, TemporalSqlError, UnsupportedError
from sqlx.plan.nodes import Plan
from sqlx.sessions.defaults import DEFAULTS
from sqlx.sessions.statements import Rewritten, SessionStatements, may_be_ours, named_values, positional_values
from sqlx.sessions.stored import StoredHead, stored_head
from sqlx.spark.batch import lower_query
from sqlx.spark.binder import SparkBinder
from sqlx.sql.parser import is_script, scan
from sqlx.sql.tokens import LexicalError, Token, tokenize
from sqlx.streaming.commands import look_again
from sqlx.streaming.registry import queries_of, share_queries
from udtf.engine.asking import probing
from udtf.engine.connect import ConnectEngine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STATEMENTS: Final = "_sqlx_statements"
_FUNCTION: Final = re.compile(r"\b(as_of|deduplicate)\s*\(\s*TABLE\b", re.IGNORECASE)
_SECONDS_TO_ANSWER: Final = 10
_PORT: Final = 15002
_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
_TEMPORARY_VIEW: Final = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\b", re.IGNORECASE)
_log = logging.getLogger("sqlx")


def session(app: str, url: str, conf: Mapping[str, str]) -> SparkSession:
    """See `sqlx.sessions.session.session`.

    Raises:
        RunError: `CONNECT.NO_SERVER`, `CONNECT.CLASSIC_SESSION`.
    """
    from pyspark.sql import SparkSession

    _refuse_beside_jvm()
    _knock(url)
    _name_main_module()
    builder = SparkSession.builder.appName(app).remote(url)
    settings = {**DEFAULTS, **conf}
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = enable(builder.create())  # an active one may be another server's
    statements_of(made).settings = settings
    return made


def give_up_after(spark: SparkSession, tries: int) -> None:
    """How often a server that does not answer is asked again: after 50 ms, 200 ms, and so on up to 10 s."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    warnings.filterwarnings("ignore", message=".*RETRIES_EXCEEDED")  # the error that follows says it
    policy = DefaultPolicy(max_retries=tries, max_backoff=10_000)
    spark.client.set_retry_policies([policy])


def _another(spark: SparkSession) -> SparkSession:
    """A session of its own at the same server, with the same settings, that knows the language too."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    settings = statements_of(spark).settings
    channel: Any = spark._client._builder  # type: ignore[attr-defined]  # noqa: SLF001  # no other way to its server
    made: Any = RemoteSession.builder.channelBuilder(channel).create()
    for name, value in settings.items():
        made.conf.set(name, value)
    enable(made)
    statements_of(made).settings = settings
    share_queries(spark, made)
    return made  # type: ignore[no-any-return]


def _refuse_beside_jvm() -> None:
    """PySpark's functions are of one kind in a process."""
    try:
        from pyspark import SparkContext
    except ImportError:
        return
    if SparkContext._active_spark_context is not None:
        raise RunError("CONNECT.CLASSIC_SESSION")


def _name_main_module() -> None:
    """Under ``python -c`` the client takes the process for its own doctests, and would look for a whole Spark."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is None and not hasattr(main, "__file__"):
        main.__file__ = "<command>"


def _knock(url: str) -> None:
    """Look whether somebody is there: Spark's client would try again for ten minutes."""
    place = urlsplit(url)
    try:
        port = place.port or _PORT
        if place.scheme != "sc" or not place.hostname:
            raise RunError("CONNECT.NO_SERVER", url=url, reason="a URL begins with sc:// and names a host")
        socket.create_connection((place.hostname, port), _SECONDS_TO_ANSWER).close()
    except ValueError as error:
        raise RunError("CONNECT.NO_SERVER", url=url, reason=str(error)) from None
    except OSError as error:
        raise RunError("CONNECT.NO_SERVER", url=url, reason=error.strerror or str(error)) from None


def enable(spark: SparkSession) -> SparkSession:
    """Teach one session of Spark Connect.

    Raises:
        RunError: `CONNECT.CLASSIC_SESSION`.
    """
    if _STATEMENTS not in vars(spark):
        _refuse_beside_jvm()
        os.environ[_MODE] = "1"  # as PySpark's own builder does: its functions are those of Connect from now on
        vars(spark)[_STATEMENTS] = RemoteStatements(spark)
        spark.sql = _sql_of(spark, spark.sql)  # type: ignore[method-assign]
        spark.newSession = partial(_another, spark)  # type: ignore[method-assign]  # PySpark has none here
    return spark


def statements_of(spark: SparkSession) -> RemoteStatements:
    """What knows the statements of a session; it is taught where it was not."""
    found: RemoteStatements = vars(enable(spark))[_STATEMENTS]
    return found


def _sql_of(spark: SparkSession, plain: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    """The session's `sql` with the language in front of it."""

    def sql(sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        try:
            return answer(sqlQuery, args, **kwargs)
        except PySparkException as error:
            better = meant(error, sqlQuery)
            if better is error:
                raise
            raise better from error

    def answer(sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        look_again(sqlQuery, queries_of(spark), partial(_refresh, spark))
        if may_be_ours(sqlQuery):
            found = statements_of(spark).answer(sqlQuery, args, bool(kwargs))
        else:
            is_view = not args and not kwargs and _TEMPORARY_VIEW.match(sqlQuery) is not None
            found = statements_of(spark).view_over_versions(sqlQuery) if is_view else None
        return plain(sqlQuery, args, **kwargs) if found is None else found

    sql.__doc__ = plain.__doc__
    return sql


def _refresh(spark: SparkSession, table: str) -> None:
    """List a table's files anew; one that is not there is the statement's concern."""
    with probing(), suppress(AnalysisException):
        spark.catalog.refreshTable(table)


class RemoteStatements(SessionStatements):
    """The statements of one session of Spark Connect.

    Args:
        spark: the session.
    """

    engine: ConnectEngine

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        #: What the session was made with: one that is made from it gets the same.
        self.settings: Mapping[str, str] = {}

    def answer(self, text: str, args: Any, has_frames: bool) -> DataFrame | None:
        """The result of a statement that may be ours; None for one of Spark's.

        Args:
            text: the statement.
            args: the values of its parameters: by name, or in order.
            has_frames: it was given DataFrames to format into it.

        Raises:
            TemporalSqlError: it is ours and wrong, or cannot be done over Spark Connect.
        """
        self.engine.fresh()
        refusals: list[PySparkException | None] = []

        def accepted() -> bool:
            if not refusals:
                refusals.append(self.engine.refusal(text))
            return refusals[0] is None

        self._refuse_functions(text)
        values = _Values(args)
        try:
            rewritten = self.rewrite(text, accepted, values.put_in)
        except TemporalSqlError as error:
            raise (values.refusal or error) from error.__cause__
        if rewritten is None:
            return None
        if values.refusal is not None:
            raise values.refusal
        if has_frames:
            what = "DataFrames as arguments of a temporal statement; make temporary views of them"
            raise self._refused(what, text)
        for note in rewritten.notes:
            _log.warning("%s", note)
        if rewritten.frame is not None:
            return rewritten.frame
        try:
            return self.engine.run(rewritten.sql or NOTHING)
        except PySparkException as error:
            raise of_rewritten(error, text) from error

    def view_over_versions(self, text: str) -> DataFrame | None:
        """Make a temporary view that reads a versioned table, so that it can be read as of a time, too.

        Returns:
            None for every other statement, which nothing is done about.
        """
        self.engine.fresh()
        try:
            head = stored_head(text, tokenize(text))
            if head is None or ")" in head.before or not names_versions(self._binder(), scan(head.query)):
                return None
        except (LexicalError, TemporalSqlError):  # Spark will say what is wrong, if anything is
            return None
        return self.engine.create_view(head.before[: -len("AS")].rstrip(), head.query)

    def _refuse_functions(self, text: str) -> None:
        """Our table functions cannot be registered there; functions of others by these names are theirs."""
        called = {name.lower() for name in _FUNCTION.findall(text)}
        if any(not self.spark.catalog.functionExists(name) for name in called):
            what = "the table functions `as_of` and `deduplicate`; AS OF and DEDUPLICATE WITHIN are possible"
            raise self._refused(what, text)

    def _prepare(self, statement: str) -> None:
        (self.spark.sql if may_be_ours(statement) else self.engine.run)(statement)

    # what a stock server cannot

    def _script(self, text: str, accepted: Callable[[], bool]) -> Rewritten | None:
        tokens = tokenize(text)
        assert is_script(tokens)
        if self._is_ours(lambda: False, text, tokens):
            raise self._refused("temporal statements in a SQL script (BEGIN … END)", text)
        return None

    def _keeps_text(self, head: StoredHead, plan: Plan) -> bool:
        """A view for other sessions stays plain SQL where it can be, since these know nothing of us."""
        return bool(plan.operators()) or (head.is_own_view and super()._keeps_text(head, plan))

    def _store(self, head: StoredHead, plan: Plan, bound: SparkBinder) -> None:
        """A temporary view keeps the query; a text of ours nobody there could read."""
        if not head.is_own_view:
            what = "a function, or a view for other sessions, with temporal clauses; a temporary view is possible"
            raise self._refused(what, plan.text)
        frame = self.engine.with_text(lower_query(plan, self.spark, bound.analyzed), plan.text)
        create = frame.createOrReplaceTempView if "REPLACE" in head.before.upper().split() else frame.createTempView
        create(name_text(tuple(part.strip("`") for part in head.parts[-1:])))

    def _show_in_order(self, definition: Definition) -> None:
        """The view stays plain SQL: a text of ours nobody there could read."""

    def _refused(self, what: str, text: str) -> UnsupportedError:
        return UnsupportedError(
            "UNSUPPORTED.CONNECT", text, (tokenize(text)[0].start, tokenize(text)[0].end), what=what
        )


class _Values:
    """The arguments of `spark.sql`, put into a text as literals.

    Attributes:
        refusal: why one of them could not be; its marker stays then, for Spark, whose own statements take any value.
    """

    def __init__(self, args: Any) -> None:
        self._args = args
        self.refusal: RunError | None = None

    def put_in(self, text: str, tokens: tuple[Token, ...]) -> str:
        """See `sqlx.sessions.statements.PutIn`."""
        if isinstance(self._args, Mapping):
            values = {str(name): self._spelled(value, f":{name}") for name, value in self._args.items()}
            return named_values(text, tokens, values)
        if isinstance(self._args, Sequence):
            return positional_values(text, tokens, [self._spelled(value, "?") for value in self._args])
        return text

    def _spelled(self, value: Any, marker: str) -> str:
        try:
            return _literal(value)
        except RunError as error:
            self.refusal = self.refusal or error
            return marker


def _literal(value: Any) -> str:
    r"""A value of Python as SQL.

    >>> _literal(None), _literal(1), _literal("it's"), _literal(dt.date(2026, 1, 2)), _literal([1, True])
    ('NULL', '1', "'it\\'s'", "DATE '2026-01-02'", 'array(1, TRUE)')
    """
    if value is None:
        return "NULL"
    for kinds, spelled in _SPELLED:
        if isinstance(value, kinds):
            return spelled(value)
    raise RunError("CONNECT.PARAMETER", type=type(value).__name__)


#: What Python has as a subclass of another comes before that one.
_SPELLED: Final[tuple[tuple[tuple[type, ...], Callable[[Any], str]], ...]] = (
    ((bool,), lambda value: str(value).upper()),
    ((int,), lambda value: str(value) if -(2**31) <= value < 2**31 else f"{value}L"),
    ((float,), lambda value: f"double('{value!r}')"),
    ((Decimal,), lambda value: f"{value:f}BD"),
    ((dt.datetime,), lambda value: f"TIMESTAMP{'' if value.tzinfo else '_NTZ'} {literal(value.isoformat(' '))}"),
    ((dt.date,), lambda value: f"DATE {literal(value.isoformat())}"),
    ((dt.timedelta,), lambda value: f"make_dt_interval(0, 0, 0, {value.total_seconds():.6f})"),
    ((bytes, bytearray), lambda value: f"X'{value.hex()}'"),
    ((str,), literal),
    ((list, tuple), lambda value: f"array({', '.join(map(_literal, value))})"),
)
