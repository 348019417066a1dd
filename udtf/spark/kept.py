"""What live operators keep, read from a checkpoint in workers: each task's changelog is restored, and shown as rows."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.records import WHOLE
from udtf.spark.store import StateStoreLog
from udtf.spark.tasks import slots
from udtf.state.snapshot import opened
from udtf.stream.folder_log import OperatorFolder
from udtf.stream.history import checked_head, restore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from udtf.logic import Segment
    from udtf.stream.log import Log
    from udtf.stream.spec import StreamSpec

#: What a worker gives out, as Spark names it; `place` is the row's among those of its task.
ROWS: Final = (
    "operator string, task int, kept string, key string, value string, time timestamp, gone boolean, place bigint"
)
#: Tables of state that hold all versions of a key, not only what there is now.
VERSIONS: Final = "versions"
_TIME: Final = pa.timestamp("us", "UTC")
_TYPES: Final = (
    pa.string(), pa.int32(), pa.string(), pa.string(), pa.string(), _TIME, pa.bool_(), pa.int64()
)  # fmt: skip
_SCHEMA: Final = pa.schema(zip((part.split()[0] for part in ROWS.split(", ")), _TYPES, strict=True))
#: The time that a row of state has, by the first of these columns that is there.
_TIMES: Final = ("__time", "__event_time", "__happened", "__entry_time")
_DELETED: Final = 2  # of `__flags`
#: Of the columns that no query knows those that say what is kept: bounds of windows, and what aggregates remember.
_SHOWN: Final = re.compile(r"(?!__)|__w[se]$|__a\d")


@dataclass(frozen=True)
class Stateful:
    """An operator that keeps state.

    Attributes:
        spec: the operator.
        names: the names of columns of its state, as the query knows them.
    """

    spec: StreamSpec
    names: Mapping[str, str]


class _Entries(StateStoreLog):
    """The log of a task whose entries have been read."""

    def __init__(self, place: str, entries: Mapping[int, bytes]) -> None:
        self._place, self._found = place, entries

    def _get(self, number: int) -> bytes | None:
        return self._found.get(number)


def reader_of(stateful: Stateful) -> Callable[[pa.Table], pa.Table]:
    """`kept_rows` as Spark takes it: a function of one argument."""

    def read(entries: pa.Table) -> pa.Table:
        return kept_rows(stateful, entries)

    return read


def kept_rows(stateful: Stateful, entries: pa.Table) -> pa.Table:
    """All that a task keeps.

    Args:
        stateful: its operator.
        entries: of one task's changelog: `slot`, `number`, `data`.

    Raises:
        StateError: the changelog belongs to another query, or cannot be read.
    """
    task = slots(stateful.spec.tasks).index(entries["slot"][0].as_py())
    place = f"operator {stateful.spec.operator}, task {task}"
    numbers = entries["number"].to_pylist()
    log = _Entries(place, dict(zip(numbers, entries["data"].to_pylist(), strict=True)))
    return _rows_of(stateful, task, log, place)


def kept_in_folder(
    stateful: Stateful, folder: str, batch: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The same of tasks whose changelogs are in a folder.

    Args:
        stateful: their operator.
        folder: of the query's changelogs.
        batch: the last micro-batch that was committed, or a later one.
        batches: the numbers of the tasks.

    Raises:
        StateError: a changelog belongs to another query, or cannot be read.
    """
    place = f"operator {stateful.spec.operator}"
    operator = OperatorFolder(Path(folder, stateful.spec.operator), batch + 1, place)
    for tasks in batches:
        for task in tasks.column(0).to_pylist():
            log = operator.of(task, is_followed=False)
            yield from _rows_of(stateful, task, log, f"{place}, task {task}").to_batches()


def _rows_of(stateful: Stateful, task: int, log: Log, place: str) -> pa.Table:
    spec = stateful.spec
    logic = restore(spec.make_logic, log, checked_head(log, spec.belongs_to, place), None, place).logic
    tables = list(_shown(stateful, task, logic.snapshot()))
    return pa.concat_tables(tables) if tables else _SCHEMA.empty_table()


def _shown(stateful: Stateful, task: int, segment: Segment) -> Iterator[pa.Table]:
    for name, table in segment.tables.items():
        rows = 1 if name == WHOLE else len(table)
        times, gone = (_times(table), _gone(table)) if name != WHOLE else (pa.nulls(1, _TIME), pa.array([False]))
        columns = [
            pa.repeat(stateful.spec.operator, rows),
            pa.repeat(pa.scalar(task, pa.int32()), rows),
            pa.repeat(name, rows),
            _as_json(table, [column for column in table.column_names if _is_key(column)], stateful.names, rows),
            _whole(table) if name == WHOLE else _values(table, stateful.names),
            times,
            gone,
            pa.array(range(rows), pa.int64()),
        ]
        yield pa.Table.from_arrays(columns, schema=_SCHEMA)


def _is_key(column: str) -> bool:
    return column.startswith("__k") and column[3:].isdigit()


def _values(table: pa.Table, names: Mapping[str, str]) -> pa.Array:
    return _as_json(table, [column for column in table.column_names if _is_value(column)], names, len(table))


def _is_value(column: str) -> bool:
    return not _is_key(column) and _SHOWN.match(column) is not None


def _as_json(table: pa.Table, columns: list[str], names: Mapping[str, str], rows: int) -> pa.Array:
    """Per row a JSON object of some columns; NULL where there are none."""
    if not columns:
        return pa.nulls(rows, pa.string())
    shown = table.select(columns).rename_columns([names.get(name, name.strip("_")) for name in columns])
    return pa.array([json.dumps(row, default=_text, ensure_ascii=False) for row in shown.to_pylist()], pa.string())


def _whole(pieces: pa.Table) -> pa.Array:
    """What a record-by-record logic keeps, which is one Python object."""
    state = _plain(opened(b"".join(pieces[WHOLE].to_pylist())))
    return pa.array([json.dumps(state, default=_text, ensure_ascii=False)])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if not type(value).__module__.startswith("udtf"):
        return value
    slots_of = getattr(value, "__slots__", ())
    return _plain({name: getattr(value, name) for name in slots_of} or vars(value))


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _times(table: pa.Table) -> pa.ChunkedArray | pa.Array:
    name = next((name for name in _TIMES if name in table.column_names), None)
    if name is None:
        return pa.nulls(len(table), _TIME)
    return table[name].cast(pa.int64()).cast(_TIME).combine_chunks()


def _gone(table: pa.Table) -> pa.ChunkedArray | pa.Array:
    """Which rows say that a key has no row."""
    if "__gone" in table.column_names:
        return table["__gone"].combine_chunks()
    if "__flags" in table.column_names:
        deleted = pc.bit_wise_and(table["__flags"], pa.scalar(_DELETED, pa.int8()))
        return pc.not_equal(deleted, pa.scalar(0, pa.int8())).combine_chunks()
    return pa.array([False] * len(table), pa.bool_())
