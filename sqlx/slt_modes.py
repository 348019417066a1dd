"""Runs one case in one mode, and says how the answer differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlx.ddl import parse_definition
from sqlx.errors import TemporalSqlError
from sqlx.replay import Change, ReplayDriver
from sqlx.replay_duckdb import Engine
from sqlx.replay_script import Script, plain, read_script
from sqlx.replay_types import parse_type
from sqlx.replay_values import reader_of
from sqlx.slt_case import Case, value_of, words_of_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Words = list[tuple[str, ...]]
Records = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True)
class Answer:
    """What a run gave: "emits", "final" and "late" as words, those that the mode has."""

    blocks: dict[str, Words]


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
    """Run the case as a batch query in a Spark session of ours, over the complete inputs.

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
    read = [reader_of(parse_type(column.type)) for column in script.plan.root.columns]
    found = [tuple(plain_value(value) for value in row) for row in frame.collect()]
    final = sorted(words_of_row(r(v) for r, v in zip(read, row, strict=True)) for row in found)
    _compare_final("batch", case, final)
    return Answer({"final": final})


def plain_value(value: Any) -> Any:
    """A collected value as replay has it."""
    import datetime as dt

    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)  # the tests' time zone is UTC
    if hasattr(value, "asDict"):
        return {name: plain_value(item) for name, item in value.asDict().items()}
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


def run_error(case: Case, run: Callable[[Case], Answer]) -> Answer:
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
