"""The engine behind Spark Connect: a client without a JVM asks a stock server, in the server's own words.

What the server's analyzer and optimiser found out comes as the text of EXPLAIN, what is under a name as DESCRIBE … AS
JSON. Queries that read results by name take these along (``WithRelations`` of the protocol), as common table
expressions do in a JVM. Answers are kept for one statement (`fresh`): other sessions may change tables in between.
"""

from __future__ import annotations

import json
import re
import uuid
from contextlib import nullcontext
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.base import ParseException
from pyspark.sql.types import DataType, StructType

from udtf.engine.asking import probing
from udtf.engine.engine import (
    NO_ESTIMATE,
    SESSION_CATALOG,
    Relation,
    Table,
    has_catalog,
    may_be_in_session_catalog,
    quoted,
    spelled_path,
)
from udtf.engine.executors import Executors
from udtf.engine.folders import ServedFolder
from udtf.engine.plan_text import PlanText, compared_type_in
from udtf.engine.shipping import archive, carried_function, carried_processor
from udtf.engine.watching import ConnectWatched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_T = TypeVar("_T")
#: So many plans over each other are sent as they are: each is two levels of a message, and expressions come to that.
_MOST_DEPTH: Final = 20
_COSTS: Final = "_sqlx_costs"
_VARIABLE: Final = re.compile(r"\$\{(?:(?:spark|sparkconf|hivevar|hiveconf):)?([^}:]+)\}")
#: A temporary view that we make. Its text says what it stands for, and the server shows nobody the text of such a view.
_DEFINING: Final = re.compile(
    r"(CREATE (?:OR REPLACE )?TEMPORARY VIEW (?:`[^`]*`)+) AS ((?:SELECT|WITH|FROM|\().*)", re.DOTALL
)
#: So its first column says which text it was, in a comment, and the texts are kept here.
_MARK: Final = re.compile(r"sqlx ([0-9a-f]{12})")
_DETAILS: Final = "# Detailed Table Information"
#: A query keeps the reports of its last hundred micro-batches, so it is asked more often than it makes as many.
_ASKED_SECONDS: Final = 5.0


