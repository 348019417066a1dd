from __future__ import annotations

import pytest

from sqlx.sessions.statements import may_be_ours
from sqlx.sql.tokens import statement_spans

OURS = [
    "SELECT * FROM a JOIN b AS OF a.ts ON a.k = b.k",
    "select * from a join b as\n--x\nof a.ts on a.k = b.k",
    "SELECT * FROM a ASOF JOIN b ON a.k = b.k",
    "SELECT * FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t)",
    "CREATE VERSIONED TABLE t (a INT) KEYS (a) TIMESTAMP BY ts",
    "DROP UPSERT TABLE t",
    "EXPLAIN TEMPORAL SELECT 1",
    "SELECT * FROM history(rates)",
    "SELECT * FROM STREAM clicks",
]
PLAIN = [
    "SELECT 1",
    "SELECT of, grace, ties FROM a AS x WHERE x.of > 1",
    "CREATE TABLE t AS SELECT 1",
    "SELECT asof_date, history FROM streams",
]


@pytest.mark.parametrize("text", OURS)
def test_what_can_be_ours_is_seen(text: str) -> None:
    assert may_be_ours(text)
    assert may_be_ours(text.lower())


@pytest.mark.parametrize("text", PLAIN)
def test_all_others_pay_nothing(text: str) -> None:
    assert not may_be_ours(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" ; ;; ", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT ';' -- ;\n; SELECT `;` /* ; */;", ["SELECT ';'", "SELECT `;`"]),
        ("BEGIN SELECT 1; SELECT 2; END; SELECT 3", ["BEGIN SELECT 1; SELECT 2; END", "SELECT 3"]),
        ("SELECT CASE WHEN a THEN b END; SELECT 2", ["SELECT CASE WHEN a THEN b END", "SELECT 2"]),
        ("SELECT 1;\r\nSELECT 2\r\n", ["SELECT 1", "SELECT 2"]),
    ],
)
def test_a_script_is_split_at_its_semicolons(text: str, found: list[str]) -> None:
    assert [span.of(text) for span in statement_spans(text)] == found
