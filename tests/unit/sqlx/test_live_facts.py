"""What EXPLAIN TEMPORAL says of a live query: in which order rows count, and when they are answered."""

from __future__ import annotations

import pytest

from sqlx.replay.script import read_script
from sqlx.sessions.explain import live_facts

STREAM = "CREATE STREAM o (id INT, k STRING, ts TIMESTAMP) TIMESTAMP BY ts;"
VERSIONED = "CREATE VERSIONED TABLE r (k STRING, v INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts;"
UPSERT = "CREATE UPSERT TABLE u (k STRING, v INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts;"
JOIN = f"{STREAM}{VERSIONED}SELECT o.id, r.v FROM o LEFT JOIN r AS OF o.ts ON o.k = r.k"


def said(script: str) -> str:
    return "\n".join(live_facts(read_script(script).plan, 4))


def test_a_join_without_grace_is_told_its_cure() -> None:
    assert said(JOIN).splitlines() == [
        "- stream o: rows arrive as the source delivers them: the order is the source's",
        "- versioned r: rows arrive as the source delivers them: the order is the source's",
        "- as_of_join_1: 4 tasks by key; stream time, and so lateness, is the task's own",
        "    inputs interleave by event time within a micro-batch, the table first on a tie: a version that comes in a"
        " later micro-batch than its rows is not seen by them; GRACE PERIOD is the cure",
    ]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            f"{JOIN} GRACE PERIOD INTERVAL 1 MINUTE",
            "a row is answered when its task's stream time has passed it by 1 min",
        ),
        (f"{JOIN} EMIT CORRECTIONS", "what the changes add up to is the same wherever these are cut"),
        (
            f"{UPSERT}{UPSERT.replace(' u ', ' w ')}SELECT u.k, w.v FROM u JOIN w ON u.k = w.k EMIT CHANGES",
            "- table_join_3: 4 tasks by key",
        ),
        (
            STREAM.replace("ts TIMESTAMP)", "ts TIMESTAMP, nr BIGINT)").replace("BY ts;", "BY ts SEQUENCE BY nr;")
            + "SELECT id FROM o DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)",
            "- stream o: rows arrive in the order of nr within a micro-batch",
        ),
    ],
)
def test_other_operators_say_their_order(script: str, says: str) -> None:
    assert says in said(script)
    assert "GRACE PERIOD is the cure" not in said(script)
