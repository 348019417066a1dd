"""The bounded join over every type of key and time, against a loop over Python values."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import udtf
from udtf.columns import keys as as_of_keys
from udtf.errors import OperatorError
from udtf.operators.as_of_join.batch import Versions, sort_versions
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import join_tables
from udtf.record import canonical_key, order_key

NAN = math.nan
DAY = dt.date(2024, 1, 1)
STAMP = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
VALUES = {
    pa.int8(): [-1, 0, 7],
    pa.int32(): [-5, 0, 9],
    pa.int64(): [-(2**63), 0, 2**62, 2**63 - 1],
    pa.bool_(): [False, True],
    pa.float32(): [0.0, -0.0, 1.5, NAN, -math.inf],
    pa.float64(): [0.0, -0.0, 1.5, NAN, math.inf, -2.5],
    pa.decimal128(10, 2): [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")],
    pa.decimal128(38, 0): [Decimal(-(10**30)), Decimal(0), Decimal(10**37)],
    pa.string(): ["", "a", "é", "z", "\U0001f600"],
    pa.large_string(): ["a", "b"],
    pa.binary(): [b"", b"\x00", b"\xff"],
    pa.date32(): [DAY, DAY + dt.timedelta(days=3)],
    pa.timestamp("us"): [dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1)],
    pa.timestamp("us", "UTC"): [STAMP, STAMP + dt.timedelta(microseconds=1)],
    pa.list_(pa.int32()): [[], [1], [1, 2]],
    pa.struct([("a", pa.int32())]): [{"a": 1}, {"a": None}],
}
ORDERED = [kind for kind in VALUES if not pa.types.is_nested(kind)]


def brute_force(config, left, right):
    answers = []
    for row in left.to_pylist():
        keys = [row[f"__k{n}"] for n in range(config.n_keys)]
        versions = [
            (order_key((version["__time"],)), number, version)
            for number, version in enumerate(right.to_pylist())
            if version["__time"] is not None
            and None not in keys
            and canonical_key(tuple(keys)) == canonical_key(tuple(version[f"__k{n}"] for n in range(config.n_keys)))
        ]
        as_of = order_key((row["__as_of"],))
        if config.direction == "backward":
            fits = [version for version in versions if version[0] <= as_of and row["__as_of"] is not None]
            picked = max(fits, default=None)
        else:
            fits = [version for version in versions if version[0] >= as_of and row["__as_of"] is not None]
            picked = max((v for v in fits if v[0] == min(fits)[0]), default=None)
        answers.append(picked and picked[2]["r0"])
    return answers


def tables(kinds, time_type, seed, rows=40):
    dice = random.Random(seed)

    def column(kind, size):
        return pa.array([dice.choice([*VALUES[kind], None]) for _ in range(size)], kind)

    left = {f"__k{n}": column(kind, rows) for n, kind in enumerate(kinds)} | {"__as_of": column(time_type, rows)}
    right = {f"__k{n}": column(kind, rows // 2) for n, kind in enumerate(kinds)} | {
        "__time": column(time_type, rows // 2)
    }
    return pa.table(left | {"l0": range(rows)}), pa.table(right | {"r0": range(rows // 2)})


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_keys_of_every_type(kind):
    left, right = tables([kind], pa.int32(), seed=1)
    config = AsOfJoinConfig(join="left", right_columns=("r0",))
    assert join_tables(config, left, right)["r0"].to_pylist() == brute_force(config, left, right)


@pytest.mark.parametrize("direction", ["backward", "forward"])
@pytest.mark.parametrize("kind", ORDERED, ids=str)
def test_times_of_every_type(kind, direction):
    left, right = tables([pa.int8()], kind, seed=2)
    config = AsOfJoinConfig(join="left", right_columns=("r0",), direction=direction)
    assert join_tables(config, left, right)["r0"].to_pylist() == brute_force(config, left, right)


@pytest.mark.parametrize("seed", range(5))
def test_composite_keys(seed):
    left, right = tables([pa.string(), pa.float64(), pa.int32()], pa.timestamp("us"), seed, rows=300)
    config = AsOfJoinConfig(join="left", right_columns=("r0",), n_keys=3)
    assert join_tables(config, left, right)["r0"].to_pylist() == brute_force(config, left, right)


def test_sparse_int_keys_are_hashed(monkeypatch):
    monkeypatch.setattr(as_of_keys, "_DENSE_ROOM", 0)
    left, right = tables([pa.int64()], pa.int32(), seed=3)
    config = AsOfJoinConfig(join="left", right_columns=("r0",))
    assert join_tables(config, left, right)["r0"].to_pylist() == brute_force(config, left, right)


def small(**changes):
    left = pa.table({"__k0": [1, 1, 2], "__as_of": pa.array([5, 15, 15], pa.timestamp("us")), "l0": ["x", "y", "z"]})
    right = pa.table({"__k0": [1, 1], "__time": pa.array([10, 20], pa.timestamp("us")), "r0": [[1], [2]]})
    return (
        left,
        right.set_column(1, "__time", right["__time"]),
        AsOfJoinConfig(**({"left_columns": ("l0",), "right_columns": ("r0",), "with_reason": True} | changes)),
    )


def test_an_inner_join_keeps_matches_in_order():
    left, right, config = small()
    assert join_tables(config, left, right).to_pylist() == [{"l0": "y", "r0": [1], "__reason": None}]


def test_chunked_sides_are_as_good_as_whole_ones():
    left, right, config = small(join="left")
    pieces = [pa.concat_tables([side.slice(0, 1), side.slice(1)]) for side in (left, right)]
    assert join_tables(config, *pieces).equals(join_tables(config, left, right))


@pytest.mark.parametrize("join", ["inner", "left"])
def test_empty_sides(join):
    left, right, config = small(join=join)
    assert join_tables(config, left.slice(0, 0), right).num_rows == 0
    alone = join_tables(config, left, right.slice(0, 0))
    assert alone["__reason"].to_pylist() == (["no_key"] * 3 if join == "left" else [])
    assert alone.schema.equals(join_tables(config, left, right).schema)


@pytest.mark.parametrize(("columns", "names"), [((), []), (("l0",), ["l0"])])
def test_without_payload_rows_still_count(columns, names):
    left, right, config = small(join="left", left_columns=columns, right_columns=(), with_reason=False)
    joined = join_tables(config, left, right)
    assert (joined.num_rows, joined.column_names) == (3, names)


def test_keys_and_time_may_be_payload():
    left, right, config = small(left_columns=("__k0", "__as_of"))
    assert join_tables(config, left, right).column_names == ["__k0", "__as_of", "r0", "__reason"]


def test_dates_lie_whole_days_apart():
    days = [DAY, DAY + dt.timedelta(days=2)]
    left = pa.table({"__k0": [1], "__as_of": pa.array([days[1]])})
    right = pa.table({"__k0": [1], "__time": pa.array([days[0]]), "r0": [1]})
    for tolerance_us, found in [(2 * 86_400_000_000, 1), (2 * 86_400_000_000 - 1, None)]:
        config = AsOfJoinConfig(join="left", right_columns=("r0",), tolerance_us=tolerance_us)
        assert join_tables(config, left, right)["r0"].to_pylist() == [found]


@pytest.mark.parametrize(
    ("kind", "as_of", "times", "found"),
    [
        (pa.float64(), 1.0, [0.25, 1.5], 1),
        (pa.int64(), 2**63 - 1, [-(2**63), 2**63 - 1], 1),
        (pa.int64(), 0, [-(2**63), 2**63 - 1], 1),
        (pa.decimal128(10, 1), Decimal("1.0"), [Decimal("0.5"), Decimal("1.5")], 0),
        (pa.float64(), NAN, [1.0, NAN], 1),
    ],
)
def test_nearest_subtracts(kind, as_of, times, found):
    left = pa.table({"__k0": [1], "__as_of": pa.array([as_of], kind)})
    right = pa.table({"__k0": [1, 1], "__time": pa.array(times, kind), "r0": [0, 1]})
    config = AsOfJoinConfig(direction="nearest", right_columns=("r0",))
    assert join_tables(config, left, right)["r0"].to_pylist() == [found]


def test_what_cannot_be_subtracted_is_an_error():
    left, right = tables([pa.int8()], pa.string(), seed=1)
    with pytest.raises(OperatorError, match=r"\[OPERATOR.NO_DISTANCE\].*string"):
        join_tables(AsOfJoinConfig(direction="nearest"), left, right)


LAST_INT = 2**63 - 1


@pytest.mark.parametrize("key", [LAST_INT, -LAST_INT - 1])
def test_the_first_and_the_last_int_are_keys(key):
    left = pa.table({"__k0": [key], "__as_of": [10]})
    right = pa.table({"__k0": [key], "__time": [10], "r0": [7]})
    assert join_tables(AsOfJoinConfig(right_columns=("r0",)), left, right)["r0"].to_pylist() == [7]


@pytest.mark.parametrize("edge", [LAST_INT, -LAST_INT - 1])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_decimal_times_compare_at_the_edge_of_64_bits(edge, beyond):
    wide = pa.decimal128(38, 0)
    left = pa.table({"__k0": ["a"], "__as_of": pa.array([Decimal(edge + beyond)], wide)})
    right = pa.table({"__k0": ["a"], "__time": pa.array([Decimal(edge)], wide), "r0": [7]})
    found = join_tables(AsOfJoinConfig(right_columns=("r0",)), left, right)["r0"].to_pylist()
    assert found == ([7] if beyond >= 0 else [])


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32()])
def test_ties_may_be_times_that_python_does_not_know(kind):
    ties = pa.array([None, 2**31 - 1, 5, -(2**31)], pa.int32())
    ties = ties.view(kind) if kind == pa.date32() else pc.multiply(ties.cast(pa.int64()), 2**32).view(kind)
    left = pa.table({"__k0": ["a"], "__as_of": [10]})
    right = pa.table({"__k0": ["a"] * 4, "__time": [10] * 4, "__tie0": ties, "r0": [0, 1, 2, 3]})
    for order, last in ((("asc", "first"), 1), (("desc", "first"), 3), (("asc", "last"), 0)):
        config = AsOfJoinConfig(ties=(order,), right_columns=("r0",))
        assert join_tables(config, left, right)["r0"].to_pylist() == [last]


def test_arrival_breaks_ties_whatever_the_order_of_rows():
    left = pa.table({"__k0": ["a"], "__as_of": [10]})
    right = pa.table({"__k0": ["a", "a", "a"], "__time": [10, 10, 10], "__arrival": [5, 9, 7], "r0": [5, 9, 7]})
    config = AsOfJoinConfig(right_columns=("r0",))
    assert join_tables(config, left, right)["r0"].to_pylist() == [9]


@pytest.mark.parametrize("seed", range(3))
def test_sorting_beforehand_changes_nothing(seed):
    left, right = tables([pa.string()], pa.int32(), seed, rows=200)
    dice = random.Random(seed)
    right = right.append_column("__tie0", [[dice.choice([None, 1.5, NAN, -2.0]) for _ in range(len(right))]])
    config = AsOfJoinConfig(join="left", ties=(("desc", "first"),), left_columns=("l0",), right_columns=("r0",))
    sorted_config, versions = sort_versions(config, right)
    assert Versions(sorted_config, versions).join(left).equals(join_tables(config, left, right))
    assert sorted_config == replace(config, ties=())


PROGRAM = """
import pyarrow as pa
import pyarrow.compute as pc
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import join_tables
left = pa.table({"__k0": [1], "__as_of": [2]}); right = pa.table({"__k0": [1], "__time": [1], "r0": [7]})
print(join_tables(AsOfJoinConfig(right_columns=("r0",)), left, right)["r0"].to_pylist())
"""


@pytest.mark.full
@pytest.mark.slow  # everything is compiled anew
def test_an_installation_that_cannot_be_written_to_still_joins(tmp_path):
    shutil.copytree(udtf.__path__[0], tmp_path / "udtf", ignore=shutil.ignore_patterns("__pycache__"))
    nowhere = tmp_path / "udtf" / "__pycache__"
    for folder in [path.parent for path in tmp_path.glob("udtf/**/__init__.py")]:
        (folder / "__pycache__").write_text("a file where the cache would be, since nothing is read-only to root")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "HOME": str(nowhere), "TMPDIR": str(tmp_path)}
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    command = [sys.executable, "-B", "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.strip() == "[7]", done.stderr
    assert list(tmp_path.glob("sqlx-numba-*/**/*.nbc"))
