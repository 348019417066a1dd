"""Errors on their way to Java: Spark's own as they were, ours as a ParseException with condition and SQLSTATE.

Spark looks the SQLSTATE of an exception up among its own conditions, and the constructor that takes a finished message
is private. So a subclass of a few lines is compiled by Janino, which Spark carries, when the first error is raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from sqlx.errors import TemporalSqlError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_PARSE_EXCEPTION = "org.apache.spark.sql.catalyst.parser.ParseException"
_CLASS = "SqlxParseException"
_SOURCE = f"""
public class {_CLASS} extends {_PARSE_EXCEPTION} {{
    private final String text, condition, state;
    public {_CLASS}(String text, String condition, String state, scala.collection.immutable.Map parameters) {{
        super(scala.Option.empty(), org.apache.spark.sql.catalyst.trees.CurrentOrigin.get(),
            "INTERNAL_ERROR", parameters);
        this.text = text;
        this.condition = condition;
        this.state = state;
    }}
    public String getMessage() {{ return text; }}
    public String getCondition() {{ return condition; }}
    public String getErrorClass() {{ return condition; }}
    public String getSqlState() {{ return state; }}
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
        return self._parse_exception(str(error), error.getCondition(), error.getSqlState())

    def internal(self, error: Exception) -> Exception:
        """A fault of ours in one line; its stack trace is in the log."""
        text = f"[INTERNAL_ERROR] sqlx failed on this statement: {type(error).__name__}: {error} SQLSTATE: XX000"
        return self._parse_exception(text, "INTERNAL_ERROR", "XX000")

    def _may_be_thrown(self, origin: Any) -> bool:
        """Java wraps a checked exception that the interface does not declare: only ParseException is."""
        jvm = self._context._jvm
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        allowed = ("java.lang.RuntimeException", "java.lang.Error", _PARSE_EXCEPTION)
        return any(jvm.java.lang.Class.forName(name, True, loader).isInstance(origin) for name in allowed)

    def _parse_exception(self, message: str, condition: str | None, state: str | None) -> Exception:
        jvm = self._context._jvm
        if self._constructor is None:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
            compiler.cook(_SOURCE)
            self._constructor = compiler.getClassLoader().loadClass(_CLASS).getDeclaredConstructors()[0]
        arguments = self._context._gateway.new_array(jvm.java.lang.Object, 4)
        arguments[0], arguments[1], arguments[2] = message, condition, state
        parameters = jvm.java.util.HashMap()
        parameters.put("message", message)
        arguments[3] = jvm.PythonUtils.toScalaMap(parameters)
        return _java(message, self._constructor.newInstance(arguments))


def _java(message: str, exception: Any) -> Exception:
    raised: Exception = Py4JJavaError(message, exception)
    return raised
