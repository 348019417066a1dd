from __future__ import annotations

import time
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.errors import TemporalParseError
from sqlx.sql.parser import scan
from sqlx.sql.structure import FromItem, Join, Level, Relation
from sqlx.sql.tokens import LexicalError, tokenize

JOIN = "orders o JOIN rates r AS OF o.ts ON o.k = r.k"
QUERY = f"SELECT o.id FROM {JOIN}"


def as_of_joins(text: str) -> list[Join]:
    """All AS OF joins of a statement, groups in parentheses included."""

    def of_item(item: FromItem) -> list[Join]:
        relations = [item.relation, *(j.relation for j in item.joins)]
        inside = [j for r in relations if r.group is not None for j in of_item(r.group)]
        return [*inside, *(j for j in item.joins if j.as_of is not None)]

    return [j for level in scan(text).walk() for b in level.blocks for item in b.items for j in of_item(item)]


PLACES = {
    "alone": "{q}",
    "semicolon": "{q};",
    "cte": "WITH c AS ({q}) SELECT * FROM c",
    "cte with columns": "WITH c (a) AS ({q}), d AS (SELECT 1) SELECT * FROM c, d",
    "nested cte": "WITH c AS (WITH d AS ({q}) SELECT * FROM d) SELECT * FROM c",
    "recursive cte": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t), c AS ({q}) SELECT * FROM c",
    "derived table": "SELECT * FROM ({q}) x",
    "twice in parentheses": "SELECT * FROM (({q})) x",
    "exists": "SELECT * FROM a WHERE EXISTS ({q})",
    "in": "SELECT * FROM a WHERE id IN ({q})",
    "scalar": "SELECT ({q}) AS s FROM a",
    "in a condition": "SELECT * FROM a JOIN b ON a.id = ({q})",
    "lateral": "SELECT * FROM a, LATERAL ({q}) l",
    "union": "SELECT 1 UNION ALL {q} ORDER BY 1",
    "set operations": "({q}) EXCEPT (SELECT 1) INTERSECT SELECT 2 MINUS SELECT 3",
    "values": "SELECT * FROM VALUES (1, 'x'), (2, ({q})) AS t(a, b)",
    "insert": "INSERT INTO TABLE t PARTITION (d = 1) {q}",
    "insert columns": "INSERT INTO t (id) {q}",
    "insert overwrite": "INSERT OVERWRITE t {q}",
    "ctas": "CREATE OR REPLACE TABLE t USING parquet OPTIONS (a 'b') PARTITIONED BY (id) COMMENT 'as of' AS {q}",
    "view": "CREATE OR REPLACE VIEW v (a COMMENT 'x') AS {q}",
    "temporary view": "CREATE TEMPORARY VIEW v AS {q}",
    "cache": "CACHE LAZY TABLE t OPTIONS ('a' = 'b') AS {q}",
    "explain": "EXPLAIN EXTENDED {q}",
    "explain temporal": "EXPLAIN TEMPORAL {q}",
    "merge": "MERGE INTO t USING ({q}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "update": "UPDATE t SET a = ({q})",
    "delete": "DELETE FROM t WHERE id IN ({q})",
    "cte before insert": "WITH c AS ({q}) INSERT INTO t SELECT * FROM c",
    "pipe": "FROM ({q}) |> WHERE id > 1 |> SELECT id",
    "pipe set operation": "FROM t |> UNION ALL ({q}) |> LIMIT 3",
    "hint": "/*+ BROADCAST(r) */ {q} /* AS OF */ -- AS OF",
}


@pytest.mark.parametrize("place", PLACES)
def test_the_join_is_found_wherever_a_query_may_stand(place: str) -> None:
    (join,) = as_of_joins(PLACES[place].format(q=QUERY))
    text = PLACES[place].format(q=QUERY)
    assert join.span.of(text) == "JOIN rates r AS OF o.ts ON o.k = r.k"


