"""Laws of a live stream joined with an UPSERT table: it answers record by record, in any cut, restored at any point."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.test_as_of_stream import (
    KEY_PARTS,
    KEYS,
    TIMES,
    Case,
    answer_across_restarts,
    micro_batch,
    tidy_often,  # noqa: F401  # a fixture
)
from udtf.operators.table_lookup.logic import TableLookupConfig, TableLookupLogic
from udtf.operators.table_lookup.stream import TableLookupStream
from udtf.record import Row

FUTURE = st.none() | st.integers(0, 30)


@st.composite
def cases(draw):
    keys, has_flags, rows = draw(KEYS), draw(st.booleans()), []
    config = TableLookupConfig(
        join=draw(st.sampled_from(["inner", "left"])),
        n_keys=len(keys),
        left_columns=("v", "word"),
        right_columns=("tv", "name"),
        left_max_future_us=draw(FUTURE),
        right_max_future_us=draw(FUTURE),
    )
    for number in range(draw(st.integers(0, 30))):
        key = tuple(draw(KEY_PARTS[kind][1]) for kind in keys)
        time = draw(st.none() | TIMES if draw(st.integers(0, 5)) == 0 else TIMES)
        side = draw(st.sampled_from("LR"))
        flags = (draw(st.integers(0, 3)) == 0, draw(st.integers(0, 3)) > 0) if has_flags else (False, True)
        rows.append(Row(side, key, time, (number, draw(st.sampled_from(["", "x", None]))), time, None, (), *flags))
    return Case(config, rows, keys, [], draw(st.booleans()), has_flags)


@given(st.data(), cases())
def test_micro_batches_answer_record_by_record(data, case):
    answer_across_restarts(data, case, TableLookupLogic(case.config), lambda: TableLookupStream(case.config))


@given(cases())
def test_order_of_output_is_that_of_causes(case):
    emission = TableLookupStream(case.config, emit_order=1).on_batch(*micro_batch(case, case.rows))
    plain = TableLookupStream(case.config).on_batch(*micro_batch(case, case.rows))
    assert emission.rows["__o0"].to_pylist() == plain.rows["v"].to_pylist()
    assert set(emission.rows["__o1"].to_pylist()) <= {0}
    assert emission.rows.drop_columns(["__o0", "__o1"]) == plain.rows
