"""Laws of an edited query: columns that are only handed on come and go, and earlier rows have NULL in further ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import test_deduplicate as deduplication
from tests.properties import test_table_lookup_stream as lookup
from tests.properties.test_as_of_stream import (
    cases,
    expected_of,
    found_of,
    micro_batch,
    parts_of,
    tidy_often,  # noqa: F401  # a fixture
)
from udtf.columns.rows import Rows
from udtf.errors import StateError
from udtf.operators.as_of_join.logic import AsOfJoinLogic
from udtf.operators.as_of_join.stream import AsOfJoinStream
from udtf.operators.deduplicate.config import DeduplicateConfig
from udtf.operators.deduplicate.stream import DeduplicateStream
from udtf.operators.table_lookup.logic import TableLookupLogic
from udtf.operators.table_lookup.stream import TableLookupStream

#: Of each side the column that a text may read or not.
OPTIONAL = {"L": "word", "R": "name"}
TEXTS = st.sets(st.sampled_from(["word", "name"]))


def handing_on(config, read):
    """The join of a text that reads the numbers of both sides, and some of the optional columns."""
    left = tuple(name for name in config.left_columns if name != "word" or name in read)
    return replace(config, left_columns=left, right_columns=tuple(c for c in ("tv", "name") if c == "tv" or c in read))


def as_read(rows, read):
    """Rows as the oracle knows them: NULL in what was not read."""
    return [row if OPTIONAL[row.side] in read else row._replace(payload=(row.payload[0], None)) for row in rows]


def narrowed(inputs, read):
    gone = {"word", "name"} - read
    return [table.drop_columns(list(gone & set(table.column_names))) for table in inputs]


def shown(config, read, values):
    """Of a result row the columns of a text."""
    names = (*config.left_columns, *config.right_columns, "__reason")
    hidden = {"word", "name"} - read
    return tuple(value for name, value in zip(names, values, strict=False) if name not in hidden)


def check_edit(data, case, logic, new_stream):
    """A query is edited once; before and after, its answers are those of the oracle over what each text reads."""
    before, after = data.draw(TEXTS), data.draw(TEXTS)
    at = data.draw(st.integers(0, len(case.rows)))
    stream, segments = new_stream(handing_on(case.config, before)), []
    for read, rows in ((before, case.rows[:at]), (after, case.rows[at:])):
        for part in parts_of(data, rows):
            inputs, sides = micro_batch(case, part)
            emission = stream.on_batch(narrowed(inputs, read), sides)
            expected, *expected_late, counted = expected_of(logic.on_batch(as_read(part, read)))
            found, *late, counters = found_of(emission)
            assert found == [shown(case.config, read, values) for values in expected]
            assert late == expected_late
            ignored = ("buffered_bytes",)  # of other columns
            assert [v for n, v in sorted(counters.items()) if n not in ignored] == [
                v for n, v in sorted(counted.items()) if n not in ignored
            ]
            segments += [] if emission.delta is None else [emission.delta]
            segments = [stream.snapshot()] if data.draw(st.booleans()) else segments
        stream = new_stream(handing_on(case.config, after))
        for segment in segments:
            stream.apply(segment)


@given(st.data(), cases())
def test_an_as_of_join_hands_on_other_columns(data, case):
    check_edit(data, case, AsOfJoinLogic(case.config), AsOfJoinStream)


@given(st.data(), lookup.cases())
def test_a_lookup_hands_on_other_columns(data, case):
    check_edit(data, case, TableLookupLogic(case.config), TableLookupStream)


@given(st.data(), deduplication.RECORDS, st.integers(0, 20), st.booleans(), st.booleans())
def test_the_last_of_a_group_has_the_columns_that_were_read_of_it(data, records, interval, adds, by_snapshot):
    """Which rows come is the reference's; what they show of the further column is told by their own number."""
    at = data.draw(st.integers(0, len(records)))
    texts = [("k", "n"), ("k", "n", "more")][:: 1 if adds else -1]
    configs = [DeduplicateConfig(interval, "last", None, 1, columns) for columns in texts]
    whole = deduplication.table_of(configs[0], records)
    whole = whole.append_column("more", whole["n"])
    found, stream, segments = [], DeduplicateStream(configs[0]), []
    for config, start, end in zip(configs, (0, at), (at, len(records)), strict=True):
        if config is not configs[0]:
            segments = [stream.snapshot()] if by_snapshot else segments
            stream = DeduplicateStream(config)
            for segment in segments:
                stream.apply(segment)
        table = whole.slice(start, end - start).drop_columns(["more"] if "more" not in config.columns else [])
        emission = stream.on_batch([table], np.zeros(end - start, np.int8))
        segments += [] if emission.delta is None else [emission.delta]
        found += [(row["n"], row.get("more", "not shown"), config) for row in emission.rows.to_pylist()]
    expected, *_ = deduplication.by_record(configs[0], records)  # which test_deduplicate.py holds to its reference
    assert [n for n, _, _ in found] == expected
    for n, more, config in found:
        was_read = "more" in configs[0 if n < at else 1].columns
        assert more == ("not shown" if "more" not in config.columns else n if was_read else None)


def test_another_type_is_refused_and_another_zone_is_not():
    rows = Rows(pa.schema({"_r_rate": pa.int32(), "at": pa.timestamp("us", "UTC")}))
    rows.append(pa.table({"_r_rate": pa.array([1], pa.int32()), "at": pa.array([0], pa.timestamp("us", "UTC"))}))
    rows.fit(pa.schema({"at": pa.timestamp("us", "Europe/Berlin"), "_r_rate": pa.int32(), "_r_more": pa.bool_()}))
    assert [column.to_pylist() for column in rows.take(np.array([0]))][1:] == [[1], [None]]
    with pytest.raises(StateError, match="column rate is kept as int32, and comes as float now"):
        rows.fit(pa.schema({"_r_rate": pa.float32()}))
