"""What a checkpoint belongs to: a file of ours beside Spark's, written at the first start and checked later.

Spark checks its own sources and state only; under another query the same checkpoint would silently skip what the old
one has read, and other TASKS would look for their state where it is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

from sqlx.errors import RunError
from sqlx.sql.definitions import StreamingTable
from sqlx.streaming.edited import changed_type, keeps_state
from sqlx.streaming.tables import TableName, folder_of
from sqlx.version import __version__
from udtf.engine.folders import NOTE, UnreadableError, last_number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The number of what a checkpoint of ours looks like: this file, and the state that Spark keeps for our operators.
FORMAT = 4
_SHOWN = 60


@dataclass(frozen=True)
class Identity:
    """What a checkpoint belongs to.

    Attributes:
        query: the query as written.
        fingerprint: what its operators, TASKS and state are, as text.
        tasks: TASKS.
        table: the name of the table, or of the sink's query.
        sink: the format of the sink.
        location: where the table's files are; "" where the sink has none.
        meaning: what the names in the query mean; "" in a checkpoint that did not note it yet.
        operators: the end of the fingerprint, without the query around the operators; "" likewise.
        state: where the state of its operators is, see `sqlx.streaming.backend`.
        partitions: over how many partitions its tasks are spread, where Spark does not say it.
        backfill: BACKFILL as written, or "".
        held: the columns that only go through its states, see `LiveQuery.held`.
    """

    query: str
    fingerprint: str
    tasks: int
    table: str
    sink: str
    location: str = ""
    meaning: str = ""
    operators: str = ""
    state: str = "store"
    partitions: int = 0
    backfill: str = ""
    held: str = ""


def usual_checkpoint(spark: SparkSession, name: TableName) -> str:
    """Where the checkpoint of a table is whose statement does not say."""
    database = "" if name.parts[-2] == "default" else f"{name.parts[-2]}."
    return f"{spark.conf.get('spark.sql.warehouse.dir')}/_checkpoints/{database}{name.parts[-1]}"


class Checkpoint:
    """The checkpoint of one streaming table.

    Args:
        spark: the session.
        statement: what asks for it, for messages.
        path: its folder.
    """

    def __init__(self, spark: SparkSession, statement: StreamingTable, path: str) -> None:
        self._statement = statement
        self.folder = folder_of(spark, path)
        if self.folder.is_file:
            raise self._error("STREAMING.CHECKPOINT_IS_FILE")

    @property
    def path(self) -> str:
        """Its folder, as Spark takes it."""
        return self.folder.path

    def stored(self) -> Identity | None:
        """What the checkpoint belongs to; None where there is none yet.

        Raises:
            RunError: it is broken, of another version, or the folder holds something else.
        """
        try:
            text = self.folder.noted()
        except UnreadableError as error:
            raise self._error("STREAMING.CHECKPOINT_CORRUPT", reason=str(error)) from error
        if text is None:
            if not self.folder.is_empty:
                raise self._error("STREAMING.CHECKPOINT_FOREIGN")
            return None
        try:
            facts = json.loads(text)
            found = facts["format"]
            if found == FORMAT:
                # A checkpoint of before has not noted all of it.
                return Identity(**{field.name: facts[field.name] for field in fields(Identity) if field.name in facts})
        except (ValueError, KeyError, TypeError) as error:
            raise self._error("STREAMING.CHECKPOINT_CORRUPT", reason=f"{NOTE}: {error}") from error
        raise self._error("STREAMING.CHECKPOINT_FORMAT", found=found, known=FORMAT, product=facts.get("product", "?"))

    def write(self, identity: Identity) -> None:
        """Say what the checkpoint belongs to."""
        facts = {"format": FORMAT, "product": f"sqlx {__version__}", **asdict(identity)}
        self.folder.note(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")

    def check(self, stored: Identity, wanted: Identity, misfit: Callable[[], str] = str) -> bool:
        """Refuse the checkpoint of something else.

        Args:
            stored: what it belongs to.
            wanted: what is to go on from it.
            misfit: why the rows of an edited query do not fit where those of before are; "" where they do.

        Returns:
            Whether the query was edited in a way that its state outlives.

        Raises:
            RunError: it says what differs.
        """
        difference = difference_of(stored, wanted)
        if not difference:
            return " ".join(stored.query.split()) != " ".join(wanted.query.split())
        edited = is_edited(stored, wanted)
        why = misfit() if edited else ""
        if why or not edited:
            reason = f"{difference}; {why}" if why else difference
            raise self._error("STREAMING.CHECKPOINT_OTHER_QUERY", difference=reason, name=wanted.table)
        return True

    @property
    def has_store(self) -> bool:
        """Whether Spark's state store has anything of it."""
        return "state" in self.folder.names()

    @property
    def has_results(self) -> bool:
        """Whether a micro-batch was finished."""
        return self.last_batch >= 0

    @property
    def last_batch(self) -> int:
        """The number of the last micro-batch that was finished; -1 where there was none."""
        return last_number(self.folder.names("commits"))

    def _error(self, condition: str, **parameters: object) -> RunError:
        span = self._statement.span("CHECKPOINT")
        return RunError(condition, self._statement.text, span, path=self.folder.shown, **parameters)


