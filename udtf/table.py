"""What is to be known of a table by whoever keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from udtf.time import Micros


@dataclass(frozen=True)
class TableConfig:
    """Everything that is to be known of a table.

    Attributes:
        n_keys: how many key columns it has.
        max_future_us: refuse rows further ahead of stream time (B9); None is no limit.
        name: the operator's name in `_operator` and in messages.
        is_versioned: rows are in the order of their times, those of one time by arrival; else by arrival alone.
        retention_us: of a versioned table: refuse rows that are older than stream time by more; None is no limit.
    """

    n_keys: int = 1
    max_future_us: Micros | None = None
    name: str = "table_changes"
    is_versioned: bool = False
    retention_us: Micros | None = None
