"""What an AS OF join answers, as short as it can be said; shares nothing with the code under test.

`reference` is the record-by-record answer (semantics.md 2.1, 2.3, 6, 7), `duckdb_sql` the batch answer in DuckDB.
"""

from __future__ import annotations

from typing import Any


def reference(
    rows: list[tuple[str, str | None, int, Any]], *, left: bool, retention: int, grace: int | None
) -> list[tuple[Any, Any]]:
    """Rows are (side, key, time, value); a table's value None is a tombstone. Answers (stream value, table value)."""
    table: dict[tuple[Any, int], Any] = {}
    table_time = stream_time = -(2**62)
    waiting: list[tuple[int, Any, int, Any]] = []
    answers: list[tuple[Any, Any]] = []
    for arrival, (side, key, time, value) in enumerate(rows):
        due = [(time, key, arrival, value)]
        if side == "R":
            due = []
            if key is not None and time >= table_time - retention:
                table[key, time], table_time = value, max(table_time, time)
        elif key is not None and grace is not None and time >= stream_time - grace:
            waiting, stream_time = waiting + due, max(stream_time, time)
            due = sorted(row for row in waiting if row[0] <= stream_time - grace)
            waiting = [row for row in waiting if row not in due]
        for at, name, _, kept in due:
            versions = sorted(start for owner, start in table if owner == name)
            seen = [v for v in versions if v <= at and (at >= table_time - retention or v == versions[-1])]
            found = table[name, seen[-1]] if seen and name is not None else None
            answers += [(kept, found)] if left or found is not None else []
    return answers


def duckdb_sql(
    *,
    join: str,
    direction: str,
    exclusive: bool,
    tolerance_us: int | None,
    keys: int,
    known: bool = False,
    ties: str = "",
) -> str:
    """The batch rule over tables `l (k.., as_of, known, id)` and `r (k.., time, seq, arrival, deleted, pass, id)`."""
    at = {"backward": "<", "forward": ">", "nearest": "<>"}[direction]
    side = "true" if at == "<>" and not exclusive else f"r.time {at}{'' if exclusive or at == '<>' else '='} l.as_of"
    near = {"backward": "r.time DESC", "forward": "r.time", "nearest": "abs(r.time - l.as_of), r.time"}[direction]
    then = "r.seq <= l.known" if known else "true"
    same = " AND ".join(f"l.k{number} = r.k{number}" for number in range(keys))
    bound = "true" if tolerance_us is None else f"abs(p.time - l.as_of) <= {tolerance_us}"
    lost = "" if join == "left" else "WHERE p.id IS NOT NULL"
    return f"""
        SELECT l.id, p.id FROM l LEFT JOIN LATERAL (
            SELECT r.* FROM r WHERE {same} AND {side} AND {then} AND r.time IS NOT NULL
            ORDER BY {near}, {ties} r.arrival DESC LIMIT 1
        ) p ON {bound} AND NOT p.deleted AND p.pass {lost} ORDER BY l.id"""