def is_edited(stored: Identity, wanted: Identity) -> bool:
    """Whether nothing but the text of the query differs, and that in a way which its state outlives."""
    same = replace(wanted, query=stored.query, fingerprint=stored.fingerprint)
    return not difference_of(stored, same) and keeps_state(stored, wanted)


def difference_of(stored: Identity, wanted: Identity) -> str:
    """What differs, in words; "" where nothing does.

    >>> one = Identity("SELECT 1", "f", 16, "t", "parquet")
    >>> difference_of(one, Identity("SELECT 1", "g", 8, "t", "parquet"))
    'it was written with TASKS 16, this is TASKS 8'
    """
    if stored.table != wanted.table:
        return f"it is that of `{stored.table}`, this is `{wanted.table}`"
    if stored.sink != wanted.sink:
        return f"it was written with USING {stored.sink}, this is USING {wanted.sink}"
    if stored.tasks != wanted.tasks:
        return f"it was written with TASKS {stored.tasks}, this is TASKS {wanted.tasks}"
    if stored.backfill != wanted.backfill:
        before, now = (one.backfill or "no BACKFILL" for one in (stored, wanted))
        return f"it was begun with {before}, this is with {now}"
    if stored.location != wanted.location:
        return f"its rows are in {stored.location}, these would go to {wanted.location}"
    changed = _changed_meaning(stored.meaning, wanted.meaning) if stored.meaning else ""
    other_type = changed_type(stored, wanted)
    if other_type or stored.fingerprint == wanted.fingerprint:
        return changed or other_type
    old, new = " ".join(stored.query.split()), " ".join(wanted.query.split())
    if old == new:
        return (
            changed or "what the names in its query mean has changed since (a definition, its columns or its retention)"
        )
    before, now = _where_they_differ(old, new)
    return f"its query reads {before}, this one {now}"


def _changed_meaning(stored: str, wanted: str) -> str:
    old, new = (dict(line.split(": ", 1) for line in text.splitlines()) for text in (stored, wanted))
    changed = next((name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)), None)
    if changed is None:
        return ""
    before, now = _where_they_differ(old.get(changed, "nothing"), new.get(changed, "nothing"))
    return f"`{changed}` was {before}, it is {now}"


def _where_they_differ(old: str, new: str) -> tuple[str, str]:
    """The parts of two texts around the first place at which they differ."""
    at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return _around(old, at), _around(new, at)


def _around(text: str, at: int) -> str:
    """The part of a query that differs."""
    start = max(0, text.rfind(" ", 0, max(0, at - 20)) + 1) if at > 20 else 0
    part = text[start : start + _SHOWN]
    return f"`{'…' if start else ''}{part}{'…' if start + _SHOWN < len(text) else ''}`"
