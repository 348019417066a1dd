"""The tables of LATE TO: made if missing, and written under the batch id of the result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlx.dialect import Token, tokenize
from sqlx.errors import BindError, UnsupportedError
from sqlx.streaming.batches import Output, united
from sqlx.streaming.sinks import FileSink, Sink, find_sink
from sqlx.streaming.tables import StreamTable, columns_of, qualified

if TYPE_CHECKING:
    from sqlx.lower_late import LateOutput
    from sqlx.lower_stream import LiveQuery
    from sqlx.streaming.checkpoint import Checkpoint
    from sqlx.streaming.start import Starter

_PREVIEW = "a preview"
_FORMATS = frozenset({"noop", "preview"})


def late_outputs(starter: Starter, live: LiveQuery, checkpoint: Checkpoint | None) -> list[Output]:
    """What goes to the tables of LATE TO; operators that name the same table share it.

    Raises:
        UnsupportedError: the result's sink cannot share a batch id with other tables.
        BindError: a table of that name is something else.
    """
    if not live.late:
        return []
    statement, sink = starter.statement, starter.sink
    if sink.file_format is None and sink.format not in _FORMATS:
        span = late_span(statement.text) or statement.span("USING")
        raise UnsupportedError("UNSUPPORTED.LATE_TO_SINK", statement.text, span, format=sink.format)
    of_table: dict[str, list[LateOutput]] = {}
    for late in live.late:
        of_table.setdefault(qualified(starter.spark, late.table).shown, []).append(late)
    files = sink if sink.file_format is not None else _parquet(starter)
    return [_output(starter, lates, files, checkpoint) for lates in of_table.values()]


def _output(starter: Starter, lates: list[LateOutput], files: Sink, checkpoint: Checkpoint | None) -> Output:
    table = StreamTable(starter.spark, qualified(starter.spark, lates[0].table))
    columns = columns_of(lates[0].schema)
    if checkpoint is None and table.checkpoint == _PREVIEW:
        table.drop()  # batch ids begin at 0 again, and those that a table has are passed over
    owner = _PREVIEW if checkpoint is None else checkpoint.path
    found = table.columns if table.exists else columns
    if table.exists and table.checkpoint != owner:
        raise _refused(starter, table, "a table of that name is there already, which this stream did not make")
    if any({c.name.lower() for c in columns_of(late.schema)} != {c.name.lower() for c in found} for late in lates):
        raise _refused(starter, table, f"its columns are {', '.join(c.name for c in found)}")
    if not table.exists:
        location = table.location if table.has_files() else ""
        table.create(lates[0].schema, files.format, owner, location=location)
    return Output(united([late.make for late in lates]), FileSink(table.location, files.file_format), table.name.quoted)


def _refused(starter: Starter, table: StreamTable, reason: str) -> BindError:
    text = starter.statement.text
    span = late_span(text) or starter.statement.span("AS")
    return BindError("STREAMING.LATE_TABLE", text, span, name=table.name.shown, reason=reason)


def _parquet(starter: Starter) -> Sink:
    return find_sink(starter.spark, replace(starter.statement, using="parquet"))


def late_span(text: str, tokens: tuple[Token, ...] | None = None) -> tuple[int, int] | None:
    """Where the first LATE TO stands, with its table.

    >>> late_span("SELECT 1 FROM a LATE TO b WHERE c")
    (16, 25)
    """
    tokens = tokenize(text) if tokens is None else tokens
    for at, token in enumerate(tokens[:-1]):
        if token.word == "LATE" and tokens[at + 1].word == "TO":
            return token.start, tokens[min(at + 2, len(tokens) - 1)].end
    return None
