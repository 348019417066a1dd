"""Laws of sliding windows over bounded rows: they answer as the record-by-record logic does where nothing is late."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.examples import examples
from tests.oracle.window_aggregate import sliding_windows
from tests.properties.test_window_aggregate_stream import AGGREGATES, KEYS, ONLY_BY_RECORD, names_of, plain, table_of
from udtf.aggregates import Aggregate, new_accumulator
from udtf.errors import OperatorError
from udtf.operators.window_aggregate import batch as window_aggregate_table
from udtf.operators.window_aggregate.batch import sliding_members, sliding_table
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig, uncompiled_aggregates
from udtf.operators.window_aggregate.logic import WindowAggregateLogic
from udtf.record import Row

FOREVER = 10**6


#: Rows of a piece of output, and up to how many members windows are folded one by one: never, always, or as it is.
WAYS = st.tuples(st.sampled_from([3, 1 << 16]), st.sampled_from([-1, FOREVER, 32]))


@st.composite
def cases(draw, aggregates=AGGREGATES):
    """A configuration, the types of keys and arguments, rows (key, time, payload)."""
    chosen = [aggregates[name] for name in draw(st.lists(st.sampled_from(sorted(aggregates)), max_size=4))]
    filters = [draw(st.booleans()) for _ in chosen]
    keys = [KEYS[name] for name in draw(st.lists(st.sampled_from(sorted(KEYS)), max_size=2))]
    config = WindowAggregateConfig(
        Window("sliding", draw(st.integers(1, 8))),
        FOREVER,
        "final",
        len(keys),
        tuple(replace(a, has_filter=f) for (a, _, _), f in zip(chosen, filters, strict=True)),
    )
    arguments, types = [], []
    for (_, kind, values), has_filter in zip(chosen, filters, strict=True):
        arguments += ([values] if values is not None else []) + ([st.none() | st.booleans()] if has_filter else [])
        types += ([kind] if kind is not None else []) + ([pa.bool_()] if has_filter else [])
    times = st.integers(-10, 15) | st.integers(-10, 15) | st.none()
    row = st.tuples(st.tuples(*(values for _, values in keys)), times, st.tuples(*arguments))
    return config, ([kind for kind, _ in keys], types), draw(st.lists(row, max_size=25))


def by_record(config, rows):
    """What the logic answers to rows in this order, closed at the end."""
    logic = WindowAggregateLogic(config)
    logic.on_batch([Row("L", key, time, payload, event_time=time) for key, time, payload in rows])
    return [tuple(map(plain, row.values)) for row in logic.close_idle().rows]


def pieces(function, config, table, way=(1 << 16, 32)):
    """The output, in pieces of a size, by one of the two ways of folding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_aggregate_table, "_PIECE_ROWS", way[0])
        patch.setattr(window_aggregate_table, "_NARROW", way[1])
        yield from function(config, table)


def by_table(config, table, *way):
    """Rows in the shape of the logic's."""
    found = []
    for piece in pieces(sliding_table, config, table, *way):
        ends = piece["__we"].cast(pa.int64()).to_pylist()
        for row, end in zip(piece.to_pylist(), ends, strict=True):
            key = [plain(row[f"__k{number}"]) for number in range(config.n_keys)]
            values = [plain(row[f"__a{number}"]) for number in range(len(config.aggregates))]
            found.append((*key, end - config.window.size_us, end, *values))
    return found


def bag(rows):
    """Rows whatever their order."""
    return Counter(tuple(tuple(value) if isinstance(value, list) else value for value in row) for row in rows)


EXACT = {name: found for name, found in AGGREGATES.items() if found[0].type != "double" or "max" in name}
HASHES = st.sampled_from(["exact", "few", "one"])


@examples(10)
@given(cases(EXACT), HASHES, st.randoms(use_true_random=False), WAYS)
def test_windows_are_those_of_the_record_by_record_logic_in_any_order(case, hashes, numbers, way):
    config, types, rows = case
    shuffled = numbers.sample(rows, len(rows))
    found = by_table(config, table_of(config, types, rows, hashes), way)
    assert bag(found) == bag(by_record(config, shuffled))


@examples(10)
@given(cases())
def test_sums_of_floats_go_by_time_and_as_rows_stand(case):
    config, types, rows = case
    ordered = sorted((row for row in rows if row[1] is not None), key=lambda row: row[1])
    found = by_table(config, table_of(config, types, rows, "exact"))
    assert bag(found) == bag(by_record(config, ordered))


