"""Sessions with a JVM in their own process: made here, or made elsewhere and enabled."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import udtf
from sqlx.bind.spark_errors import of_analysed
from sqlx.connectors.jars import CONF, connector_conf
from sqlx.sessions import class_archive
from sqlx.sessions.defaults import DEFAULTS
from sqlx.sessions.hook import ExtensionsFunction, FrontEnd
from sqlx.sessions.java import use_java
from sqlx.sessions.statements import SessionStatements, may_be_ours, named_values, positional_values
from sqlx.sql.tokens import LexicalError, tokenize
from udtf.engine.placement import LEAST_WAIT_MS
from udtf.engine.release import release_of

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOCAL = "local[*]"
_OF_THE_DRIVER = {"spark.sql.execution.arrow.pyspark.enabled": "true", "spark.ui.showConsoleProgress": "false"}
#: HDFS has a file whole once a data node has told of its last block. A client that asks too early sleeps 400 ms before
#: it asks again, and a micro-batch closes half a dozen files one after the other. So it asks again after 20 ms, and as
#: each sleep is twice the one before, more often: for 20 s in all, as with Hadoop's own numbers for 12.
_CLOSING = "spark.hadoop.dfs.client.block.write.locateFollowingBlock"
_ON_HDFS = {f"{_CLOSING}.initial.delay.ms": "20", f"{_CLOSING}.retries": "10"}
#: How long a task waits for the place where it is better off. On one machine a file system may name another host: there
#: is none, and after the wait nobody asks again. On a cluster a live task's state is in the memory of one executor, and
#: so long it waits behind others there; so do tasks whose executor is gone. It grows with micro-batches.
#: Where no task ends, a cluster's scheduler looks each second who has waited long enough: longer than the wait itself.
#: And who reads from an executor that is gone asks again after 5 s, three times; after one second it is known as well.
_WAITS_HERE = {"spark.locality.wait": "0s"}
_WAITS_ON_CLUSTERS = {
    "spark.locality.wait": f"{LEAST_WAIT_MS}ms",
    "spark.scheduler.revive.interval": "100ms",
    "spark.shuffle.io.retryWait": "1s",
    "spark.shuffle.io.maxRetries": "15",
}
_fronts: WeakKeyDictionary[Any, FrontEnd] = WeakKeyDictionary()
_taught: WeakSet[SparkSession] = WeakSet()


def session(app: str, master: str | None, conf: Mapping[str, str], warehouse: str | None) -> SparkSession:
    """See `sqlx.sessions.session.session`; finds or brings Java, sets the workers' Python."""
    from pyspark import SparkConf, SparkContext  # a client of Spark Connect has neither

    submitted = _submitted()
    java = use_java() if submitted is None else None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    own = {**DEFAULTS, **_OF_THE_DRIVER, **_ON_HDFS, "spark.app.name": app, "spark.master": _LOCAL}
    defaults = {**own, **(submitted or {}), **({} if master is None else {"spark.master": master})}
    is_local = defaults["spark.master"].startswith("local")
    for name, value in (_WAITS_HERE if is_local else _WAITS_ON_CLUSTERS).items():
        defaults.setdefault(name, value)
    settings = {**defaults, **_warehouse(warehouse), **conf}
    settings |= connector_conf(settings)
    settings.pop(CONF, None)  # Spark would warn of a setting that is not its own
    others = settings.pop("spark.sql.extensions", "")
    spark_conf = SparkConf().setAll(list(settings.items()))
    with nullcontext() if java is None else class_archive.used(java):
        context = SparkContext.getOrCreate(spark_conf)
    front = _front(context)
    builder = context._jvm.org.apache.spark.sql.classic.SparkSession.builder()  # type: ignore[union-attr]
    builder = _extended(builder.sparkContext(context._jsc.sc()), context, others).withExtensions(front.extensions)
    for name, value in settings.items():
        if name not in ("spark.master", "spark.app.name", *(submitted or ())):  # what is the context's alone
            builder = builder.config(name, value)
    if warehouse is not None:
        builder = builder.enableHiveSupport()
    return enable(SparkSession(context, builder.getOrCreate()))


def _submitted() -> dict[str, str] | None:
    """The settings with which ``spark-submit`` has started this script; None where it was not."""
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    SparkContext._ensure_initialized()  # noqa: SLF001  # else a SparkConf reads nothing
    return dict(SparkConf().getAll())


