from __future__ import annotations

from udtf.metrics import ALWAYS, GAUGES, MAXIMA, Metrics


def test_known_names_are_there_from_the_start_and_others_are_zero():
    metrics = Metrics()
    assert set(metrics) == set(ALWAYS)
    assert len(metrics) == len(ALWAYS)
    assert metrics["unmatched_tombstone"] == 0


def test_a_batch_reports_what_it_counted_and_gauges_as_they_are():
    metrics = Metrics({"late": 2, "buffered_rows": 5})
    before = dict(metrics)
    metrics.add("late", 3)
    metrics.set("buffered_rows", 4)
    assert metrics.since(before) | {"late": 3, "buffered_rows": 4} == metrics.since(before)
    assert Metrics(metrics.snapshot())["late"] == 5


def test_maxima_only_rise_and_are_reported_as_they_are():
    metrics = Metrics()
    metrics.peak("record_lateness_max", 5)
    before = dict(metrics)
    metrics.peak("record_lateness_max", 3)
    assert metrics.since(before)["record_lateness_max"] == 5
    assert not MAXIMA & GAUGES
