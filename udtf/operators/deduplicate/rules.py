"""The rule of deduplication, written once, and the loop that applies it to many rows.

Plain functions over numbers: the record-by-record logic calls them as they are, whole tables call them compiled
(`udtf.operators.deduplicate.compiled`). This file imports nothing, since numba's cache of compiled code is renewed when
the file of a function changes, and only then. Times and ids are int64; sums that do not fit are clamped.

Source: KIP-655, semantics.md section 16.
"""

from __future__ import annotations

from typing import Any, Final

from udtf.rules import UNSET, horizon, is_ahead

STORED: Final = 0
REPROCESSED: Final = 1
NULL_KEY: Final = 2
DUPLICATE: Final = 3
LATE: Final = 4
NULL_TIME: Final = 5
FUTURE: Final = 6

#: Names of the refusals among the codes above (semantics.md B7).
REASONS: Final = (None, None, None, None, "late", "null_time", "future")

#: A place of the table that was never used, and one whose entry has left it.
EMPTY: Final = -1
GONE: Final = -2


def is_live(entry_time: Any, oldest: Any) -> bool:
    """Whether an entry is kept: purged are those below `oldest`, stream time - interval (16.1)."""
    return bool(entry_time >= oldest)


def completing(newest: Any, interval: Any) -> int:
    """The least stream time at which the group that the row of time `newest` opened is complete, and all before it."""
    return int(newest + interval + 1)


def is_within(time: Any, entry_time: Any, interval: Any) -> bool:
    """Whether a row and an entry are duplicates; both ends are inclusive, in both directions (16.4)."""
    return bool(entry_time >= horizon(time, interval) and time >= horizon(entry_time, interval))


def outcome(has_entry: Any, entry_time: Any, is_same: Any, time: Any, oldest: Any, interval: Any) -> int:
    """What becomes of a row with a key and a time.

    Args:
        has_entry: the store has a live entry of its key.
        entry_time: that entry's time.
        is_same: that entry is this very row, by its sequence (16.3).
        time: the row's.
        oldest: stream time, the row included, - interval.
        interval: of the deduplication.

    Returns:
        REPROCESSED, DUPLICATE, STORED, or LATE: older than the interval, and no duplicate is known (16.5).
    """
    if has_entry:
        if is_same:
            return REPROCESSED
        # An entry that lives is at most the interval older than stream time: a row outside of it lies far before it.
        return DUPLICATE if is_within(time, entry_time, interval) else LATE
    return STORED if time >= oldest else LATE


def place_of(table_ids: Any, table_refs: Any, key_id: Any) -> int:
    """Open addressing: the place of the id, or the empty place where it belongs."""
    mask = len(table_ids) - 1
    # NB: ids of one task are alike in their low bits, since the task is taken from them.
    mixed = (key_id ^ (key_id >> 31)) * 0x2545F4914F6CDD1D
    place = (mixed ^ (mixed >> 33)) & mask
    while table_refs[place] != EMPTY and table_ids[place] != key_id:
        place = (place + 1) & mask
    return int(place)


