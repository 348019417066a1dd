"""Laws of the versioned store, against a list of everything that was ever accepted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from udtf.state import NOT_PUT, VALID_TO_LATEST, VersionedStore

KEYS = st.sampled_from(["a", "b"])
TIMES = st.integers(-20, 40)
VALUES = st.none() | st.integers(0, 99)
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "get", "as_of", "delete"]), KEYS, TIMES, VALUES), max_size=60
)
RETENTIONS = st.none() | st.integers(0, 25)


class NaiveStore:
    """Keeps everything; semantics.md section 2, word by word."""

    def __init__(self, retention):
        self.retention = 10**9 if retention is None else retention
        self.versions, self.now = {}, -(10**9)

    def put(self, key, value, ts):
        if ts < self.now - self.retention:
            return NOT_PUT
        self.now = max(self.now, ts)
        self.versions[key, ts] = value
        return min((at for name, at in self.versions if name == key and at > ts), default=VALID_TO_LATEST)

    def get(self, key):
        return self._version(key, max((at for name, at in self.versions if name == key), default=None))

    def get_as_of(self, key, ts):
        latest = max((at for name, at in self.versions if name == key), default=None)
        if ts < self.now - self.retention:
            return self._version(key, latest if latest is not None and latest <= ts else None)
        return self._version(key, max((at for name, at in self.versions if name == key and at <= ts), default=None))

    def delete(self, key, ts):
        before = self.get_as_of(key, ts)
        return None if self.put(key, None, ts) == NOT_PUT else before

    def _version(self, key, at):
        value = None if at is None else self.versions[key, at]
        return None if value is None else (value, at)


def ask(store, step):
    verb, key, ts, value = step
    if verb == "put":
        return store.put(key, value, ts)
    return store.get(key) if verb == "get" else (store.get_as_of if verb == "as_of" else store.delete)(key, ts)


@given(RETENTIONS, STEPS)
def test_answers_are_those_of_a_store_that_never_expires_anything(retention, steps):
    store, naive = VersionedStore(retention), NaiveStore(retention)
    for step in steps:
        assert ask(store, step) == ask(naive, step), step
    for key in ("a", "b"):
        for ts in range(-25, 45):
            assert store.get_as_of(key, ts) == naive.get_as_of(key, ts)


@given(RETENTIONS, STEPS, st.integers(0, 60))
def test_snapshot_and_restore_are_invisible_anywhere(retention, steps, cut):
    store, copied = VersionedStore(retention), VersionedStore(retention)
    for number, step in enumerate(steps):
        if number == cut:
            copied = VersionedStore(retention, snapshot=copied.snapshot())
        assert ask(store, step) == ask(copied, step)
    assert len(store) == len(copied)


@given(st.integers(0, 25), STEPS)
def test_memory_is_bounded_by_the_retention(retention, steps):
    store, naive = VersionedStore(retention), NaiveStore(retention)
    for step in steps:
        ask(store, step)
        ask(naive, step)
    within = sum(at >= naive.now - retention for _, at in naive.versions)
    keys = {key for key, _ in naive.versions}
    assert len(store) <= within + len(keys)
