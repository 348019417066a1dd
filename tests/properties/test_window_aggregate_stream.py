"""Laws of the compiled aggregation of live streams: it answers record by record, in any cut, restored at any point."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from udtf.aggregates import Aggregate
from udtf.errors import OperatorError
from udtf.operators.window_aggregate import spill as window_aggregate_stream_cold
from udtf.operators.window_aggregate import store as window_aggregate_stream_store
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig, is_compiled
from udtf.operators.window_aggregate.logic import WindowAggregateLogic
from udtf.operators.window_aggregate.row_by_row import RecordStream
from udtf.operators.window_aggregate.stream import WindowAggregateStream
from udtf.record import Row, canonical_key

STAMP = pa.timestamp("us", "UTC")
NAN = float("nan")
FLOATS = st.sampled_from([0.1, -2.5, 1e16, 3.0, NAN, None])
DECIMALS = st.none() | st.decimals(-9999, 9999, places=2, allow_nan=False)
SMALL = st.none() | st.integers(-100, 100)
# Aggregate, type and values of its argument.
AGGREGATES = {
    "count(*)": (Aggregate("count"), None, None),
    "count": (Aggregate("count", 1), pa.string(), st.sampled_from(["a", None])),
    "count_if": (Aggregate("count_if", 1), pa.bool_(), st.none() | st.booleans()),
    "sum": (Aggregate("sum", 1), pa.int32(), SMALL),
    "sum of floats": (Aggregate("sum", 1, type="double"), pa.float64(), FLOATS),
    "sum of decimals": (Aggregate("sum", 1, type="decimal(28,2)"), pa.decimal128(18, 2), DECIMALS),
    "avg": (Aggregate("avg", 1, type="double"), pa.int64(), SMALL),
    "avg of decimals": (Aggregate("avg", 1, type="decimal(14,6)"), pa.decimal128(10, 2), DECIMALS),
    "min": (Aggregate("min", 1, type="int"), pa.int32(), SMALL),
    "max of floats": (Aggregate("max", 1, type="double"), pa.float64(), FLOATS),
    "min of floats": (Aggregate("min", 1, type="float"), pa.float32(), st.sampled_from([0.5, -2.5, NAN, None])),
    "max of decimals": (Aggregate("max", 1, type="decimal(10,2)"), pa.decimal128(10, 2), DECIMALS),
    "stddev": (Aggregate("stddev", 1, type="double"), pa.int32(), SMALL),
    "var_pop": (Aggregate("var_pop", 1, type="double"), pa.float64(), FLOATS),
    "bool_and": (Aggregate("bool_and", 1, type="boolean"), pa.bool_(), st.none() | st.booleans()),
    "any": (Aggregate("any", 1, type="boolean"), pa.bool_(), st.none() | st.booleans()),
    "min of dates": (Aggregate("min", 1, type="date"), pa.date32(), st.none() | st.dates()),
    "max of times": (
        Aggregate("max", 1, type="timestamp"),
        STAMP,
        st.none() | st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    ),
    "bit_xor": (Aggregate("bit_xor", 1, type="bigint"), pa.int64(), SMALL),
}
ONLY_BY_RECORD = {
    "collect_list": (Aggregate("collect_list", 1, type="array<bigint>"), pa.int64(), SMALL),
    "max of strings": (Aggregate("max", 1, type="string"), pa.string(), st.sampled_from(["a", "b", None])),
    "count distinct": (Aggregate("count", 1, distinct=True), pa.int64(), SMALL),
}
KEYS = {
    "strings": (pa.string(), st.sampled_from(["a", "b", None])),
    "ints": (pa.int64(), st.sampled_from([1, -7, None])),
    "floats": (pa.float64(), st.sampled_from([0.0, NAN, None])),
    "dates": (pa.date32(), st.sampled_from([date(1970, 1, 1), date(1, 1, 1), None])),
    "decimals": (pa.decimal128(10, 2), st.sampled_from([Decimal("0.00"), Decimal("-1.50"), None])),
    "bools": (pa.bool_(), st.sampled_from([True, False, None])),
    "structs": (pa.struct({"a": pa.int64()}), st.sampled_from([{"a": 1}, {"a": None}, None])),
}
SLIDING = st.builds(lambda size: Window("sliding", size), st.integers(1, 6))
WINDOWS = st.one_of(
    st.just(Window()),
    st.builds(lambda size, slide, offset: Window("time", size, min(size, slide), offset), *[st.integers(1, 9)] * 3),
    st.builds(lambda size, slide: Window("cumulate", size, min(size, slide)), st.integers(1, 9), st.integers(1, 4)),
    st.builds(lambda gap: Window("session", gap), st.integers(1, 6)),
)
#: Of the metrics of records those that the streams count too.
COUNTERS = (
    *("records", "late", "late_record_drop", "expired_window_record_drop", "null_time", "future", "emitted"),
    *("suppression_buffer_puts", "suppression_buffer_count_total", "suppression_buffer_size_total"),
)
GAUGES = ("buffered_rows", "buffered_bytes", "spilled_rows")
MAXIMA = ("suppression_buffer_count_max", "suppression_buffer_size_max", "record_lateness_max")


@pytest.fixture(autouse=True, scope="module")
def small_rooms():
    """Rooms are full, and keys forgotten, when there are a few, not thousands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_aggregate_stream_store, "_FEWEST_SLOTS", 2)
        patch.setattr(window_aggregate_stream_store, "_SPARE_KEYS", 2)
        patch.setattr(window_aggregate_stream_cold, "_PAGE_ROWS", 3)
        patch.setattr(window_aggregate_stream_cold, "_LEAST_FILE_BYTES", 0)
        yield


