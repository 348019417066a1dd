"""Errors of the worker side: a condition name, a message, and what to do about it.

`sqlx.errors` knows the same condition names; this layer imports nothing of the front end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udtf.logic import Emission


class TemporalRuntimeError(Exception):
    """Base of every error that `udtf` raises on purpose.

    >>> str(StateError.null_key())
    '[STATE.NULL_KEY] a key is None: a row without a key is never stored; leave it out'
    """

    def __init__(self, condition: str, message: str) -> None:
        """Keep the condition beside the text, so that a caller can branch on it."""
        super().__init__(condition, message)
        self.condition = condition
        self.message = message

    def __str__(self) -> str:
        return f"[{self.condition}] {self.message}"


class SettingError(TemporalRuntimeError):
    """A setting of the session is no number, or too small a one.

    Args:
        name: of the setting.
        found: its value.
        least: what it is at least.
    """

    def __init__(self, name: str, found: str, least: int) -> None:
        """Keep what the front end's message is made of."""
        super().__init__("SETTING.NUMBER", f"{name} must be a whole number of at least {least}, and is `{found}`")
        self.name, self.found, self.least = name, found, least


class StateError(TemporalRuntimeError):
    """A store, buffer or snapshot was given something it cannot hold."""

    @classmethod
    def null_key(cls) -> StateError:
        """A key is None (semantics.md 4.1: the row is dropped before it gets to a store)."""
        return cls("STATE.NULL_KEY", "a key is None: a row without a key is never stored; leave it out")

    @classmethod
    def invalid_time(cls, ts: object) -> StateError:
        """A time is no int, or outside of 64 bits."""
        return cls("STATE.INVALID_TIME", f"a time must be an int in microseconds within 64 bits, got {ts!r}")

    @classmethod
    def invalid_retention(cls, retention_us: object) -> StateError:
        """A history retention is negative or no int."""
        text = f"history retention must be an int >= 0 in microseconds, or None for ever; got {retention_us!r}"
        return cls("STATE.INVALID_RETENTION", text)

    @classmethod
    def retention_changed(cls, written_us: int | None, now_us: int | None) -> StateError:
        """A snapshot was written under another retention, so it may lack history that this one promises."""
        text = (
            f"the snapshot was written with history retention {written_us}, now it is {now_us}; restore with the former"
        )
        return cls("STATE.RETENTION_CHANGED", text)

    @classmethod
    def not_serializable(cls, kind: str, why: object) -> StateError:
        """A value cannot be written into a snapshot."""
        return cls("STATE.NOT_SERIALIZABLE", f"the state of {kind} holds a value that cannot be written: {why}")

    @classmethod
    def corrupt_snapshot(cls, kind: str, why: str) -> StateError:
        """The bytes are not those that were written."""
        return cls("STATE.CORRUPT_SNAPSHOT", f"the snapshot of {kind} cannot be read: {why}; restore an intact one")

    @classmethod
    def snapshot_format(cls, found: int, known: int) -> StateError:
        """The snapshot was written by another version of this package."""
        return cls("STATE.SNAPSHOT_FORMAT", f"snapshot format {found} is unknown, this version reads {known}")

    @classmethod
    def snapshot_kind(cls, found: str, wanted: str) -> StateError:
        """The snapshot belongs to something else."""
        return cls("STATE.SNAPSHOT_KIND", f"the snapshot is one of {found}, not of {wanted}")

    @classmethod
    def other_type(cls, column: str, found: object, expected: object) -> StateError:
        """A column of what is kept has another type than that of the rows that come now."""
        text = f"column {column} is kept as {found}, and comes as {expected} now: give the source its former type"
        return cls("STATE.OTHER_TYPE", text)

    @classmethod
    def other_query(cls, place: str, found: str, expected: str) -> StateError:
        """The state of a task was written by another query, or by this one before its text changed."""
        text = (
            f"the state of {place} belongs to {found!r}, this query's is {expected!r}; "
            "use the query that wrote it, or start with another checkpoint"
        )
        return cls("STATE.OTHER_QUERY", text)

    @classmethod
    def format(cls, place: str, found: int, known: int) -> StateError:
        """The state of a task was written in a layout that this version does not read."""
        text = f"the state of {place} has format {found}, this version reads {known}; use the version that wrote it"
        return cls("STATE.FORMAT", text)

    @classmethod
    def corrupt_segment(cls, place: str, position: int, why: str) -> StateError:
        """A segment of a task's changelog is not what was written."""
        text = f"segment {position} of the state of {place} cannot be read: {why}; restore an intact checkpoint"
        return cls("STATE.CORRUPT_SEGMENT", text)

    @classmethod
    def missing_segment(cls, place: str, position: int, last: int) -> StateError:
        """A task's changelog lacks a segment that its head says is there."""
        text = f"segment {position} of {last} of the state of {place} is missing; restore an intact checkpoint"
        return cls("STATE.MISSING_SEGMENT", text)

    @classmethod
    def missing_batch(cls, place: str, batch: int, folder: str) -> StateError:
        """Nothing in a folder of changelogs says that a micro-batch that was committed has run."""
        text = f"the state of {place} in {folder} ends before micro-batch {batch}; restore an intact checkpoint"
        return cls("STATE.MISSING_BATCH", text)

    @classmethod
    def missing_head(cls, place: str, path: str) -> StateError:
        """Nothing says how far a task is that has had state."""
        text = f"{path}, which says how far the state of {place} goes, is missing; restore an intact checkpoint"
        return cls("STATE.MISSING_HEAD", text)

    @classmethod
    def corrupt_file(cls, place: str, path: str) -> StateError:
        """A small file beside the segments of a changelog is not what was written."""
        text = f"{path} of the state of {place} differs from what was written; restore an intact checkpoint"
        return cls("STATE.CORRUPT_FILE", text)

    @classmethod
    def ahead(cls, place: str, found: int, batch: int) -> StateError:
        """The state is that of a later micro-batch than the one that is run."""
        text = (
            f"the state of {place} is that of micro-batch {found}, and micro-batch {batch} is run: "
            "the checkpoint around it is an older copy; restore both together"
        )
        return cls("STATE.AHEAD", text)

    @classmethod
    def missing_rows(cls, path: str, reason: str) -> StateError:
        """A file in which rows of a micro-batch went to another worker cannot be read."""
        text = (
            f"rows of this micro-batch were in {path}, which cannot be read: {reason}; nothing is lost: "
            "leave the files of a running query in spark.local.dir alone, and start it again"
        )
        return cls("STATE.MISSING_ROWS", text)

    @classmethod
    def cannot_write(cls, place: str, path: str, reason: str) -> StateError:
        """A file of a changelog cannot be written."""
        text = f"the state of {place} cannot be written to {path}: {reason}; nothing is lost"
        return cls("STATE.CANNOT_WRITE", text)


