"""The interface: queries, what the analyzer and the optimiser say of them, and what is under a name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import DataType, StructType

    from udtf.engine.folders import Folder
    from udtf.engine.placement import StatePlacement
    from udtf.engine.watching import Watched

#: Spark multiplies the sizes of what is joined and gives 2**63 - 1 where it knows nothing: this large means nothing.
NO_ESTIMATE = 10**13
#: The name of Spark's own catalog.
SESSION_CATALOG = "spark_catalog"
#: Fields of the hidden column of files: when a file was written, and where in it a row stands.
MODIFIED, ROW = "file_modification_time", "row_index"


@dataclass(frozen=True)
class Relation:
    """What Spark's own catalog has under a name.

    Attributes:
        is_temporary, is_view: what it is.
        text: the query of a view; None where it is not known, or of a DataFrame.
        properties: of a table or a permanent view.
        namespace: catalog and database in which the text of a view was written, and its names are looked up; () is not
            known.
        temporary: the names in it that meant temporary views; None is not known.
    """

    is_temporary: bool
    is_view: bool
    text: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    namespace: tuple[str, ...] = ()
    temporary: frozenset[str] | None = None


@dataclass(frozen=True)
class Table:
    """What Spark's own catalog keeps of a table.

    Attributes:
        location: the URI of its folder.
        provider: its format.
        properties: of TBLPROPERTIES.
    """

    location: str
    provider: str
    properties: Mapping[str, str]


_MOST_PARTS = 3


def has_catalog(parts: tuple[str, ...]) -> bool:
    """Whether a name says of which catalog it is."""
    return len(parts) >= _MOST_PARTS


def may_be_in_session_catalog(parts: tuple[str, ...]) -> bool:
    """Whether a name can be of something in Spark's own catalog.

    >>> may_be_in_session_catalog(("a", "b")), may_be_in_session_catalog(("other", "a", "b"))
    (True, False)
    """
    return len(parts) <= _MOST_PARTS and (not has_catalog(parts) or parts[0].lower() == SESSION_CATALOG)


def quoted(name: str) -> str:
    """A part of a name as SQL."""
    return f"`{name.replace('`', '``')}`"


def spelled_path(path: str) -> str:
    """A path of ``inputFiles`` as ``_metadata.file_path`` spells it: the same but for the slashes of local files.

    >>> spelled_path("file:///a/b"), spelled_path("s3a://a/b")
    ('file:/a/b', 's3a://a/b')
    """
    return re.sub("^file:/+", "file:/", path)


class Engine(Protocol):
    """An engine behind one session."""

    @property
    def spark(self) -> SparkSession:
        """The session."""
        ...

    # queries

    def query(self, sql: str, relations: Mapping[str, DataFrame | str] | None = None) -> DataFrame:
        """A query of Spark's own that may read DataFrames, or other queries, by name.

        Raises:
            AnalysisException: Spark refuses it, at once or when its schema is asked for.
        """
        ...

    def over_results(self, analysed: DataFrame, sql: str, relations: Mapping[str, DataFrame]) -> DataFrame:
        """A query over results, where it was analysed over stand-ins of theirs (docs/design/20261123_analysed_once.md).

        Args:
            analysed: the query over its stand-ins.
            sql: its text.
            relations: the results by the names of their stand-ins.
        """
        ...

    def body(self, sql: str, relations: Mapping[str, DataFrame]) -> Any:
        """The same as the plan of a body that somebody else analyses, who knows its arguments."""
        ...

    def read_as(self, frame: DataFrame, name: str) -> str:
        """Give a result a name that statements of this session can read; the name as they have to write it."""
        ...

    def forget(self, name: str) -> None:
        """Take such a name away."""
        ...

    # the parser and the analyzer

    def refusal(self, text: str) -> PySparkException | None:
        """Why Spark's own parser does not take a statement; None where it does. Nothing is run."""
        ...

    def substituted(self, text: str) -> str:
        """A statement with its variables (``${…}``) put in, as Spark's parser does it."""
        ...

    @property
    def case_sensitive(self) -> bool:
        """Of `spark.sql.caseSensitive`."""
        ...

    @property
    def quotes_names(self) -> bool:
        """Whether double quotes are around names, not strings."""
        ...

    def compared_type(self, left: str, right: str) -> DataType | None:
        """The type to which the analyzer casts both sides of ``=``; None where it refuses them.

        Args:
            left: a type as SQL.
            right: another one.
        """
        ...

    def hidden(self, relation: str, read: DataFrame | None = None) -> frozenset[str]:
        """The fields of the hidden column ``_metadata`` of a relation; none where it has none.

        Args:
            relation: as SQL.
            read: ``SELECT *`` of it, where somebody has analysed that already.
        """
        ...

    def hidden_of(self, source: DataFrame) -> frozenset[str]:
        """The same of a source that a reader has opened."""
        ...

    def modified(self, paths: Sequence[str], relation: str) -> dict[str, int]:
        """When each file of a relation was modified, in milliseconds."""
        ...

    # plans

    def sources(self, frame: DataFrame, *, optimized: bool = False) -> dict[str, str]:
        """Output column to the column that it is, for those that are plain columns, of a frame that is a projection.

        Args:
            frame: the frame.
            optimized: look at the projection to which Spark has optimised it.
        """
        ...

    def passed_through(self, frame: DataFrame) -> dict[str, str] | None:
        """Per column of a live frame the column that it is of what a worker gave; None where anything else is done."""
        ...

    def is_leaf(self, frame: DataFrame) -> bool:
        """Whether a frame is a source under its name, whose hidden columns can be read."""
        ...

    def streams(self, frame: DataFrame) -> tuple[str, ...]:
        """The sources that Spark counts in a live frame, as it shows them: those of which a checkpoint has offsets."""
        ...

    def estimated_bytes(self, frame: DataFrame) -> int:
        """Spark's estimate of the size of a frame; `NO_ESTIMATE` or more where it has none."""
        ...

    def is_scan(self, frame: DataFrame) -> bool:
        """Whether a frame is no more than projections and filters over one source."""
        ...

    # where it runs

    @property
    def cores(self) -> int:
        """How many tasks Spark runs at once."""
        ...

    @property
    def cluster_cores(self) -> int:
        """The same when executors that were on their way have come: for what is kept longer than they may take."""
        ...

    def ship(self, path: Path) -> None:
        """Bring a file to every worker, which finds it with ``SparkFiles.get`` by its name."""
        ...

    def ship_code(self) -> None:
        """Bring what workers run to those that do not have it, for bounded queries."""
        ...

    def carry_code(self) -> None:
        """Let the functions of live queries bring their code along: Spark gives their workers nothing of the job's."""
        ...

    def worker_environment(self, wanted: Mapping[str, str], own: Mapping[str, str]) -> AbstractContextManager[None]:
        """Within it functions are made whose Python workers have an environment, and so a pool, of their own.

        Args:
            wanted: variables where the session sets none.
            own: variables in any case.
        """
        ...

    def stateful(self, processor: Any) -> Any:
        """A processor of live rows as it has to be sent to the workers."""
        ...

    def live_rows(self, frame: DataFrame, make: Callable[[Any], Any], schema: StructType | str) -> DataFrame:
        """What a function of the workers makes of the batches of a live frame."""
        ...

    def tag(self, name: str) -> None:
        """Give a name to what this thread asks for from now on."""
        ...

    def cancel(self, name: str) -> None:
        """Cancel what runs under such a name."""
        ...

    def progress(self) -> Callable[[], tuple[int, int]]:
        """Look at what runs: each call says how many tasks of the stages seen since are done, and of how many."""
        ...

    # the catalog

    def relation(self, parts: tuple[str, ...], *, permanent: bool = False) -> Relation | None:
        """What Spark's own catalog has under a name, or None.

        Args:
            parts: of the name. More than database and table name a catalog, which has to be Spark's own.
            permanent: pass over temporary views.
        """
        ...

    def options(self, parts: tuple[str, ...]) -> dict[str, str]:
        """The options with which a table of a data source was made."""
        ...

    def is_temporary(self, parts: tuple[str, ...]) -> bool:
        """Whether the name is that of a temporary view."""
        ...

    def names(self, *, views: bool = False) -> tuple[str, ...]:
        """The tables and views of the current database and the session, or the views alone; their names as SQL."""
        ...

    def may_be_views(self, names: Iterable[tuple[str, ...]]) -> Iterable[tuple[str, ...]]:
        """Of names those that may be of views: the others need not be looked up."""
        ...

    def refresh(self, parts: tuple[str, ...]) -> None:
        """Let Spark list the files of a relation anew."""
        ...

    def table(self, parts: tuple[str, ...]) -> Table:
        """What is kept of a table that is there, as it is now; its name has a database."""
        ...

    def usual_location(self, parts: tuple[str, ...]) -> str:
        """Where the files of a table of that name would go."""
        ...

    @property
    def current_catalog(self) -> str:
        """The name of the current catalog."""
        ...

    @property
    def current_database(self) -> str:
        """The current database of Spark's own catalog."""
        ...

    def has_database(self, name: str) -> bool:
        """Whether Spark's own catalog has that database."""
        ...

    # files and running queries

    def folder(self, path: str) -> Folder:
        """A folder that may not exist yet.

        Args:
            path: an absolute path or a URI.
        """
        ...

    def file_format(self, name: str) -> Any:
        """What writes the files of a format; None where a format writes none.

        Raises:
            PySparkException: Spark finds no such format.
            Py4JError: the same, of a class that cannot be loaded.
        """
        ...

    def watched(self, query: StreamingQuery) -> Watched:
        """How to ask a running query."""
        ...

    def placement(self, query: StreamingQuery) -> StatePlacement | None:
        """What spreads the state of a running query over executors; None where none can be reached."""
        ...

    @property
    def moves_state(self) -> bool:
        """Whether `repartition` is possible."""
        ...

    def repartition(self, checkpoint: str, count: int) -> None:
        """Move the state of a query that does not run to another number of partitions, as a micro-batch without rows.

        Raises:
            PySparkException: it has no finished micro-batch, or one that is not finished.
        """
        ...

    def hear(self, heard: Callable[[str], None]) -> None:
        """Be told, by the id of its query, of each micro-batch that is done; where the engine tells."""
        ...

    def ui_pages(self, path: str, answer: Callable[[str], tuple[str, str] | None]) -> str | None:
        """Show pages on the engine's own UI, see `udtf.engine.ui_pages.attach`; None where it has none."""
        ...

    def delete_at_end(self, path: str) -> None:
        """Let files go with the session, where the engine can."""
        ...
