"""Laws of deduplication: the reference, cuts, restarts, colliding hashes, and that all executors give one answer."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.deduplicate import duckdb_sql, reference
from udtf.operators.deduplicate.config import DeduplicateConfig
from udtf.operators.deduplicate.logic import DeduplicateLogic, deduplicate_table
from udtf.operators.deduplicate.stream import DeduplicateStream
from udtf.record import Row

STAMP = pa.timestamp("us", "UTC")
KEYS = st.sampled_from(["a", "b", "c", None])
TIMES = st.integers(-10, 60)
RECORDS = st.lists(st.tuples(KEYS, TIMES, st.none() | st.integers(0, 5)), max_size=40)
HASHES = st.sampled_from(["exact", "few", "one"])
COLUMNS = ("k", "n")


@st.composite
def configs(draw):
    keep = draw(st.sampled_from(["first", "last"]))
    late = draw(st.sampled_from([None, "drop", "to"] + (["forward"] if keep == "first" else [])))
    has_sequence = draw(st.booleans())
    max_future = draw(st.none() | st.integers(0, 30))
    interval = draw(st.integers(0, 20))
    return DeduplicateConfig(interval, keep, late, 1, COLUMNS, has_sequence, max_future)


def rows_of(config, records):
    return [
        Row("L", (key,), time, (key, n), event_time=time, ties=(sequence,) if config.has_sequence else ())
        for n, (key, time, sequence) in enumerate(records)
    ]


def table_of(config, records, hashes="exact"):
    """The same as columns; few hashes make many keys share one."""
    number = {
        "exact": lambda key: sum(map(ord, key)) * 0x9E3779B97F,
        "few": lambda key: ord(key) % 2,
        "one": lambda _: 7,
    }
    keys, times, sequences = zip(*records, strict=True) if records else ((), (), ())
    table = {"__k0": pa.array(keys, pa.string()), "__time": pa.array(times, STAMP)}
    table |= {"__seq": pa.array(sequences, pa.int64())} if config.has_sequence else {}
    table["__hash"] = pa.array([42 if key is None else number[hashes](key) for key in keys], pa.int64())
    numbers = pa.array(range(len(keys)), pa.int64())
    return pa.table({**table, "__o0": numbers, "k": table["__k0"], "n": numbers})


def by_record(config, records, cuts=(), restarts=False):
    """Answers, late rows and metrics of the record-by-record logic."""
    rows, logic, answers, late = rows_of(config, records), DeduplicateLogic(config), [], []
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        emission = logic.on_batch(rows[start:end])
        answers += [change.values[1] for change in emission.rows]
        late += [(row.row.payload[1], row.reason, row.stream_time, row.lateness) for row in emission.late]
        if restarts:
            state, logic = logic.snapshot(), DeduplicateLogic(config)
            logic.restore(state)
    return answers, late, dict(logic.metrics)


def by_batch(config, records, cuts=(), restarts="", hashes="exact"):
    """The same of the columnar logic; it restarts from a snapshot, or from all deltas."""
    table, logic, answers, late, counted, log = table_of(config, records, hashes), new_stream(config), [], [], {}, []
    for start, end in zip([0, *cuts], [*cuts, len(table)], strict=True):
        emission = logic.on_batch([table.slice(start, end - start)], np.zeros(end - start, np.int8))
        answers += emission.rows["n"].to_pylist()
        late += [tuple(row.values()) for row in late_of(emission.late[0])]
        counted = {name: counted.get(name, 0) + value for name, value in emission.metrics.items()} | {
            name: emission.metrics[name] for name in ("state_rows", "buffered_rows")
        }
        log += [emission.delta] if emission.delta is not None else []
        if restarts:
            segments, logic = [logic.snapshot()] if restarts == "snapshot" else log, new_stream(config)
            for segment in segments:
                logic.apply(segment)
    return answers, late, counted


def new_stream(config):
    return DeduplicateStream(config, emit_order=1)


def late_of(late):
    columns = late.select(["n", "_reason"]).to_pylist()
    numbers = zip(late["_stream_time"].cast(pa.int64()).to_pylist(), late["_lateness"].to_pylist(), strict=True)
    return [{**row, "now": now, "by": by} for row, (now, by) in zip(columns, numbers, strict=True)]


@given(RECORDS, configs())
def test_record_by_record_is_the_reference(records, config):
    config = replace(config, max_future_us=None)
    records = [(key, time, sequence if config.has_sequence else None) for key, time, sequence in records]
    numbered = [(*record, n) for n, record in enumerate(records)]
    expected = reference(numbered, config.interval_us, last=config.keeps_last, late=config.forwards_late)
    assert by_record(config, records)[0] == expected


@given(st.data(), RECORDS, configs())
def test_cuts_and_restarts_change_nothing(data, records, config):
    records = [(key, data.draw(st.just(time) | st.none()), sequence) for key, time, sequence in records]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=4)))
    whole = by_record(config, records)
    assert by_record(config, records, cuts, restarts=True) == whole


@given(
    st.data(), RECORDS, configs(), st.sampled_from(["exact", "few", "one"]), st.sampled_from(["", "snapshot", "deltas"])
)
def test_whole_batches_are_record_by_record(data, records, config, hashes, restarts):
    records = [(key, data.draw(st.just(time) | st.none()), sequence) for key, time, sequence in records]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=4)))
    answers, late, counted = by_record(config, records)
    found = by_batch(config, records, cuts, restarts, hashes)
    assert found[:2] == (answers, late)
    assert {name: found[2][name] for name in ("late", "null_time", "future", "duplicates", "buffered_rows")} == {
        name: counted.get(name, 0) for name in ("late", "null_time", "future", "duplicates", "buffered_rows")
    }


@given(st.data(), RECORDS, configs(), st.booleans())
def test_what_is_idle_goes_out_as_before_a_row_that_completes_it(data, records, config, restarts):
    """And stream time has moved as far as that needs: what comes afterwards for these groups is late."""
    late = None if config.late == "forward" else config.late
    config = replace(config, keep="last", late=late, max_future_us=None)
    cut = data.draw(st.integers(0, len(records)))
    logic, whole, stream = DeduplicateLogic(config), DeduplicateLogic(config), new_stream(config)
    rows, table = rows_of(config, records), table_of(config, records)
    logic.on_batch(rows[:cut])
    whole.on_batch(rows[:cut])
    log = [stream.on_batch([table.slice(0, cut)], np.zeros(cut, np.int8)).delta]
    open_groups = logic.metrics.get("buffered_rows", 0)
    emission, found = logic.close_idle(), stream.close_idle(table.slice(0, 0))
    answers = [change.values[1] for change in emission.rows]
    assert found.rows["n"].to_pylist() == answers
    assert len(answers) == open_groups == found.metrics["idle_closed"] == emission.metrics.get("idle_closed", 0)
    assert stream.close_idle(table.slice(0, 0)).delta is None  # once is all
    if restarts:
        stream = new_stream(config)
        for segment in [segment for segment in (*log, found.delta) if segment is not None]:
            stream.apply(segment)
    after = [change.values[1] for change in logic.on_batch(rows[cut:]).rows]
    assert stream.on_batch([table.slice(cut)], np.zeros(len(table) - cut, np.int8)).rows["n"].to_pylist() == after
    if answers:  # a row without a key completes them as well, and moves stream time alike
        newest = max(time for key, time, _ in records[:cut] if key is not None)
        end = Row("L", (None,), newest + config.interval_us + 1, (None, -1), event_time=newest + config.interval_us + 1)
        assert [change.values[1] for change in whole.on_batch([end]).rows if change.values[1] >= 0] == answers


@given(RECORDS, configs(), HASHES)
def test_batch_is_the_stream_at_its_end(records, config, hashes):
    """In order of arrival where there is one (all rows have a sequence), else in order of time."""
    config = replace(config, max_future_us=None)
    if config.has_sequence:
        records = [(key, time, n) for n, (key, time, _) in enumerate(records)]
    else:
        records.sort(key=lambda record: record[1])
    end = ("z", 10**6, 10**6) if config.keeps_last else None
    expected = by_record(config, [*records, end] if end else records)[0]
    table = table_of(config, records, hashes)
    mixed = table.take(pa.array(np.random.default_rng(1).permutation(len(table)))) if config.has_sequence else table
    assert sorted(deduplicate_table(config, mixed)["n"].to_pylist()) == sorted(expected)
    assert sorted(deduplicate_table(config, mixed.drop_columns(["__hash"]))["n"].to_pylist()) == sorted(expected)


@given(st.lists(st.tuples(KEYS, TIMES | st.none(), st.none()), max_size=40), st.integers(0, 20))
def test_batch_is_duckdb(records, interval):
    config = DeduplicateConfig(interval, columns=COLUMNS)
    table = table_of(config, records)
    connection = duckdb.connect()
    connection.register("s", pa.table({"k": table["k"], "t": table["__time"].cast(pa.int64()), "n": table["n"]}))
    expected = [n for (n,) in connection.execute(duckdb_sql(interval)).fetchall()]
    assert sorted(deduplicate_table(config, table)["n"].to_pylist()) == expected


@given(RECORDS, st.integers(0, 20))
def test_state_is_bounded_by_the_interval(records, interval):
    config = DeduplicateConfig(interval, columns=COLUMNS)
    metrics = by_batch(config, records)[2]
    newest = max((time for _, time, _ in records), default=0)
    assert metrics["state_rows"] <= len({key for key, time, _ in records if time >= newest - interval})


def test_state_stays_bounded_over_a_hundred_intervals():
    config = DeduplicateConfig(1000, columns=COLUMNS)
    logic, sizes = DeduplicateStream(config), []
    for number in range(100):
        records = [(chr(0x10000 + number * 500 + n), number * 1000 + n, None) for n in range(500)]
        logic.on_batch([table_of(config, records)], np.zeros(500, np.int8))
        sizes.append(logic.stored_bytes)
    assert max(sizes[20:]) <= 2 * max(sizes[:20])
