from __future__ import annotations

import pytest

from catalog.definitions import Definition, Drop, Show
from catalog.entries import Column
from sqlx.sql.definitions import parse_definition
from sqlx.sql.tokens import LexicalError

DAY_US = 86_400_000_000


def definition(text: str) -> Definition:
    parsed = parse_definition(text)
    assert isinstance(parsed, Definition)
    return parsed


def test_columns_keep_their_types_as_written() -> None:
    parsed = definition(
        "create stream s (id INT, `a b` map<string, array<struct<x: int, y: decimal(10,2)>>>, ts TIMESTAMP)"
        " TIMESTAMP BY ts"
    )
    assert parsed.columns == (
        Column("id", "INT"),
        Column("a b", "map<string, array<struct<x: int, y: decimal(10,2)>>>"),
        Column("ts", "TIMESTAMP"),
    )
    assert parsed.is_pushed


def test_clauses_come_in_any_order() -> None:
    clauses = [
        "FROM STREAM db.t AS x",
        "KEYS (a, `b c`)",
        "TIMESTAMP BY x.ts",
        "SEQUENCE BY coalesce(seq, 0) + 1",
        "APPLY AS DELETE WHEN op = 'd' AND x IS NOT NULL",
        "HISTORY RETENTION INTERVAL 7 DAYS",
        "LATE TO late.t",
        "TBLPROPERTIES ('max_future' = '1 day', a.b = 5, 'c' = 'it''s')",
    ]
    head = "CREATE OR REPLACE VERSIONED TABLE db.r "
    forward, backward = definition(head + " ".join(clauses)), definition(head + "\n".join(clauses[::-1]) + " ;")
    for parsed in (forward, backward):
        assert (parsed.kind, parsed.name, parsed.replace) == ("versioned", ("db", "r"), True)
        assert (parsed.relation, parsed.relation_parts, parsed.alias) == ("db.t", ("db", "t"), "x")
        assert parsed.from_stream
        assert parsed.keys == ("a", "b c")
        assert (parsed.timestamp_by, parsed.sequence_by) == ("x.ts", "coalesce(seq, 0) + 1")
        assert parsed.delete_when == "op = 'd' AND x IS NOT NULL"
        assert (parsed.retention_us, parsed.late_to, parsed.max_future_us) == (7 * DAY_US, "late.t", DAY_US)
        assert parsed.properties == (("a.b", "5"), ("c", "it's"))


def test_spans_point_into_the_statement() -> None:
    text = "CREATE VERSIONED TABLE r FROM t KEYS (a, b) TIMESTAMP BY ts -- when\n HISTORY RETENTION INTERVAL 1 DAY"
    parsed = definition(text)
    shown = {clause: text[slice(*parsed.span(clause))] for clause in ("NAME", "KEYS b", "TIMESTAMP BY", "RELATION")}
    assert shown == {"NAME": "r", "KEYS b": "b", "TIMESTAMP BY": "TIMESTAMP BY ts", "RELATION": "t"}
    assert parsed.span("SEQUENCE BY") == parsed.span("NAME")


@pytest.mark.parametrize(
    ("source", "relation", "parts", "alias"),
    [
        ("FROM t", "t", ("t",), ""),
        ("FROM STREAM t", "t", ("t",), ""),
        ("FROM stream", "stream", ("stream",), ""),
        ("FROM scd2", "scd2", ("scd2",), ""),
        ("FROM parquet.`/data/x`", "parquet.`/data/x`", ("parquet", "/data/x"), ""),
        ("FROM range(10) AS r", "range(10)", (), "r"),
        ("FROM (SELECT 1 AS id) AS q", "(SELECT 1 AS id)", (), "q"),
        ("FROM (VALUES (1, 2)) AS q(a, b)", "(SELECT * FROM (VALUES (1, 2)) AS q(a, b))", (), "q"),
    ],
)
def test_relations_behind_from(source: str, relation: str, parts: tuple[str, ...], alias: str) -> None:
    parsed = definition(f"CREATE STREAM s {source} TIMESTAMP BY ts")
    assert (parsed.relation, parsed.relation_parts, parsed.alias) == (relation, parts, alias)


def test_the_query_is_all_that_stands_behind_as() -> None:
    query = "WITH a AS (SELECT 1) SELECT *, ';' AS x -- why\nFROM STREAM t JOIN r AS OF t.ts ON t.k = r.k"
    assert definition(f"CREATE UPSERT TABLE u KEYS (id) TIMESTAMP BY ts AS {query};").query == query


def test_scd2_takes_its_time_from_valid() -> None:
    parsed = definition("CREATE VERSIONED TABLE v FROM SCD2 TABLE db.dim KEYS (id) VALID (`from`, until)")
    assert (parsed.relation, parsed.valid, parsed.timestamp_by) == ("db.dim", ("from", "until"), "`from`")


def test_using_with_options() -> None:
    parsed = definition("CREATE STREAM s USING org.x.Source OPTIONS (path '/x', a.b = -1, 'c' true) TIMESTAMP BY ts")
    assert parsed.using == "org.x.Source"
    assert parsed.options == (("path", "/x"), ("a.b", "-1"), ("c", "true"))


@pytest.mark.parametrize("column", ["valid", "keys", "late", "sequence", "history", "from_time", "`timestamp by`"])
def test_columns_may_be_called_like_clauses(column: str) -> None:
    assert definition(f"CREATE STREAM s FROM t TIMESTAMP BY {column} SEQUENCE BY x").timestamp_by == column


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP STREAM s", ("stream", ("s",), False)),
        ("DROP VERSIONED TABLE IF EXISTS `my db`.r;", ("versioned", ("my db", "r"), True)),
        ("drop upsert table u", ("upsert", ("u",), False)),
    ],
)
def test_drops(text: str, expected: tuple[object, ...]) -> None:
    parsed = parse_definition(text)
    assert isinstance(parsed, Drop)
    assert (parsed.kind, parsed.name, parsed.if_exists) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SHOW STREAMS", "stream"),
        ("-- all\nshow /* of */ versioned\ttables ;", "versioned"),
        ("SHOW UPSERT TABLES", "upsert"),
    ],
)
def test_shows(text: str, kind: str) -> None:
    assert parse_definition(text) == Show(kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT * FROM STREAM orders",
        "CREATE TABLE stream (id INT)",
        "CREATE VIEW versioned AS SELECT 1",
        "CREATE STREAMING TABLE t AS SELECT 1",
        "CREATE OR REPLACE STREAMING TABLE t AS SELECT * FROM STREAM s",
        "DROP TABLE stream",
        "DROP VIEW upsert",
        "SHOW STREAMING QUERIES",
        "SHOW TABLES LIKE 'streams'",
        "INSERT INTO versioned VALUES (1)",
    ],
)
def test_other_statements_are_not_ours(text: str) -> None:
    assert parse_definition(text) is None


def test_an_open_string_is_for_spark_to_refuse() -> None:
    with pytest.raises(LexicalError):
        parse_definition("CREATE STREAM s USING csv OPTIONS (path 'x) TIMESTAMP BY ts")
