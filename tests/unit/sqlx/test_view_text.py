"""The query of a view means in another database what it means in its own."""

from __future__ import annotations

from typing import Any, cast

import pytest

from catalog.spark import SparkCatalog
from sqlx.spark.view_text import shows_definitions, view_text
from udtf.engine.engine import Relation


class FakeCatalog:
    """One view `v`, a definition `s`, and a temporary view `passing` of today."""

    def __init__(self, view: Relation, here: tuple[str, str]) -> None:
        self.given, self.here = view, here

    def view(self, parts: tuple[str, ...]) -> Relation | None:
        return self.given if parts[-1] == "v" else None

    def resolve(self, parts: tuple[str, ...]) -> object:
        return self if parts[-1] == "s" else None

    def current_catalog(self) -> str:
        return self.here[0]

    def current_database(self) -> str:
        return self.here[1]

    def is_temporary(self, parts: tuple[str, ...]) -> bool:
        return parts == ("passing",)


def read(text: str, here: tuple[str, str] = ("spark_catalog", "default"), **facts: Any) -> str | None:
    view = Relation(False, True, text, {}, facts.get("namespace", ("spark_catalog", "db")), facts.get("temporary"))
    return view_text(cast("SparkCatalog", FakeCatalog(view, here)), ("v",))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("SELECT * FROM t AS x WHERE k IN (SELECT k FROM u)",
         "SELECT * FROM {db}t AS x WHERE k IN (SELECT k FROM {db}u)"),
        ("WITH t AS (SELECT * FROM u) SELECT t.* FROM t", "WITH t AS (SELECT * FROM {db}u) SELECT t.* FROM t"),
        ("SELECT * FROM other.t JOIN `a b` AS OF ts ON true", "SELECT * FROM other.t JOIN {db}`a b` AS OF ts ON true"),
        ("SELECT * FROM history(t)", "SELECT * FROM history({db}t)"),
        ("SELECT * FROM f(TABLE(t) PARTITION BY k)", "SELECT * FROM f(TABLE({db}t) PARTITION BY k)"),
        ("SELECT * FROM parquet.`/data/t`", "SELECT * FROM parquet.`/data/t`"),
        ("SELECT * FROM IDENTIFIER('t') AS x, IDENTIFIER(f('t'))",
         "SELECT * FROM {db}`t` AS x, IDENTIFIER(f('t'))"),
        ("SELECT * FROM passing, t", "SELECT * FROM passing, {db}t"),
        ("SELECT * FROM s DEDUPLICATE WITHIN INTERVAL '1' DAY BY (k)",
         "SELECT * FROM {db}s DEDUPLICATE WITHIN INTERVAL '1' DAY BY (k)"),
        ("SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
         "SELECT * FROM TUMBLE(TABLE {db}t, DESCRIPTOR(ts), INTERVAL '1' HOUR)"),
    ],
)  # fmt: skip
def test_names_without_a_database_have_that_of_the_view(written: str, meant: str) -> None:
    assert read(written) == meant.format(db="`db`.")
    assert read(written, ("spark_catalog", "db")) == written, "they mean that already"
    assert read(written, namespace=()) == written, "nobody knows"


def test_another_current_catalog_is_named_around() -> None:
    read_there = read("SELECT * FROM t, db.u, a.b.c, parquet.`/data/t`", ("lake", "default"))
    assert read_there == "SELECT * FROM `spark_catalog`.`db`.t, `spark_catalog`.db.u, a.b.c, parquet.`/data/t`"
    assert read("SELECT * FROM t", namespace=("lake", "a", "b")) == "SELECT * FROM `lake`.`a`.`b`.t"


def test_temporary_views_are_those_that_were_there_where_that_is_known() -> None:
    text = "SELECT * FROM passing, once"
    assert read(text, temporary=frozenset({"once"})) == "SELECT * FROM `db`.passing, once"


@pytest.mark.parametrize(("text", "expected"), [("SELECT * FROM s", True), ("SELECT * FROM t", False), ("'", False)])
def test_a_view_over_definitions_is_known_by_its_text(text: str, expected: bool) -> None:
    catalog = cast("SparkCatalog", FakeCatalog(Relation(False, True, text), ("spark_catalog", "default")))
    assert shows_definitions(catalog, ("v",)) is expected
    assert not shows_definitions(catalog, ("s",))
    assert not shows_definitions(catalog, ("nothing",))
