"""The words that end or begin something in a FROM clause: none of them names a relation there without AS."""

from __future__ import annotations

TAIL_WORDS = frozenset(
    "WHERE GROUP HAVING ORDER LIMIT OFFSET WINDOW QUALIFY UNION EXCEPT INTERSECT MINUS SORT CLUSTER DISTRIBUTE "
    "SELECT INSERT MAP REDUCE".split()
)
JOIN_WORDS = frozenset({"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "OUTER", "ASOF"})
NO_ALIAS = (
    TAIL_WORDS
    | (JOIN_WORDS - {"ASOF"})
    | frozenset("ON USING LATERAL TABLESAMPLE PIVOT UNPIVOT FOR WATERMARK MATCH_CONDITION WHEN SET".split())
)
QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})
AFTER_QUERY = frozenset(
    {"UNION", "EXCEPT", "INTERSECT", "MINUS", "ORDER", "LIMIT", "OFFSET", "SORT", "CLUSTER", "DISTRIBUTE"}
)
TRAVEL_WORDS = frozenset({"SYSTEM_TIME", "SYSTEM_VERSION", "TIMESTAMP", "VERSION"})
