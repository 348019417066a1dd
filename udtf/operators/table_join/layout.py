"""The columns of what goes between the two steps of a join by foreign key."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from udtf.columns.updates import key_columns, payload_columns

#: How many order columns there are beside those that the result keeps.
ORDERS: Final = 3


def between(schema: pa.Schema, kept: int) -> pa.Schema:
    """The columns of the rows between the steps.

    Args:
        schema: of the join's result.
        kept: how many order columns, which both inputs share, the result keeps.
    """
    shown = [schema.field(name) for name in (*payload_columns(schema.names), "__event_time")]
    order = [schema.field(f"__o{n}") for n in range(kept)]
    order += [pa.field(f"__o{n}", pa.int64()) for n in range(kept, kept + ORDERS)]
    keys = [schema.field(name) for name in key_columns(schema.names)]
    told = [(name, pa.bool_()) for name in ("__is_right", "__is", "__has_key", "__is_same")]
    told += [(name, pa.int64()) for name in ("__left", "__right_time")]
    return pa.schema([*shown, *order, *keys, *(pa.field(*field) for field in told)])
