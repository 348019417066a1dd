"""Tests as SQL files: reads ``.slt`` files and runs them in replay, on DuckDB and on Spark.

A file holds one idea::

    # title: an out-of-order table update serves later lookups only
    # source: KIP-914, stream-table join
    # modes: replay batch oracle
    # notyet batch: why it cannot run there yet       (also: notimpl, never)
    CREATE STREAM orders (ts TIMESTAMP, id INT, ccy STRING) TIMESTAMP BY ts;
    CREATE VERSIONED TABLE rates (ts TIMESTAMP, ccy STRING, rate INT) KEYS (ccy) TIMESTAMP BY ts;

    input rates
    @10 EUR 105
    input orders (id, ccy, ts)
    1 EUR @25           # a comment
    query
    SELECT o.id, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy
    ---- emits
    @25 1 105

* A line is a row; lines are in order of arrival, across all ``input`` blocks. Values stand in the order of the
  definition's columns, or of those named; columns that are not named are NULL.
* ``@25`` is a time in microseconds since the epoch, ``@25ms``, ``@25s``, ``@2m``, ``@1h``, ``@1d`` likewise; ``NULL``
  is NULL, text with blanks is in single quotes, bytes are ``X'00ff'``, nested values JSON in quotes.
* ``---- emits``: the changes of the stream in the order of emission, event time first, then the operation where it is
  no insert. ``---- final``: the rows over the complete inputs, in any order. With one of both, stream and batch agree.
* ``---- late``: what was refused: the reason, then the input's columns.
* ``---- error CONDITION``: the script is refused; lines below it stand in the message.
* ``oracle``: the same query for DuckDB, over tables with the input's rows (and ``__arrival``).

Modes: ``replay`` runs the records one by one, all at once, with restarts, and on three tasks where nothing depends on
tasks; ``oracle`` runs the file's DuckDB query; ``batch`` runs the query on Spark, over temporary definitions; ``live``
runs it over Structured Streaming, which the project's own tests do (`run_case` takes further modes).
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from rich.table import Table
from rich.text import Text

from sqlx.errors import TemporalParseError, TemporalSqlError
from sqlx.replay.driver import Change, ReplayDriver
from sqlx.replay.duckdb import Engine
from sqlx.replay.script import Script, plain, read_script
from sqlx.replay.types import INTEGRAL, Reader, SparkType, parse_type, reader_of, to_micros
from sqlx.sql.definitions import parse_definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# One .slt file as data: its directives, definitions, inputs, query and expected blocks, and how values are written.
#
# The format is described in :mod:`sqlx.testing.slt`.


MODES = ("replay", "batch", "oracle")
BLOCKS = ("emits", "final", "late", "error")
_DIRECTIVE = re.compile(r"#\s*(title|source|modes|notimpl|notyet|never)\b\s*(\w*)\s*:\s*(.*)")
_INPUT = re.compile(r"input\s+([\w.`]+)\s*(?:\(([^)]*)\))?\s*(?:#.*)?$")
_TOKEN = re.compile(r"[Xx]?'(?:[^']|'')*'|\S+")
_TIME = re.compile(r"@(-?\d+)(us|ms|s|m|h|d)?")
_UNITS = {None: 1, "us": 1, "ms": 1000, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}


@dataclass(frozen=True)
class Input:
    """Rows of one ``input`` block: the relation, the columns if they are named, and the words of each row."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass
class Case:
    """One test case.

    Attributes:
        path: the file.
        title, source: what it shows, and where that is written.
        modes: the modes in which it runs.
        not_run: mode to why it does not run there.
        definitions, query, oracle: SQL; the last in DuckDB's words, or "".
        inputs: in order of arrival.
        blocks: "emits", "final", "late", "error" to the words of their lines.
        condition: of the expected error, or "".
    """

    path: Path
    title: str = ""
    source: str = ""
    modes: tuple[str, ...] = ("replay",)
    not_run: dict[str, str] = field(default_factory=dict)
    definitions: str = ""
    query: str = ""
    oracle: str = ""
    inputs: list[Input] = field(default_factory=list)
    blocks: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    condition: str = ""

    @property
    def script(self) -> str:
        """Definitions and query."""
        return f"{self.definitions.rstrip().rstrip(';')};\n{self.query}"


def read_case(path: Path) -> Case:
    """Read a file.

    Raises:
        TemporalParseError: `SLT.FORMAT`, a line has no place where it is.
    """
    return parse_case(path.read_text(encoding="utf-8"), path)


