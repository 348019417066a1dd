"""What follows a FROM clause: which clauses there are, and where they end."""

from __future__ import annotations

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.sql.parser import items_of, read_tail, scan
from sqlx.sql.tokens import Span

US = 1_000_000


def tail_of(tail: str):
    text = f"SELECT k, count(*) FROM s {tail}"
    return read_tail(text, scan(text).blocks[0]), text


def words(text: str, span: Span | None) -> str | None:
    return None if span is None else span.of(text)


def test_all_clauses_with_their_spans() -> None:
    tail, text = tail_of(
        "WHERE v > 1 GROUP BY k, window(ts, '1 hour') GRACE PERIOD INTERVAL 5 MINUTES HAVING count(*) > 1 "
        "LATE TO db.late_rows EMIT FINAL AS APPEND BUFFER MAX 2 MB WHEN FULL SPILL "
        "IDLE TIMEOUT INTERVAL '1' MINUTE LIMIT 3"
    )
    assert words(text, tail.where) == "v > 1"
    assert [span.of(text) for span in tail.group] == ["k", "window(ts, '1 hour')"]
    assert words(text, tail.grouping) == "GROUP BY k, window(ts, '1 hour')"
    assert (words(text, tail.grace), tail.grace_us) == ("GRACE PERIOD INTERVAL 5 MINUTES", 300 * US)
    assert words(text, tail.having) == "count(*) > 1"
    assert (words(text, tail.late), tail.late_to) == ("LATE TO db.late_rows", "db.late_rows")
    assert [span.of(text) for span in tail.rest] == ["LIMIT 3"]
    emit = tail.emit
    assert emit is not None
    assert (emit.kind, emit.shape, emit.max_bytes, emit.max_rows) == ("final", "append", 2 << 20, None)
    assert (emit.when_full, emit.idle_us, emit.head.of(text)) == ("spill", 60 * US, "EMIT FINAL")
    assert list(emit.options) == ["AS", "BUFFER MAX BYTES", "WHEN FULL", "IDLE TIMEOUT"]
    assert len(tail.ours) == 3


@pytest.mark.parametrize(
    ("clause", "kind"),
    [
        ("EMIT FINAL", "final"),
        ("EMIT ON WINDOW CLOSE", "final"),
        ("EMIT AFTER WINDOW CLOSE", "final"),
        ("emit changes", "changes"),
        ("EMIT EVERY INTERVAL '1 02:03:04' DAY TO SECOND PER KEY", "every"),
    ],
)
def test_spellings_of_emit(clause: str, kind: str) -> None:
    tail, text = tail_of(f"GROUP BY k {clause}")
    assert tail.emit is not None
    assert (tail.emit.kind, words(text, tail.emit.head)) == (kind, clause)


@pytest.mark.parametrize(
    ("unit", "size"),
    [("BYTES", 7), ("BYTE", 7), ("KB", 7 << 10), ("MB", 7 << 20), ("GB", 7 << 30)],
)
def test_units_of_a_buffer(unit: str, size: int) -> None:
    emit = tail_of(f"GROUP BY k EMIT CHANGES BUFFER MAX 7 {unit} BUFFER MAX 3 ROW")[0].emit
    assert emit is not None
    assert (emit.max_bytes, emit.max_rows) == (size, 3)


@pytest.mark.parametrize(
    "tail",
    [
        "GROUP BY emit",
        "GROUP BY emit.x, t.emit, grace, late",
        "GROUP BY k HAVING emit > 1 AND NOT emit",
        "WHERE late = 1 AND grace IN (1, 2) GROUP BY k",
        "GROUP BY `EMIT`",
        "GROUP BY window(ts, '1 hour')",
        "GROUP BY k ORDER BY emit",
        "GROUP BY k WINDOW w AS (PARTITION BY k)",
    ],
)
def test_our_words_are_names_elsewhere(tail: str) -> None:
    assert tail_of(tail)[0].ours == []


@pytest.mark.parametrize(
    ("tail", "group"),
    [
        (
            "GROUP BY k, CASE WHEN v IN (1, 2) THEN 'x' ELSE 'y' END",
            ["k", "CASE WHEN v IN (1, 2) THEN 'x' ELSE 'y' END"],
        ),
        ("GROUP BY k IS NOT NULL, v BETWEEN 1 AND 2, -v", ["k IS NOT NULL", "v BETWEEN 1 AND 2", "-v"]),
        ("GROUP BY (k, v), ()", ["(k, v)", "()"]),
        ("GROUP BY k, v WITH ROLLUP", ["k", "v WITH ROLLUP"]),
        ("GROUP BY GROUPING SETS ((k), ())", ["GROUPING SETS ((k), ())"]),
        ("GROUP BY k GROUPING SETS ((k), ()) HAVING v", ["k GROUPING SETS ((k), ())"]),
        ("GROUP BY xs[0].f, m['a'], date '2026-01-01', k::date", ["xs[0].f", "m['a']", "date '2026-01-01'", "k::date"]),
    ],
)
def test_groupings_end_at_commas_and_clauses(tail: str, group: list[str]) -> None:
    found, text = tail_of(tail)
    assert [span.of(text) for span in found.group] == group


@pytest.mark.parametrize(
    "tail",
    [
        "GROUP BY k EMIT",
        "GROUP BY k EMIT ON",
        "GROUP BY k EMIT FINAL x",
        "GROUP BY k EMIT EVERY INTERVAL 5 SECONDS PER",
        "GROUP BY k EMIT FINAL BUFFER MAX 1",
        "GROUP BY k x",
        "GROUP BY k,",
        "GROUP BY",
        "WHERE",
        "GROUP BY k HAVING LIMIT 1",
        "GROUP BY k LATE TO",
        "GROUP BY k LATE TO 'x'",
        "GROUP BY k GRACE PERIOD",
        "GROUP BY k GRACE PERIOD INTERVAL 1 DAY GRACE INTERVAL 1 DAY",
        "GROUP BY k EMIT FINAL EMIT FINAL",
    ],
)
def test_what_stops_in_the_middle_is_refused_with_a_caret(tail: str) -> None:
    with pytest.raises(TemporalSqlError, match=r"\^"):
        tail_of(tail)


WHOLE = (
    "SELECT k, count(*) FROM s WHERE v > 1 GROUP BY k, window(ts, INTERVAL 1 HOUR) GRACE PERIOD INTERVAL 5 MINUTES "
    "HAVING v > 1 LATE TO t EMIT FINAL AS APPEND BUFFER MAX 2 ROWS WHEN FULL FAIL IDLE TIMEOUT INTERVAL 1 DAY"
)


@pytest.mark.parametrize(
    "end", [n for n, letter in enumerate(WHOLE) if letter == " " and n > WHOLE.index("s WHERE") + 1]
)
def test_a_text_may_end_after_any_word(end: int) -> None:
    """It is read, or refused with one caret; nothing else happens."""
    part = WHOLE[:end]
    try:
        read_tail(part, scan(part).blocks[0])
    except TemporalSqlError as error:
        message = error.getMessage()
    else:
        message = "LINE 1: "
    assert message.count("LINE 1: ") == 1


def test_items_keep_their_parentheses() -> None:
    text = "SELECT f(a, b) AS x, xs[1, 2], c FROM s"
    items = items_of(text, Span(7, text.index(" FROM")))
    assert [text[item[0].start : item[-1].end] for item in items] == ["f(a, b) AS x", "xs[1, 2]", "c"]
    assert items_of(text, None) == []
