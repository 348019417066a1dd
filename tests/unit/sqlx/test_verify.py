"""Orders of arrival, what replay gives in them, and how a difference is explained; no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.replay.script import Script, read_script
from sqlx.verify.orders import allowed_us, lateness_us, shuffled, with_ties_in_order
from sqlx.verify.recording import Arrival, Recording, in_event_time
from sqlx.verify.report import Finding, compare, unwatched
from sqlx.verify.runs import comparable, stream

GRACE_US = 20
DEFINED = """
CREATE STREAM orders (id INT, k STRING, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE VERSIONED TABLE rates (k STRING, rate INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts;
"""
JOIN = "SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ts ON o.k = r.k"
WINDOWS = "SELECT k, count(*) AS n FROM orders GROUP BY k, window(ts, '7 microseconds')"
GRACE = f"GRACE PERIOD INTERVAL '{GRACE_US}' MICROSECONDS"

Row = tuple[str, str, int, int]  # definition, key, number, time
KEYS, TIMES = st.sampled_from("ab"), st.integers(0, 60)
ROWS = st.lists(st.tuples(st.sampled_from(["orders", "rates"]), KEYS, TIMES), max_size=40).map(
    lambda found: [(name, key, number, time) for number, (name, key, time) in enumerate(found)]
)


def arrivals_of(script: Script, rows: Sequence[Row]) -> tuple[Arrival, ...]:
    from sqlx.replay.types import from_micros

    found = []
    for place, (name, key, number, time) in enumerate(rows):
        values = (number, key) if name == "orders" else (key, number)
        found.append(Arrival(script.pushed[name], (*values, from_micros(time)), time, (place,)))
    return tuple(found)


def joined(rows: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    """The rule: of the versions up to a row's time the last, and of equal times the last that arrived."""
    found: Counter[tuple[Any, ...]] = Counter()
    for name, key, number, time in rows:
        if name == "orders":
            versions = [(t, place, n) for place, (kind, k, n, t) in enumerate(rows) if (kind, k) == ("rates", key)]
            picked = max((version for version in versions if version[0] <= time), default=(0, 0, None))
            found[(number, picked[2])] += 1
    return found


def counted(rows: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    windows = Counter((key, time // 7) for name, key, _, time in rows if name == "orders")
    return Counter((key, count) for (key, _), count in windows.items())


class Frame:
    """What the bounded query gave, as far as it is asked."""

    schema = ()

    def __init__(self, rows: Sequence[tuple[Any, ...]], width: int) -> None:
        self.columns = [f"c{n}" for n in range(width)]
        self._rows = rows

    def drop(self, name: str) -> Frame:
        assert name == "_change_type"
        return self

    def toDF(self, *names: str) -> Frame:
        assert len(names) == len(self.columns)
        return self

    def toArrow(self) -> Any:
        import pyarrow as pa

        return pa.table({name: [row[n] for row in self._rows] for n, name in enumerate(self.columns)})


def compared(
    query: str, rows: Sequence[Row], expected: Counter[tuple[Any, ...]], shuffles: int, defined: str = DEFINED
) -> tuple[Finding, ...]:
    script = read_script(defined + query)
    recording = Recording(script, arrivals_of(script, rows), is_known=True, bounded=query)
    frame: Any = Frame(list(expected.elements()), 2)
    return compare(recording, lambda _: frame, shuffles, unwatched)


@given(rows=ROWS, late_us=st.integers(0, 50), seed=st.integers(0, 99))
def test_a_shuffled_order_has_all_rows_and_is_as_late_as_allowed(rows: list[Row], late_us: int, seed: int) -> None:
    arrivals = arrivals_of(read_script(DEFINED + JOIN), rows)
    order = shuffled(arrivals, late_us, seed)
    assert Counter(map(id, order)) == Counter(map(id, arrivals))
    assert lateness_us(order) <= late_us
    assert order == shuffled(arrivals, late_us, seed)


@given(rows=ROWS)
def test_ties_are_put_in_order_and_nothing_else(rows: list[Row]) -> None:
    arrivals = arrivals_of(read_script(DEFINED + JOIN), rows)
    order = with_ties_in_order(arrivals)
    assert [row.time_us for row in order] == [row.time_us for row in arrivals]
    for time in {row.time_us for row in arrivals}:
        tied = [row for row in order if row.time_us == time]
        assert tied == [row for row in in_event_time(arrivals) if row.time_us == time]


@pytest.mark.parametrize(("query", "rule"), [(JOIN, joined), (WINDOWS, counted)])
@given(rows=ROWS, seed=st.integers(0, 99))
def test_within_its_grace_a_stream_gives_what_the_rule_says(query: str, rule: Any, rows: list[Row], seed: int) -> None:
    script = read_script(f"{DEFINED}{query} {GRACE}" + (" EMIT FINAL" if query == WINDOWS else ""))
    assert allowed_us(script.plan) == GRACE_US
    distinct = list({(name, key, time): (name, key, number, time) for name, key, number, time in rows}.values())
    order = shuffled(arrivals_of(script, distinct), GRACE_US, seed)
    found = stream(script, order, lambda _: None)
    assert found.rows == Counter(map(comparable, rule(distinct).elements()))
    assert 0 <= found.waiting <= found.rows.total()


def test_what_waits_at_the_end_is_given_out_and_counted() -> None:
    rows: list[Row] = [("rates", "a", 1, 0), ("orders", "a", 2, 5), ("orders", "a", 3, 30)]
    (found,) = compared(f"{JOIN} {GRACE}", rows, joined(rows), 0)
    assert (found.verdict, found.rows, found.why) == ("same", 2, "1 still waiting for stream time when the input ends")


CAUSES = [
    # an update that comes after the row that needs it, with and without a grace that would wait for it
    (
        JOIN,
        [("orders", "a", 1, 10), ("rates", "a", 2, 4), ("orders", "a", 3, 12)],
        "late: a row that it needs",
        "'6' MIC",
    ),
    (JOIN, [("orders", "a", 1, 10), ("rates", "a", 2, 10)], "tie: rows of equal event time", "TIES BY"),
    (
        f"{WINDOWS} GRACE PERIOD INTERVAL '1' MICROSECOND EMIT FINAL",
        [("orders", "a", 1, 1), ("orders", "a", 2, 30), ("orders", "a", 3, 2)],
        "late: rows were refused (1 late)",
        "28 microseconds",
    ),
]


@pytest.mark.parametrize(("query", "rows", "cause", "says"), CAUSES)
def test_a_difference_has_its_cause(query: str, rows: list[Row], cause: str, says: str) -> None:
    rule = joined if query.startswith(JOIN) else counted
    found = compared(query, rows, rule(rows), 0)
    assert {finding.verdict for finding in found} == {"only in batch", "only in stream"}
    assert all(str(finding.why).startswith(cause) and says in str(finding.why) for finding in found), found


def test_a_version_that_history_has_given_up_is_retention() -> None:
    short = DEFINED.replace(
        "KEYS (k) TIMESTAMP BY ts", "KEYS (k) TIMESTAMP BY ts HISTORY RETENTION INTERVAL 5 MICROSECONDS"
    )
    rows: list[Row] = [("rates", "b", 1, 30), ("rates", "a", 2, 4), ("orders", "a", 3, 40)]
    found = compared(JOIN, rows, joined(rows), 0, short)
    assert [(f.verdict, f.row) for f in found] == [
        ("only in batch", '{"id": 3, "rate": 2}'),
        ("only in stream", '{"id": 3, "rate": null}'),
    ]
    assert all("retention: 1 rows" in str(f.why) and "HISTORY RETENTION INTERVAL '26' M" in str(f.why) for f in found)


def test_a_row_from_the_future_is_named() -> None:
    careful = DEFINED.replace(
        "id INT, k STRING, ts TIMESTAMP) TIMESTAMP BY ts",
        "id INT, k STRING, ts TIMESTAMP) TIMESTAMP BY ts TBLPROPERTIES ('max_future' = '5 microseconds')",
    )
    rows: list[Row] = [("orders", "a", 1, 1), ("orders", "a", 2, 100)]
    (found,) = compared(JOIN, rows, joined(rows), 0, careful)
    assert (found.verdict, found.why) == ("only in batch", "future: 1 rows were further ahead than max_future allows.")


UPSERTS = DEFINED.replace("VERSIONED", "UPSERT")


@given(rows=ROWS, seed=st.integers(0, 99))
def test_rows_of_an_upsert_table_stay_in_their_order(rows: list[Row], seed: int) -> None:
    arrivals = arrivals_of(read_script(UPSERTS + "SELECT o.id, r.rate FROM orders o JOIN rates r ON o.k = r.k"), rows)
    for order in (shuffled(arrivals, 30, seed), with_ties_in_order(arrivals)):
        assert Counter(map(id, order)) == Counter(map(id, arrivals))
        assert [row for row in order if row.entry.kind == "upsert"] == [
            row for row in arrivals if row.entry.kind == "upsert"
        ]


def test_what_a_table_had_at_a_moment_is_not_what_it_has_last() -> None:
    rows: list[Row] = [("rates", "a", 1, 0), ("orders", "a", 2, 1), ("rates", "a", 3, 2)]
    query = "SELECT o.id, r.rate FROM orders o JOIN rates r ON o.k = r.k"
    found = compared(query, rows, Counter({(2, 3): 1}), 0, UPSERTS)
    assert [str(one.why).split(":")[0] for one in found] == ["moment", "moment"]


def test_what_no_order_explains_is_said() -> None:
    found = compared(JOIN, [("orders", "a", 1, 1)], Counter({(1, 99): 1}), 0)
    assert all(str(finding.why).startswith("not by the order of arrival") for finding in found)


def test_many_differences_are_counted_and_the_first_shown() -> None:
    rows: list[Row] = [("orders", "a", n, n) for n in range(30)]
    found = compared(JOIN, rows, Counter(), 0)
    assert [finding.rows for finding in found] == [1] * 10 + [20]
    assert found[-1].why == "and 20 more"


def test_values_that_differ_in_their_last_digits_are_the_same() -> None:
    assert comparable([0.1 + 0.2]) == comparable([0.3])
    assert comparable([float("nan")]) == comparable([float("nan")])
    assert comparable([1.0]) != comparable([1.0000001])