def parse_case(text: str, path: Path = Path("case.slt")) -> Case:
    """Read the text of a file.

    Raises:
        TemporalParseError: `SLT.FORMAT`, a line has no place where it is.
    """
    case, section, at = Case(path), "definitions", 0
    for line in text.splitlines(keepends=True):
        span, at = (at, at + len(line.rstrip())), at + len(line)
        if line.startswith("#"):
            _directive(case, line)
        elif not line.strip():
            continue
        elif (opened := _open(case, line.rstrip(), text, span)) is not None:
            section = opened
        else:
            _add(case, section, line)
    if not case.query.strip() or not ({"emits", "final", "error"} & set(case.blocks)):
        raise _wrong(text, (0, 0), "a query and a block `---- emits`, `---- final` or `---- error`")
    return case


def _wrong(text: str, span: tuple[int, int], expected: str) -> TemporalParseError:
    return TemporalParseError("SLT.FORMAT", text, span, expected=expected)


def _directive(case: Case, line: str) -> None:
    match = _DIRECTIVE.match(line)
    if match is None:
        return
    name, mode, value = match[1], match[2], match[3].strip()
    if name == "modes":
        case.modes = tuple(value.split())
    elif name in ("title", "source"):
        setattr(case, name, value)
    else:
        case.not_run[mode] = f"{name}: {value}"


def _open(case: Case, line: str, text: str, span: tuple[int, int]) -> str | None:
    """The section that a line opens, or None for a line of a section."""
    if line in ("query", "oracle"):
        return line
    if line.startswith("----"):
        words = line[4:].split("#")[0].split()
        if not words or words[0] not in BLOCKS or (words[0] == "error" and len(words) != 2):
            raise _wrong(text, span, "`---- emits`, `---- final`, `---- late` or `---- error CONDITION`")
        case.blocks[words[0]] = []
        case.condition = words[1] if words[0] == "error" else case.condition
        return words[0]
    match = _INPUT.match(line)
    if match is None:
        return None
    columns = tuple(name.strip() for name in match[2].split(",")) if match[2] else ()
    case.inputs.append(Input(match[1], columns, ()))
    return "input"


def _add(case: Case, section: str, line: str) -> None:
    if section in ("definitions", "query", "oracle"):
        setattr(case, section, getattr(case, section) + line)
    elif section == "input":
        last = case.inputs[-1]
        case.inputs[-1] = Input(last.name, last.columns, (*last.rows, words_of(line)))
    else:
        case.blocks[section].append(tuple(line.split()) if section == "error" else words_of(line))


def words_of(line: str) -> tuple[str, ...]:
    """The values of a line; ``#`` begins a comment.

    >>> words_of("@10 EUR 'a b' NULL  # why")
    ('@10', 'EUR', "'a b'", 'NULL')
    """
    words = _TOKEN.findall(line)
    return tuple(words[: words.index("#")] if "#" in words else words)


def value_of(word: str, kind: SparkType) -> Any:
    """The value that a word means for a column of a type.

    Raises:
        ValueError: it means none.

    >>> value_of("@5ms", SparkType("timestamp")), value_of("'a b'", SparkType("string"))
    (5000, 'a b')
    """
    if word == "NULL":
        return None
    time = _TIME.fullmatch(word)
    if time is not None and kind.name in ("timestamp", "timestamp_ntz", *INTEGRAL):
        return int(time[1]) * _UNITS[time[2]]
    if kind.name == "binary":
        return bytes.fromhex(word[2:-1])
    text = word[1:-1].replace("''", "'") if word.startswith("'") else word
    if kind.fields:
        return json.loads(text)
    return _SCALARS[kind.name](text) if kind.name in _SCALARS else text


_SCALARS: dict[str, Any] = {
    **dict.fromkeys(INTEGRAL, int),
    "double": float,
    "float": float,
    "decimal": Decimal,
    "boolean": {"true": True, "false": False}.__getitem__,
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "timestamp_ntz": dt.datetime.fromisoformat,
}


def word_of(value: Any) -> str:
    """How a value is written.

    >>> [word_of(v) for v in (None, 1.5, "a b", True, dt.datetime(1970, 1, 1, tzinfo=dt.UTC))]
    ['NULL', '1.5', "'a b'", 'true', '@0']
    """
    if value is None:
        return "NULL"
    if isinstance(value, dt.datetime):
        return f"@{to_micros(value)}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (bytes, bytearray)):
        return f"X'{value.hex()}'"
    if isinstance(value, (list, dict)):
        value = json.dumps(value, default=str)
    text = str(value)
    plain = isinstance(value, (int, float, Decimal, dt.date)) or re.fullmatch(r"[^\s'@#-][^\s'#]*", text)
    return text if plain and text != "NULL" else "'" + text.replace("'", "''") + "'"