class OperatorError(TemporalRuntimeError):
    """An operator's configuration or input cannot be answered.

    Attributes:
        emission: with `OPERATOR.BUFFER_FULL` what the call had sent out before the row that did not fit.
    """

    emission: Emission | None = None

    @classmethod
    def invalid_option(cls, name: str, value: object, wanted: str) -> OperatorError:
        """An option of a configuration has a value that it cannot have."""
        return cls("OPERATOR.INVALID_OPTION", f"{name} must be {wanted}, got {value!r}")

    @classmethod
    def needs_arrow_functions(cls, name: str) -> OperatorError:
        """A table function on PySpark 4.0, whose table functions read row by row."""
        text = (
            f"the table function {name} needs PySpark 4.1 or newer, whose table functions read Arrow batches; "
            "write the clauses (AS OF, DEDUPLICATE BY) instead, which answer on PySpark 4.0 as well"
        )
        return cls("OPERATOR.NEEDS_ARROW_FUNCTIONS", text)

    @classmethod
    def no_distance(cls, data_type: object) -> OperatorError:
        """NEAREST or TOLERANCE over a type whose values can be ordered but not subtracted."""
        text = f"NEAREST and TOLERANCE need times that can be subtracted, {data_type} cannot; use BACKWARD or FORWARD"
        return cls("OPERATOR.NO_DISTANCE", text)

    @classmethod
    def needs_grace(cls, direction: str) -> OperatorError:
        """FORWARD and NEAREST on a stream wait for what is still to come (semantics.md C6)."""
        text = f"DIRECTION {direction.upper()} on a stream needs TOLERANCE and GRACE: the answer lies ahead of the row"
        return cls("OPERATOR.NEEDS_GRACE", text)

    @classmethod
    def buffer_full(cls, operator: str, what: str, limit: int | None, size: int) -> OperatorError:
        """What waits is more than WHEN FULL FAIL allows (semantics.md B6, 15.7); `what` is "rows" or "bytes"."""
        text = (
            f"{operator} holds {size}/{limit} {what}: more than BUFFER MAX; nothing is lost: "
            "raise the limit, and the query goes on from its checkpoint"
        )
        return cls("OPERATOR.BUFFER_FULL", text)

    @classmethod
    def window_overflow(cls, size_us: int) -> OperatorError:
        """A window around a time begins or ends outside of the times that there are."""
        text = f"a window of {size_us} µs around a time at the end of all times does not fit; filter such rows out"
        return cls("OPERATOR.WINDOW_OVERFLOW", text)

    @classmethod
    def arithmetic_overflow(cls, function: str, data_type: str) -> OperatorError:
        """A sum or an average does not fit the type of its result (Spark's ANSI mode)."""
        text = f"{function} overflows {data_type}; cast its argument to a wider type"
        return cls("OPERATOR.ARITHMETIC_OVERFLOW", text)


def require(config: object, name: str, holds: bool, wanted: str) -> None:
    """Refuse the option `name` of a configuration unless its value `holds`.

    Raises:
        OperatorError: `OPERATOR.INVALID_OPTION`.
    """
    if not holds:
        raise OperatorError.invalid_option(name, getattr(config, name), wanted)
