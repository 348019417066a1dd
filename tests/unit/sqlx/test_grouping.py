"""GROUP BY and the expressions over groups: what is a key, what is a window, what is an aggregate."""

from __future__ import annotations

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.plan.select_list import Replacer, select_items
from sqlx.plan.window_aggregate import read_grouping
from sqlx.sql.expressions import find_aggregates, match, normal
from sqlx.sql.parser import read_tail, scan
from sqlx.sql.tokens import Span, tokenize
from sqlx.sql.windows import window_call

COLUMNS = {"k", "v", "s", "ts"}


def group_of(text: str):
    block = scan(text).blocks[0]
    items = select_items(text, block.select)
    return read_grouping(text, read_tail(text, block).group, items, COLUMNS, {}), items


def rewritten(text: str) -> list[str]:
    """The select list over the columns of the aggregation."""
    grouping, items = group_of(text)
    replacer = Replacer(text, grouping, COLUMNS)
    found = []
    for item in items:
        written = item.span.of(text)
        for piece in reversed(replacer.pieces(item.tokens)):
            start, end = piece.span.start - item.span.start, piece.span.end - item.span.start
            written = written[:start] + piece.sql + written[end:]
        found.append(written)
    return found


@pytest.mark.parametrize(
    ("select", "group", "expected"),
    [
        ("k, count(*)", "k", ["__k0", "__a0"]),
        ("x.k, K, `k`", "k", ["__k0", "__k0", "__k0"]),
        ("k, x.k", "x.k", ["__k0", "__k0"]),
        ("s.k, s", "s", ["__k0.k", "__k0"]),
        ("s.k, k", "s.k", ["__k0", "k"]),
        ("lower(k), concat(lower(k), 'x')", "lower(k)", ["__k0", "concat(__k0, 'x')"]),
        ("v % 2 = 1, v % 2 IS NULL, (v % 2)", "v % 2", ["__k0 = 1", "__k0 IS NULL", "(__k0)"]),
        ("2 * v + 1, v + 1 * 3, -v + 1, f(v + 1)", "v + 1", ["2 * v + 1", "v + 1 * 3", "-v + 1", "f(__k0)"]),
        ("3 - v, -v", "-v", ["3 - v", "__k0"]),
        (
            "struct(k, count(*), x.k AS y, (k), upper(k)), f(struct(max(v)))",
            "k",
            ["struct(__k0 AS `k`, __a0 AS `col2`, __k0 AS y, __k0 AS `k`, upper(__k0))", "f(struct(__a1 AS `col1`))"],
        ),
        (
            "(k, max(v)), f(k, 1), k IN (k, 'a'), (k)",
            "k",
            ["(__k0 AS `k`, __a0 AS `col2`)", "f(__k0, 1)", "__k0 IN (__k0, 'a')", "(__k0)"],
        ),
        (
            "CASE WHEN k THEN (k, 1) ELSE (v, k) END",
            "k",
            ["CASE WHEN __k0 THEN (__k0 AS `k`, 1) ELSE (v, __k0 AS `k`) END"],
        ),
        ("reduce(s, 0, (k, i) -> k + i), struct()", "k", ["reduce(s, 0, (__k0, i) -> __k0 + i)", "struct()"]),
        ("struct(lower(k), s.k)", "lower(k), s", ["struct(__k0 AS `col1`, __k1.k)"]),
        ("v = 1, v = 1 AND k, NOT v = 1, a = v = 1", "v = 1", ["__k0", "__k0 AND k", "NOT __k0", "a = v = 1"]),
        (
            "v * 2 + 1, 1 - v * 2, 3 * v * 2, v * 2 * 3, -v * 2",
            "v * 2",
            ["__k0 + 1", "1 - __k0", "3 * v * 2", "__k0 * 3", "-v * 2"],
        ),
        (
            "v + 1 - 2, 2 - v + 1, v + 1 || 'x', v + 1 & 3",
            "v + 1",
            ["__k0 - 2", "2 - v + 1", "__k0 || 'x'", "__k0 & 3"],
        ),
        ("-v + 1, 2 * -v, 2 - v, - -v", "-v", ["__k0 + 1", "2 * __k0", "2 - v", "- -v"]),
        ("CASE WHEN v > 1 THEN 1 ELSE 2 END + 1", "CASE WHEN v > 1 THEN 1 ELSE 2 END", ["__k0 + 1"]),
        ("v BETWEEN 1 AND 5 OR k, NOT v BETWEEN 1 AND 5", "v BETWEEN 1 AND 5", ["__k0 OR k", "NOT __k0"]),
        ("v NOT IN (1, 2) AND k, CAST(v NOT IN (1, 2) AS INT)", "v NOT IN (1, 2)", ["__k0 AND k", "CAST(__k0 AS INT)"]),
        ("x BETWEEN v + 1 AND 5, x BETWEEN 0 AND v + 1", "v + 1", ["x BETWEEN __k0 AND 5", "x BETWEEN 0 AND __k0"]),
        ("f(v).x, g(v)", "f(v)", ["__k0.x", "g(v)"]),
        ("sum(v), sum( V ), max(k), sum(v) + 1", "k", ["__a0", "__a0", "__a1", "__a0 + 1"]),
        ("sum(v) FILTER (WHERE v > 1), first(v) IGNORE NULLS", "k", ["__a0", "__a1"]),
        ("k + INTERVAL 1 DAY, k - INTERVAL '2' HOUR x", "k", ["__k0 + INTERVAL 1 DAY", "__k0 - INTERVAL '2' HOUR"]),
        ("window.start, window.end", "window(ts, '1 hour')", ["__ws", "__we"]),
        ("window(ts, '1 hour').start", "window(ts, '1 hour')", ["__ws"]),
        ("window_time(window)", "window(ts, '1 hour')", ["(__we - INTERVAL 1 MICROSECOND)"]),
        ("session_window", "session_window(ts, '1 hour')", ["named_struct('start', __ws, 'end', __we)"]),
        ("window(ts, '1 hour') AS w, w.end", "w", ["named_struct('start', __ws, 'end', __we)", "__we"]),
        ("(SELECT max(v) FROM t), count(*)", "k", ["(SELECT max(v) FROM t)", "__a0"]),
        ("k, v, count(*)", "ALL", ["__k0", "__k1", "__a0"]),
        ("upper(k) AS kk, count(*)", "kk", ["__k0", "__a0"]),
        ("upper(k) AS kk, count(*)", "1", ["__k0", "__a0"]),
        ("v + 1 AS k, k", "k", ["v + 1", "__k0"]),
        (
            "k LIKE ANY ('a', max(v)), k LIKE max(v), any(v)",
            "k",
            ["__k0 LIKE ANY ('a', __a0)", "__k0 LIKE __a0", "__a1"],
        ),
    ],
)
def test_expressions_over_groups(select: str, group: str, expected: list[str]) -> None:
    assert rewritten(f"SELECT {select} FROM x GROUP BY {group}") == expected