def _extended(builder: Any, context: SparkContext, names: str) -> Any:
    """Extensions of others go before ours: of several parsers the last one is asked first, and asks the one before it.

    Left to Spark they would come last; Delta's parser would then ask ours twice, and fail on our errors.
    """
    jvm: Any = context._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name in filter(None, (name.strip() for name in names.split(","))):
        found = jvm.java.lang.Class.forName(name, True, loader)
        none = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.Class"), 0)
        nothing = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.Object"), 0)
        builder = builder.withExtensions(found.getDeclaredConstructor(none).newInstance(nothing))
    return builder


def _warehouse(folder: str | None) -> dict[str, str]:
    if folder is None:
        return {}
    home = Path(folder).resolve()
    home.mkdir(parents=True, exist_ok=True)
    return {
        "spark.sql.warehouse.dir": str(home),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home / 'metastore_db'};create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
    }


def _front(context: SparkContext) -> FrontEnd:
    """The front end of this process's Spark; made once."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = context._gateway
    if context not in _fronts:
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        gateway.python_parameters.propagate_java_exceptions = True
        front = _fronts[context] = FrontEnd(context)
        front.extensions = ExtensionsFunction(front)
    return _fronts[context]


def enable(spark: SparkSession) -> SparkSession:
    """Teach a session that was made elsewhere; sessions made from it later know the language too.

    Args:
        spark: the session.

    Returns:
        The same session.
    """
    front = _front(spark.sparkContext)
    java: Any = spark._jsparkSession
    state = java.sessionState()
    if not front.knows(state.sqlParser()):
        _replace_parser(spark, front, state)
        java.extensions().injectParser(front.extensions.builder)
    if spark not in _taught:
        _taught.add(spark)
        has_parameters = release_of(spark.version) > (4, 0)  # its parser gets them with the text
        spark.sql = _telling(spark.sql if has_parameters else _putting_in(spark))  # type: ignore[method-assign]
    udtf.register(spark)
    return spark


def _replace_parser(spark: SparkSession, front: FrontEnd, state: Any) -> None:
    """Put our parser before the one of a live session; it is a final field, set while it is made."""
    field = state.getClass().getDeclaredField("sqlParser")
    field.setAccessible(True)
    parser = front.extensions.builder.apply(spark._jsparkSession, state.sqlParser())
    field.set(state, parser)


def _putting_in(spark: SparkSession) -> Callable[..., DataFrame]:
    """`spark.sql` of PySpark 4.0, whose parser does not see values: they are in our statements before it reads them."""
    run = spark.sql

    def sql(sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        if not args or kwargs or not may_be_ours(sqlQuery):
            return run(sqlQuery, args, **kwargs)
        try:
            tokens = tokenize(sqlQuery)
        except LexicalError:
            return run(sqlQuery, args)
        if isinstance(args, Mapping):
            return run(named_values(sqlQuery, tokens, {name: _sql_of(spark, value) for name, value in args.items()}))
        return run(positional_values(sqlQuery, tokens, [_sql_of(spark, value) for value in args]))

    sql.__doc__ = run.__doc__
    return sql


def _sql_of(spark: SparkSession, value: Any) -> str:
    """A value as Spark itself writes it."""
    column = value if isinstance(value, Column) else F.lit(value)
    analyzed: Any = spark.range(0).select(column)._jdf.queryExecution().analyzed()
    return str(analyzed.projectList().apply(0).child().sql())


def _telling(run: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    """Let errors reach Python callers as they were raised, and of the statement that was written.

    Ours come back from Java as Spark's around their text; the analyzer's are about what a statement was rewritten to.
    """

    def sql(sqlQuery: str, *args: Any, **kwargs: Any) -> DataFrame:
        last = FrontEnd.rewritten[-1] if FrontEnd.rewritten else None
        try:
            return run(sqlQuery, *args, **kwargs)
        except PySparkException as error:
            message = str(error)  # callbacks may run in threads of their own: the message says which error is whose
            ours = next((sent for sent in tuple(FrontEnd.sent)[::-1] if str(sent) in message), None)
            if ours is not None:
                raise ours from None
            since = takewhile(lambda one: one is not last, tuple(FrontEnd.rewritten)[::-1])
            read = next((sql for text, sql in since if text == sqlQuery != sql), None)
            if read is None or not isinstance(error, AnalysisException):
                raise
            raise of_analysed(error, sqlQuery, read) from None

    sql.__doc__ = run.__doc__
    return sql


def statements_of(spark: SparkSession) -> SessionStatements:
    """What knows the statements of such a session."""
    return front_of(spark).statements(spark._jsparkSession)


def front_of(spark: SparkSession) -> FrontEnd:
    """What the sessions of this process share."""
    return _front(spark.sparkContext)
