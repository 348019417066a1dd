from __future__ import annotations

import pytest

from sqlx.errors import TemporalParseError
from sqlx.sql.parser import scan
from sqlx.sql.structure import AsOfClause, Join


def join_of(text: str) -> Join:
    return scan(text).blocks[-1].items[-1].joins[-1]


def clause_of(text: str) -> AsOfClause:
    clause = join_of(text).as_of
    assert clause is not None
    return clause


SPELLINGS = {
    "JOIN r AS OF o.ts ON o.k = r.k": ("as_of", "AS OF", "o.ts", ""),
    "INNER JOIN r AS OF o.ts ON o.k = r.k": ("as_of", "AS OF", "o.ts", "INNER"),
    "LEFT OUTER JOIN r x AS OF o.ts ON o.k = x.k": ("as_of", "AS OF", "o.ts", "LEFT OUTER"),
    "LEFT JOIN r AS x AS OF o.ts ON o.k = x.k": ("as_of", "AS OF", "o.ts", "LEFT"),
    "JOIN r AS OF o.ts x ON o.k = x.k": ("as_of", "AS OF", "o.ts", ""),
    "JOIN r AS OF o.ts AS x ON o.k = x.k": ("as_of", "AS OF", "o.ts", ""),
    "JOIN r AS OF o.ts INCLUSIVE AS x USING (k)": ("as_of", "AS OF", "o.ts", ""),
    "JOIN r FOR SYSTEM_TIME AS OF o.ts x ON o.k = x.k": ("system_time", "FOR SYSTEM_TIME AS OF o.ts", "o.ts", ""),
    "LEFT JOIN r SYSTEM_TIME AS OF o.ts AS x USING (k)": ("system_time", "SYSTEM_TIME AS OF o.ts", "o.ts", "LEFT"),
    "JOIN r x FOR SYSTEM_TIME AS OF o.ts ON o.k = x.k": ("system_time", "FOR SYSTEM_TIME AS OF", "o.ts", ""),
    "LEFT JOIN r AS x FOR SYSTEM_TIME AS OF o.ts USING (k)": ("system_time", "FOR SYSTEM_TIME AS OF", "o.ts", "LEFT"),
    "ASOF JOIN r MATCH_CONDITION (o.ts >= r.ts)": ("match_condition", "ASOF JOIN", "o.ts >= r.ts", ""),
    "LEFT ASOF JOIN r AS x MATCH_CONDITION (o.ts >= x.ts) USING (k)":
        ("match_condition", "LEFT ASOF JOIN", "o.ts >= x.ts", "LEFT"),
    "ASOF LEFT JOIN r x MATCH_CONDITION ((o.ts) > x.ts) ON o.k = x.k":
        ("match_condition", "ASOF LEFT JOIN", "(o.ts) > x.ts", "LEFT"),
    "ASOF INNER JOIN r ON o.k = r.k AND o.ts >= r.ts": ("asof_alias", "ASOF INNER JOIN", None, "INNER"),
    "asof join r on o.k = r.k and o.ts >= r.ts": ("asof_alias", "asof join", None, ""),
}  # fmt: skip


@pytest.mark.parametrize("written", SPELLINGS)
def test_every_spelling_is_read_to_its_parts(written: str) -> None:
    text = f"SELECT * FROM o {written}"
    join, clause = join_of(text), clause_of(text)
    spelling, head, time, kind = SPELLINGS[written]
    assert (clause.spelling, clause.head.of(text), join.kind) == (spelling, head, kind)
    assert (clause.time.of(text) if clause.time else None) == time
    assert join.span.of(text) == written
    assert join.relation.parts == ("r",)
    assert join.relation.visible_name == ("x" if "x" in written.replace("EX", "") else "r")


