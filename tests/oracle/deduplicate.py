"""What a deduplication answers, as short as it can be said; shares nothing with the code under test.

`reference` is the record-by-record answer (semantics.md 16), `duckdb_sql` the batch answer in DuckDB.
"""

from __future__ import annotations

from typing import Any


def reference(rows: list[tuple[Any, int, Any, Any]], interval: int, *, last: bool = False, late: bool = True) -> list:
    """Rows are (key, time, sequence, value) in order of arrival; answers the values in the order of emission."""
    store: dict[Any, tuple[int, Any, Any]] = {}
    stream_time, answers = -(2**62), []
    for key, time, sequence, value in rows:
        stream_time = max(stream_time, time)
        for _, old in sorted((entry[0], name) for name, entry in store.items() if entry[0] < stream_time - interval):
            answers += [store[old][2]] if last else []
            del store[old]
        if key is None:
            answers.append(value)
        elif key in store and abs(time - store[key][0]) <= interval:
            answers += [value] if not last and sequence is not None and sequence == store[key][1] else []
            store[key] = (store[key][0], store[key][1], value if last else store[key][2])
        elif time >= stream_time - interval:
            store[key] = (time, sequence, value)
            answers += [] if last else [value]
        elif late or (not last and key in store and sequence is not None and sequence == store[key][1]):
            answers.append(value)
    return answers


def duckdb_sql(interval: int) -> str:
    """The batch rule in order of time, over `s (k, t, n)`: a fold per key whose state is the time of its entry."""
    step = (
        f"lambda a, x: CASE WHEN x.t - a.t <= {interval} THEN {{'t': a.t, 'kept': a.kept}} "
        "ELSE {'t': x.t, 'kept': list_append(a.kept, x.n)} END"
    )
    first = "{'t': first(t ORDER BY t, n), 'kept': [first(n ORDER BY t, n)]}"
    rows = "list({'t': t, 'n': n} ORDER BY t, n)"
    return f"""
        SELECT n FROM s WHERE k IS NULL AND t IS NOT NULL
        UNION ALL
        SELECT unnest(list_reduce({rows}, {step}, {first}).kept) FROM s WHERE k IS NOT NULL AND t IS NOT NULL GROUP BY k
        ORDER BY n"""