def words_of_row(values: Iterable[Any]) -> tuple[str, ...]:
    """A row as words."""
    return tuple(word_of(value) for value in values)


# Runs one case in one mode, and says how the answer differs.


Words = list[tuple[str, ...]]
Records = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Answer:
    """What a run gave: "emits", "final" and "late" as words, those that the mode has."""

    blocks: dict[str, Words]


Run = Callable[[Case], Answer]


class Differs(Exception):
    """A run did not give what the file says; the message shows both."""


def records_of(case: Case, script: Script) -> Records:
    """The input rows in order of arrival, as the driver takes them."""
    records: Records = []
    for block in case.inputs:
        entry = script.pushed[plain(block.name)]
        kinds = {column.name.lower(): parse_type(column.type) for column in entry.columns}
        names = [name.lower() for name in block.columns] or list(kinds)
        for words in block.rows:
            row = {name: value_of(word, kinds[name]) for name, word in zip(names, words, strict=True)}
            records.append((block.name, row))
    return records


# replay


def replay_variants(case: Case) -> Iterator[tuple[str, Answer]]:
    """The same records cut in several ways, with restarts, and on several tasks where those may not matter."""
    records = records_of(case, read_script(case.script))
    yield "one record a push", _replayed(case, records, cut=1)
    yield "all in one push", _replayed(case, records, cut=max(1, len(records)))
    yield "a restart after every record", _replayed(case, records, cut=1, restarts=True)
    yield "two records a push, and restarts", _replayed(case, records, cut=2, restarts=True)
    answer = _replayed(case, records, cut=2, tasks=3)
    if answer is not None:
        yield "three tasks", answer


def _replayed(case: Case, records: Records, cut: int, restarts: bool = False, tasks: int = 1) -> Any:
    driver = ReplayDriver(case.script, tasks=tasks)
    changes: list[Change] = []
    for start in range(0, len(records), cut):
        changes += driver.push(records[start : start + cut])
        if restarts:
            driver.restart()
    if tasks > 1 and driver.depends_on_tasks:
        return None
    emits = [
        (words_of_row([c.time]) + (() if c.op == "insert" else (c.op,)) + words_of_row(c.row.values())) for c in changes
    ]
    final = sorted(words_of_row(c.row.values()) for c in changes)
    late = [
        (row["_reason"], *words_of_row(v for name, v in row.items() if not name.startswith("_"))) for row in driver.late
    ]
    return Answer({"emits": emits, "final": final, "late": late})


def run_replay(case: Case) -> Answer:
    """Replay the case in every way, and compare each with the file.

    Raises:
        Differs: one of them differs.
    """
    first: Answer | None = None
    for name, answer in replay_variants(case):
        first = first or answer
        for block in ("emits", "late"):
            if block in case.blocks or (block == "emits" and first is not answer):
                expected = case.blocks.get(block, first.blocks[block])
                compare(f"replay, {name}: {block}", expected, answer.blocks[block])
        if "emits" not in case.blocks and "final" in case.blocks:
            compare(f"replay, {name}: final", sorted(case.blocks["final"]), answer.blocks["final"])
    assert first is not None, "there is always one"
    return first


# bounded: oracle and batch


def expected_final(case: Case) -> Words | None:
    """The rows over the complete inputs: their own block, or what was emitted, without times."""
    if "final" in case.blocks:
        return sorted(case.blocks["final"])
    return sorted(words[1:] for words in case.blocks["emits"]) if "emits" in case.blocks else None


def run_oracle(case: Case) -> Answer:
    """Run the case's own DuckDB query over the complete inputs.

    Raises:
        Differs: it answers otherwise.
    """
    script = read_script(case.script)
    engine = Engine()
    for name, rows in _tables(case, script).items():
        entry = script.pushed[name]
        kinds = [parse_type(column.type) for column in entry.columns]
        columns = ", ".join(f'"{c.name}" {kind.duckdb}' for c, kind in zip(entry.columns, kinds, strict=True))
        engine.run(f'CREATE OR REPLACE TABLE "{name}" ({columns}, __arrival BIGINT)', [])
        marks = ", ".join(f"CAST(${n + 1} AS {kind.duckdb})" for n, kind in enumerate(kinds))
        for arrival, row in enumerate(rows):
            engine.run(f'INSERT INTO "{name}" VALUES ({marks}, {arrival})', row)
    read = [reader_of(parse_type(column.type)) for column in script.plan.root.columns]
    found = engine.run(case.oracle, [])
    final = sorted(words_of_row(r(v) for r, v in zip(read, row, strict=True)) for row in found)
    _compare_final("oracle", case, final)
    return Answer({"final": final})