class ConnectEngine:
    """See `udtf.engine.engine.Engine`.

    Args:
        spark: a session of Spark Connect.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._known: dict[object, Any] = {}
        #: Of views of the session, by a mark in them: their text, and the catalog and database in which it was written.
        self._texts: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._shipped: set[str] = set()
        self._executors = Executors(spark, self._splits)
        self._has_code = self._hears = self._hears_queries = False
        self._operations: dict[str, tuple[int, int]] = {}

    def fresh(self) -> None:
        """Forget what was asked for the statement before."""
        self._known.clear()

    def _once(self, question: object, ask: Callable[[], _T]) -> _T:
        if question not in self._known:
            self._known[question] = ask()
        found: _T = self._known[question]
        return found

    # queries

    def run(self, sql: str) -> DataFrame:
        """A statement of Spark's own, past what `sqlx.enable` has put before it."""
        self.fresh()
        defining = _DEFINING.fullmatch(sql)
        return self._run(sql) if defining is None else self.create_view(defining[1], defining[2])

    def create_view(self, head: str, query: str) -> DataFrame:
        """Make a temporary view whose text is known afterwards.

        Args:
            head: ``CREATE … TEMPORARY VIEW name``, without columns.
            query: its query.
        """
        columns = [quoted(name) for name in self.query(query).schema.names]
        if not columns:
            return self._run(f"{head} AS {query}")
        columns[0] += f" COMMENT '{self._mark(query)}'"
        return self._run(f"{head} ({', '.join(columns)}) AS {query}")

    def with_text(self, frame: DataFrame, query: str) -> DataFrame:
        """A frame that is to be a temporary view whose text is known afterwards."""
        names = frame.columns
        return frame.withMetadata(names[0], {"comment": self._mark(query)}) if names else frame

    def _mark(self, text: str) -> str:
        mark = uuid.uuid4().hex[:12]
        self._texts[mark] = text, self._current
        return f"sqlx {mark}"

    def _run(self, sql: str) -> DataFrame:
        found: DataFrame = type(self.spark).sql(self.spark, sql)
        return found

    def query(self, sql: str, relations: Mapping[str, DataFrame | str] | None = None) -> DataFrame:
        """A query that takes along what it reads by name."""
        from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
        from pyspark.sql.connect.plan import SQL, SubqueryAlias

        plans: dict[str, Any] = {
            name: SQL(read) if isinstance(read, str) else _plan(read) for name, read in (relations or {}).items()
        }
        views = [SubqueryAlias(plan, name) for name, plan in plans.items()]
        return ConnectFrame(SQL(sql, None, {}, views), self.spark)  # type: ignore[arg-type]

    def over_results(self, analysed: DataFrame, sql: str, relations: Mapping[str, DataFrame]) -> DataFrame:
        """The text over the results: the server analyses it when it runs it."""
        del analysed
        return self.query(sql, relations)

    def body(self, sql: str, relations: Mapping[str, DataFrame]) -> Any:
        """Bodies are kept by servers that know the language; this one does not."""
        raise NotImplementedError(sql, relations)

    def read_as(self, frame: DataFrame, name: str) -> str:
        """As a temporary view of the session."""
        frame.createOrReplaceTempView(name)
        return name

    def forget(self, name: str) -> None:
        """Drop such a view."""
        self.spark.catalog.dropTempView(name)

    # the parser and the analyzer

    def refusal(self, text: str) -> PySparkException | None:
        """What the server's parser says to an EXPLAIN of the statement, which runs nothing."""
        try:
            with probing():
                self._run(f"EXPLAIN {text}")
        except ParseException as error:
            return error
        except PySparkException:
            return None
        return None

    def substituted(self, text: str) -> str:
        """With the settings of the session put in; what is of the server's environment it puts in itself."""
        if self._setting("spark.sql.variable.substitute") == "false":
            return text
        return _VARIABLE.sub(lambda found: self._setting(found[1]) or found[0], text)

    def _setting(self, name: str) -> str | None:
        return self._once(("setting", name), lambda: self.spark.conf.get(name, None))

    @property
    def case_sensitive(self) -> bool:
        """Of `spark.sql.caseSensitive`."""
        return self._setting("spark.sql.caseSensitive") == "true"

    @property
    def quotes_names(self) -> bool:
        """Whether double quotes are around names."""
        names = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
        return all(self._setting(name) == "true" for name in names)

    def compared_type(self, left: str, right: str) -> DataType | None:
        """The type to which the analyzer casts both sides of ``=``, by what it says of an equality."""
        sides = f"SELECT CAST(NULL AS {left}) AS a, CAST(NULL AS {right}) AS b"
        try:
            with probing():
                found = compared_type_in(_explained(self.query(f"SELECT a = b FROM ({sides})"), extended=True))
                common = {"a": left, "b": right}.get(found, found)
                return self.query(f"SELECT CAST(NULL AS {common})").schema[0].dataType
        except AnalysisException:
            return None

    def hidden(self, relation: str, read: DataFrame | None = None) -> frozenset[str]:
        """The fields of ``_metadata``: the server is asked for the column."""
        del read
        return _fields(self.query(f"SELECT _metadata FROM {relation}"))

    def hidden_of(self, source: DataFrame) -> frozenset[str]:
        """The fields of ``_metadata`` of a source."""
        return _fields(source.select("_metadata"))

    def modified(self, paths: Sequence[str], relation: str) -> dict[str, int]:
        """When each file was modified, in milliseconds; one without rows, which orders nothing, counts as the first."""
        asked = "SELECT DISTINCT _metadata.file_path, unix_millis(_metadata.file_modification_time)"
        found = {spelled_path(path): int(ms) for path, ms in self.query(f"{asked} FROM {relation}").collect()}
        return {path: found.get(spelled_path(path), 0) for path in paths}

    # plans

    def _costs(self, frame: DataFrame) -> PlanText:
        """What Spark makes of a frame, with its estimates; asked once for each."""
        kept: dict[str, PlanText] = vars(frame)
        if _COSTS not in kept:
            kept[_COSTS] = PlanText.read(_explained(frame, mode="cost"))
        return kept[_COSTS]

    def sources(self, frame: DataFrame, *, optimized: bool = False) -> dict[str, str]:
        """Output column to the column that it is, as the optimised plan shows it."""
        del optimized
        return self._costs(frame).sources()

    def passed_through(self, frame: DataFrame) -> dict[str, str] | None:
        """Not known here: rows are unpacked once more than they need be."""
        del frame
        return None

    def is_leaf(self, frame: DataFrame) -> bool:
        """Whether a frame is a source under its name."""
        from pyspark.sql.connect.plan import DataSource, Read

        return isinstance(_plan(frame), DataSource | Read)

    def streams(self, frame: DataFrame) -> tuple[str, ...]:
        """Nobody may ask: the checkpoint for which it is wanted is the server's."""
        raise NotImplementedError(frame)

    def estimated_bytes(self, frame: DataFrame) -> int:
        """Spark's estimate of the size of a frame, to two digits."""
        found = self._costs(frame).size
        return NO_ESTIMATE if found is None else found

    def is_scan(self, frame: DataFrame) -> bool:
        """Whether a frame is no more than projections and filters over one source."""
        return self._costs(frame).is_scan()

    # where it runs

    @property
    def cores(self) -> int:
        """How many tasks Spark runs at once: into so many it would split a range."""
        return self._once("cores", self._splits)

    @property
    def cluster_cores(self) -> int:
        """The same when no executor has come for a while."""
        return self._executors.cores_in_the_end

    def _splits(self) -> int:
        found = re.search(r"splits=(\d+)", _explained(self.spark.range(1)))
        return int(found[1]) if found else 1

    def ship(self, path: Path) -> None:
        """As an artifact of the session; the same file goes once."""
        if path.name not in self._shipped:
            self.spark.addArtifacts(str(path), file=True)
            self._shipped.add(path.name)

    def ship_code(self) -> None:
        """Bring what workers run to them, once a session: they need not have heard of us."""
        if not self._has_code:
            self.spark.addArtifacts(str(archive()), pyfile=True)
            self._has_code = True

    def worker_environment(self, wanted: Mapping[str, str], own: Mapping[str, str]) -> AbstractContextManager[None]:
        """The server sets the environment of its workers: they are one pool."""
        del wanted, own
        return nullcontext()

    def stateful(self, processor: Any) -> Any:
        """With all the code that it needs."""
        return carried_processor(processor)

    def live_rows(self, frame: DataFrame, make: Callable[[Any], Any], schema: StructType | str) -> DataFrame:
        """What a function makes of the batches of a live frame; it brings its code along.

        Protobuf reads no message of more than a hundred levels, which three operators over each other reach: the server
        keeps the plan so far as a temporary view, until the session ends.
        """
        if _depth(_plan(frame)) > _MOST_DEPTH:
            frame = self.spark.table(self.read_as(frame, f"__sqlx_live_{uuid.uuid4().hex[:12]}"))
        return frame.mapInArrow(carried_function(make), schema)

    def tag(self, name: str) -> None:
        """Give a name to the operations of this thread."""
        self.spark.addTag(name)

    def cancel(self, name: str) -> None:
        """Interrupt such operations."""
        self.spark.interruptTag(name)

    def progress(self) -> Callable[[], tuple[int, int]]:
        """Hear from the server how far the stages of each operation are."""
        if not self._hears:
            self._hears = True
            self.spark.registerProgressHandler(cast(Any, self._heard))
        before = frozenset(self._operations)

        def look() -> tuple[int, int]:
            seen = [counts for name, counts in self._operations.items() if name not in before]
            return sum(done for done, _ in seen), sum(tasks for _, tasks in seen)

        return look

    def _heard(self, stages: Any, operation_id: str | None = None, **_: Any) -> None:
        finished = sum(stage.num_completed_tasks for stage in stages or ())
        self._operations[operation_id or ""] = finished, sum(stage.num_tasks for stage in stages or ())

    def carry_code(self) -> None:
        """They do always."""

    # the catalog

    def relation(self, parts: tuple[str, ...], *, permanent: bool = False) -> Relation | None:
        """What the server describes under a name."""
        if not may_be_in_session_catalog(parts):
            return None
        if permanent and not has_catalog(parts):
            database = parts[0] if len(parts) > 1 else self.current_database
            parts = (SESSION_CATALOG, database, parts[-1])
        return self._once(parts, lambda: self._described(parts))

    def _described(self, parts: tuple[str, ...]) -> Relation | None:
        try:
            with probing():
                facts = self._facts(parts)
        except AnalysisException:
            return None
        if facts.get("catalog_name") == "system":
            text, written_in = self._text_of(facts["columns"]) or (None, ())
            return Relation(is_temporary=True, is_view=True, text=text, namespace=written_in)
        if facts.get("catalog_name") != SESSION_CATALOG:
            return None
        text = facts.get("view_text") if facts.get("type") == "VIEW" else None
        namespace = tuple(str(facts.get("view_catalog_and_namespace", "")).replace("`", "").split(".")) if text else ()
        return Relation(False, text is not None, text, facts.get("table_properties", {}), namespace, frozenset())

    def _facts(self, parts: tuple[str, ...]) -> dict[str, Any]:
        """What the server describes under a name that is there."""
        ((text,),) = self.query(f"DESCRIBE TABLE EXTENDED {'.'.join(map(quoted, parts))} AS JSON").collect()
        facts: dict[str, Any] = json.loads(text)
        return facts

    def _text_of(self, columns: list[dict[str, Any]]) -> tuple[str, tuple[str, ...]] | None:
        mark = _MARK.fullmatch(columns[0].get("comment", "")) if columns else None
        return self._texts.get(mark[1]) if mark is not None else None

    def options(self, parts: tuple[str, ...]) -> dict[str, str]:
        """The options with which a table of a data source was made."""
        found: dict[str, str] = self._facts(parts).get("storage_properties", {})
        return found

    def table(self, parts: tuple[str, ...]) -> Table:
        """What the server describes; tables of other formats in Spark's catalog are not described as JSON."""
        name = ".".join(map(quoted, parts))
        described = [(str(row[0]), str(row[1])) for row in self.query(f"DESCRIBE TABLE EXTENDED {name}").collect()]
        names = [row[0] for row in described]
        facts = dict(described[names.index(_DETAILS) :]) if _DETAILS in names else {}
        properties = {str(row[0]): str(row[1]) for row in self.query(f"SHOW TBLPROPERTIES {name}").collect()}
        return Table(facts.get("Location", ""), facts.get("Provider", "").lower(), properties)

    def usual_location(self, parts: tuple[str, ...]) -> str:
        """In the folder of the database, as Spark's catalogs place a table."""
        described = self.query(f"DESCRIBE DATABASE {'.'.join(map(quoted, parts[:-1]))}").collect()
        folder = next(str(row["info_value"]) for row in described if row["info_name"] == "Location")
        return f"{folder}/{parts[-1].lower()}"

    def is_temporary(self, parts: tuple[str, ...]) -> bool:
        """Whether the name is that of a temporary view."""
        found = None if has_catalog(parts) else self.relation(parts)
        return found is not None and found.is_temporary

    def names(self, *, views: bool = False) -> tuple[str, ...]:
        """The relations of the current database and the session."""
        command, column = ("SHOW VIEWS", "viewName") if views else ("SHOW TABLES", "tableName")
        return self._once(command, lambda: self._listed(command, column))

    def _listed(self, command: str, column: str) -> tuple[str, ...]:
        try:
            with probing():
                return tuple(quoted(row[column]) for row in self.query(command).collect())
        except AnalysisException:  # a catalog of others that has no views
            return ()

    def may_be_views(self, names: Iterable[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
        """Those in the list of views, and those with a database of their own."""
        known = {name.lower() for name in self.names(views=True)}
        return [parts for parts in names if len(parts) > 1 or quoted(parts[0]).lower() in known]

    def refresh(self, parts: tuple[str, ...]) -> None:
        """The server keeps what it listed for each session."""
        self.spark.catalog.refreshTable(".".join(map(quoted, parts)))

    @property
    def current_catalog(self) -> str:
        """The name of the current catalog."""
        return self._current[0]

    @property
    def current_database(self) -> str:
        """The current database."""
        return self._current[1]

    @property
    def _current(self) -> tuple[str, str]:
        return self._once("current", self._asked_current)

    def _asked_current(self) -> tuple[str, str]:
        ((catalog, database),) = self.query("SELECT current_catalog(), current_schema()").collect()
        return str(catalog), str(database)

    def has_database(self, name: str) -> bool:
        """Whether Spark's own catalog has that database."""
        return self.spark.catalog.databaseExists(f"{SESSION_CATALOG}.{quoted(name)}")

    # files and running queries

    def folder(self, path: str) -> ServedFolder:
        """Through data sources of the server."""
        return ServedFolder(self.spark, path)

    def file_format(self, name: str) -> str | None:
        """The name of a format whose reader looks for a file.

        Raises:
            PySparkException: the server finds no such format.
        """
        try:
            with probing():
                self.spark.read.format(name).load(f"/{uuid.uuid4().hex}").schema  # noqa: B018
        except PySparkException as error:
            if "PATH_NOT_FOUND" in str(error.getCondition()):
                return name
            if re.search("DATA_SOURCE_NOT_FOUND|Failed to find data source", str(error)):
                raise
        return None

    def watched(self, query: StreamingQuery) -> ConnectWatched:
        """Through the server."""
        return ConnectWatched(query)

    def placement(self, query: StreamingQuery) -> None:
        """The server's executors are out of reach."""
        return

    @property
    def moves_state(self) -> bool:
        """The protocol has no word for it."""
        return False

    def repartition(self, checkpoint: str, count: int) -> None:
        """Nobody asks."""
        raise NotImplementedError(checkpoint, count)

    def hear(self, heard: Callable[[str], None]) -> None:
        """By asking from time to time: PySpark's own listener would keep the client's process from ending."""
        if not self._hears_queries:
            self._hears_queries = True
            Thread(target=self._ask, args=(heard,), name="sqlx queries", daemon=True).start()

    def _ask(self, heard: Callable[[str], None]) -> None:
        waited = Event()
        while True:
            waited.wait(_ASKED_SECONDS)
            try:
                for query in self.spark.streams.active:
                    heard(str(query.id))
            except Exception:  # noqa: BLE001  # the session has ended, or its server
                return

    def ui_pages(self, path: str, answer: Callable[[str], tuple[str, str] | None]) -> str | None:
        """The UI is the server's, which a client does not reach."""
        del path, answer
        return None

    def delete_at_end(self, path: str) -> None:
        """A client cannot: the files stay in the warehouse of the server."""


def _plan(frame: Any) -> Any:
    """What a frame sends to the server."""
    return frame._plan  # noqa: SLF001  # PySpark's own modules read it, too


def _depth(plan: Any) -> int:
    """How many plans are over each other."""
    from pyspark.sql.connect.plan import LogicalPlan

    inside = [item for value in vars(plan).values() for item in (value if isinstance(value, list) else [value])]
    return 1 + max((_depth(item) for item in inside if isinstance(item, LogicalPlan)), default=0)


def _explained(frame: Any, **how: Any) -> str:
    """The text that `explain` would print."""
    return str(frame._explain_string(**how))  # noqa: SLF001


def _fields(frame: DataFrame) -> frozenset[str]:
    try:
        with probing():
            kind = frame.schema[0].dataType
    except AnalysisException:
        return frozenset()
    return frozenset(kind.fieldNames()) if isinstance(kind, StructType) else frozenset()