FROMS = {
    "first": "{j} JOIN items i ON o.k = i.k",
    "after using": "a JOIN b USING (k) JOIN rates r AS OF o.ts ON o.k = r.k",
    "after natural": "a NATURAL LEFT OUTER JOIN b JOIN rates r AS OF o.ts ON o.k = r.k",
    "after cross": "a CROSS JOIN b JOIN rates r AS OF o.ts ON o.k = r.k",
    "after semi": "a LEFT SEMI JOIN b ON a.k = b.k JOIN rates r AS OF o.ts ON o.k = r.k",
    "after a join without condition": "a JOIN b JOIN rates r AS OF o.ts ON o.k = r.k",
    "before using": "{j} JOIN items i USING (k)",
    "comma before": "a, {j}",
    "comma after": "{j}, a",
    "lateral after": "{j}, LATERAL (SELECT r.rate + 1 AS x) l",
    "lateral before": "orders o, LATERAL (SELECT 1 AS x) l JOIN rates r AS OF o.ts ON o.k = r.k",
    "lateral view": "{j} LATERAL VIEW OUTER explode(xs) t AS x",
    "group": "({j})",
    "group with alias": "({j}) AS g",
    "group on the right": "items i JOIN ({j}) ON i.k = o.k",
    "pivot": "orders PIVOT (sum(n) FOR id IN (1, 2)) AS o JOIN rates r AS OF o.ts ON o.k = r.k",
    "unpivot": "t UNPIVOT INCLUDE NULLS (v FOR n IN (a, b)) AS o JOIN rates r AS OF o.ts ON o.k = r.k",
    "sample": "orders TABLESAMPLE (10 PERCENT) REPEATABLE (3) o JOIN rates r AS OF o.ts ON o.k = r.k",
    "options": "orders WITH ('a' = 'b') AS o JOIN rates r AS OF o.ts ON o.k = r.k",
    "time travel": "orders VERSION AS OF 3 o JOIN rates r AS OF o.ts ON o.k = r.k",
    "watermark": "STREAM(clicks) WATERMARK ts DELAY OF INTERVAL 1 HOUR o JOIN rates r AS OF o.ts ON o.k = r.k",
    "function": "range(1, (SELECT max(id) FROM t)) o JOIN rates r AS OF o.ts ON o.k = r.k",
    "values": "VALUES (1, 'a'), (2, 'b') AS o (ts, k) JOIN rates r AS OF o.ts ON o.k = r.k",
    "comments": "orders o JOIN /* a */ rates r -- AS OF no\n AS /* AS OF */ OF o.ts ON o.k = r.k",
    "any case": "orders o jOiN rates r aS oF o.ts oN o.k = r.k",
    "windows": "orders o\r\n  JOIN rates r\r\n  AS OF o.ts\r\n  ON o.k = r.k\r\n",
}


@pytest.mark.parametrize("place", FROMS)
@pytest.mark.parametrize(
    "tail", ["", " WHERE r.rate > 1 GROUP BY o.k HAVING count(*) > 1 ORDER BY 1 LIMIT 3", " WINDOW w AS (ORDER BY 1)"]
)
def test_the_join_is_found_among_whatever_a_from_clause_holds(place: str, tail: str) -> None:
    (join,) = as_of_joins(f"SELECT * FROM {FROMS[place].format(j=JOIN)}{tail}")
    assert join.relation.parts == ("rates",)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 AS of FROM a",
        "SELECT * FROM a AS of JOIN b ON of.k = b.k",
        "SELECT * FROM a JOIN b AS of ON a.k = of.k",
        "SELECT * FROM a JOIN b AS OF WHERE a.k = of.k",
        "SELECT * FROM a AS of, b",
        "SELECT * FROM a AS `asof` JOIN b ON 1 = 1",
        "SELECT * FROM a AS asof JOIN b ON 1 = 1",
        "SELECT asof.x FROM a asof JOIN b ON asof.k = b.k",
        "SELECT * FROM a TIMESTAMP AS OF '2020-01-01' JOIN b VERSION AS OF 3 ON a.k = b.k",
        "SELECT * FROM a JOIN b FOR SYSTEM_TIME AS OF TIMESTAMP '2020-01-01' ON a.k = b.k",
        "SELECT * FROM a JOIN b FOR SYSTEM_TIME AS OF current_timestamp() - INTERVAL 1 DAY ON a.k = b.k",
        "SELECT 'JOIN r AS OF o.ts', `AS OF` FROM a -- JOIN r AS OF o.ts",
        "SELECT emit, grace, ties FROM a emit JOIN b grace ON 1 = 1 JOIN c ties ON 1 = 1",
    ],
)
def test_what_is_spark_s_is_no_join_of_ours(text: str) -> None:
    assert as_of_joins(text) == []


