from __future__ import annotations

import json
from pathlib import Path

import pytest

from udtf.errors import StateError
from udtf.state import NOT_PUT, VALID_TO_LATEST, VersionedStore
from udtf.state.snapshot import seal

EXAMPLES = json.loads(Path(__file__).parents[2].joinpath("data", "worked_examples.json").read_text())
CASES = [case for case in EXAMPLES["cases"] if case["op"]["kind"] == "versioned_store"]


def told(key, version, ts):
    return [[key, None if version is None else f"{version[0]}@{version[1]}@", ts]]


def answer(store, verb, key, value, ts):
    if verb == "PUT":
        return [[key, str(store.put(key, value, ts)), ts]]
    if verb == "GET":
        return told(key, store.get(key), ts)
    return told(key, store.get_as_of(key, ts) if verb == "GETASOF" else store.delete(key, ts), ts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
@pytest.mark.parametrize("restarts", [False, True])
def test_worked_examples(case, restarts):
    retention = case["op"]["retention"]
    store, differs = VersionedStore(retention), case.get("ideal_differs", {})
    for number, (step, rows) in enumerate(zip(case["input"], case["output"], strict=True)):
        if restarts:
            store = VersionedStore(retention, snapshot=store.snapshot())
        assert answer(store, *step) == differs.get(str(number), rows), step


def test_put_returns_when_the_version_ends():
    store = VersionedStore(history_retention_us=100)
    assert store.put("k", "a", 10) == VALID_TO_LATEST
    assert store.put("k", "b", 5) == 10
    assert store.put("z", "z", 200) == VALID_TO_LATEST
    assert store.put("k", "late", 99) == NOT_PUT
    assert store.stream_time.now_us == 200


def test_a_tombstone_is_remembered_at_an_equal_timestamp():
    store = VersionedStore(history_retention_us=1000)
    store.put("k", "a", 100)
    store.put("k", None, 100)
    assert store.put("k", "old", 50) == 100
    assert store.get("k") is None
    assert store.get_as_of("k", 99) == ("old", 50)


def test_history_before_1970_counts():
    store = VersionedStore(history_retention_us=10)
    assert store.put("k", "a", -1000) == VALID_TO_LATEST
    assert store.put("k", "b", -990) == VALID_TO_LATEST
    assert store.put("k", "c", -1001) == NOT_PUT
    assert store.get_as_of("k", -991) == ("a", -1000)
    assert store.get_as_of("k", -1001) is None
    assert VersionedStore().put("k", "a", -(2**62)) == VALID_TO_LATEST


def test_without_retention_history_is_for_ever():
    store = VersionedStore()
    for ts in range(100):
        store.put("k", ts, ts * 10**12)
    assert store.get_as_of("k", 0) == (0, 0)
    assert len(store) == 100


def test_memory_shrinks_when_other_keys_move_stream_time():
    store = VersionedStore(history_retention_us=10)
    for ts in range(5):
        store.put("k", f"v{ts}", ts)
    store.put("gone", "x", 4)
    store.delete("gone", 5)
    store.put("z", "z", 100)
    assert len(store) == 2
    assert store.get("k") == ("v4", 4)


@pytest.mark.parametrize("value", ["s", 1, 1.5, b"b", {"a": [1, None]}, (1, "x"), frozenset({1}), 0, "", False])
def test_any_value_survives_a_snapshot(value):
    store = VersionedStore(history_retention_us=5)
    store.put(("k", 1), value, 1)
    assert VersionedStore(5, snapshot=store.snapshot()).get(("k", 1)) == (value, 1)


def test_a_snapshot_is_not_changed_by_what_follows():
    store = VersionedStore(5)
    store.put("k", "a", 1)
    state = store.snapshot()
    store.put("k", "b", 1)
    assert VersionedStore(5, snapshot=state).get("k") == ("a", 1)


@pytest.mark.parametrize("retention", [-1, 1.5, "1", True])
def test_a_retention_must_be_microseconds(retention):
    with pytest.raises(StateError, match=r"\[STATE.INVALID_RETENTION\].*or None for ever; got"):
        VersionedStore(retention)


@pytest.mark.parametrize("ts", [1.0, "1", None, True, 2**63, NOT_PUT])
def test_a_time_must_be_microseconds(ts):
    store = VersionedStore(10)
    for call in (lambda: store.put("k", "v", ts), lambda: store.get_as_of("k", ts), lambda: store.delete("k", ts)):
        with pytest.raises(StateError, match=r"\[STATE.INVALID_TIME\]"):
            call()


def test_a_null_key_is_refused():
    with pytest.raises(StateError, match=r"\[STATE.NULL_KEY\]"):
        VersionedStore(10).put(None, "v", 1)


def test_a_broken_snapshot_is_an_error():
    store = VersionedStore(10)
    store.put("k", "v", 1)
    state = store.snapshot()
    flipped = state[:-1] + bytes([state[-1] ^ 1])
    for broken in (b"", b"x" * 50, state[:-3], state + b"x", flipped, "text"):
        with pytest.raises(StateError) as error:
            VersionedStore(10, snapshot=broken)
        assert error.value.condition == "STATE.CORRUPT_SNAPSHOT"


@pytest.mark.parametrize(
    ("state", "condition"),
    [
        (VersionedStore(11).snapshot(), "STATE.RETENTION_CHANGED"),
        (seal("something else", {}), "STATE.SNAPSHOT_KIND"),
        (VersionedStore(10).snapshot().replace(b"SQLXST\x00\x01", b"SQLXST\x00\x63"), "STATE.SNAPSHOT_FORMAT"),
    ],
)
def test_a_snapshot_of_something_else_is_an_error(state, condition):
    with pytest.raises(StateError) as error:
        VersionedStore(10, snapshot=state)
    assert error.value.condition == condition


def test_a_value_that_cannot_be_written_is_named():
    store = VersionedStore(10)
    store.put("k", lambda: None, 1)
    with pytest.raises(StateError, match=r"\[STATE.NOT_SERIALIZABLE\]"):
        store.snapshot()
