from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlx.errors import TemporalParseError
from sqlx.sessions.statements import may_be_ours
from sqlx.sql.parser import scan
from sqlx.sql.structure import FromItem, Join
from sqlx.sql.tokens import LexicalError
from tests.corpus import ACCEPTED, REFUSED, statements


def joins(item: FromItem) -> Iterator[Join]:
    """The joins of a FROM item, those in its parentheses too."""
    for relation in [item.relation, *(join.relation for join in item.joins)]:
        if relation.group is not None:
            yield from joins(relation.group)
    yield from item.joins


def as_of_joins(text: str) -> list[Join]:
    items = [item for level in scan(text).walk() for block in level.blocks for item in block.items]
    return [join for item in items for join in joins(item) if join.as_of is not None]


@pytest.mark.parametrize("name", ["tpch", "tpcds"])
def test_benchmark_queries_pay_nothing_for_us(name: str) -> None:
    assert [text for text in statements(name) if may_be_ours(text)] == []


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_structure_of_plain_spark_sql_can_be_read_and_holds_no_as_of_join(name: str) -> None:
    assert [text for text in statements(name) if as_of_joins(text)] == []


def test_what_spark_refuses_is_read_or_refused_with_a_place() -> None:
    for text in statements(REFUSED):
        with contextlib.suppress(LexicalError, TemporalParseError):
            assert as_of_joins(text) == []


def test_the_finder_of_as_of_joins_does_find_them() -> None:
    assert len(as_of_joins("SELECT * FROM (a JOIN r AS OF a.ts ON a.k = r.k) JOIN b ON a.k = b.k")) == 1
    assert len(as_of_joins("SELECT * FROM a ASOF JOIN r MATCH_CONDITION (a.ts >= r.ts) ON a.k = r.k")) == 1


def test_readme_counts_the_statements() -> None:
    readme = Path(__file__).parents[2].joinpath("corpus/README.md").read_text(encoding="utf-8")
    counted = dict(re.findall(r"^\| `(\w+)\.sql` \| (\d+) \|", readme, re.MULTILINE))
    assert counted == {name: str(len(statements(name))) for name in (*ACCEPTED, REFUSED)}
