"""Runs a script as a live stream on Spark: its records become Parquet files, cut into micro-batches, in one order.

Every definition gets a column that numbers the records across all inputs, and SEQUENCE BY it, so that the interleaving
is that of the records. A script that brings a SEQUENCE BY of its own is run with one record a micro-batch.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from sqlx.replay.driver import ReplayDriver
from sqlx.replay.script import Script, plain, read_script
from sqlx.replay.types import Reader, SparkType, parse_type, reader_of
from sqlx.sessions.session import statements_of
from sqlx.sql.definitions import StreamingTable, parse_definition, parse_streaming
from sqlx.sql.parser import scan
from sqlx.sql.tokens import tokenize
from sqlx.streaming.backend import BLOB_BYTES, changelogs_in, start_conf
from sqlx.testing.slt import Answer, Differs, reader_of_collected, words_of_row
from udtf.engine import is_remote
from udtf.engine.watching import counters_named
from udtf.spark.tasks import configured_tasks, stream_conf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from catalog.definitions import Definition
    from catalog.entries import Entry

SEQUENCE = "__sequence"
#: Whether state is in Spark's state store, as it is of DataFrames, on clusters and over Spark Connect.
IN_STORE = os.environ.get("SQLX_TEST_STATE_BACKEND") == "store"
_CREATE = "CREATE STREAMING TABLE live AS "
_LATE = re.compile(r"\bLATE\s+TO\b", re.IGNORECASE)
_EPOCH_S = 1_700_000_000
_numbers = count(1)
_LATER = re.compile(r"\s(APPLY\s+AS\s+DELETE|HISTORY\s+RETENTION|LATE\s+TO|TBLPROPERTIES)\b", re.IGNORECASE)
_SIMPLE = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"), "void": pa.int32(),
}  # fmt: skip

Records = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class LiveAnswer:
    """What a run gave.

    Attributes:
        columns: names of the result's columns.
        rows: the rows in the order in which micro-batches gave them.
        counters: the operators' counters, summed over operators and micro-batches; gauges are those of the last one.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    counters: dict[str, int]


def has_own_sequence(script: Script) -> bool:
    """Whether a definition of the script says by itself how rows arrive."""
    return any(entry.sequence_by is not None for entry in script.pushed.values())


def run_live(
    spark: SparkSession,
    script: Script,
    records: Records,
    cuts: Sequence[int],
    query: str = "",
    tasks: int = 1,
    conf: Mapping[str, str] | None = None,
) -> LiveAnswer:
    """Run a script's query live.

    Args:
        spark: a sqlx session; a session of its own is made of it.
        script: definitions and one query.
        records: (definition, row) in order of arrival.
        cuts: how many records each micro-batch has; the last takes the rest.
        query: the query's text.
        tasks: TASKS of the query.
        conf: further settings of that session.

    Raises:
        PySparkException: the query is refused, or fails.
    """
    session = spark.newSession()
    # Rows that go between workers as files must answer like those that go through Spark: every other case sends all so.
    sent = {BLOB_BYTES: "0"} if len(records) % 2 else {}
    for name, value in {**stream_conf(session, tasks), "sqlx.tasks": str(tasks), **sent, **(conf or {})}.items():
        session.conf.set(name, value)
    with tempfile.TemporaryDirectory(prefix="sqlx-live-") as folder:
        for name in script.pushed:
            (Path(folder) / name).mkdir()
        _write(Path(folder), script, records, cuts)
        for statement in script.definitions:
            session.sql(_over_files(statement, script, Path(folder)))
        return _run(session, query, {*script.pushed, *script.derived}, Path(folder) / "checkpoint")


def _live_text(query: str, names: set[str]) -> str:
    """The query with STREAM before the first definition that it reads: one is enough for all to be live."""
    relations = scan(query).relations()
    ours = [r for r in relations if ".".join(r.parts).lower() in names]
    if any(r.stream for r in relations) or not ours:
        return query
    start = min(r.span.start for r in ours)
    return f"{query[:start]}STREAM {query[start:]}"