@st.composite
def cases(draw, aggregates=AGGREGATES, windows=WINDOWS):
    """A configuration, the types of keys and arguments, rows (key, time, payload, number)."""
    window = draw(windows)
    chosen = [aggregates[name] for name in draw(st.lists(st.sampled_from(sorted(aggregates)), max_size=4))]
    filters = [draw(st.booleans()) for _ in chosen]
    keys = [KEYS[name] for name in draw(st.lists(st.sampled_from(sorted(KEYS)), max_size=2))]
    config = WindowAggregateConfig(
        window,
        draw(st.integers(0, 8)),
        "changes" if window.kind == "none" else draw(st.sampled_from(["final", "changes"])),
        len(keys),
        tuple(replace(a, has_filter=f) for (a, _, _), f in zip(chosen, filters, strict=True)),
        max_future_us=draw(st.none() | st.none() | st.integers(0, 20)),
    )
    arguments, types = [], []
    for (_, kind, values), has_filter in zip(chosen, filters, strict=True):
        arguments += ([values] if values is not None else []) + ([st.none() | st.booleans()] if has_filter else [])
        types += ([kind] if kind is not None else []) + ([pa.bool_()] if has_filter else [])
    times = st.integers(-10, 6) | st.integers(-4, 6) | st.none()
    row = st.tuples(st.tuples(*(values for _, values in keys)), times, st.tuples(*arguments))
    drift = draw(st.integers(0, 3))
    drawn = draw(st.lists(row, max_size=25))
    rows = [(k, None if t is None else t + n * drift, p) for n, (k, t, p) in enumerate(drawn)]
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    return config, ([kind for kind, _ in keys], types), rows, cuts


def names_of(config):
    for number, aggregate in enumerate(config.aggregates):
        yield from (f"__a{number}_{place}" for place in range(aggregate.arguments))
        if aggregate.has_filter:
            yield f"__a{number}_f"


def table_of(config, types, rows, hashes):
    """The rows as columns; few hashes make many keys share one."""
    numbered = list(enumerate(rows))
    of = {"exact": lambda key: hash(canonical_key(key)) >> 1, "few": lambda key: len(repr(key)) % 2, "one": lambda _: 7}
    names = [f"__k{number}" for number in range(config.n_keys)]
    columns = {n: pa.array([row[0][i] for row in rows], types[0][i]) for i, n in enumerate(names)}
    columns["__hash"] = pa.array([of[hashes](tuple(map(repr, row[0]))) for row in rows], pa.int64())
    columns["__time"] = pa.array([row[1] for row in rows], STAMP)
    columns |= {n: pa.array([row[2][i] for row in rows], types[1][i]) for i, n in enumerate(names_of(config))}
    columns |= {"__o0": pa.array([n for n, _ in numbered], pa.int64()), "_l0": pa.array([n for n, _ in numbered])}
    return pa.table(columns)


