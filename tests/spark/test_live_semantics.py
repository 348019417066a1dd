"""Every semantic case and every worked example as a live stream on Spark, in one micro-batch and in several.

The answer has to be that of replay, which the fast tests compare with the cases: the same rows in the same order, and
the same counts of refused rows. Records are numbered across inputs, so that the interleaving is the example's.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from sqlx.replay.driver import ReplayDriver
from sqlx.replay.script import read_script
from sqlx.replay.types import Reader, parse_type, reader_of
from sqlx.testing.slt import case_files, plain_value, read_case, records_of, words_of_row
from tests.harness.slt_live import LiveAnswer, Records, has_own_sequence, run_live
from tests.test_worked_examples import DEDUPLICATIONS, JOINS, deduplication, identified, records, script_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark.structures import ParameterSet
    from pyspark.sql import SparkSession

    from sqlx.testing.slt import Case

SEMANTICS = Path(__file__).parents[1] / "semantics"
COUNTED = ("late", "expired", "null_key", "null_time", "future", "matched", "unmatched")
pytestmark = pytest.mark.timeout(3600)
NOT_LIVE = {
    "versioned_table/as_select_of_a_stream": "Spark keeps no view with STREAM in its text",
    "window_aggregate/over_both_branches_of_a_union": "the order of a union's branches is Spark's",
    "window_aggregate/percentile_keeps_rows": "Spark's own aggregation runs it, of another stream time",
    "window_aggregate/kept_rows_with_a_filter": "the same",
    "versioned_table/scd2_rows_end_where_they_say": "the records of FROM SCD2 TABLE are rows of a table of Spark's",
}
# Each query would compile its own Java for a handful of rows; other tests run what is compiled.
SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
AT_ONCE = 2  # queries that run side by side; each has its own session


@dataclass(frozen=True)
class Story:
    """Records and the query that reads them; the records are read when they are asked for."""

    name: str
    script: str
    read: Callable[[], Records]

    @cached_property
    def records(self) -> Records:
        return self.read()


def stories() -> list[Story]:
    found = []
    for path in case_files(SEMANTICS):
        case = read_case(path)
        if "replay" in case.modes and not case.condition:
            found.append(Story(f"{path.parent.name}/{path.stem}", case.script, partial(recorded, case)))
    found += [Story(f"worked/{c['id']}", script_of(c["op"]), partial(records, c)) for c in JOINS]
    found += [Story(f"worked/{c['id']}", deduplication(c["op"]), partial(identified, c)) for c in DEDUPLICATIONS]
    return [story for story in found if story.name not in NOT_LIVE]


def recorded(case: Case) -> Records:
    return records_of(case, read_script(case.script))


STORIES = {story.name: story for story in stories()}


def cuts_of(story: Story) -> list[list[int]]:
    """All at once or in three parts; a sequence of the story's own does not number records across inputs.

    A query costs seconds to start: every other story is cut, unless SQLX_ALL_CUTS asks for both ways of all.
    """
    count = max(1, len(story.records))
    script = read_script(story.script)
    if has_own_sequence(script) and (len(script.pushed) > 1 or not arrives_in_sequence(story)):
        return [[1] * count]
    part = -(-count // 3)
    ways = [[count], [part] * (-(-count // part))]
    return ways if os.environ.get("SQLX_ALL_CUTS") else [ways[list(STORIES).index(story.name) % 2]]


def arrives_in_sequence(story: Story) -> bool:
    """Whether the records of the one input come in the order of its SEQUENCE BY, none of them twice."""
    (entry,) = read_script(story.script).pushed.values()
    sequence = [row.get((entry.sequence_by or "").lower()) for _, row in story.records]
    return all(a is not None and b is not None and a < b for a, b in pairwise(sequence))


def difference(spark: SparkSession, story: Story) -> str:
    """How the live answers differ from replay's, "" where they do not."""
    script = read_script(story.script)
    driver = ReplayDriver(story.script)
    wanted = [(change.op, *words_of_row(change.row.values())) for change in driver.push(story.records)]
    counts = {name: driver.metrics.get(name, 0) for name in COUNTED}
    read = [reader_of(parse_type(column.type)) for column in script.plan.root.columns]
    # A frame has no second sink for LATE TO; what is refused is counted all the same.
    query = story.script.rsplit(";", 1)[1]
    query = re.sub(r"LATE\s+TO\s+\w+", "LATE DROP" if "DEDUPLICATE" in query else "", query)
    for cuts in cuts_of(story):
        try:
            answer = run_live(spark, script, story.records, cuts, query, conf=SETTINGS)
        except (PySparkException, ValueError, TypeError) as error:  # the one case says so, the others go on
            return f"{len(cuts)} micro-batches: {type(error).__name__}: {str(error)[:2000]}"
        found: tuple[Any, ...] = (words_of_changes(answer, read), {n: answer.counters.get(n, 0) for n in COUNTED})
        if found != (wanted, counts):
            return f"{len(cuts)} micro-batches: {found} in place of {(wanted, counts)}"
    return ""


def words_of_changes(answer: LiveAnswer, read: list[Reader]) -> list[tuple[str, ...]]:
    """What happened and the row; rows of a result that only grows are inserted."""
    changes = answer.columns[-1:] == ["_change_type"]
    rows = [(row[-1], row[:-1]) if changes else ("insert", row) for row in answer.rows]
    shown = [(op, [r(plain_value(v)) for r, v in zip(read, row, strict=True)]) for op, row in rows]
    return [(op, *words_of_row(row)) for op, row in shown]


def cases() -> list[ParameterSet]:
    """All stories; every twentieth of each operator is also run on the other PySpark by every gate."""
    seen: Counter[str] = Counter()
    found = []
    for name in STORIES:
        operator = name.partition("/")[0]
        found.append(pytest.param(name, marks=[pytest.mark.compat] if seen[operator] % 20 == 0 else []))
        seen[operator] += 1
    return found


@pytest.fixture(scope="module")
def differences(spark: SparkSession, request: pytest.FixtureRequest) -> dict[str, str]:
    """The stories that were asked for, several at a time."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked = [item.callspec.params["name"] for item in items if item.originalname == "test_live_is_replay"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(asked, pool.map(partial(difference, spark), map(STORIES.__getitem__, asked)), strict=True))


@pytest.mark.parametrize("name", cases())
def test_live_is_replay(differences: dict[str, str], name: str) -> None:
    assert differences[name] == ""
