"""The engine of a session with a JVM in its own process: what is asked goes through py4j to Spark's own objects."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from udtf.engine.asking import probing
from udtf.engine.engine import SESSION_CATALOG, Relation, Table, has_catalog, may_be_in_session_catalog, quoted
from udtf.engine.executors import Executors, is_local
from udtf.engine.folders import HadoopFolder
from udtf.engine.formats import file_format
from udtf.engine.placement import StatePlacement
from udtf.engine.plan_text import column_read
from udtf.engine.release import release_of
from udtf.engine.shipping import archive, carried_function, carried_processor
from udtf.engine.ui_pages import attach
from udtf.engine.watching import ClassicWatched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_SEPARATOR = "\x01"
#: In the properties of a view, where Spark looks up the names in it: how many parts it has, and each of them.
_VIEW_NAMESPACE = "view.catalogAndNamespace"
#: In the same place, as JSON: the parts of the names of the temporary views that it reads.
_VIEW_TEMPORARY = "view.referredTempViewNames"
_renaming = RLock()
_AS_IT_IS = re.compile(r"(?P<name>\w+)#\d+L?")


class ClassicEngine:
    """See `udtf.engine.engine.Engine`.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        #: Spark's own parser: what is asked here is plain SQL, and the way through ours would be a detour.
        self.parser: Any = None
        self._carries = False
        self._executors = Executors(spark, lambda: self.cores)
        self._listener: _Listener | None = None

    # what the JVM has

    @property
    def _jvm(self) -> Any:
        return self.spark.sparkContext._jvm

    @property
    def _java(self) -> Any:
        return self.spark._jsparkSession

    @property
    def _state(self) -> Any:
        return self._java.sessionState()

    @property
    def _parser(self) -> Any:
        return self.parser or self._state.sqlParser()

    @cached_property
    def _dataset_class(self) -> Any:  # py4j asks the JVM for every part of a dotted name
        return self._jvm.org.apache.spark.sql.classic.Dataset

    @cached_property
    def _session(self) -> Any:
        """Spark's session catalog. Not before the first look-up: the session may be in the making."""
        return self._state.catalog()

    @cached_property
    def _catalogs(self) -> Any:
        return self._state.catalogManager()

    @cached_property
    def _identifiers(self) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst.TableIdentifier

    @cached_property
    def _option(self) -> Any:
        return self._jvm.scala.Option

    # queries

    def query(self, sql: str, relations: Mapping[str, DataFrame | str] | None = None) -> DataFrame:
        """A query that may read others by name.

        Raises:
            AnalysisException: Spark refuses it.
        """
        plan = self._parser.parsePlan(sql)
        if relations:
            plan = self._with_relations(plan, {name: self._plan(read) for name, read in relations.items()})
        return self._frame(plan)

    def _plan(self, read: DataFrame | str) -> Any:
        return self._parser.parsePlan(read) if isinstance(read, str) else _analyzed(read)

    def over_results(self, analysed: DataFrame, sql: str, relations: Mapping[str, DataFrame]) -> DataFrame:
        """The analysed query with results in the place of their stand-ins, or the text over them."""
        in_place = self._in_place(_analyzed(analysed), relations)
        return self.query(sql, relations) if in_place is None else self._frame(in_place)

    def body(self, sql: str, relations: Mapping[str, DataFrame]) -> Any:
        """The parsed text around the results."""
        results = {name: _analyzed(frame) for name, frame in relations.items()}
        return self._with_relations(self._state.sqlParser().parsePlan(sql), results)

    def read_as(self, frame: DataFrame, name: str) -> str:
        """As a global temporary view: sessions of servers read it too."""
        frame.createOrReplaceGlobalTempView(name)
        return f"{self.spark.conf.get('spark.sql.globalTempDatabase', 'global_temp')}.{name}"

    def forget(self, name: str) -> None:
        """Drop such a view."""
        self.spark.catalog.dropGlobalTempView(name)

    def _frame(self, plan: Any) -> DataFrame:
        return DataFrame(self._dataset_class.ofRows(self._java, plan), self.spark)

    def _with_relations(self, plan: Any, relations: Mapping[str, Any]) -> Any:
        """A parsed query with the plans that it reads by name, as common table expressions around it.

        So nothing is registered that somebody would have to drop.
        """
        jvm = self._jvm
        has_depth = release_of(self.spark.version) > (4, 0)  # how deep a recursive one may go
        make, more = (jvm.scala.Tuple3, [jvm.scala.Option.empty()]) if has_depth else (jvm.scala.Tuple2, [])
        logical: Any = jvm.org.apache.spark.sql.catalyst.plans.logical
        alias: Any = getattr(getattr(logical, "SubqueryAlias$"), "MODULE$")
        ctes = [make(name, alias.apply(name, relation), *more) for name, relation in relations.items()]
        return logical.UnresolvedWith(plan, jvm.PythonUtils.toSeq(ctes), False)

    def _in_place(self, plan: Any, frames: Mapping[str, DataFrame]) -> Any:
        """An analysed query with results where it has their stand-ins (docs/design/20261123_analysed_once.md).

        Args:
            plan: the query over stand-ins, as common table expressions around it.
            frames: the results by the names of their stand-ins.

        Returns:
            The query over the results; None where Spark has put a stand-in elsewhere, or where the type of a result
            says more than its stand-in's (elements that are never NULL).
        """
        if plan.nodeName() != "WithCTE":
            return None
        to_seq = self._jvm.PythonUtils.toSeq
        definitions, wanted = [], dict(frames)
        for definition in java_list(plan.cteDefs()):
            alias = definition.child()
            result = wanted.pop(alias.alias(), None) if alias.nodeName() == "SubqueryAlias" else None
            if result is None:
                definitions.append(definition)
            elif _types(alias.schema()) == _types(result._jdf.schema()):
                definitions.append(
                    definition.withNewChildren(to_seq([alias.withNewChildren(to_seq([_analyzed(result)]))]))
                )
            else:
                return None
        if wanted:
            return None
        changed = plan.withNewChildren(to_seq([*definitions, plan.plan()]))
        changed.setAnalyzed()
        return changed

    # the parser and the analyzer

    def refusal(self, text: str) -> PySparkException | None:
        """Why Spark's own parser does not take a statement."""
        try:
            with probing():
                self._parser.parsePlan(text)
        except PySparkException as error:
            return error
        return None

    def substituted(self, text: str) -> str:
        """A statement with its variables put in."""
        return str(self._jvm.org.apache.spark.sql.internal.VariableSubstitution().substitute(text))

    @property
    def case_sensitive(self) -> bool:
        """Of `spark.sql.caseSensitive`."""
        return bool(self._state.conf().caseSensitiveAnalysis())

    @property
    def quotes_names(self) -> bool:
        """Whether double quotes are around names."""
        conf = self._state.conf()
        return bool(conf.ansiEnabled() and conf.doubleQuotedIdentifiers())

    def compared_type(self, left: str, right: str) -> DataType | None:
        """The type to which the analyzer casts both sides of ``=``."""
        try:
            with probing():
                analyzed = _analyzed(self.query(f"SELECT CAST(NULL AS {left}) = CAST(NULL AS {right})"))
        except AnalysisException:
            return None
        return _type(analyzed.expressions().head().child().left().dataType())

    def hidden(self, relation: str, read: DataFrame | None = None) -> frozenset[str]:
        """The fields of ``_metadata``."""
        found = read if read is not None else self.spark.sql(f"SELECT * FROM {relation}")
        return _hidden(_main(_analyzed(found)).child())

    def hidden_of(self, source: DataFrame) -> frozenset[str]:
        """The fields of ``_metadata`` of a source."""
        return _hidden(_analyzed(source))

    def modified(self, paths: Sequence[str], relation: str) -> dict[str, int]:
        """When each file was modified, in milliseconds: its file system is asked."""
        del relation
        jvm = self._jvm
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        found = {}
        for path in paths:
            place: Any = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path))
            found[path] = int(place.getFileSystem(conf).getFileStatus(place).getModificationTime())
        return found

    # plans

    def sources(self, frame: DataFrame, *, optimized: bool = False) -> dict[str, str]:
        """Output column to the column that it is."""
        plan = _main(self._optimized(frame) if optimized else _analyzed(frame))
        if plan.getClass().getSimpleName() != "Project":
            return {}
        return dict(filter(None, map(column_read, _projected(plan))))

    def passed_through(self, frame: DataFrame) -> dict[str, str] | None:
        """Per column of a live frame the column that it is of what a worker gave."""
        plan = self._optimized(frame)
        is_projection = plan.getClass().getSimpleName() == "Project"
        if not is_projection or not plan.child().getClass().getSimpleName().startswith("MapIn"):
            return None
        found: dict[str, str] = {}
        for text in _projected(plan):
            as_it_is = _AS_IT_IS.fullmatch(text)
            column = column_read(text) if as_it_is is None else (as_it_is["name"], as_it_is["name"])
            if column is None:
                return None
            name, source = column
            found[name] = source.partition("#")[0]
        return found if set(found) == set(frame.columns) else None

    def is_leaf(self, frame: DataFrame) -> bool:
        """Whether a frame is a source under its name."""
        plan = _analyzed(frame)
        while plan.getClass().getSimpleName() == "SubqueryAlias":
            plan = plan.child()
        return bool(plan.children().isEmpty())

    def streams(self, frame: DataFrame) -> tuple[str, ...]:
        """The sources that Spark counts in a live frame."""
        leaves = _analyzed(frame).collectLeaves()
        found = (leaves.apply(number) for number in range(leaves.size()))
        return tuple(str(leaf.toString()) for leaf in found if "Streaming" in leaf.getClass().getSimpleName())

    def estimated_bytes(self, frame: DataFrame) -> int:
        """Spark's estimate of the size of a frame."""
        return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))

    def is_scan(self, frame: DataFrame) -> bool:
        """Whether a frame is no more than projections and filters over one source."""
        plan = frame._jdf.queryExecution().optimizedPlan()
        while plan.nodeName() in ("Project", "Filter"):
            plan = plan.children().apply(0)
        return bool(plan.children().isEmpty())

    def _optimized(self, frame: DataFrame) -> Any:
        """The plan that Spark makes of it; a streaming frame it optimises only when it runs."""
        if not frame.isStreaming:
            return frame._jdf.queryExecution().optimizedPlan()
        return self._state.optimizer().execute(_analyzed(frame))

    # where it runs

    @property
    def cores(self) -> int:
        """How many tasks Spark runs at once."""
        return int(self.spark.sparkContext.defaultParallelism)

    @property
    def cluster_cores(self) -> int:
        """The same when no executor has come for a while."""
        return self._executors.cores_in_the_end

    def ship(self, path: Path) -> None:
        """Bring a file to every worker."""
        self.spark.sparkContext.addFile(str(path))

    @contextmanager
    def worker_environment(self, wanted: Mapping[str, str], own: Mapping[str, str]) -> Iterator[None]:
        """Spark pools idle Python workers by their environment."""
        context = self.spark.sparkContext
        with _renaming:  # another thread may be walking over the environment: it is replaced, never changed
            before = context.environment
            context.environment = {**wanted, **before, **own}
            try:
                yield
            finally:
                context.environment = before

    def stateful(self, processor: Any) -> Any:
        """As it is where the workers have our package."""
        return carried_processor(processor) if self._carries else processor

    def live_rows(self, frame: DataFrame, make: Callable[[Any], Any], schema: StructType | str) -> DataFrame:
        """What a function makes of the batches of a live frame."""
        return frame.mapInArrow(carried_function(make) if self._carries else make, schema)

    def tag(self, name: str) -> None:
        """Give a name to the jobs of this thread: streams that run beside have others."""
        self.spark.sparkContext.addJobTag(name)

    def cancel(self, name: str) -> None:
        """Cancel such jobs."""
        self.spark.sparkContext.cancelJobsWithTag(name)

    def progress(self) -> Callable[[], tuple[int, int]]:
        """Look at the stages that run."""
        tracker = self.spark.sparkContext.statusTracker()
        stages: dict[int, tuple[int, int]] = {}

        def look() -> tuple[int, int]:
            active = set(tracker.getActiveStageIds())
            seen = {stage: tracker.getStageInfo(stage) for stage in active | set(stages)}
            stages.update({n: (info.numCompletedTasks, info.numTasks) for n, info in seen.items() if info is not None})
            return sum(done for done, _ in stages.values()), sum(tasks for _, tasks in stages.values())

        return look

    def ship_code(self) -> None:
        """Bring what workers run to them with every job from now on."""
        self.spark.sparkContext.addPyFile(str(archive()))

    def carry_code(self) -> None:
        """Let the functions of live queries bring their code along."""
        self._carries = True

    # the catalog

    def relation(self, parts: tuple[str, ...], *, permanent: bool = False) -> Relation | None:
        """What the session catalog has under a name."""
        if not may_be_in_session_catalog(parts):
            return None
        identifier, session = self._identifier(parts), self._session
        is_temporary = not permanent and self.is_temporary(parts)
        if not is_temporary and not session.tableExists(identifier):
            return None
        if not is_temporary and not has_catalog(parts) and self.current_catalog != SESSION_CATALOG:
            return None
        if permanent:
            return _relation(session.getTableMetadata(identifier), is_temporary=False)
        return _relation(session.getTempViewOrPermanentTableMetadata(identifier), is_temporary=is_temporary)

    def options(self, parts: tuple[str, ...]) -> dict[str, str]:
        """The options with which a table of a data source was made."""
        return _pairs(self._session.getTableMetadata(self._identifier(parts)).storage().properties())

    def is_temporary(self, parts: tuple[str, ...]) -> bool:
        """Whether the name is that of a temporary view."""
        return not has_catalog(parts) and bool(self._session.isTempView(self._identifier(parts)))

    def names(self, *, views: bool = False) -> tuple[str, ...]:
        """The relations of the current database and the session."""
        session, database = self._session, self._session.getCurrentDatabase()
        listed = session.listViews(database, "*") if views else session.listTables(database, "*", True)
        return tuple(text for text in listed.mkString(_SEPARATOR).split(_SEPARATOR) if text)

    def may_be_views(self, names: Iterable[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
        """All of them: a look-up takes no time."""
        return names

    def refresh(self, parts: tuple[str, ...]) -> None:
        """Let Spark list the files of a relation anew."""
        if len(parts) > 1:
            self._session.invalidateCachedTable(self._identifier(parts))
        else:
            self.spark.catalog.refreshTable(quoted(parts[0]))

    def table(self, parts: tuple[str, ...]) -> Table:
        """What the session catalog has."""
        found = self._session.getTableMetadata(self._identifier(parts))
        location, provider = found.storage().locationUri(), found.provider()
        return Table(
            str(location.get().toString()) if location.isDefined() else "",  # a view has neither
            str(provider.get()).lower() if provider.isDefined() else "",
            _pairs(found.properties()),
        )

    def usual_location(self, parts: tuple[str, ...]) -> str:
        """In the folder of the database."""
        return str(self._session.defaultTablePath(self._identifier(parts)).toString())

    @property
    def current_catalog(self) -> str:
        """The name of the current catalog."""
        return str(self._catalogs.currentCatalog().name())

    @property
    def current_database(self) -> str:
        """The current database of Spark's own catalog."""
        return str(self._session.getCurrentDatabase())

    def has_database(self, name: str) -> bool:
        """Whether Spark's own catalog has that database."""
        return bool(self._session.databaseExists(name))

    # files and running queries

    def folder(self, path: str) -> HadoopFolder:
        """Through Hadoop."""
        return HadoopFolder(self.spark, path)

    def file_format(self, name: str) -> Any:
        """The JVM's FileFormat."""
        return file_format(self._jvm, self._state.conf(), name)

    def watched(self, query: StreamingQuery) -> ClassicWatched:
        """Through its handle in the JVM."""
        return ClassicWatched(query)

    def placement(self, query: StreamingQuery) -> StatePlacement | None:
        """On a cluster."""
        return None if is_local(self.spark) else StatePlacement(self.spark, query)

    @property
    def moves_state(self) -> bool:
        """Since 4.2."""
        return hasattr(type(self.spark), "_streamingCheckpointManager")

    def repartition(self, checkpoint: str, count: int) -> None:
        """By Spark's own manager of checkpoints."""
        self.spark._streamingCheckpointManager.repartition(checkpoint, count)  # noqa: SLF001 - its only name

    def hear(self, heard: Callable[[str], None]) -> None:
        """By a listener of the session, once."""
        if self._listener is not None:
            return
        self._listener = _Listener(heard)
        wrapped = self._jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self._listener)
        self._java.streams().addListener(wrapped)

    def ui_pages(self, path: str, answer: Callable[[str], tuple[str, str] | None]) -> str | None:
        """By the web server of its UI."""
        return attach(self.spark.sparkContext, path, answer)

    def delete_at_end(self, path: str) -> None:
        """Let the JVM delete files when it ends."""
        directory: Any = self._jvm.org.apache.hadoop.fs.Path(path)
        directory.getFileSystem(self._state.newHadoopConf()).deleteOnExit(directory)

    def _identifier(self, parts: tuple[str, ...]) -> Any:
        if len(parts) == 1:
            return self._identifiers.apply(parts[0])
        return self._identifiers.apply(parts[-1], self._option.apply(parts[-2]))


class _Listener:
    """Hears from Spark how far each query is; a query keeps the last hundred micro-batches only."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard

    def onQueryStarted(self, event: Any) -> None:
        """A query has started."""

    def onQueryProgress(self, event: Any) -> None:
        """A micro-batch is done."""
        self._heard(str(event.progress().id().toString()))

    def onQueryIdle(self, event: Any) -> None:
        """There was nothing to read."""

    def onQueryTerminated(self, event: Any) -> None:
        """A query has ended."""

    class Java:
        """What py4j is to implement."""

        implements: ClassVar[list[str]] = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _main(plan: Any) -> Any:
    """A plan without the common table expressions around it."""
    return plan.plan() if plan.nodeName() == "WithCTE" else plan


def _relation(table: Any, *, is_temporary: bool) -> Relation:
    view = table.viewText()
    text = str(view.get()) if view.isDefined() else None
    properties = _pairs(table.properties())
    count = int(properties.get(f"{_VIEW_NAMESPACE}.numParts", "0"))
    namespace = tuple(properties[f"{_VIEW_NAMESPACE}.part.{number}"] for number in range(count))
    named = frozenset(name[-1].lower() for name in json.loads(properties.get(_VIEW_TEMPORARY, "[]")))
    if is_temporary:
        return Relation(is_temporary, True, text, {}, namespace, named)
    return Relation(is_temporary, text is not None, text, properties, namespace, named)


def _pairs(java_map: Any) -> dict[str, str]:
    text = str(java_map.mkString(_SEPARATOR))
    return dict(pair.split(" -> ", 1) for pair in text.split(_SEPARATOR) if " -> " in pair)


def _hidden(plan: Any) -> frozenset[str]:
    """Of the hidden columns of an analysed plan the fields of the one that files have."""
    for column in java_list(plan.metadataOutput()):
        if str(column.name()) == "_metadata":
            kind = _type(column.dataType())
            return frozenset(kind.fieldNames()) if isinstance(kind, StructType) else frozenset()
    return frozenset()


def _type(java_type: Any) -> DataType:
    return StructType.fromJson({"fields": [_field(json.loads(java_type.json()))]}).fields[0].dataType


def _field(kind: Any) -> dict[str, Any]:
    return {"name": "x", "type": kind, "nullable": True, "metadata": {}}


def _types(schema: Any) -> list[tuple[str, Any]]:
    """Names and types of columns; whether one may be NULL as a whole is of no account, as results always may."""
    return [(column["name"], column["type"]) for column in json.loads(schema.json())["fields"]]


def _projected(plan: Any) -> list[str]:
    return str(plan.projectList().mkString(_SEPARATOR)).split(_SEPARATOR)


def java_list(sequence: Any) -> list[Any]:
    """The elements of a sequence of Scala's."""
    return [sequence.apply(n) for n in range(sequence.length())]
