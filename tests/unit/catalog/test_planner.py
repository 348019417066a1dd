"""Which plain Spark statements implement a statement about definitions."""

from __future__ import annotations

import pytest

from catalog import MemoryCatalog
from catalog.definitions import Definition, Drop
from catalog.entries import Column, Entry
from catalog.planner import Planner
from catalog.statements import NOTHING, Lowered, from_comment, from_properties, show_query, to_properties, with_comment
from sqlx.sql.definitions import parse_definition
from tests.unit.catalog.fake_session import FakeSession

LOG = "`spark_catalog`.`default`.`rates__log`"
ENTRY = Entry(
    "versioned",
    "rates",
    (Column("id", "int"), Column("a b", "struct<`x y`:string>")),
    "`spark_catalog`.`default`.`rates__log`",
    "to_timestamp(it)",
    keys=("id", "a`b"),
    sequence_by="seq",
    delete_when="op = 'it''s -> \\\\'",
    retention_us=7,
    late_to="late",
    max_future_us=8,
    properties=(("owner", "me"),),
    alias="r",
    from_stream=True,
    arrival=("_metadata.file_path",),
)


def lower(text: str, session: FakeSession | None = None) -> Lowered:
    planner = Planner(session or FakeSession())
    statement = parse_definition(text)
    if isinstance(statement, Drop):
        return planner.drop(statement)
    assert isinstance(statement, Definition)
    return planner.create(statement)


def entry_of(lowered: Lowered) -> Entry:
    """The entry that a temporary view carries."""
    entry = from_comment(lowered.final)
    assert entry is not None
    return entry


def test_columns_only_makes_a_log_first() -> None:
    lowered = lower("CREATE VERSIONED TABLE rates (id INT, ts TIMESTAMP) KEYS (ID) TIMESTAMP BY ts")
    assert lowered.prepare == [
        f"CREATE TABLE {LOG} (`id` int, `ts` timestamp) USING parquet TBLPROPERTIES ('sqlx.of' = 'rates')"
    ]
    assert lowered.final.startswith(
        "CREATE VIEW `spark_catalog`.`default`.`rates` TBLPROPERTIES ('sqlx.format' = '1', "
    )
    assert "'sqlx.keys' = '[\"id\"]'" in lowered.final
    assert " AS SELECT `id`, `ts` FROM (" in lowered.final


def test_from_a_name_makes_nothing_else_and_qualifies_it() -> None:
    lowered = lower("CREATE TEMPORARY STREAM s FROM db.t TIMESTAMP BY t.ts")
    assert lowered.prepare == []
    assert entry_of(lowered).relation == "`spark_catalog`.`db`.`t`"
    assert entry_of(lowered).alias == "t"
    assert entry_of(lower("CREATE TEMPORARY STREAM s FROM passing TIMESTAMP BY ts")).relation == "`passing`"
    assert entry_of(lower("CREATE TEMPORARY STREAM s FROM csv.`/x` TIMESTAMP BY ts")).relation == "csv.`/x`"


@pytest.mark.parametrize(
    ("written", "kept"), [("refused", "default.refused"), ("`a b`", "default.`a b`"), ("db.refused", "db.refused")]
)
def test_the_table_of_refused_rows_is_meant_from_here(written: str, kept: str) -> None:
    table = "CREATE TEMPORARY VERSIONED TABLE rates FROM t KEYS (id) TIMESTAMP BY ts LATE TO"
    assert entry_of(lower(f"{table} {written}")).late_to == kept


def test_a_query_becomes_a_view_beside_it() -> None:
    lowered = lower("CREATE UPSERT TABLE db.u KEYS (id) TIMESTAMP BY ts AS SELECT * FROM t")
    source = "`spark_catalog`.`db`.`u__source`"
    assert lowered.prepare == ["CREATE VIEW `db`.`u__source` TBLPROPERTIES ('sqlx.of' = 'db.u') AS SELECT * FROM t"]
    assert f"FROM {source} AS `u`" in lowered.final


def test_using_is_checked_over_a_passing_view() -> None:
    session = FakeSession()
    lowered = lower("CREATE STREAM s USING csv OPTIONS (path '/x', header true) TIMESTAMP BY ts", session)
    assert lowered.prepare == [
        "CREATE TABLE `spark_catalog`.`default`.`s__source` USING `csv` OPTIONS ('path' '/x', 'header' 'true')"
        " TBLPROPERTIES ('sqlx.of' = 's')"
    ]
    assert len(session.closed) == 1


def test_if_exists_and_if_not_exists_do_nothing() -> None:
    session = FakeSession(ENTRY)
    exists = "CREATE VERSIONED TABLE IF NOT EXISTS rates FROM t KEYS (id) TIMESTAMP BY ts"
    assert lower(exists, session) == Lowered(NOTHING)
    assert lower("DROP STREAM IF EXISTS s", session) == Lowered(NOTHING)


def test_drop_leaves_a_table_that_is_not_ours() -> None:
    assert lower("DROP VERSIONED TABLE rates", FakeSession(ENTRY)) == Lowered("DROP VIEW `rates`", [])


def test_entries_survive_as_properties_and_as_a_comment() -> None:
    assert from_properties(to_properties(ENTRY)) == ENTRY
    assert from_comment(with_comment("SELECT 1", ENTRY)) == ENTRY
    assert from_comment("SELECT 1") is None
    assert from_properties({"sqlx.format": "99", "sqlx.kind": "stream"}) is None
    assert from_properties({"owner": "me"}) is None


def test_show_query_quotes_what_it_lists() -> None:
    assert show_query([]).endswith("WHERE false")
    assert "'0.000007 SECONDS'" not in show_query([ENTRY])
    assert "'7 MICROSECONDS'" in show_query([ENTRY])
    assert "'id, a`b'" in show_query([ENTRY])


def test_memory_catalog_replaces_only_when_told() -> None:
    catalog = MemoryCatalog([ENTRY])
    other = Entry("stream", "RATES", (), "", "ts")
    assert not catalog.define(other)
    assert catalog.resolve(("rates",)) == ENTRY
    assert catalog.define(other, replace=True)
    assert catalog.resolve("Rates") == other
    assert catalog.names() == ("RATES",)
    assert catalog.closest("ratse") == "RATES"
    assert catalog.closest("x") is None
    assert catalog.drop("rates")
    assert not catalog.drop("rates")


@pytest.mark.parametrize("temporary", ["", "TEMPORARY "])
def test_the_declared_columns_rename_and_cast_those_of_the_source(temporary: str) -> None:
    columns = "(a, b STRING, c, d, e, ts, g, h, i)"
    lowered = lower(f"CREATE {temporary}STREAM s {columns} FROM t TIMESTAMP BY ts")
    assert "SELECT `id` AS `a`, CAST(`name` AS STRING) AS `b`, `tags` AS `c`" in lowered.prepare[0]
