"""Every wrong window, aggregate and EMIT of ``emit.txt`` with its whole error. `--complete` rewrites it.

A case that begins with LIVE is compiled for live rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.plan.nodes import Aggregation
from sqlx.replay.driver import ReplayDriver
from sqlx.spark.aggregates import strategy_of
from tests.errors.query_test import error_of
from tests.harness.fake_binder import compiled
from tests.harness.refusals import check_refusals

CASES = Path(__file__).with_name("emit.txt")
CLICKS = "CREATE STREAM clicks (k STRING, n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts;"
FULL = "BUFFER MAX 2 ROWS WHEN FULL FAIL"


def test_wrong_windows_and_emits_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    check_refusals(CASES, error_of, golden)


@pytest.mark.parametrize(
    ("tail", "before", "message"),
    [
        (
            f"GROUP BY k, window(ts, '10 microseconds') EMIT FINAL {FULL}",
            [("a", 2**62)],
            "window_aggregate holds 3/2 rows: more than BUFFER MAX",
        ),
        (
            f"GROUP BY k EMIT EVERY INTERVAL '10' MICROSECONDS PER KEY {FULL}",
            [("a", 2**62)],
            "suppress holds 3/2 rows: more than BUFFER MAX",
        ),
        ("GROUP BY k", [("a", 2**62), ("b", 1), ("c", 1)], "sum overflows bigint; cast its argument to a wider type"),
    ],
)
def test_an_operator_that_cannot_go_on_says_why(tail: str, before: list[tuple[str, int]], message: str) -> None:
    driver = ReplayDriver(f"{CLICKS} SELECT k, sum(n) AS n FROM clicks {tail}")
    rows = [("a", 2**62, 1), ("b", 1, 12), ("c", 1, 13), ("d", 1, 14), ("a", 2**62, 15), ("a", 2**62, 16)]
    with pytest.raises(TemporalSqlError) as stopped:
        driver.push([("clicks", {"k": k, "n": n, "ts": ts}) for k, n, ts in rows])
    error = stopped.value
    assert error.getCondition() == "REPLAY.OPERATOR"
    assert message in error.getMessage()
    assert [(c.row["k"], c.row["n"]) for c in error.changes][: len(before)] == before


@pytest.mark.parametrize(
    ("tail", "wanted", "condition", "words"),
    [
        ("max(n) AS m FROM clicks GROUP BY k", "fast", "WINDOW.STRATEGY", "There is no window_strategy 'fast'"),
        (
            "max(n) AS m FROM clicks GROUP BY k",
            "native",
            "WINDOW.NOT_NATIVE",
            "final results only, and this is EMIT CHANGES",
        ),
        ("median(n) AS m FROM clicks GROUP BY k", None, "WINDOW.KEEPS_ROWS", "median(…) has no partial state"),
        (
            "median(n) AS m FROM clicks GROUP BY k, window(ts, '1 hour') EMIT FINAL",
            "exact",
            "WINDOW.KEEPS_ROWS",
            "window_strategy is 'exact'",
        ),
    ],
)
def test_a_strategy_that_cannot_run_a_query_says_why(tail: str, wanted: str | None, condition: str, words: str) -> None:
    text = f"SELECT k, {tail.replace('(n)', '(id)')}"
    (node,) = compiled(text, streaming=True).operators()
    assert isinstance(node, Aggregation)
    with pytest.raises(TemporalSqlError, match="HINT: ") as refused:
        strategy_of(node, text, wanted)
    assert refused.value.getCondition() == condition
    assert words in refused.value.getMessage()
