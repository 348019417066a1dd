from __future__ import annotations

import pytest

from udtf.time import StreamTime, is_future, is_late


@pytest.mark.parametrize(("event_time", "late"), [(99, True), (100, False), (101, False)])
def test_late_is_older_than_stream_time_by_more_than_the_grace(event_time, late):
    assert is_late(event_time, 200, 100) is late


@pytest.mark.parametrize(("event_time", "future"), [(299, False), (300, False), (301, True)])
def test_future_is_ahead_of_stream_time_by_more_than_the_limit(event_time, future):
    assert is_future(event_time, 200, 100) is future


def test_nothing_is_late_or_future_before_the_first_row_or_without_a_limit():
    assert not is_late(-(10**18), None, 0)
    assert not is_late(-(10**18), 0, None)
    assert not is_future(10**18, None, 0)
    assert not is_future(10**18, 0, None)


def test_stream_time_does_not_regress():
    clock = StreamTime()
    assert (clock.now_us, clock.lateness_us(1)) == (None, None)
    for event_time in (-5, -7, 3, 1):
        clock.observe(event_time)
    assert (clock.now_us, clock.lateness_us(1), clock.lateness_us(None)) == (3, 2, None)


def test_stream_time_survives_a_snapshot():
    clock = StreamTime()
    clock.restore(StreamTime(7).snapshot())
    assert clock.now_us == 7
