"""Sliding windows as plain Spark SQL, for any session: slower than the operator, since rows meet windows in a join.

::

    k, sliding_window(ts, '10 minutes')
      =>
    the ends of windows, [t - size, t] and [t + 1 µs, t + 1 µs + size] of each row, each once per key
      JOIN the rows ON the same key AND the time between start and end   -- a window without rows finds none
      GROUP BY key, end
"""

from __future__ import annotations

from sqlx.lower_native import call_of
from sqlx.plan import Aggregation


def sliding_text(node: Aggregation, rows: str) -> str:
    """The query that answers an aggregation by sliding windows.

    Args:
        node: the aggregation.
        rows: its input as plain Spark SQL.
    """
    size_us, keys = node.config.window.size_us, [f"__k{n}" for n in range(node.config.n_keys)]
    is_local = any(column.name == "__we" and column.type == "timestamp_ntz" for column in node.columns)
    end = ", ".join([*keys, f"explode(array(__time, {_moved('__time', size_us + 1, is_local)})) AS __we"])
    same = [f"__row.{key} <=> __end.{key}" for key in keys]
    start = _moved("__end.__we", -size_us, is_local)
    grouped = [f"__end.{key}" for key in keys] + ["__end.__we"]
    calls = [f"{call_of(node, n)} AS __a{n}" for n in range(len(node.config.aggregates))]
    return "\n".join(
        [
            f"WITH __rows AS (SELECT * FROM (\n{rows}\n) WHERE __time IS NOT NULL),",
            f"__ends AS (SELECT DISTINCT {end} FROM __rows)",
            f"SELECT {', '.join([*grouped, f'{start} AS __ws', *calls])}",
            "FROM __ends AS __end JOIN __rows AS __row",
            f"ON {' AND '.join([*same, f'__row.__time BETWEEN {start} AND __end.__we'])}",
            f"GROUP BY {', '.join(grouped)}",
        ]
    )


def _moved(time: str, by_us: int, is_local: bool) -> str:
    """A time so many microseconds later, as SQL. NB: a timestamp plus an interval goes by days of the time zone."""
    if is_local:
        return f"{time} + make_dt_interval(0, 0, 0, {by_us} / 1000000BD)"
    return f"timestamp_micros(unix_micros({time}) + {by_us})"
