"""Temporal statements of SQL scripts: which are compiled when it is their turn, and which cannot be."""

from __future__ import annotations

import pytest

from sqlx.errors import UnsupportedError
from sqlx.sessions.script import at_its_turn, refuse_stale
from sqlx.sql.parser import is_script
from sqlx.sql.tokens import Token, tokenize

Q = "SELECT o.id FROM o JOIN r AS OF o.ts ON o.k = r.k"
EXECUTED = f"EXECUTE IMMEDIATE '{Q}'"


def is_ours(text: str, _tokens: tuple[Token, ...]) -> bool:
    return " AS OF " in text


def names_of(text: str) -> frozenset[str] | None:
    return None if "unmade" in text else frozenset({"id", "k", "ts", "total", "o", "r"})


def turned(script: str) -> str:
    assert is_script(tokenize(script))
    turns = at_its_turn(script, tokenize(script), is_ours, names_of)
    refuse_stale(script, turns)
    return turns.text


@pytest.mark.parametrize(
    "frame",
    [
        "BEGIN {}; END",
        "BEGIN INSERT INTO r VALUES (1); {}; END",
        "BEGIN DECLARE x INT DEFAULT 1; IF x > 0 THEN {}; ELSE {}; END IF; END",
        "BEGIN a: LOOP {}; LEAVE a; END LOOP a; END",
        "BEGIN FOR row AS SELECT 1 AS n DO {}; END FOR; END",
        "BEGIN BEGIN {}; END; SELECT CASE WHEN true THEN 1 ELSE 2 END; END",
        "BEGIN REPEAT {}; UNTIL true END REPEAT; {} ; END",
        "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN {}; END; SELECT 1; END",
    ],
)
def test_a_statement_is_compiled_when_it_is_its_turn(frame: str) -> None:
    assert turned(frame.replace("{}", Q)) == frame.replace("{}", EXECUTED)


def test_a_whole_statement_moves_and_its_quotes_with_it() -> None:
    found = turned(f"BEGIN CREATE OR REPLACE TEMP VIEW v AS {Q} AND o.s = 'a\\b'; SELECT * FROM v; END")
    assert found == (
        f"BEGIN EXECUTE IMMEDIATE 'CREATE OR REPLACE TEMP VIEW v AS {Q} AND o.s = \\'a\\\\b\\''; SELECT * FROM v; END"
    )


def test_the_time_of_a_read_is_no_variable() -> None:
    other = "SELECT system_time FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts ON o.k = r.k"
    assert f"EXECUTE IMMEDIATE '{other}'" in turned(f"BEGIN INSERT INTO r VALUES (1); {other}; {Q}; END")


@pytest.mark.parametrize(
    ("written", "handed", "using"),
    [
        ("{Q} AND o.id > x", "{Q} AND o.id > :x", "`x` AS x"),
        ("{Q} WHERE X IN (1, x, `x`)", "{Q} WHERE :x IN (1, :x, :x)", "`x` AS x"),
        (
            "SELECT x, f(1, x, 2), (SELECT x FROM r) FROM ({Q})",
            "SELECT :x AS `x`, f(1, :x, 2), (SELECT :x AS `x` FROM r) FROM ({Q})",
            "`x` AS x",
        ),
        ("INSERT INTO t (x, y) {Q} AND o.id > x", "INSERT INTO t (x, y) {Q} AND o.id > :x", "`x` AS x"),
        (
            "{Q} AND o.id > (SELECT max(id) OVER (ORDER BY id) FROM r WHERE id > x) ORDER BY id",
            "{Q} AND o.id > (SELECT max(id) OVER (ORDER BY id) FROM r WHERE id > :x) ORDER BY id",
            "`x` AS x",
        ),
        ("{Q} AND o.id BETWEEN x AND y", "{Q} AND o.id BETWEEN :x AND :y", "`x` AS x, `y` AS y"),
        ("{Q} AND o.id = row.n AND o.x > 1", "{Q} AND o.id = :row_n AND o.x > 1", "`row`.`n` AS row_n"),
    ],
)
def test_variables_of_the_script_are_handed_over(written: str, handed: str, using: str) -> None:
    frame = "BEGIN DECLARE x, y INT; DROP TABLE t; FOR row AS SELECT 1 AS n DO {}; END FOR; END"
    found = turned(frame.replace("{}", written.replace("{Q}", Q)))
    assert found == frame.replace("{}", f"EXECUTE IMMEDIATE '{handed.replace('{Q}', Q)}' USING {using}")


@pytest.mark.parametrize(
    ("script", "at"),
    [
        (f"BEGIN DECLARE total INT; INSERT INTO r VALUES (1); {Q} WHERE o.id > total; END", "total; END"),
        (f"BEGIN DECLARE VARIABLE a, total INT; {Q} WHERE o.id > total; DROP TABLE r; END", "total; DROP"),
        (f"BEGIN DECLARE x INT; DROP TABLE r; SELECT max(id) x FROM ({Q}) GROUP BY x; END", "x FROM"),
        (f"BEGIN DECLARE x INT; DROP TABLE r; SELECT id AS x FROM ({Q}); END", "x FROM"),
        (f"BEGIN DECLARE x INT; DROP TABLE r; {Q} JOIN unmade WHERE o.id > x; END", "x; END"),
        (f"BEGIN DECLARE x INT; DROP TABLE r; {Q} ORDER BY o.id, x; END", "x; END"),
        (f"BEGIN DECLARE x INT; DROP TABLE r; SELECT explode(ids) AS (x) FROM ({Q}); END", "x) FROM"),
        (f"BEGIN DECLARE x INT; MERGE INTO r USING ({Q}) ON r.id = x WHEN MATCHED THEN DELETE; END", "x WHEN"),
        (f"BEGIN FOR o AS SELECT 1 AS id DO INSERT INTO r {Q} AND o.id = 1; END FOR; END", "o.id FROM"),
        (f"BEGIN FOR row AS {Q} DO INSERT INTO t VALUES (row.id); END FOR; END", "BEGIN FOR row AS"),
        (f"BEGIN INSERT INTO r VALUES (1); IF EXISTS ({Q}) THEN SELECT 1; END IF; END", "IF EXISTS"),
        (f"BEGIN DECLARE n INT; TRUNCATE TABLE r; SET n = (SELECT max(id) FROM ({Q})); END", "SET n"),
    ],
)
def test_one_that_cannot_move_is_refused_where_the_script_changes_tables(script: str, at: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        turned(script)
    assert refused.value.condition == "UNSUPPORTED.SCRIPT"
    assert "EXECUTE IMMEDIATE" in str(refused.value)
    assert refused.value.span is not None
    assert script[refused.value.span[0] :].startswith(at)


@pytest.mark.parametrize(
    "script",
    [
        f"BEGIN DECLARE total INT DEFAULT 1; {Q} WHERE o.id > total; END",
        f"BEGIN IF EXISTS ({Q}) THEN SELECT 1; END IF; END",
        "BEGIN INSERT INTO r VALUES (1); SELECT x FROM r; END",
    ],
)
def test_one_that_changes_nothing_stays_as_it_is(script: str) -> None:
    assert turned(script) == script