def _frame(session: SparkSession, text: str, checkpoint: Path) -> DataFrame:
    """The live result: as a streaming table has it, with changelogs beside its checkpoint, or as a DataFrame has it."""
    if IN_STORE or is_remote(session) or _LATE.search(text):
        return session.sql(text)
    made = parse_streaming(_CREATE + text, tokenize(_CREATE + text))
    assert isinstance(made, StreamingTable), text
    for name, value in start_conf(session, str(checkpoint), has_changelogs=True).items():
        session.conf.set(name, value)
    tasks = configured_tasks(session)
    folder = changelogs_in(session, str(checkpoint / "changelog"), tasks)
    return statements_of(session).live(made, tasks, folder).frame


def _run(session: SparkSession, query: str, names: set[str], checkpoint: Path) -> LiveAnswer:
    frame = _frame(session, _live_text(query, names), checkpoint)
    kept = [place for place, name in enumerate(frame.columns) if name != SEQUENCE]
    rows: list[tuple[Any, ...]] = []
    name = f"sqlx_live_{next(_numbers)}"
    # NB: the memory sink wants names that differ, a temporal query need not have them.
    numbered = frame.toDF(*[f"c{place}" for place in range(len(frame.columns))])
    writer = numbered.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    running = writer.trigger(availableNow=True).start()
    with _stopped(running):
        running.awaitTermination()
        rows = [tuple(row[place] for place in kept) for row in session.table(name).collect()]
    return LiveAnswer([frame.columns[place] for place in kept], rows, _counters(running))


@contextmanager
def _stopped(running: Any) -> Iterator[None]:
    try:
        yield
    finally:
        running.stop()


