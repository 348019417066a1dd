"""The hook: a parser in front of Spark's own, for ``spark.sql``, JDBC and Spark Connect alike.

A Python object implements Spark's ``ParserInterface`` through py4j's callback server. A statement without our word
pairs goes straight to Spark's parser; one with them is shown to Spark's parser first, and only what it refuses (or
what names a temporal definition, or is one of its special reads) is compiled.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import udtf
from sqlx.bind.spark_errors import meant, of_rewritten, without_own_names
from sqlx.errors import RunError, TemporalSqlError, shows_own_names
from sqlx.sessions.pipelines import in_pipeline, pipeline_plan
from sqlx.sessions.statements import SessionStatements, may_be_ours, substitute_parameters
from sqlx.sessions.stored import is_stored, where_written
from sqlx.sql.tokens import LexicalError, tokenize
from sqlx.streaming.commands import look_again
from sqlx.streaming.registry import registry
from udtf.engine import engine_of
from udtf.engine.asking import is_probing, probing
from udtf.engine.java import Py4JJavaError
from udtf.engine.release import release_of
from udtf.errors import SettingError

# Errors on their way to Java: Spark's own as they were, ours as a ParseException with condition and SQLSTATE.
#
# Spark looks the SQLSTATE of an exception up among its own conditions, and the constructor that takes a finished
# message is private. So a subclass of a few lines is compiled by Janino, which Spark carries, when the first error is
# raised. It has no context of a query, as in a script: PySpark would log that one, by a message of Spark's own.


_PARSE_EXCEPTION = "org.apache.spark.sql.catalyst.parser.ParseException"
_THROWABLE = "org.apache.spark.SparkThrowable"
_CLASS = "SqlxParseException"
_ORIGIN = "org.apache.spark.sql.catalyst.trees.CurrentOrigin.get()"
_SOURCE = f"""
public class {_CLASS} extends {_PARSE_EXCEPTION} {{
    private final String text, condition, state;
    private final java.util.Map parameters;
    public {_CLASS}(String text, String condition, String state, java.util.Map parameters) {{
        super(scala.Option.empty(), %s,
            "INTERNAL_ERROR", new scala.collection.immutable.HashMap().updated("message", text));
        this.text = text;
        this.condition = condition;
        this.state = state;
        this.parameters = parameters;
    }}
    public java.util.Map getMessageParameters() {{ return parameters; }}
    public String getMessage() {{ return text; }}
    public String getCondition() {{ return condition; }}
    public String getErrorClass() {{ return condition; }}
    public String getSqlState() {{ return state; }}
    public org.apache.spark.QueryContext[] getQueryContext() {{ return new org.apache.spark.QueryContext[0]; }}
}}
"""


class JavaErrors:
    """Makes exceptions that Spark's parser interface may throw.

    Args:
        context: the SparkContext.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._constructor: Any = None

    def of(self, error: PySparkException) -> Exception:
        """An error as the exception that the callback server throws in Java."""
        if isinstance(error, TemporalSqlError):
            return self._parse_exception(str(error), error.condition, error.sqlstate)
        origin: Any = getattr(error, "_origin", None)
        if origin is not None and self._may_be_thrown(origin):
            return _java(str(error), origin)
        parameters = origin.getMessageParameters() if self._is_one_of(origin, _THROWABLE) else None
        return self._parse_exception(error.getMessage(), error.getCondition(), error.getSqlState(), parameters)

    def of_java(self, error: Py4JJavaError) -> Exception:
        """An exception of Java's on its way back: a script's is checked, and the interface does not declare it."""
        origin: Any = error.java_exception
        kept: Exception = error
        if self._may_be_thrown(origin):
            return kept
        if self._is_one_of(origin, _THROWABLE):
            message, parameters = str(origin.getMessage()), origin.getMessageParameters()
            return self._parse_exception(message, origin.getCondition(), origin.getSqlState(), parameters)
        return self._parse_exception(f"[INTERNAL_ERROR] {origin.toString()} SQLSTATE: XX000", "INTERNAL_ERROR", "XX000")

    def internal(self, error: Exception) -> Exception:
        """A fault of ours in one line; its stack trace is in the log."""
        text = f"[INTERNAL_ERROR] sqlx failed on this statement: {type(error).__name__}: {error} SQLSTATE: XX000"
        return self._parse_exception(text, "INTERNAL_ERROR", "XX000")

    def _may_be_thrown(self, origin: Any) -> bool:
        """Java wraps a checked exception that the interface does not declare: only ParseException is."""
        return self._is_one_of(origin, "java.lang.RuntimeException", "java.lang.Error", _PARSE_EXCEPTION)

    def _is_one_of(self, origin: Any, *classes: str) -> bool:
        jvm = self._context._jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return any(jvm.java.lang.Class.forName(name, True, loader).isInstance(origin) for name in classes)

    def _parse_exception(
        self, message: str, condition: str | None, state: str | None, parameters: Any = None
    ) -> Exception:
        """Spark's own parameters go along with its condition: PySpark makes the message of both again."""
        jvm = self._context._jvm
        if self._constructor is None:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
            start_and_stop = release_of(self._context.version) == (4, 0)  # since then where it starts is enough
            compiler.cook(_SOURCE % (f"{_ORIGIN}, {_ORIGIN}" if start_and_stop else _ORIGIN))
            self._constructor = compiler.getClassLoader().loadClass(_CLASS).getDeclaredConstructors()[0]
        arguments = self._context._gateway.new_array(jvm.java.lang.Object, 4)
        arguments[0], arguments[1], arguments[2] = message, condition, state
        if parameters is None:
            parameters = jvm.java.util.HashMap()
            parameters.put("message", message)
        arguments[3] = parameters
        return _java(message, self._constructor.newInstance(arguments))