def deduplicate_rows(  # noqa: C901  # one pass over the rows: a call per outcome would cost as much as the row
    row: int, ids: Any, times: Any, absent: Any, keyless: Any, sequences: Any, interval: Any, max_future: Any,
    keeps_last: bool, first_ref: Any, clock: Any, table_ids: Any, table_refs: Any, table_times: Any,
    table_sequences: Any, outcomes: Any, owners: Any, stream_times: Any, closed_refs: Any, closed_times: Any,
) -> int:  # fmt: skip
    """Judge rows in the order of arrival, from `row` on.

    Args:
        row: the first row.
        ids: of the keys.
        times: of the rows.
        absent: rows without a time (empty: none).
        keyless: rows with a NULL in BY (empty: none).
        sequences: identity of the rows, the least number for none; empty where no row has one.
        interval: of the deduplication.
        max_future: its limit of outliers (below 0: none).
        keeps_last: an entry keeps its last row, and a group that has closed goes to `closed_refs`, `closed_times`.
        first_ref: the entry of row r gets the reference `first_ref + r`.
        clock: [stream time, 1 if it is set, used places of the table, closed groups]; all of them are moved.
        table_ids: with the other tables the store, by `place_of`.
        table_refs: EMPTY, GONE or the reference of the row of an entry.
        table_times: of the entries.
        table_sequences: of the entries; empty as `sequences`.
        outcomes: what became of each row.
        owners: the reference of the live entry that each row met, or -1.
        stream_times: after each row.
        closed_refs: see `keeps_last`.
        closed_times: see `keeps_last`.

    Returns:
        The number of rows, or the row at which the table is too full: make room and go on there.
    """
    most = len(table_ids) - (len(table_ids) >> 2)
    while row < len(ids):
        time = times[row]
        owners[row] = EMPTY
        if len(absent) > 0 and absent[row]:
            outcomes[row] = NULL_TIME
        elif clock[1] and is_ahead(time, clock[0], max_future):
            outcomes[row] = FUTURE
        elif clock[2] >= most:
            return row
        else:
            clock[0] = max(clock[0], time) if clock[1] else time  # a row that is dropped moves it, too (16.7)
            clock[1] = 1
            outcomes[row] = NULL_KEY
            if len(keyless) == 0 or not keyless[row]:
                place = place_of(table_ids, table_refs, ids[row])
                oldest = horizon(clock[0], interval)
                if keeps_last:
                    close_group(place, oldest, clock, table_refs, table_times, closed_refs, closed_times)
                if table_refs[place] >= 0 and is_live(table_times[place], oldest):
                    owners[row] = table_refs[place]
                same = len(sequences) > 0 and not keeps_last and sequences[row] == table_sequences[place]
                same = same and sequences[row] != UNSET
                found = outcome(owners[row] >= 0, table_times[place], same, time, oldest, interval)
                outcomes[row] = found
                if found == STORED:
                    clock[2] += table_refs[place] == EMPTY
                    table_ids[place], table_times[place], table_refs[place] = ids[row], time, first_ref + row
                    if len(sequences) > 0:
                        table_sequences[place] = sequences[row]
                elif found == DUPLICATE and keeps_last:
                    table_refs[place] = first_ref + row
        stream_times[row] = clock[0] if clock[1] else UNSET
        row += 1
    return row


def close_group(
    place: int, oldest: Any, clock: Any, table_refs: Any, table_times: Any, closed_refs: Any, closed_times: Any
) -> None:
    """Take the group at a place out if it is complete; it is given out with its batch."""
    if table_refs[place] >= 0 and not is_live(table_times[place], oldest):
        closed_refs[clock[3]], closed_times[clock[3]] = table_refs[place], table_times[place]
        clock[3] += 1
        table_refs[place] = GONE


def put_entries(
    ids: Any,
    times: Any,
    sequences: Any,
    refs: Any,
    clock: Any,
    table_ids: Any,
    table_refs: Any,
    table_times: Any,
    table_sequences: Any,
) -> None:
    """Put entries into a table that has room for them, each in the place of an older one of its id."""
    for entry in range(len(ids)):
        place = place_of(table_ids, table_refs, ids[entry])
        clock[2] += table_refs[place] == EMPTY
        table_ids[place], table_times[place], table_refs[place] = ids[entry], times[entry], refs[entry]
        if len(sequences) > 0:
            table_sequences[place] = sequences[entry]


def equal_bytes(starts: Any, data: Any, one: Any, other: Any, equal: Any) -> None:
    """Clear `equal` where two values of a column of bytes differ; value v is `data[starts[v]:starts[v + 1]]`."""
    for row in range(len(one)):
        begin, end = starts[one[row]], starts[one[row] + 1]
        at = starts[other[row]]
        if starts[other[row] + 1] - at != end - begin:
            equal[row] = False
            continue
        for place in range(begin, end):
            if data[place] != data[at]:
                equal[row] = False
                break
            at += 1
