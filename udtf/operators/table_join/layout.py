"""The columns of what goes between the two steps of a join by foreign key."""

from __future__ import annotations

import pyarrow as pa

from udtf.columns.updates import key_columns, payload_columns


def between(schema: pa.Schema, kept: int) -> pa.Schema:
    """The columns of the rows between the steps.

    Args:
        schema: of the join's result.
        kept: how many order columns, which both inputs share, the result keeps.
    """
    shown = [schema.field(name) for name in (*payload_columns(schema.names), "__event_time")]
    order = [schema.field(f"__o{n}") for n in range(kept)]
    order += [pa.field(f"__o{n}", pa.int64()) for n in range(kept, kept + 3)]
    keys = [schema.field(name) for name in key_columns(schema.names)]
    told = [("__is", pa.bool_()), ("__has_key", pa.bool_()), ("__is_same", pa.bool_()), ("__right_time", pa.int64())]
    return pa.schema([*shown, *order, *keys, *(pa.field(*field) for field in told)])