def _java(message: str, exception: Any) -> Exception:
    raised: Exception = Py4JJavaError(message, exception)
    return raised


_log = logging.getLogger("sqlx")


class SparkParserHook:
    """A session's parser: ours in front, Spark's behind it."""

    def __init__(self, java_session: Any, delegate: Any, front: FrontEnd) -> None:
        # Java's session holds its parser, and so this: a reference back that counted would keep both for ever.
        self._weak = front.weak(java_session)
        self._delegate, self._front = delegate, front

    @property
    def _session(self) -> Any:
        """Java's session; it is there for as long as Java can call its parser."""
        return self._weak.get()

    def parsePlan(self, text: str) -> Any:
        """A statement without parameters."""
        with where_written(self._weak.get, text):  # the body of a SQL function comes this way
            return self._parse(text, None, lambda t: self._delegate.parsePlan(t))

    def parsePlanWithParameters(self, text: str, context: Any) -> Any:
        """A statement with parameters (spark.sql calls this always)."""
        return self._parse(text, context, lambda t: self._delegate.parsePlanWithParameters(t, context))

    def parseQuery(self, text: str) -> Any:
        """A query: the text of a stored view."""
        with where_written(self._weak.get, text):
            return self._parse(text, None, lambda t: self._delegate.parseQuery(t))

    def _refresh(self, table: str) -> None:
        state = self._session.sessionState()
        state.catalog().invalidateCachedTable(state.sqlParser().parseTableIdentifier(table))

    def _parse(self, text: str, context: Any, delegate: Callable[[str], Any]) -> Any:
        """Spark's plan of a statement.

        Raises:
            Py4JJavaError: for Java, which gets the exception that it holds; any other would show Python's stack trace.
        """
        try:
            if self._front.queries.all():
                look_again(text, self._front.queries, self._refresh)
            if not may_be_ours(text):
                return delegate(text)
            return self._parse_ours(text, context, delegate)
        except PySparkException as error:
            nobodys = is_probing() or shows_own_names(text)  # of a part, or of what a statement was rewritten to
            better = error if nobodys else meant(without_own_names(error, text), text)
            raise self._front.java_error(better) from error
        except Py4JJavaError as error:
            raise self._front.errors.of_java(error) from error
        except SettingError as error:
            wrong = RunError(error.condition, name=error.name, found=error.found, least=error.least)
            raise self._front.java_error(wrong) from error
        except Exception as error:
            _log.exception("sqlx failed on a statement")
            raise self._front.errors.internal(error) from error

    def _parse_ours(self, text: str, context: Any, delegate: Callable[[str], Any]) -> Any:
        of_pipeline = self._of_pipeline(text)
        if of_pipeline is not None:
            return of_pipeline
        plan, refusal = self._ask_spark(text, delegate)
        put_in = partial(substitute_parameters, context=context)
        rewritten = self._front.statements(self._session).rewrite(text, lambda: refusal is None, put_in)
        if rewritten is None:
            if refusal is not None:
                raise refusal
            return plan
        for note in rewritten.notes if not (is_stored(text) or is_probing()) else ():
            _log.warning("%s", note)
        if rewritten.frame is not None and is_stored(text):
            return self._view_body(rewritten.frame)
        if rewritten.frame is not None:
            return rewritten.frame._jdf.queryExecution().analyzed()
        if rewritten.body is not None:
            return rewritten.body
        if rewritten.sql is None:
            return self._session.emptyDataFrame().queryExecution().logical()
        FrontEnd.rewritten.append((text, rewritten.sql))
        try:
            return self._delegate.parsePlan(rewritten.sql)
        except PySparkException as error:
            raise of_rewritten(error, text) from error

    def _view_body(self, frame: DataFrame) -> Any:
        """A query as the plan of the text of a view, which one statement may read several times.

        From the second time on Spark copies the plan of a permanent view, with new instances of the tables below and
        all else as it was: it takes it for one that was not analysed. A common table expression it leaves alone.
        """
        name = "__sqlx_view"
        return engine_of(frame.sparkSession).body(f"SELECT * FROM {name}", {name: frame})

    def _of_pipeline(self, text: str) -> Any:
        """The plan of a statement of a declarative pipeline; None where it is none."""
        jvm = self._front.jvm
        if not in_pipeline(jvm, text):
            return None
        try:
            tokens = tokenize(text)
        except LexicalError:
            return None
        query = self._front.statements(self._session).frame_of
        found = pipeline_plan(jvm, text, tokens, self._delegate.parsePlan, query)
        return self._delegate.parsePlan(text) if found is None else found

    def _ask_spark(self, text: str, delegate: Callable[[str], Any]) -> tuple[Any, PySparkException | None]:
        """Spark's plan, or its refusal."""
        try:
            with probing():
                return delegate(text), None
        except PySparkException as error:
            return None, error

    def __getattr__(self, name: str) -> Any:
        """Everything else (expressions, identifiers, types) is Spark's, with its refusals as it raised them."""
        method = getattr(self._delegate, name)

        def delegated(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except PySparkException as error:
                raise self._front.java_error(error) from error

        return delegated

    class Java:
        """What py4j is to implement."""

        implements: ClassVar[list[str]] = ["org.apache.spark.sql.catalyst.parser.ParserInterface"]


class ParserBuilder:
    """Makes the parser of each session: newSession, Thrift and Connect sessions too."""

    def __init__(self, front: FrontEnd) -> None:
        self.front = front

    def apply(self, java_session: Any, delegate: Any) -> SparkParserHook:
        """Called by Spark once a session."""
        parser = SparkParserHook(java_session, delegate, self.front)
        self.front.keep(parser, str(java_session.sessionUUID()), delegate)
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
        sent: our errors that were sent to Java last; Python callers get theirs back instead of its Java form.
        rewritten: statements that became others last, and these; what Spark's analyzer says of them is told of those.
    """

    sent: ClassVar[deque[TemporalSqlError]] = deque(maxlen=64)
    rewritten: ClassVar[deque[tuple[str, str]]] = deque(maxlen=64)
    extensions: ExtensionsFunction

    def __init__(self, spark_context: Any) -> None:
        self._context = spark_context
        self.errors = JavaErrors(spark_context)
        self.queries = registry(spark_context)
        self._kept: dict[str, list[Any]] = {}
        self._delegates: dict[str, Any] = {}
        self._sessions: dict[str, SessionStatements] = {}

    @property
    def jvm(self) -> Any:
        """Spark's JVM."""
        return self._context._jvm

    def keep(self, parser: SparkParserHook, session: str, delegate: Any) -> None:
        """Hold a session's parser for as long as Java may call it, and Spark's behind it."""
        self._kept.setdefault(session, []).append(parser)
        self._delegates[session] = delegate

    def weak(self, java_session: Any) -> Any:
        """A reference to Java's session that does not keep it."""
        return self.jvm.java.lang.ref.WeakReference(java_session)

    def known(self) -> set[str]:
        """The ids of the sessions that something is kept for."""
        return set(self._kept)

    def forget(self, session: str) -> None:
        """Let go of a session that has ended; were it used again, what belongs to it would be made again."""
        self._kept.pop(session, None)
        self._delegates.pop(session, None)
        statements = self._sessions.pop(session, None)
        if statements is not None:
            statements.views.drop()

    def knows(self, java_parser: Any) -> bool:
        """Whether a session's parser is one of ours already."""
        return "Proxy" in str(java_parser.getClass().getName())

    def statements(self, java_session: Any) -> SessionStatements:
        """The state of one session."""
        identity = str(java_session.sessionUUID())
        if identity not in self._sessions:
            spark = SparkSession(self._context, java_session)
            udtf.register(spark)  # functions belong to a session: Thrift's and Connect's get them here
            engine: Any = engine_of(spark)
            engine.parser = self._delegates.get(identity)
            self._sessions[identity] = SessionStatements(spark)
        return self._sessions[identity]

    def java_error(self, error: PySparkException) -> Exception:
        """An error as an exception for Java; Python callers find ours under ``sent``."""
        if isinstance(error, TemporalSqlError):
            FrontEnd.sent.append(error)
        return self.errors.of(error)
