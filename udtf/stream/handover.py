"""Rows that go from one operator straight to the next: packed for its tasks where they were answered.

Between two operators whose query does nothing but name columns no engine needs to see a row: what would be unpacked,
read, written and packed again stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from udtf.columns.arrays import one_chunk
from udtf.columns.hashes import hashes_of_keys
from udtf.stream.blobs import HASH, pack

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Handover:
    """How the rows of an operator are the input of the next one.

    Attributes:
        columns: of the input: the name, and which column of the rows it is.
        n_keys: how many columns `__k0 ..` make its key, of types that `udtf.columns.hashes` can hash.
        tasks: of the next operator.
    """

    columns: tuple[tuple[str, str], ...]
    n_keys: int
    tasks: int

    def packed(self, rows: pa.Table) -> Iterator[tuple[int, pa.Buffer]]:
        """One blob per task of the next operator and chunk, each with its task."""
        columns = {name: one_chunk(rows[source]) for name, source in self.columns}
        keys = [columns[f"__k{number}"] for number in range(self.n_keys)]
        columns[HASH] = pa.array(hashes_of_keys(keys, len(rows)))
        yield from pack(pa.table(columns).to_batches(), self.tasks)