def test_a_key_that_is_written_twice_is_one() -> None:
    grouping, _ = group_of("SELECT k FROM x GROUP BY k, (K), window(ts, '1 hour'), window(ts, '1 hour').end, ()")
    assert [normal(key) for key in grouping.keys] == [("k",)]
    assert grouping.window is not None


@pytest.mark.parametrize(
    "group",
    ["window(ts, '1 hour'), window(ts, '2 hours')", "nope", "3", "0", "ROLLUP (k)", "k WITH CUBE", "sum(v)", "2"],
)
def test_what_cannot_be_grouped_by(group: str) -> None:
    with pytest.raises(TemporalSqlError, match=r"\^"):
        group_of(f"SELECT k, count(*) FROM x GROUP BY {group}")


@pytest.mark.parametrize(
    ("text", "size_us", "slide_us", "offset_us"),
    [
        ("window(ts, '1 hour')", 3600_000_000, 3600_000_000, 0),
        ("WINDOW(ts, INTERVAL '1' HOUR, interval 10 minutes)", 3600_000_000, 600_000_000, 0),
        ("window(ts, 'interval 10 seconds', '10 seconds', '-3 seconds')", 10_000_000, 10_000_000, 7_000_000),
        ("session_window(date_trunc('day', ts), '1 day 2 hours')", 93_600_000_000, 0, 0),
        ("sliding_window(ts, INTERVAL '0.5' SECOND)", 500_000, 0, 0),
    ],
)
def test_lengths_of_windows(text: str, size_us: int, slide_us: int, offset_us: int) -> None:
    call = window_call(text, tokenize(text))
    assert call is not None
    assert (call.window.size_us, call.window.slide_us, call.window.offset_us) == (size_us, slide_us, offset_us)


@pytest.mark.parametrize(
    "text", ["window", "window.start", "x.window(ts, '1 hour')", "f(ts, '1 hour')", "window(ts, 'a') + 1"]
)
def test_what_is_no_window(text: str) -> None:
    assert window_call(text, tokenize(text)) is None


@pytest.mark.parametrize(
    ("text", "function", "arguments"),
    [
        ("count(*)", "count", 0),
        ("count(DISTINCT a, b)", "count", 2),
        ("stddev_samp(a)", "stddev", 1),
        ("first(a, TRUE)", "first", 1),
        ("first(a, b)", "rows", 2),
        ("first(DISTINCT a)", "rows", 1),
        ("max_by(a, b)", "max_by", 2),
        ("percentile(a, 0.5)", "rows", 2),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", "rows", 1),
        ("collect_list(a) RESPECT NULLS", "rows", 1),
    ],
)
def test_what_keeps_a_partial_state(text: str, function: str, arguments: int) -> None:
    (call,) = find_aggregates(text, tokenize(text))
    assert (call.function, len(call.arguments), call.span) == (function, arguments, Span(0, len(text)))


def test_a_second_argument_of_first_says_whether_nulls_are_left_out() -> None:
    calls = [find_aggregates(text, tokenize(text))[0] for text in ("first(a, true)", "last(a, false)", "last_value(a)")]
    assert [call.ignore_nulls for call in calls] == [True, False, False]


@pytest.mark.parametrize(("text", "length"), [("k", 1), ("x.k", 3), ("s.k", 0), ("k(1)", 0), ("kk", 0), ("k.f", 1)])
def test_a_column_is_known_by_its_name(text: str, length: int) -> None:
    assert match(tokenize(text), 0, ("k",), {"k", "s"}) == length