def run_batch(case: Case, spark: SparkSession) -> Answer:
    """Run the case as a batch query in a Spark sqlx session, over the complete inputs.

    Raises:
        Differs: it answers otherwise.
    """
    script = read_script(case.script)
    session = spark.newSession()
    session.conf.set("sqlx.tasks", "1")  # stream time is the task's: replay has one, too
    tables = _tables(case, script)
    for statement in script.definitions:
        session.sql(_over_rows(statement, session, script, tables))
    frame = session.sql(case.query).drop("_change_type")
    read = [reader_of_collected(parse_type(column.type)) for column in script.plan.root.columns]
    final = sorted(words_of_row(r(v) for r, v in zip(read, row, strict=True)) for row in frame.collect())
    _compare_final("batch", case, final)
    return Answer({"final": final})


def reader_of_collected(kind: SparkType) -> Reader:
    """A function that gives a value that Spark has collected the shape that it has in replay."""
    read, zone = reader_of(kind), None if kind.name == "timestamp_ntz" else dt.UTC  # the tests' time zone is UTC
    return lambda value: read(plain_value(value, zone))


def plain_value(value: Any, zone: dt.tzinfo | None = dt.UTC) -> Any:
    """A collected value as replay has it; `zone` is what collected times are in."""
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=zone)
    if hasattr(value, "asDict"):
        return {name: plain_value(item, zone) for name, item in value.asDict().items()}
    return value


def _over_rows(statement: str, session: SparkSession, script: Script, tables: dict[str, list[list[Any]]]) -> str:
    """The definition as a temporary one over a view of the case's rows."""
    definition = parse_definition(statement)
    name = ".".join(definition.name).lower()  # type: ignore[union-attr]
    if name not in tables:
        return statement
    entry = script.pushed[name]
    schema = ", ".join(f"`{c.name}` {c.type}" for c in entry.columns)
    session.createDataFrame([tuple(row) for row in tables[name]], schema).createOrReplaceTempView(f"{name}__rows")
    end = definition.spans["COLUMNS"][1]  # type: ignore[union-attr]
    with_rows = f"{statement[:end]} FROM `{name}__rows`{statement[end:]}"
    return with_rows if definition.temporary else with_rows.replace("CREATE ", "CREATE TEMPORARY ", 1)  # type: ignore[union-attr]


def _tables(case: Case, script: Script) -> dict[str, list[list[Any]]]:
    """The rows of every definition, in order of arrival, one without rows included."""
    tables: dict[str, list[list[Any]]] = {name: [] for name in script.pushed}
    for name, row in records_of(case, script):
        entry = script.pushed[plain(name)]
        given = [(row.get(c.name.lower()), parse_type(c.type)) for c in entry.columns]
        tables[plain(name)].append([reader_of(kind)(value) for value, kind in given])
    return tables


def _compare_final(mode: str, case: Case, final: Words) -> None:
    expected = expected_final(case)
    if expected is not None:
        compare(f"{mode}: final", expected, final)


def run_error(case: Case, run: Run) -> Answer:
    """Expect the case's error; the lines of its block stand in the message.

    Raises:
        Differs: there is no error, another one, or another message.
    """
    try:
        run(replace(case, blocks={}))
    except TemporalSqlError as error:
        found = error.getCondition()
        if found != case.condition:
            msg = f"expected the error {case.condition}, got: {error}"
            raise Differs(msg) from error
        message = " ".join(str(error).split())
        missing = [" ".join(words) for words in case.blocks["error"] if " ".join(words) not in message]
        if missing:
            msg = f"the message lacks {missing}:\n{error}"
            raise Differs(msg) from error
        return Answer({"error": [tuple(line.split()) for line in str(error).splitlines()]})
    msg = f"expected the error {case.condition}, there was none"
    raise Differs(msg)


def compare(what: str, expected: Words, found: Words) -> None:
    """Compare rows.

    Raises:
        Differs: they are not the same.
    """
    if expected != found:
        shown = [[" ".join(words) or "(no columns)" for words in rows] or ["(no rows)"] for rows in (expected, found)]
        raise Differs(
            f"{what}\n  expected:\n    " + "\n    ".join(shown[0]) + "\n  found:\n    " + "\n    ".join(shown[1])
        )


@dataclass(frozen=True)
class Result:
    """How a case went in one mode.

    Attributes:
        path, title: the case.
        mode: "replay", "batch" or "oracle".
        outcome: "passed", "failed" or "skipped".
        message: how the answer differs, or why it was not run.
    """

    path: Path
    title: str
    mode: str
    outcome: str
    message: str = ""