def _counters(running: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for progress in running.recentProgress:
        for row in progress.observedMetrics.values():
            for name, value in counters_named(row.asDict()).items():
                is_gauge = name.startswith(("buffered", "state", "max_"))
                total[name] = (value or 0) if is_gauge else total.get(name, 0) + (value or 0)
    return total


def _write(folder: Path, script: Script, records: Records, cuts: Sequence[int]) -> None:
    """A file per definition and micro-batch, also where it is empty: one file of each makes one micro-batch."""
    start = 0
    ends = [*cuts[:-1], len(records)] if cuts else [len(records)]
    for number, size in enumerate(ends):
        batch = list(enumerate(records))[start : min(start + size, len(records))]
        start += size
        for name, entry in script.pushed.items():
            own = [(place, row) for place, (of, row) in batch if plain(of) == name]
            path = folder / name / f"{number:06d}.parquet"
            pq.write_table(_table(entry, own), path)
            os.utime(path, (_EPOCH_S + number, _EPOCH_S + number))


def _table(entry: Entry, rows: list[tuple[int, dict[str, Any]]]) -> pa.Table:
    columns, fields = [], []
    for column in entry.columns:
        kind = parse_type(column.type)
        given = [{name.lower(): value for name, value in row.items()}.get(column.name.lower()) for _, row in rows]
        fields.append(pa.field(column.name, _arrow(kind)))
        columns.append(pa.array([_arrow_value(reader_of(kind)(value), kind) for value in given], fields[-1].type))
    columns.append(pa.array([place for place, _ in rows], pa.int64()))
    return pa.Table.from_arrays(columns, schema=pa.schema([*fields, pa.field(SEQUENCE, pa.int64())]))


def _arrow(kind: SparkType) -> pa.DataType:
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.name == "struct":
        return pa.struct([pa.field(name, _arrow(inner)) for name, inner in kind.fields])
    if kind.name == "array":
        return pa.list_(_arrow(kind.fields[0][1]))
    if kind.name == "map":
        return pa.map_(_arrow(kind.fields[0][1]), _arrow(kind.fields[1][1]))
    return _SIMPLE[kind.name]


def _arrow_value(value: Any, kind: SparkType) -> Any:
    """A value of replay as pyarrow takes it."""
    return list(value.items()) if kind.name == "map" and value is not None else value


def _over_files(statement: str, script: Script, folder: Path) -> str:
    """A definition of columns only as a temporary one over the files of its records."""
    definition = parse_definition(statement)
    name = ".".join(definition.name).lower()  # type: ignore[union-attr]
    if name not in script.pushed:
        return _temporary(statement, definition)
    end = definition.spans["COLUMNS"][1]  # type: ignore[union-attr]
    close = statement.rindex(")", 0, end)
    using = f" USING parquet OPTIONS (path '{folder / name}', maxFilesPerTrigger '1')"
    text = f"{statement[:close]}, {SEQUENCE} BIGINT{statement[close:end]}{using}{statement[end:]}"
    if script.pushed[name].sequence_by is None and script.pushed[name].valid_from is None:
        text = _with_sequence(text)
    return _temporary(text, definition)


def _with_sequence(text: str) -> str:
    """SEQUENCE BY the number, before the first clause that may follow it, else at the end."""
    found = _LATER.search(text)
    at = len(text) if found is None else found.start()
    return f"{text[:at]} SEQUENCE BY {SEQUENCE}{text[at:]}"


def _temporary(statement: str, definition: Definition | Any) -> str:
    is_temporary = getattr(definition, "temporary", True)
    return statement if is_temporary else statement.replace("CREATE ", "CREATE TEMPORARY ", 1)


# A case or a worked example against replay: the same rows in the same order, and the same counts of refused rows.


COUNTED = ("late", "expired", "null_key", "null_time", "future", "matched", "unmatched")
#: Each query would compile its own Java for a handful of rows; other tests run what is compiled.
SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def check_live(spark: SparkSession, text: str, records: Records, sizes: Sequence[int] = ()) -> Answer:
    """Run a script live, and compare its answer with replay's.

    Args:
        spark: a sqlx session.
        text: definitions and one query.
        records: (definition, row) in order of arrival.
        sizes: how many of them each micro-batch has; () are three alike.

    Raises:
        Differs: it answers otherwise.
    """
    script = read_script(text)
    driver = ReplayDriver(text)
    wanted = [(change.op, *words_of_row(change.row.values())) for change in driver.push(records)]
    counts = {name: driver.metrics.get(name, 0) for name in COUNTED}
    read = [reader_of_collected(parse_type(column.type)) for column in script.plan.root.columns]
    # A frame has no second sink for LATE TO; what is refused is counted all the same.
    query = text.rsplit(";", 1)[1]
    query = re.sub(r"LATE\s+TO\s+\w+", "LATE DROP" if "DEDUPLICATE" in query else "", query)
    for cuts in [sizes] if sizes else _cuts(script, records):
        answer = run_live(spark, script, records, cuts, query, conf=SETTINGS)
        found = (_words_of_changes(answer, read), {name: answer.counters.get(name, 0) for name in COUNTED})
        if found != (wanted, counts):
            msg = f"{len(cuts)} micro-batches: {found} in place of {(wanted, counts)}"
            raise Differs(msg)
    return Answer({"emits": wanted})


def _cuts(script: Script, records: Records) -> list[list[int]]:
    """In three parts, with SQLX_ALL_CUTS also at once; one by one where a sequence of its own orders one input only."""
    count = max(1, len(records))
    if has_own_sequence(script) and (len(script.pushed) > 1 or not _arrives_in_sequence(script, records)):
        return [[1] * count]
    part = -(-count // 3)
    parts = [part] * (-(-count // part))
    return [parts, [count]] if os.environ.get("SQLX_ALL_CUTS") else [parts]


def _arrives_in_sequence(script: Script, records: Records) -> bool:
    """Whether the records of the one input come in the order of its SEQUENCE BY, none of them twice."""
    (entry,) = script.pushed.values()
    sequence = [row.get((entry.sequence_by or "").lower()) for _, row in records]
    return all(a is not None and b is not None and a < b for a, b in pairwise(sequence))


def _words_of_changes(answer: LiveAnswer, read: list[Reader]) -> list[tuple[str, ...]]:
    """What happened and the row; rows of a result that only grows are inserted."""
    changes = answer.columns[-1:] == ["_change_type"]
    rows = [(row[-1], row[:-1]) if changes else ("insert", row) for row in answer.rows]
    shown = [(op, [r(v) for r, v in zip(read, row, strict=True)]) for op, row in rows]
    return [(op, *words_of_row(row)) for op, row in shown]
