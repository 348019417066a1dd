"""What is counted over micro-batches."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlx.streaming.registry import Totals


def progress(batch: int, rows: int = 1, **observed: dict[str, int]) -> str:
    facts: dict[str, Any] = {"batchId": batch, "numInputRows": rows, "processedRowsPerSecond": 2.5}
    facts |= {"durationMs": {"addBatch": 5, "triggerExecution": 7}, "observedMetrics": observed}
    return json.dumps(facts)


def test_counters_add_up_and_gauges_are_the_last() -> None:
    totals = Totals()
    totals.fold(progress(0, 10, join={"late": 1, "state_rows": 5, "max_event_time": 30}))
    totals.fold(progress(1, 5, join={"late": 2, "state_rows": 4, "max_event_time": 20}, again={"late": 4}))
    assert (totals.batches, totals.rows) == (2, 15)
    assert totals.sum("late") == 7
    assert totals.state_rows == 4
    assert totals.lag_us(datetime.fromtimestamp(1, UTC)) == 1_000_000 - 30


def test_a_micro_batch_counts_once_and_an_idle_trigger_not_at_all() -> None:
    totals = Totals()
    idle = json.dumps({"batchId": 0, "numInputRows": 0, "durationMs": {"latestOffset": 1}})
    for report in (idle, progress(0, 3), progress(0, 3), idle):
        totals.fold(report)
    assert (totals.batches, totals.rows) == (1, 3)


def test_unmatched_rows_are_described_by_reason() -> None:
    totals = Totals()
    totals.fold(progress(0, 3, join={"unmatched": 3, "unmatched_no_key": 2, "unmatched_tombstone": 1}))
    lines = dict(totals.lines())
    assert (lines["unmatched"], lines["unmatched_no_key"], lines["unmatched_tombstone"]) == ("3", "2", "1")
    assert lines["last_batch"] == "7 ms"


def test_what_waits_is_described_by_average_and_maximum() -> None:
    totals = Totals()
    waited = {"suppression_buffer_count_total": 7, "suppression_buffer_size_total": 90, "suppression_buffer_puts": 2}
    totals.fold(progress(0, 2, windows={"records": 2, "suppression_buffer_count_max": 4, "buffered_rows": 3, **waited}))
    totals.fold(progress(1, 2, windows={"records": 2, "suppression_buffer_count_max": 5, "buffered_rows": 1, **waited}))
    lines = {name.removeprefix("suppression_buffer_"): value for name, value in totals.lines()}
    assert [lines[f"count_{what}"] for what in ("current", "avg", "max")] == ["1", "3.5", "5"]
    assert lines["size_avg"] == "45.0"