def test_asof_as_a_qualifier_counts_in_its_own_query_only() -> None:
    text = (
        "SELECT * FROM (SELECT asof.x FROM a asof JOIN b ON asof.k = b.k) x, c ASOF JOIN d ON c.k = d.k AND c.t > d.t"
    )
    (join,) = as_of_joins(text)
    assert join.relation.parts == ("d",)


@pytest.mark.parametrize(
    ("text", "ours"),
    [("", ["a"]), ("SELECT * FROM b", ["b"]), ("WITH a AS (SELECT 2) SELECT * FROM a", ["a", "a"])],
)
def test_a_name_sees_the_common_table_expressions_around_it(text: str, ours: list[str]) -> None:
    inner = f"({text}) x" if text else "a"
    level = scan(f"WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM {inner}")
    innermost = level.children[-1] if text else level
    names = [c.name for c in innermost.visible_ctes()]
    assert set(ours) <= set(names)
    assert [c.name for c in level.ctes[0].query.visible_ctes()] == []
    assert [c.name for c in level.ctes[1].query.visible_ctes()] == ["a"]


def test_a_hive_from_and_a_pipe_end_at_a_set_operation() -> None:
    level = scan("FROM a SELECT x UNION ALL FROM b |> UNION ALL TABLE c |> SELECT y UNION SELECT z FROM d")
    assert [b.items[0].relation.parts[0] for b in level.blocks] == ["a", "b", "d"]


def test_column_lists_of_aliases_and_common_table_expressions_are_read() -> None:
    level = scan("WITH c (x, `y z`) AS (SELECT 1, 2) SELECT * FROM c AS d (a, b) JOIN r AS OF d.a s (e) ON d.b = s.e")
    (item,) = level.blocks[-1].items
    assert [t.name for t in level.ctes[0].columns] == ["x", "y z"]
    assert [t.name for t in item.relation.columns] == ["a", "b"]
    assert [t.name for t in item.joins[0].relation.columns] == ["e"]


# properties

PIECES = [
    "SELECT", "FROM", "WITH", "c", "AS", "OF", "(", ")", ",", "JOIN", "LEFT", "ASOF", "ON", "USING", "a.k",
    "=", "b", "*", "WHERE", "UNION ALL", "EXCEPT", "LATERAL", "VALUES", "1", "'s'", "`q`", "INTERVAL",
    "'1' DAY", "TOLERANCE", "DIRECTION", "NEAREST", "TIES BY", "KNOWN AS OF", "WITH REASON", "LATE TO",
    "GRACE PERIOD", "MATCH_CONDITION", ">=", "AND", "CASE", "WHEN", "END", "FOR SYSTEM_TIME AS OF",
    "TABLESAMPLE", "PIVOT", "STREAM", "|>", ";", "[", "]", "{", "}", ".", "::", "NOT", "IS", "DISTINCT",
    "INSERT INTO", "CREATE VIEW v AS", "RECURSIVE", "WATERMARK", "DELAY OF", "REPEATABLE", "-", "?", ":p",
]  # fmt: skip
QUERIES = [q.format(q=QUERY) for q in PLACES.values()]
FULL = (
    "WITH c (a, b) AS (SELECT k, rate FROM rates) SELECT o.id FROM orders o LEFT JOIN c r AS OF"
    " CASE WHEN o.n > 1 THEN o.ts ELSE o.ts + INTERVAL '1' DAY END EXCLUSIVE"
    " TOLERANCE INTERVAL '1 02' DAY TO HOUR ON o.k = r.a AND r.b > 1"
    " DIRECTION NEAREST GRACE PERIOD INTERVAL 1 HOUR TIES BY r.b DESC NULLS LAST KNOWN AS OF o.ts WITH REASON AS why"
    " LATE TO db.late JOIN items TABLESAMPLE (1 ROWS) REPEATABLE (3) i USING (k) ASOF LEFT JOIN q MATCH_CONDITION"
    " (o.ts >= q.ts) ON o.k = q.k, VALUES (1), (2) AS v (x) PIVOT (sum(n) FOR k IN ('a')) AS p WHERE EXISTS (SELECT 1)"
)