def plain(value):
    """Numbers as they print: NaN is equal to NaN, a float32 to itself."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, dict):
        return tuple(value.items())
    return value


def by_record(config, rows, with_order=True):
    """Emissions, late rows and metrics of the record-by-record logic, and after which row each came."""
    logic, answers, late = WindowAggregateLogic(config), [], []
    for number, (key, time, payload) in enumerate(rows):
        emission = logic.on_batch([Row("L", key, time, (*payload, number), event_time=time)])
        order = [number] if with_order else []
        answers += [(*order, time, *map(plain, values)) for _, time, values in emission.rows]
        for update in emission.updates:
            old, new = (None if row is None else tuple(map(plain, row)) for row in (update.old, update.new))
            answers.append((*order, update.time, tuple(map(plain, update.key)), old, new))
        late += [(row.row.payload[-1], row.reason, row.stream_time, row.lateness) for row in emission.late]
    return answers, late, dict(logic.metrics)


def answers_of(config, table, with_order=True):
    """Output rows in the shape of `by_record`."""
    keys = [f"__k{number}" for number in range(config.n_keys)]
    keys += [] if config.window.kind == "none" else ["__ws", "__we"]
    aggregates = range(len(config.aggregates))
    for row in table.to_pylist():
        order = [row["__o0"]] if with_order else []
        key = tuple(plain(row[name]) for name in keys)
        new = (*key, *(plain(row[f"__a{number}"]) for number in aggregates))
        if config.is_final:
            yield (*order, row["__time"], *new)
        else:
            old = (*key, *(plain(row[f"__b{number}"]) for number in aggregates))
            yield (*order, row["__time"], key, old if row["__was"] else None, new if row["__is"] else None)


def by_batch(make, config, table, cuts, restarts):
    """The same of a stream logic; it restarts from a snapshot, or from all deltas."""
    logic, answers, late, counted, log = make(config), [], [], {}, []
    for start, end in zip([0, *cuts], [*cuts, len(table)], strict=True):
        emission = logic.on_batch([table.slice(start, end - start)], np.zeros(end - start, np.int8))
        answers += answers_of(config, emission.rows)
        late += late_of(emission.late[0])
        counted = {name: counted.get(name, 0) + emission.metrics.get(name, 0) for name in COUNTERS} | {
            name: emission.metrics[name] for name in (*GAUGES, *MAXIMA) if name in emission.metrics
        }
        log += [emission.delta] if emission.delta is not None else []
        if restarts:
            segments, logic = [logic.snapshot()] if restarts == "snapshot" else log, make(config)
            for segment in segments:
                logic.apply(segment)
    return answers, late, counted


def late_of(late):
    numbers = zip(late["_stream_time"].cast(pa.int64()).to_pylist(), late["_lateness"].to_pylist(), strict=True)
    named = zip(late["_l0"].to_pylist(), late["_reason"].to_pylist(), strict=True)
    return [(n, reason, now, by) for (n, reason), (now, by) in zip(named, numbers, strict=True)]


def new_stream(config):
    return WindowAggregateStream(config, emit_order=1)


RESTARTS = st.sampled_from(["", "snapshot", "deltas"])
HASHES = st.sampled_from(["exact", "few", "one"])


@given(cases(), RESTARTS, HASHES)
def test_whole_batches_are_record_by_record(case, restarts, hashes):
    config, types, rows, cuts = case
    assert is_compiled(config)
    answers, late, counted = by_record(config, rows)
    found = by_batch(new_stream, config, table_of(config, types, rows, hashes), cuts, restarts)
    assert found[:2] == (answers, late)
    assert found[2] == {name: counted.get(name, 0) for name in found[2]}


@given(cases(), st.integers(0, 6), st.sampled_from(["max_rows", "max_bytes"]))
def test_a_full_buffer_fails_where_it_does_record_by_record(case, limit, name):
    config, types, rows, _ = case
    if config.window.kind == "none":
        return
    config = replace(config, emit="final", **{name: limit * (1 if name == "max_rows" else 60)})
    expected = found = None
    try:
        by_record(config, rows)
    except OperatorError as error:
        expected = str(error)
    try:
        new_stream(config).on_batch([table_of(config, types, rows, "exact")])
    except OperatorError as error:
        found = str(error)
    assert found == expected


#: Sessions that closed where they were spilled, and that rows make longer when nothing that is open is spilled.
KEPT_ON_A_PAGE = (
    WindowAggregateConfig(Window("session", 2), 0, "final", 1, ()),
    ([pa.int64()], []),
    [((key,), time, ()) for key, time in ((1, 0), (2, 0), (3, 3), (1, 2), (2, 2), (3, 20))],
    [2, 3],
)


@given(cases(), RESTARTS, HASHES, st.none() | st.integers(0, 4), st.none() | st.integers(0, 300))
@example(KEPT_ON_A_PAGE, "snapshot", "exact", 1, None)
def test_what_is_spilled_is_as_if_it_had_stayed(case, restarts, hashes, max_rows, max_bytes):
    config, types, rows, cuts = case
    if config.window.kind == "none":
        return
    config = replace(config, emit="final", when_full="spill", max_rows=max_rows, max_bytes=max_bytes)
    answers, late, counted = by_record(config, rows)
    found = by_batch(new_stream, config, table_of(config, types, rows, hashes), cuts, restarts)
    assert found[:2] == (answers, late)
    assert found[2] == {name: counted.get(name, 0) for name in found[2]}


@st.composite
def many_keys(draw):
    """Windows of keys that hardly come again, most of them beyond the limit, and rows in about the order of time."""
    drift, span = draw(st.integers(1, 3)), draw(st.integers(0, 4))
    row = st.tuples(st.tuples(st.integers(0, 50)), st.integers(-span, span), st.tuples(SMALL))
    rows = [
        (key, time + n * drift, value)
        for n, (key, time, value) in enumerate(draw(st.lists(row, min_size=10, max_size=40)))
    ]
    config = WindowAggregateConfig(
        draw(WINDOWS.filter(lambda window: window.kind != "none")),
        draw(st.integers(0, 8)),
        "final",
        n_keys=1,
        aggregates=(Aggregate("count"), Aggregate("sum", 1)),
        max_rows=draw(st.integers(0, 4)),
        when_full="spill",
        max_future_us=draw(st.none() | st.integers(0, 20)),
    )
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), min_size=2, max_size=8)))
    return config, ([pa.int64()], [pa.int32()]), rows, cuts


@given(many_keys(), RESTARTS)
def test_what_is_spilled_closes_when_it_would_have_here(case, restarts):
    config, types, rows, cuts = case
    answers, late, counted = by_record(config, rows)
    found = by_batch(new_stream, config, table_of(config, types, rows, "exact"), cuts, restarts)
    assert found[:2] == (answers, late)
    assert found[2] == {name: counted.get(name, 0) for name in found[2]}


@given(cases(), st.none() | st.integers(0, 2))
def test_what_is_idle_closes_in_order(case, spill_beyond):
    config, types, rows, _ = case
    config = replace(config, when_full="spill", max_rows=spill_beyond)
    by_row, stream = WindowAggregateLogic(config), new_stream(config)
    by_row.on_batch([Row("L", key, time, payload, event_time=time) for key, time, payload in rows])
    table = table_of(config, types, rows, "exact")
    stream.on_batch([table])
    expected, found = by_row.close_idle(), stream.close_idle(table.slice(0, 0))
    answers = [(time, *map(plain, values)) for _, time, values in expected.rows]
    assert list(answers_of(config, found.rows, with_order=False)) == (answers if config.is_final else [])
    assert found.metrics["idle_closed"] == expected.metrics.get("idle_closed", 0)
    assert len(stream.on_batch([table]).late[0]) == len(
        by_row.on_batch([Row("L", key, time, payload, event_time=time) for key, time, payload in rows]).late
    )


@given(cases(AGGREGATES | ONLY_BY_RECORD, WINDOWS | SLIDING), RESTARTS)
def test_what_is_not_compiled_is_record_by_record_too(case, restarts):
    config, types, rows, cuts = case
    answers, late, counted = by_record(config, rows)
    table = table_of(config, types, rows, "exact")
    found = by_batch(lambda config: RecordStream(config, 1), config, table, cuts, restarts)
    assert found[:2] == (answers, late)
    assert found[2] == {name: counted.get(name, 0) for name in found[2]}


@given(cases())
def test_both_streams_have_the_same_columns(case):
    config, types, rows, _ = case
    table = table_of(config, types, rows, "exact")
    one, other = new_stream(config).on_batch([table]), RecordStream(config, 1).on_batch([table])
    assert one.rows.schema == other.rows.schema
    assert one.late[0].schema == other.late[0].schema


ENDS = [-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1]


@given(cases(windows=WINDOWS.filter(lambda window: window.kind != "none")), st.sampled_from(ENDS), st.integers(0, 25))
def test_a_time_at_the_end_of_all_times_fails_in_both_or_is_refused_in_both(case, time, place):
    """Compiled bounds would wrap around and lose windows; a row that is too far ahead never gets there."""
    config, types, rows, _ = case
    key, _, payload = rows[0] if rows else ((None,) * config.n_keys, None, (None,) * len(types[1]))
    before, rows = rows[:place], [*rows[:place], (key, time, payload), *rows[place:]]
    table = table_of(config, types, rows, "exact")
    if time >= 0 and config.max_future_us is not None and any(t is not None for _, t, _ in before):
        assert by_batch(new_stream, config, table, [], "")[:2] == by_record(config, rows)[:2]
        return
    for fold in (partial(by_record, config, rows), partial(by_batch, new_stream, config, table, [], "")):
        with pytest.raises(OperatorError, match="WINDOW_OVERFLOW"):
            fold()


@pytest.mark.parametrize("time", [-(2**63) + 19, 2**63 - 20])
def test_sliding_windows_at_the_end_of_all_times_fail_live(time):
    config = WindowAggregateConfig(Window("sliding", 10), 0, "final", 0, (Aggregate("count", type="bigint"),))
    with pytest.raises(OperatorError, match="WINDOW_OVERFLOW"):
        WindowAggregateLogic(config).on_batch([Row("L", (), time, ((),))])
