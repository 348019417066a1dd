"""A micro-batch of table rows: which are accepted, and the shape in which versions are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.operators import as_of_kernel as kernel
from udtf.operators import compiled_stream
from udtf.operators.as_of_columns import one_chunk
from udtf.operators.stream_rows import flags_of, is_present, keys_of, keys_present, micros_of, micros_or, refused

if TYPE_CHECKING:
    from udtf.operators.as_of_config import AsOfJoinConfig

_NEVER = 2**63 - 1


def versions_schema(config: AsOfJoinConfig, right: pa.Schema) -> pa.Schema:
    """Of versions as segments hold them, see `StreamVersions`."""
    fields = [pa.field(f"__k{number}", right.field(f"__k{number}").type) for number in range(config.n_keys)]
    fields += [pa.field("__hash", pa.int64()), pa.field("__time", pa.int64())]
    fields += [pa.field("__known", pa.int64())] if config.has_known else []
    fields += [pa.field("__flags", pa.int8())]
    fields += [pa.field(f"__tie{n}", right.field(name).type) for n, name in enumerate(_ties(config, right.names))]
    return pa.schema(fields + [right.field(name) for name in config.right_columns])


def _ties(config: AsOfJoinConfig, names: list[str]) -> list[str]:
    """The columns that order versions of equal time; arrival, where the table brings it, is the last one (B8)."""
    return [f"__tie{number}" for number in range(len(config.ties))] + (["__arrival"] if "__arrival" in names else [])


class RightBatch:
    """The table rows of a micro-batch.

    Args:
        config: the join.
        table: the rows in the order of arrival.
        now: the store's stream time before them.

    Attributes:
        now: the store's stream time after them.
        accepted: the versions among them, as they are kept.
        is_accepted: by row.
        clock: the store's stream time after each of the accepted.
    """

    def __init__(self, config: AsOfJoinConfig, table: pa.Table, now: int) -> None:
        self._config, self._table = config, table
        time = one_chunk(table["__time"])
        self._times, self._has_time = micros_of(time), is_present(time)
        has_key = keys_present(keys_of(table, config.n_keys))
        self._fates, self._clock = np.empty(len(table), np.int8), np.empty(len(table), np.int64)
        self.now = int(
            compiled_stream.decide_right(
                self._times, self._has_time, has_key, now, *config.right_limits, self._fates, self._clock
            )
        )
        self.is_accepted = self._fates == kernel.ACCEPTED
        self._rows = np.flatnonzero(self.is_accepted)
        self.accepted = self._kept()
        self.clock = self._clock[self._rows]

    def refused(self) -> pa.Table:
        """The rows that are no versions, as late rows."""
        rows = np.flatnonzero(~self.is_accepted)
        times = pa.array(self._times, mask=~self._has_time)
        return refused(self._table, rows, self._fates, times, self._clock, self._config.name)

    def _kept(self) -> pa.Table:
        config, table = self._config, self._table
        schema = versions_schema(config, table.schema)
        names = [f"__k{number}" for number in range(config.n_keys)]
        columns = {name: table[name] for name in (*names, "__hash", *config.right_columns)}
        columns["__time"] = pa.array(self._times)
        if config.has_known:  # a version that nobody knows when it became known never takes part (C4)
            columns["__known"] = pa.array(micros_or(one_chunk(table["__seq"]), _NEVER))
        columns["__flags"] = pa.array(flags_of(table))
        columns |= {f"__tie{n}": table[name] for n, name in enumerate(_ties(config, table.column_names))}
        kept = pa.table([columns[name] for name in schema.names], schema=schema)
        return kept if len(self._rows) == len(kept) else kept.take(pa.array(self._rows))
