"""Why a running query ended, as a sqlx error: what a user did gets its words, never a stack trace."""

from __future__ import annotations

import re

from sqlx.errors import RunError, TemporalSqlError

_WORKER = re.compile(r"udtf\.errors\.(?:StateError|OperatorError): \[([A-Z]+\.[A-Z_]+)\] ([^\n]*)")
_RECORD = re.compile(r"\[KAFKA\.MALFORMED_RECORD\] (topic \S+ partition \d+ offset \d+ [^\n]*)")
_STACK = re.compile(r"^\s+(?:at [\w.$/<>]+\(.*\)|\.\.\. \d+ more)\s*$", re.MULTILINE)
_PYTHON_STACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n|\n)*")
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
#: What a server puts before the words of an error in the process that writes its micro-batches.
_SERVED = re.compile(
    r"^\[session: [^\]]*\] \[userId: [^\]]*\] Found error inside foreachBatch Python process: "
    r"(?:[\w.]+(?:Exception|Error): )?(?:\([\w.]+\) )?"
)
_HINTS = {
    "STATE.CANNOT_WRITE": "Make room there, or let this user write, and start the query again: it goes on from there.",
    "STATE.OTHER_TYPE": "Give the source the type that it had, or start anew with CREATE OR REPLACE STREAMING TABLE.",
    "STATE.OTHER_QUERY": "Name another CHECKPOINT, or start anew with CREATE OR REPLACE STREAMING TABLE.",
    "OPERATOR": "Change the query, or the rows that it reads.",
    "STATE": "Restore the checkpoint from a copy, or start anew with CREATE OR REPLACE STREAMING TABLE.",
}
_SQLSTATES = {"STATE": "58030", "OPERATOR": "22000"}


class WorkerError(TemporalSqlError):
    """An error that a worker raised on purpose: its condition is one of ``udtf.errors``.

    Args:
        condition: ``STATE.*`` or ``OPERATOR.*``.
        message: what the worker said.
        name: the streaming query.
    """

    def __init__(self, condition: str, message: str, name: str) -> None:
        family = condition.split(".")[0]
        self.condition, self.text, self.span = condition, None, None
        self.parameters = {"message": message, "name": name}
        self.sqlstate = _SQLSTATES.get(family, "XX000")
        hint = _HINTS.get(condition) or _HINTS.get(family, "")
        lines = [f"[{condition}] The streaming query `{name}` failed: {message}. SQLSTATE: {self.sqlstate}"]
        Exception.__init__(self, "\n".join([*lines, *([f"HINT: {hint}"] if hint else [])]))
        self._message = self.args[0]


def failure_of(name: str, causes: list[str], raised: list[Exception]) -> TemporalSqlError:
    """The exception of a streaming query as a sqlx error.

    Args:
        name: the streaming query.
        causes: the messages of Spark's exception and of its causes, the outermost first.
        raised: what Python parts of the query raised, the last one last.
    """
    for exception in reversed(raised):
        if isinstance(exception, TemporalSqlError):
            return exception
    messages = [*causes, *(str(exception) for exception in reversed(raised))]
    return error_from(name, messages)


def error_from(name: str, messages: list[str]) -> TemporalSqlError:
    """The error that the messages of a chain of causes stand for, the outermost first.

    >>> str(error_from("t", ["Job aborted", "udtf.errors.StateError: [STATE.BROKEN] task 3 is broken"])).splitlines()[0]
    '[STATE.BROKEN] The streaming query `t` failed: task 3 is broken. SQLSTATE: 58030'
    """
    for message in messages:
        found = _WORKER.search(message)
        if found is not None:
            return WorkerError(found[1], found[2].strip().rstrip("."), name)
    found = next(filter(None, map(_RECORD.search, messages)), None)
    if found is not None:
        return RunError("KAFKA.MALFORMED_RECORD", name=name, reason=plain(found[1]))
    reason = next((text for message in reversed(messages) if (text := plain(message))), "no reason was given")
    for condition, spoken in _SPOKEN.items():
        if re.search(spoken, "\n".join(messages)):
            return RunError(condition, name=name, reason=reason)
    return RunError("STREAMING.QUERY_FAILED", name=name, reason=reason)


#: What Spark says where a condition of ours says more.
_SPOKEN = {
    "STREAMING.UNFINISHED_RESCALE": r"STREAMING_UNFINISHED_REPARTITION|unfinished state repartition",
    "STREAMING.SOURCE_GONE": (
        r"PATH_NOT_FOUND|TABLE_OR_VIEW_NOT_FOUND|FileNotFoundException|FAILED_READ_FILE\.FILE_NOT_EXIST"
    ),
    "STREAMING.CHECKPOINT_BROKEN": (
        r"CANNOT_LOAD_STATE_STORE|Malformed log file|Incomplete log file|MISSING_METADATA_FILE|STATE_STORE_.*CHECKSUM|"
        r"batch \d+ doesn't exist|Failed to read log file|METADATA_FILE|offset log.*(?:corrupt|missing)"
    ),
    "KAFKA.DATA_LOST": r"data may have been lost|KAFKA_DATA_LOSS",
    "KAFKA.NO_TOPIC": r"UnknownTopicOrPartition|does not host this topic-partition|not present in metadata",
    "KAFKA.UNREACHABLE": (
        r"kafka\.common\.errors\.(?:Timeout|Disconnect|Network)Exception|Timed out waiting for a node assignment|"
        r"Call\(callName=|Timeout of \d+ms expired|Failed to create new KafkaAdminClient"
    ),
}


def plain(message: str) -> str:
    r"""A message in one line, without stack traces, SQLSTATE and position.

    >>> plain("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03\n\tat org.apache.A.b(A.scala:1)")
    'Path does not exist: file:/x.'
    >>> plain("[A] [session: 64f0] [userId: ] Found error inside foreachBatch Python process: a.OddError: (b.C) No.")
    'No.'
    """
    text = _PYTHON_STACK.sub("", _STACK.sub("", message)).strip()
    text = re.sub(r"\s*SQLSTATE: \w+", "", text.split("\n\n")[0])
    text = _CONDITION.sub("", " ".join(text.split()))
    return _CONDITION.sub("", _SERVED.sub("", text))