def check(text: str) -> None:
    """The scanner reads a text or refuses it in our words; what it reads nests."""
    try:
        level = scan(text)
    except (TemporalParseError, LexicalError):
        return
    for inner in level.walk():
        assert inner.parent is None or within(inner, inner.parent)
        for block in inner.blocks:
            assert inner.span.start <= block.span.start <= block.span.end <= inner.span.end
            for item in block.items:
                check_item(item, text)


def within(inner: Level, outer: Level) -> bool:
    return outer.span.start <= inner.span.start <= inner.span.end <= outer.span.end


def check_item(item: FromItem, text: str) -> None:
    relations: list[tuple[Relation, Join | None]] = [(item.relation, None), *((j.relation, j) for j in item.joins)]
    for relation, join in relations:
        assert 0 <= relation.span.start <= relation.body.start <= relation.body.end <= len(text)
        if join is not None:
            assert join.span.start <= relation.span.start <= relation.span.end <= join.span.end
            for span in (join.on, join.as_of and join.as_of.time, join.as_of and join.as_of.known):
                assert span is None or join.span.start <= span.start < span.end <= join.span.end or not span.of(text)
    starts = [join.span.start for _, join in relations if join is not None]
    assert starts == sorted(starts)


@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    check(" ".join(words))
    check("SELECT * FROM a " + " ".join(words))


@given(st.sampled_from([*QUERIES, FULL]), st.data())
def test_any_change_of_a_statement_is_read_or_refused(text: str, data: st.DataObject) -> None:
    words = [t.text for t in tokenize(text)]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(st.sampled_from(PIECES), max_size=2))
        words = words or [""]
    check(" ".join(words))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    check(text)


def test_a_statement_cut_anywhere_is_read_or_refused() -> None:
    for token in tokenize(FULL):
        for text in (FULL[: token.start], FULL[: token.end], f"SELECT * FROM ({FULL[: token.end]}) x"):
            check(text)


# size


def best_of_three(text: str) -> float:
    """Seconds of processor time, which another program on the machine does not lengthen."""
    seconds = []
    for n in range(3):
        start = time.process_time()
        scan(text + " " * n)  # not from a cache
        seconds.append(time.process_time() - start)
    return min(seconds)


def statement(length: int) -> str:
    conditions = "".join(chain.from_iterable(repeat(" AND r.rate > 1 + abs(o.n)", length // 26)))
    return f"{QUERY} WHERE true{conditions}"


def test_a_statement_of_2000_characters_is_read_within_50_milliseconds() -> None:
    assert best_of_three(statement(2_000)) < 0.05


def test_time_grows_with_the_length_of_a_statement_and_no_faster() -> None:
    assert best_of_three(statement(40_000)) < 12 * best_of_three(statement(10_000)) + 0.05


def test_joins_by_the_hundred_and_parentheses_by_the_dozen() -> None:
    many = "SELECT * FROM orders o" + "".join(f" JOIN rates r{n} AS OF o.ts ON o.k = r{n}.k" for n in range(200))
    assert len(as_of_joins(many)) == 200
    deep = "SELECT * FROM (" * 40 + QUERY + ") x" * 40
    assert len(as_of_joins(deep)) == 1
    assert best_of_three("SELECT " + "(" * 60 + "1" + ")" * 60) < 1
