"""The door into Spark: a parser of ours in front of Spark's, for ``spark.sql``, JDBC and Spark Connect alike.

A Python object implements Spark's ``ParserInterface`` through py4j's callback server. A statement without our word
pairs goes straight to Spark's parser; one with them is shown to Spark's parser first, and only what it refuses (or
what names a definition of ours, or is one of the three exceptions of design.md) is compiled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sqlx.errors import TemporalSqlError
from sqlx.lower import with_results
from sqlx.probes import probing
from sqlx.statements import SessionStatements, may_be_ours

_log = logging.getLogger("sqlx")


class TemporalParser:
    """A session's parser: ours in front, Spark's behind it."""

    def __init__(self, java_session: Any, delegate: Any, front: FrontEnd) -> None:
        self._session, self._delegate, self._front = java_session, delegate, front

    def parsePlan(self, text: str) -> Any:
        """A statement without parameters."""
        return self._parse(text, None, lambda t: self._delegate.parsePlan(t))

    def parsePlanWithParameters(self, text: str, context: Any) -> Any:
        """A statement with parameters (spark.sql calls this always)."""
        return self._parse(text, context, lambda t: self._delegate.parsePlanWithParameters(t, context))

    def parseQuery(self, text: str) -> Any:
        """A query: the text of a stored view."""
        return self._parse(text, None, lambda t: self._delegate.parseQuery(t))

    def _parse(self, text: str, context: Any, delegate: Callable[[str], Any]) -> Any:
        if not may_be_ours(text):
            return delegate(text)
        plan, refusal = self._ask_spark(text, delegate)
        try:
            rewritten = self._front.statements(self._session).rewrite(text, refusal is None, context)
        except TemporalSqlError as error:
            raise self._front.java_error(error) from error
        except PySparkException as error:
            raise self._front.original(error) from error
        if rewritten is None:
            if refusal is not None:
                raise refusal
            return plan
        for note in rewritten.notes:
            _log.warning("%s", note)
        if rewritten.sql is None:
            return self._session.emptyDataFrame().queryExecution().logical()
        plan = self._delegate.parsePlan(rewritten.sql)
        return with_results(plan, rewritten.frames) if rewritten.frames else plan

    def _ask_spark(self, text: str, delegate: Callable[[str], Any]) -> tuple[Any, Exception | None]:
        """Spark's plan, or its refusal as the Java exception that it threw."""
        try:
            with probing():
                return delegate(text), None
        except PySparkException as error:
            return None, self._front.original(error)

    def __getattr__(self, name: str) -> Any:
        """Everything else (expressions, identifiers, types) is Spark's."""
        return getattr(self._delegate, name)

    class Java:
        """What py4j is to implement."""

        implements: ClassVar[list[str]] = ["org.apache.spark.sql.catalyst.parser.ParserInterface"]


class ParserBuilder:
    """Makes the parser of each session: newSession, Thrift and Connect sessions too."""

    def __init__(self, front: FrontEnd) -> None:
        self.front = front

    def apply(self, java_session: Any, delegate: Any) -> TemporalParser:
        """Called by Spark once a session."""
        parser = TemporalParser(java_session, delegate, self.front)
        self.front.keep(parser)
        return parser

    class Java:
        """What py4j is to implement."""

        implements: ClassVar[list[str]] = ["scala.Function2"]


class ExtensionsFunction:
    """The function that SparkSession.Builder.withExtensions takes."""

    def __init__(self, front: FrontEnd) -> None:
        self.builder = ParserBuilder(front)

    def apply(self, extensions: Any) -> None:
        """Called by Spark while the session is made."""
        extensions.injectParser(self.builder)

    class Java:
        """What py4j is to implement."""

        implements: ClassVar[list[str]] = ["scala.Function1"]


class FrontEnd:
    """What all sessions of this process share: their statements' state, and errors on their way to Java.

    Attributes:
        last_error: our error that was sent to Java last; Python callers get it back instead of its Java form.
    """

    last_error: ClassVar[TemporalSqlError | None] = None
    extensions: ExtensionsFunction

    def __init__(self, spark_context: Any) -> None:
        self._context = spark_context
        self._kept: list[Any] = []
        self._sessions: dict[str, SessionStatements] = {}

    def keep(self, parser: TemporalParser) -> None:
        """Hold a parser for as long as Java may call it."""
        self._kept.append(parser)

    def knows(self, java_parser: Any) -> bool:
        """Whether a session's parser is one of ours already."""
        return "Proxy" in str(java_parser.getClass().getName())

    def statements(self, java_session: Any) -> SessionStatements:
        """The state of one session."""
        identity = str(java_session.sessionUUID())
        if identity not in self._sessions:
            self._sessions[identity] = SessionStatements(SparkSession(self._context, java_session))
        return self._sessions[identity]

    def java_error(self, error: TemporalSqlError) -> Exception:
        """Our error as Spark's own exception, so that every client sees condition and SQLSTATE."""
        FrontEnd.last_error = error
        return self._parse_exception(str(error), error.condition)

    def _parse_exception(self, message: str, condition: str | None) -> Exception:
        """A ParseException of any text: the one exception that Spark's parser interface declares."""
        jvm = self._context._jvm
        option, gateway = jvm.scala.Option, self._context._gateway
        name = "org.apache.spark.sql.catalyst.parser.ParseException"
        constructors = jvm.java.lang.Class.forName(name).getDeclaredConstructors()
        constructor = next(c for c in constructors if c.getParameterCount() == 6)
        constructor.setAccessible(True)
        arguments = gateway.new_array(jvm.java.lang.Object, 6)
        arguments[0], arguments[1] = option.empty(), message
        arguments[2] = jvm.org.apache.spark.sql.catalyst.trees.CurrentOrigin.get()
        arguments[3] = option.apply(condition)
        arguments[4] = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
        arguments[5] = gateway.new_array(jvm.org.apache.spark.QueryContext, 0)
        return _java(message, constructor.newInstance(arguments))

    def original(self, error: PySparkException) -> Exception:
        """The Java exception that PySpark made this error from, as one that the parser interface may throw."""
        origin: Any = getattr(error, "_origin", None)
        if origin is None:
            return error
        if "ParseException" in str(origin.getClass().getName()):
            return _java(str(error), origin)
        return self._parse_exception(str(error), error.getCondition())


def _java(message: str, exception: Any) -> Exception:
    """A Java exception on its way back to Java: the callback server throws what this one holds."""
    raised: Exception = Py4JJavaError(message, exception)
    return raised
