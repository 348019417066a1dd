"""What joins, groups and waits of tables answer, record by record, as the rules say it; shares nothing with the code.

A record is `(table, key, row, time)`: the row is None for a tombstone, the time None where there is none. An answer is
`(key, row, time)`, with None in place of the row for a deletion. Source: semantics.md 2, 4, 8, 9, 10, 15, B10, B11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Record = tuple[str, Any, Any, int | None]
Answer = tuple[Any, Any, int]


class Update(NamedTuple):
    """What an accepted record does to a table; `old` is the row that was current before it."""

    key: Any
    old: Any
    new: Any
    time: int
    is_latest: bool


class Stored(NamedTuple):
    """A current row and its time."""

    row: Any
    time: int


@dataclass
class Table:
    """A versioned table where it has a retention, else an upsert table."""

    retention: int | None = None
    stream_time: int | None = None
    versions: dict[Any, list[tuple[int, Any]]] = field(default_factory=dict)

    def put(self, key: Any, row: Any, time: int | None) -> Update | None:
        """2.1, 4.1: None where the record is refused."""
        if key is None or time is None:
            return None
        if self.retention is not None and self.stream_time is not None and time < self.stream_time - self.retention:
            return None
        self.stream_time = time if self.stream_time is None else max(self.stream_time, time)
        before = self.current(key)
        history = self.versions.setdefault(key, [])
        is_latest = self.retention is None or all(time >= other for other, _ in history)
        history.append((time, row))
        return Update(key, before and before.row, row, time, is_latest)

    def current(self, key: Any) -> Stored | None:
        """2.2, 4.2: the last of the greatest time, or the last to arrive; None for a tombstone."""
        history = self.versions.get(key)
        if not history:
            return None
        newest = max(time for time, _ in history) if self.retention is not None else None
        time, row = [(t, row) for t, row in history if newest is None or t == newest][-1]
        return None if row is None else Stored(row, time)


def joined(kind: str, left: Table, right: Table, records: list[Record]) -> list[list[Answer]]:
    """8: a join by primary key; the answers to each record. A row is `(left, right)`."""
    return [list(_joined(kind, left, right, *record)) for record in records]


def _joined(kind: str, left: Table, right: Table, name: str, key: Any, row: Any, time: int | None) -> list[Answer]:
    own, other_table = (left, right) if name == "l" else (right, left)
    update = own.put(key, row, time)
    if update is None or not update.is_latest:
        return []
    other = other_table.current(key)
    at = update.time if other is None else max(update.time, other.time)
    found = other and other.row
    pair = (update.new, found) if name == "l" else (found, update.new)
    if kind == "inner" or (kind == "left" and name == "r"):
        if other is None:
            return []
    elif other is None and update.new is None and update.old is None:
        return []
    is_there = {"inner": None not in pair, "left": pair[0] is not None, "outer": pair != (None, None)}
    return [(key, pair if is_there[kind] else None, at)]


def joined_by_foreign_key(kind: str, left: Table, right: Table, records: list[Record]) -> list[list[Answer]]:
    """9: a left row is `(foreign key, value)`."""
    answers = []
    for name, key, row, time in records:
        update = (left if name == "l" else right).put(key, row, time)
        if update is None or not update.is_latest:
            answers.append([])
        else:
            answers.append(_of_left(kind, right, update) if name == "l" else _of_right(kind, left, update))
    return answers


def _of_left(kind: str, right: Table, update: Update) -> list[Answer]:
    old_key, new_key = update.old and update.old[0], update.new and update.new[0]
    asked = old_key if kind == "inner" and new_key is None else new_key
    there = None if asked is None else right.current(asked)
    at = update.time if there is None else max(update.time, there.time)
    if update.new is None:
        gone = old_key is not None if kind == "inner" else update.old is not None
        return [(update.key, None, at)] if gone else []
    if kind == "left":
        return [(update.key, (update.new[1], there and there.row), at)]
    if new_key is None:
        return [(update.key, None, at)] if old_key is not None else []
    if there is not None:
        return [(update.key, (update.new[1], there.row), at)]
    return [(update.key, None, at)] if old_key is not None and old_key != new_key else []


def _of_right(kind: str, left: Table, update: Update) -> list[Answer]:
    answers: list[Answer] = []
    for key in sorted(left.versions, key=by_bytes):
        row = left.current(key)
        if row is not None and row.row[0] == update.key:
            gone = update.new is None and kind == "inner"
            answers.append((key, None if gone else (row.row[1], update.new), update.time))
    return answers


def grouped(fold: Callable[[list[Any]], Any], table: Table, records: list[Record]) -> list[list[Answer]]:
    """10, B10, B11: a row is `(group, value)`; `fold` makes a result of the values of a group."""
    rows: dict[Any, tuple[Any, Any]] = {}
    times: dict[Any, int] = {}

    def answer(group: Any, time: int) -> Answer:
        times[group] = max(time, times.get(group, time))
        values = [value for of, value in rows.values() if of == group]
        return (group, fold(values) if values else None, times[group])

    answers = []
    for _, key, row, time in records:
        update = table.put(key, row, time)
        found: list[Answer] = []
        if update is not None and update.is_latest:
            before = rows.pop(key, None)
            if before is not None and (row is None or row[0] != before[0]):
                found.append(answer(before[0], update.time))
            if row is not None:
                rows[key] = row
                found.append(answer(row[0], update.time))
        answers.append(found)
    return answers


def counted(of: Callable[[Any, int], Any], most: int, records: list[Record]) -> list[Record]:
    """11, 12.4, A: rows of a stream as those of the table that counts them, for `grouped`.

    Args:
        of: from key and time of a row to the group that it is in.
        most: groups with more rows show none (HAVING).
        records: of the stream; the value of one is of no concern.
    """
    counts: dict[Any, int] = {}
    times: dict[Any, int] = {}
    found: list[Record] = []
    for name, key, _, time in records:
        if time is None:
            found.append((name, key, None, None))
            continue
        group = of(key, time)
        counts[group] = counts.get(group, 0) + 1
        times[group] = max(time, times.get(group, time))
        found.append((name, group, (counts[group], key) if counts[group] <= most else None, times[group]))
    return found


def by_bytes(key: Any) -> Any:
    """B13: column by column, NULL first, strings by their UTF-8 bytes."""
    columns = key if isinstance(key, tuple) else (key,)
    return [(c is not None, c.encode() if isinstance(c, str) else c or 0) for c in columns]


def waiting(limit: int, most: int | None, answers: list[list[Answer]]) -> list[list[Answer]]:
    """15: what comes out, update by update, of `EMIT EVERY limit PER KEY`, with at most so many entries."""
    entries: dict[Any, tuple[int, Answer]] = {}
    now: int | None = None
    out = []
    for updates in answers:
        found: list[Answer] = []
        for update in updates:
            key, _, time = update
            now = time if now is None else max(now, time)
            first = entries[key][0] if key in entries else time
            entries[key] = (first, update)
            order = sorted(entries, key=lambda k: (entries[k][0], by_bytes(k)))
            leaving = [k for k in order if entries[k][0] <= now - limit]
            left = [k for k in order if k not in leaving]
            leaving += left[: max(0, len(left) - most)] if most is not None else []
            found += [entries.pop(k)[1] for k in leaving]
        out.append(found)
    return out
