"""What a checkpoint belongs to: a file of ours beside Spark's, written at the first start and checked later.

Spark checks its own sources and state only; under another query the same checkpoint would silently skip what the old
one has read, and other TASKS would look for their state where it is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from sqlx.errors import RunError
from sqlx.sql.definitions import StreamingTable
from sqlx.streaming.identity import Identity, difference_of, is_edited
from sqlx.streaming.tables import TableName, folder_of
from sqlx.version import __version__
from udtf.engine.folders import NOTE, UnreadableError, last_number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The number of what a checkpoint of ours looks like: this file, and the state that Spark keeps for our operators.
FORMAT = 5


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
                return Identity(**{field.name: facts[field.name] for field in fields(Identity)})
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
            Whether the query was edited in a way that its state outlives, or goes on into another sink.

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
