"""An operator's configuration where it runs record by record: with what only its inputs know."""

from __future__ import annotations

from dataclasses import replace

from sqlx.plan import AsOfJoin, Deduplicate, Fragment, Source, TableLookup
from udtf.operators.as_of_config import AsOfJoinConfig
from udtf.operators.deduplicate import DeduplicateConfig
from udtf.operators.table_lookup import TableLookupConfig
from udtf.time import Micros


def join_config(node: AsOfJoin | TableLookup) -> AsOfJoinConfig | TableLookupConfig:
    """With the limit of outliers, and the order of SCD2 rows."""
    config = node.config
    limit_us = _max_future_us(node.left)
    if limit_us is not None:
        config = replace(config, left_max_future_us=limit_us)
    if isinstance(config, AsOfJoinConfig) and any(c.name == "__arrival" for c in node.right.columns):
        config = replace(config, ties=(*config.ties, ("asc", "first")))
    return config


def deduplicate_config(node: Deduplicate) -> DeduplicateConfig:
    """With the limit of outliers."""
    return replace(node.config, max_future_us=_max_future_us(node.input))


def _max_future_us(fragment: Fragment) -> Micros | None:
    """The least limit of outliers among the streams that a fragment reads (semantics.md B9)."""
    future_us = [s.entry.max_future_us for s in fragment.walk() if isinstance(s, Source) and not s.entry.is_table]
    return min((limit for limit in future_us if limit is not None), default=None)
