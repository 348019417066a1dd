"""A keyed table of files and a count of it per group: what a table with `write.mode 'upsert'` has to show."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.harness.killing import WAITED, Driver, finished

Groups = list[tuple[str | None, int, int]]
#: Rows of a changing table in files; {folder} is where they are.
DEFINITION = (
    "CREATE OR REPLACE TEMPORARY UPSERT TABLE keyed_source (id BIGINT, g STRING, v BIGINT, gone BOOLEAN, ts TIMESTAMP) "
    "USING parquet OPTIONS (path '{folder}/keyed', maxFilesPerTrigger '1') "
    "TIMESTAMP BY ts KEYS (id) APPLY AS DELETE WHEN gone"
)
#: Groups come, change and go; one of them is NULL.
QUERY = "SELECT g, count(*) AS n, sum(v) AS v FROM keyed_source GROUP BY g EMIT CHANGES"
_IDS, _A_FILE, _GONE, _AHEAD = 30, 12, 0.3, 4
_FIRST_WRITTEN = 1_767_225_600
_GROUPS = ("a", "b", "c'\"`", "d", None)


def lives_and_deaths(folder: Path, form: str, most: int, read: Callable[[], Groups]) -> Keyed:
    """Let drivers upsert groups and be killed, then one end in peace; what they had to read.

    Args:
        folder: of files, checkpoint and tables.
        form: the format of the table.
        most: how many drivers are killed.
        read: what the table shows. After each kill that are the groups of some of the files, never fewer than before.
    """
    chance, keyed, shown = random.Random(form), Keyed(folder), 0
    for number in range(most):
        driver = Driver(folder, f"upsert={form}")
        at = finished(folder) + 1
        try:
            while finished(folder) <= at:
                assert driver.is_alive, driver.log
                while keyed.files < finished(folder) + _AHEAD:
                    keyed.add()
                WAITED.wait(0.02)
            WAITED.wait(chance.uniform(0, 4))  # a micro-batch takes about as long
        finally:
            driver.kill()
        found = read()
        assert found in keyed.answers[shown:], f"kill {number + 1}: {found} is no answer, or one of before"
        shown += keyed.answers[shown:].index(found)
    last = Driver(folder, "now", f"upsert={form}")
    try:
        assert last.process.wait(timeout=300) == 0, last.log
    finally:
        last.kill()
    return keyed


class Keyed:
    """Writes updates, a file at a time, and knows the groups after them."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.folder, self.files, self._dice = folder / "keyed", 0, random.Random(seed)
        self.folder.mkdir()
        self._rows: dict[int, tuple[str | None, int]] = {}
        #: The groups after each number of files.
        self.answers = [self.answer]

    def add(self) -> None:
        """One more file of updates and deletions."""
        rows = []
        for n in range(_A_FILE):
            key, group, value = self._dice.randrange(_IDS), self._dice.choice(_GROUPS), self._dice.randrange(9)
            gone = self._dice.random() < _GONE
            rows.append((key, group, value, gone, self.files * 1000 + n))
            if gone:
                self._rows.pop(key, None)
            else:
                self._rows[key] = (group, value)
        types = (pa.int64(), pa.string(), pa.int64(), pa.bool_(), pa.timestamp("us", tz="UTC"))
        arrays = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)]
        draft = self.folder / ".draft.parquet"
        pq.write_table(pa.table(arrays, names=["id", "g", "v", "gone", "ts"]), draft)
        written = _FIRST_WRITTEN + self.files
        os.utime(draft, (written, written))  # Spark takes files by it, and those of the same millisecond in any order
        draft.rename(self.folder / f"part-{self.files:05}.parquet")
        self.files += 1
        self.answers.append(self.answer)

    @property
    def answer(self) -> Groups:
        """The groups of the rows that are there now."""
        groups: dict[str | None, tuple[int, int]] = {}
        for group, value in self._rows.values():
            count, total = groups.get(group, (0, 0))
            groups[group] = (count + 1, total + value)
        return sorted(((g, n, v) for g, (n, v) in groups.items()), key=str)