OPTIONS = {
    "TOLERANCE INTERVAL 1 HOUR": ("TOLERANCE", "tolerance_us", 3_600_000_000),
    "TOLERANCE INTERVAL '1 02' DAY TO HOUR": ("TOLERANCE", "tolerance_us", 26 * 3_600_000_000),
    "DIRECTION BACKWARD": ("DIRECTION", "direction", "backward"),
    "direction nearest": ("DIRECTION", "direction", "nearest"),
    "GRACE PERIOD INTERVAL '5' MINUTES": ("GRACE PERIOD", "grace_us", 300_000_000),
    "IDLE TIMEOUT INTERVAL 5 SECONDS": ("IDLE TIMEOUT", "idle_us", 5_000_000),
    "GRACE INTERVAL 5 MINUTES": ("GRACE PERIOD", "grace_us", 300_000_000),
    "WITH REASON": ("WITH REASON", "reason", "match_reason"),
    "WITH REASON AS `why not`": ("WITH REASON", "reason", "why not"),
    "LATE TO db.`late rows`": ("LATE TO", "late_to", "db.`late rows`"),
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "place", ["{} ON o.k = r.k", "ON o.k = r.k {}", "USING (k) {} WHERE 1 = 1", "USING (k) {} JOIN b ON 1 = 1"]
)
@pytest.mark.parametrize(
    "join", ["r AS OF o.ts", "r FOR SYSTEM_TIME AS OF o.ts", "r FOR SYSTEM_TIME AS OF o.ts INCLUSIVE"]
)
def test_every_option_is_read_before_and_behind_the_condition(option: str, place: str, join: str) -> None:
    text = f"SELECT * FROM o JOIN {join} {place.format(option)}"
    clause = scan(text).blocks[0].items[0].joins[0].as_of
    assert clause is not None
    name, attribute, value = OPTIONS[option]
    assert getattr(clause, attribute) == value
    assert {name: span.of(text) for name, span in clause.options.items()} == {name: option}


def test_options_come_in_any_order_each_once() -> None:
    text = (
        "SELECT * FROM o JOIN r AS OF o.ts EXCLUSIVE KNOWN AS OF o.seen + INTERVAL 1 DAY ON o.k = r.k "
        "TIES BY r.a DESC NULLS LAST, abs(r.b), r.c ASC TOLERANCE INTERVAL 2 DAYS LATE TO l "
        "WITH REASON DIRECTION FORWARD"
    )
    clause = clause_of(text)
    assert clause.known is not None
    assert clause.known.of(text) == "o.seen + INTERVAL 1 DAY"
    assert [span.of(text) for span in clause.ties] == ["r.a DESC NULLS LAST", "abs(r.b)", "r.c ASC"]
    assert list(clause.options) == ["KNOWN AS OF", "TIES BY", "TOLERANCE", "LATE TO", "WITH REASON", "DIRECTION"]
    assert (clause.exclusive, clause.direction, clause.reason) == (True, "forward", "match_reason")


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_given_twice_is_refused_at_the_second(option: str) -> None:
    text = f"SELECT * FROM o JOIN r AS OF o.ts {option} ON o.k = r.k {option}"
    with pytest.raises(TemporalParseError, match="given twice") as refused:
        scan(text)
    assert refused.value.span == (text.rindex(option), len(text))


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT * FROM o JOIN r ON o.k = r.k AS OF o.ts", "AS_OF_JOIN.PLACE"),
        ("SELECT * FROM o JOIN r USING (k) JOIN s ON (o.k = s.k) AS OF o.ts", "AS_OF_JOIN.PLACE"),
        ("FROM o |> WHERE a |> LEFT JOIN r AS OF o.ts ON o.k = r.k", "AS_OF_JOIN.PLACE"),
        ("FROM o |> JOIN r ASOF JOIN s ON 1 = 1", "AS_OF_JOIN.PLACE"),
        ("SELECT * FROM o JOIN r x AS OF", "PARSE.EXPECTED"),
        ("SELECT * FROM o JOIN r AS OF o.ts x y ON o.k = x.k", "PARSE.EXPECTED"),
        ("SELECT * FROM o JOIN r AS OF o.ts EXCLUSIVE INCLUSIVE ON o.k = r.k", "PARSE.EXPECTED"),
        ("SELECT * FROM o ASOF JOIN r ON", "PARSE.EXPECTED"),
    ],
)
def test_what_breaks_the_grammar_is_refused(text: str, condition: str) -> None:
    with pytest.raises(TemporalParseError) as refused:
        scan(text)
    assert refused.value.condition == condition


@pytest.mark.parametrize(
    "text",
    ["FROM o |> SELECT x AS of |> AS of", "FROM o |> JOIN (SELECT * FROM a JOIN r AS OF a.ts ON a.k = r.k) s ON true"],
)
def test_pipes_without_a_join_of_ours_pass(text: str) -> None:
    scan(text)


def test_a_pipe_after_from_is_a_join_of_it() -> None:
    text = "FROM o |> JOIN r AS OF o.ts ON o.k = r.k |> JOIN (SELECT * FROM s WHERE v IN (SELECT 1)) x ON o.k = x.k"
    level = scan(text)
    (item,) = level.blocks[0].items
    assert [join.span.of(text) for join in item.joins] == ["|> JOIN r AS OF o.ts ON o.k = r.k"]
    assert item.end == text.index(" |> JOIN (SELECT")
    assert [child.span.of(text) for child in level.children] == ["SELECT * FROM s WHERE v IN (SELECT 1)"]