def run_directory(
    path: str | Path,
    modes: Sequence[str] = ("replay", "oracle"),
    spark: SparkSession | None = None,
    complete: bool = False,
) -> list[Result]:
    """Run all cases below a folder, or one file.

    Args:
        path: the folder or file.
        modes: in which to run; a case runs in those that it names.
        spark: a sqlx session, for the mode ``batch``.
        complete: rewrite the expected blocks with what replay answers.
    """
    return [result for file in case_files(path) for result in run_file(file, modes, spark, complete)]


def case_files(path: str | Path) -> list[Path]:
    """The files of the cases below a folder, sorted.

    Raises:
        FileNotFoundError: there is no such path.
    """
    root = Path(path)
    if not root.exists():
        raise FileNotFoundError(root)
    return [root] if root.is_file() else sorted(root.rglob("*.slt"))


def run_file(
    path: Path, modes: Sequence[str], spark: SparkSession | None = None, complete: bool = False
) -> list[Result]:
    """Run one file in those of the modes that it names."""
    try:
        case = read_case(path)
    except TemporalSqlError as error:
        return [Result(path, path.stem, "read", "failed", str(error))]
    if complete and "replay" in case.modes:
        complete_file(case)
        case = read_case(path)
    return [run_case(case, mode, spark) for mode in modes if mode in case.modes or mode in case.not_run]


def run_case(case: Case, mode: str, spark: SparkSession | None = None, runs: Mapping[str, Run] | None = None) -> Result:
    """Run one case in one mode; a mode that is marked as not supported has to fail, else the mark is stale.

    Args:
        case: the case.
        mode: 'replay', 'oracle', 'batch', or one of `runs`.
        spark: a sqlx session, for the mode ``batch``.
        runs: further modes, such as a project's own way to run a case live, and what runs a case in them.
    """
    mark = case.not_run.get(mode)
    if mark is not None and (mark.startswith("never") or (mode == "batch" and spark is None)):
        return Result(case.path, case.title, mode, "skipped", mark)
    try:
        _run(case, mode, spark, runs or {})
    except (Differs, PySparkException, KeyError, ValueError) as error:
        if mark is not None:
            return Result(case.path, case.title, mode, "skipped", mark)
        return Result(case.path, case.title, mode, "failed", f"{type(error).__name__}: {error}")
    if mark is not None:
        return Result(case.path, case.title, mode, "failed", f"it passes, but is marked {mark}")
    return Result(case.path, case.title, mode, "passed")


def _run(case: Case, mode: str, spark: SparkSession | None, further: Mapping[str, Run]) -> Answer:
    runs: dict[str, Run] = {"replay": run_replay, "oracle": run_oracle, **further}
    if spark is not None:
        runs["batch"] = partial(run_batch, spark=spark)
    return run_error(case, runs[mode]) if case.condition else runs[mode](case)


def complete_file(case: Case) -> None:
    """Rewrite the blocks ``emits`` and ``late`` of a file with what replay answers, and ``final`` with the oracle."""
    if case.condition:
        return
    empty = Case(**{**case.__dict__, "blocks": {}})
    answers = dict(run_replay(empty).blocks)
    if case.oracle:
        answers.update(run_oracle(empty).blocks)
    lines, skipping = [], False
    for line in case.path.read_text(encoding="utf-8").splitlines():
        block = line[4:].split("#")[0].strip() if line.startswith("----") else ""
        if line.startswith(("----", "input ")) or line in ("query", "oracle"):
            skipping = block in answers
            lines += [line, *(" ".join(words) for words in answers.get(block, []))]
        elif not skipping or line.startswith("#"):
            lines.append(line)
    case.path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def results_table(results: Iterable[Result]) -> Table:
    """A table of results: a row per case, a column per mode."""
    table = Table(title="semantic tests", title_justify="left")
    results = list(results)
    modes = [mode for mode in ("read", *MODES) if any(r.mode == mode for r in results)]
    for header in ("case", *modes):
        table.add_column(header)
    styles = {"passed": ("ok", "green"), "failed": ("FAILED", "bold red"), "skipped": ("-", "dim")}
    for path in dict.fromkeys(r.path for r in results):
        outcomes = {r.mode: r for r in results if r.path == path}
        cells = [Text(*styles[outcomes[m].outcome]) if m in outcomes else Text("") for m in modes]
        table.add_row(Text(f"{path.stem}: {next(iter(outcomes.values())).title}"), *cells)
    return table
