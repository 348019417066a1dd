"""Wrong statements about running streams, each with its whole error.

``streaming.txt`` holds what is found while a statement is read. What only a running Spark finds is raised in
tests/spark/test_streaming_tables.py; here is how it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlx.errors import RunError, TemporalSqlError
from sqlx.sql.definitions import parse_streaming
from sqlx.sql.tokens import tokenize
from sqlx.streaming.failures import error_from
from tests.harness.refusals import check_refusals

CASES = Path(__file__).with_name("streaming.txt")
FOUND_BY_SPARK = {
    "AGGREGATE.OWN": {"function": "my_mean"},
    "LEASE.LOST": {"path": "/c", "holder": "process 7 on node1"},
    "SETTING.NUMBER": {"name": "sqlx.tasks", "found": "many", "least": 1},
    "STREAMING.ALREADY_RUNNING": {"name": "t"},
    "STREAMING.CHECKPOINT_CORRUPT": {"path": "/c", "reason": "_sqlx.json: no JSON"},
    "STREAMING.CHECKPOINT_FOREIGN": {"path": "/c"},
    "STREAMING.CHECKPOINT_FORMAT": {"path": "/c", "product": "sqlx 9", "found": 9, "known": 1},
    "STREAMING.CHECKPOINT_IS_FILE": {"path": "/c"},
    "STREAMING.CHECKPOINT_OTHER_QUERY": {"path": "/c", "name": "t", "difference": "it was written with TASKS 16"},
    "STREAMING.CHECKPOINT_WITHOUT_TABLE": {"path": "/c", "name": "t"},
    "STREAMING.FILES_EXIST": {"path": "/c", "name": "t"},
    "STREAMING.LATE_TABLE": {"name": "late", "reason": "its columns are id"},
    "STREAMING.NAME": {"name": "../t"},
    "STREAMING.NO_STATE": {"name": "tt", "suggestion": "Did you mean `t`? "},
    "STREAMING.NOT_LIVE": {},
    "STREAMING.NOT_ON_STREAMS": {"reason": "Sorting is not supported."},
    "STREAMING.PARTITIONS": {"name": "t", "tasks": 8, "found": 9},
    "STREAMING.RESCALE": {"name": "t", "reason": "its last micro-batch failed."},
    "STREAMING.ROWS_CHANGE": {"format": "parquet", "reason": "Spark's words."},
    "STREAMING.SINK": {"format": "csv", "name": "t", "reason": "no maps"},
    "STREAMING.STATE_BACKEND": {"found": "rocksdb", "setting": "sqlx.state_backend"},
    "STREAMING.STATE_ELSEWHERE": {"name": "t", "reason": "it has no checkpoint"},
    "STREAMING.STATE_OTHER": {"name": "t"},
    "STREAMING.TABLE_EXISTS": {"name": "t"},
    "STREAMING.UNDEFINED": {"name": "sent", "hint": "Write CREATE STREAM."},
    "STREAMING.UNFINISHED_RESCALE": {"name": "t", "reason": "Retry."},
    "STREAMING.UNKNOWN_FORMAT": {"format": "parkett", "reason": "", "suggestion": "Did you mean `parquet`? "},
    "STREAMING.UNKNOWN_QUERY": {"name": "tt", "suggestion": "Did you mean `t`? "},
    "STREAMING.WRITE": {"name": "t", "verb": "INSERT"},
    "UNSUPPORTED.LATE_TO_NEEDS_TABLE": {},
    "UNSUPPORTED.LATE_TO_SINK": {"format": "console"},
    "UNSUPPORTED.RESCALE": {"version": "4.1.0"},
}


def error_of(text: str) -> str:
    try:
        parse_streaming(text, tokenize(text))
    except TemporalSqlError as error:
        return "\n".join(line.rstrip() for line in error.getMessage().splitlines())
    return "no error"


def test_wrong_statements_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    check_refusals(CASES, error_of, golden)


@pytest.mark.parametrize("condition", FOUND_BY_SPARK)
def test_what_spark_finds_has_a_message_and_a_hint(condition: str) -> None:
    message = str(RunError(condition, **FOUND_BY_SPARK[condition]))
    assert message.startswith(f"[{condition}] ")
    assert "SQLSTATE: " in message
    assert "HINT: " in message
    assert "{" not in message


@pytest.mark.parametrize(
    ("said", "condition", "reason"),
    [
        ("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03", "STREAMING.SOURCE_GONE", "file:/x"),
        ("Malformed log file found: /c/offsets/3", "STREAMING.CHECKPOINT_BROKEN", "offsets/3"),
        ("[DIVIDE_BY_ZERO] Division by zero.\n\tat org.apache.A.b(A.scala:1)", "STREAMING.QUERY_FAILED", "by zero."),
        (
            'Traceback (most recent call last):\n  File "x"\nudtf.errors.StateError: [STATE.CORRUPT_SEGMENT] task 3',
            "STATE.CORRUPT_SEGMENT",
            "task 3",
        ),
        (
            'Traceback (most recent call last):\n  File "x"\nudtf.errors.OperatorError: [OPERATOR.NO_DISTANCE] strings',
            "OPERATOR.NO_DISTANCE",
            "strings",
        ),
    ],
)
def test_a_failed_query_is_an_error_of_ours_without_a_stack_trace(said: str, condition: str, reason: str) -> None:
    error = error_from("t", ["Job aborted due to stage failure", said])
    assert error.getCondition() == condition
    assert len(error.getSqlState()) == 5
    message = str(error)
    assert message.startswith(f"[{condition}] The ")
    assert "streaming query `t`" in message
    assert reason in message
    assert "HINT: " in message
    assert not any(word in message for word in ("Traceback", "\tat ", "File "))