@examples(10)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 30), st.integers(0, 9))),
    st.integers(1, 9),
    WAYS,
)
def test_windows_are_those_of_the_definition(history, size, way):
    aggregates = (Aggregate("count"), Aggregate("sum", 1))
    config = WindowAggregateConfig(Window("sliding", size), 0, "final", 1, aggregates)
    rows = [((key,), time, (value,)) for key, time, value in history]
    table = table_of(config, ([pa.string()], [pa.int64()]), rows, "exact")
    expected = sliding_windows(history, size, grace=FOREVER)
    assert sorted(by_table(config, table, way), key=repr) == sorted(
        ((*window, len(rows), sum(value for _, _, value in rows)) for window, rows in expected.items()), key=repr
    )


@examples(10)
@given(cases(AGGREGATES | ONLY_BY_RECORD), HASHES, WAYS)
def test_members_give_the_same_answer_once_they_are_aggregated(case, hashes, way):
    config, types, rows = case
    ordered = sorted((row for row in rows if row[1] is not None), key=lambda row: row[1])
    windows = {}
    for piece in pieces(sliding_members, config, table_of(config, types, rows, hashes), way):
        ends = piece["__we"].cast(pa.int64()).to_pylist()
        for row, end in zip(piece.to_pylist(), ends, strict=True):
            key = tuple(plain(row[f"__k{number}"]) for number in range(config.n_keys))
            windows.setdefault((*key, end - config.window.size_us, end), []).append([row[n] for n in names_of(config)])
    found = [(*window, *map(plain, folded(config, members))) for window, members in windows.items()]
    assert bag(found) == bag(by_record(config, ordered))


def folded(config, members):
    """The aggregates of the members of a window."""
    place = 0
    for aggregate in config.aggregates:
        state = new_accumulator(aggregate)
        for member in members:
            if not aggregate.has_filter or member[place + aggregate.arguments]:
                state.add(tuple(member[place : place + aggregate.arguments]))
        place += aggregate.arguments + aggregate.has_filter
        yield state.value()


def test_floats_of_wide_windows_are_right_to_the_last_digits():
    numbers = random.Random(3)
    rows = [((n % 2,), numbers.randrange(3000), (numbers.random(),) * 3) for n in range(1000)]
    aggregates = tuple(Aggregate(name, 1, type="double") for name in ("sum", "avg", "var_pop"))
    config = WindowAggregateConfig(Window("sliding", 500), FOREVER, "final", 1, aggregates)
    table = table_of(config, ([pa.int64()], [pa.float64()] * 3), rows, "exact")
    expected = {row[:3]: row[3:] for row in by_record(config, sorted(rows, key=lambda row: row[1]))}
    found = {row[:3]: row[3:] for row in by_table(config, table)}
    assert found.keys() == expected.keys()
    for window, values in found.items():
        assert values == pytest.approx(expected[window], rel=1e-12)


def test_only_what_is_shown_must_fit():
    config = WindowAggregateConfig(Window("sliding", 5), 0, "final", 0, (Aggregate("sum", 1),))
    values = [2**63 - 1, 2**62, -(2**63)]
    table = table_of(config, ([], [pa.int64()]), [((), 1, (value,)) for value in values], "exact")
    assert by_table(config, table) == [(-4, 1, sum(values))]
    with pytest.raises(Exception, match="sum overflows bigint"):
        by_table(config, table.slice(0, 2))


def test_averages_of_decimals_are_exact_however_large():
    config = WindowAggregateConfig(Window("sliding", 5), 0, "final", 0, (Aggregate("avg", 1, type="decimal(22,4)"),))
    large, small = Decimal(10**18 - 1), Decimal(-3)
    for values, expected in (([small, small + 1], "-2.5000"), ([large, large, small], "666666666666666665.0000")):
        table = table_of(config, ([], [pa.decimal128(18, 0)]), [((), 1, (value,)) for value in values], "exact")
        assert by_table(config, table) == [(-4, 1, Decimal(expected))]


def test_what_is_not_compiled_is_named():
    assert uncompiled_aggregates([Aggregate("count"), Aggregate("collect_list", 1, type="array<int>")]) == [
        "collect_list as array<int>"
    ]


@pytest.mark.parametrize("time", [-(2**63), -(2**63) + 19, 2**63 - 1, 2**63 - 20])
def test_windows_beyond_the_range_of_times_are_refused(time):
    """Spark's `window` raises there, too; a bound that wraps around would lose windows."""
    config = WindowAggregateConfig(Window("sliding", 10), FOREVER, "final", 0, (Aggregate("count", 0, type="bigint"),))
    rows = pa.table({"__time": pa.array([0, time], pa.int64()).view(pa.timestamp("us", "UTC")), "__hash": [42, 42]})
    for way in (sliding_table, sliding_members):
        with pytest.raises(OperatorError, match="WINDOW_OVERFLOW"):
            list(way(config, rows))
    inside = pa.table({"__time": rows["__time"].slice(0, 1), "__hash": [42]})
    assert sum(piece.num_rows for piece in sliding_table(config, inside)) > 0
