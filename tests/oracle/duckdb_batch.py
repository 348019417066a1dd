"""What extended SQL answers on tables, from DuckDB: its own ASOF JOIN, and a correlated query for all options.

Tables `l (id, k, t, known)` and `r (k, t, seq, n, v, gone)`; `n` is the order of arrival. NULLs sort as in Spark.
DuckDB's ASOF JOIN passes over NULL payloads (duckdb#18303): only the never-NULL `n` is read from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """An AS OF join as it is written.

    Attributes:
        ties: '' or the TIES BY item over the alias `r`.
        condition: '' or a further ON conjunct over the alias `r`.
    """

    join: str = "LEFT"
    direction: str = "BACKWARD"
    exclusive: bool = False
    tolerance: int | None = None
    sequence: bool = False
    known: bool = False
    ties: str = ""
    condition: str = ""


#: TIES BY item to DuckDB's order in which the winner comes first.
TIES = {
    "": "",
    "r.v": "r.v DESC NULLS LAST,",
    "r.v DESC": "r.v ASC NULLS FIRST,",
    "r.v DESC NULLS FIRST": "r.v ASC NULLS LAST,",
}


def native_sql(join: str, comparison: str) -> str:
    """DuckDB's own ASOF JOIN."""
    return f"SELECT l.id, r.n FROM l ASOF {join} JOIN r ON l.k = r.k AND l.t {comparison} r.t"


def answer_sql(options: Options) -> str:
    """Rows (id, n, reason) by the rules C1 to C5: the picked version, then why it is none."""
    side = {"BACKWARD": "r.t < l.t", "FORWARD": "r.t > l.t", "NEAREST": "r.t <> l.t"}[options.direction]
    side = side if options.exclusive else f"({side} OR r.t = l.t)"
    near = {"BACKWARD": "r.t DESC", "FORWARD": "r.t", "NEAREST": "abs(r.t - l.t), r.t"}[options.direction]
    known = "r.seq <= l.known" if options.known else "true"
    last = "r.seq DESC, r.n DESC" if options.sequence else "r.n DESC"
    there = f"r.k = l.k AND r.t IS NOT NULL AND {known}"
    far = "false" if options.tolerance is None else f"abs(p.t - l.t) > {options.tolerance}"
    condition = f"({options.condition.replace('r.', 'p.')}) IS NOT TRUE" if options.condition else "false"
    lost = "" if options.join == "LEFT" else "WHERE reason IS NULL"
    return f"""
        SELECT id, CASE WHEN reason IS NULL THEN n END, reason FROM (
            SELECT l.id, p.n, CASE
                WHEN l.t IS NULL THEN 'null_time'
                WHEN NOT EXISTS (SELECT 1 FROM r WHERE {there}) THEN 'no_key'
                WHEN p.n IS NULL THEN '{"after_last" if options.direction == "FORWARD" else "before_first"}'
                WHEN p.gone THEN 'tombstone'
                WHEN {far} THEN 'beyond_tolerance'
                WHEN {condition} THEN 'condition' END AS reason
            FROM l LEFT JOIN LATERAL (
                SELECT r.* FROM r WHERE {there} AND {side} ORDER BY {near}, {TIES[options.ties]} {last} LIMIT 1
            ) p ON true) {lost}"""
