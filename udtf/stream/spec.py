"""What a host must know of one live operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from udtf.metrics import MAXIMA as METRIC_MAXIMA
from udtf.metrics import UNMATCHED

if TYPE_CHECKING:
    from collections.abc import Callable

    from udtf.logic import StreamLogic
    from udtf.stream.blob_files import BlobFolder
    from udtf.stream.handover import Handover

_HOST: Final = (
    "buffered_rows",
    "buffered_bytes",
    "state_rows",
    "state_bytes",
    "restored_cache",
    "restored_tail",
    "restored_snapshot",
    "from_sibling",
    "restore_us",
    "max_event_time",
)
_ROWS: Final = ("rows_in", "rows_out", "late", "expired", "null_key", "null_time", "future")
#: What joins, deduplications and hosts count; those of `MAXIMA` combine by their maximum, all others add up over tasks.
COUNTERS: Final = (
    *_ROWS,
    "matched",
    "unmatched",
    *(f"unmatched_{reason}" for reason in UNMATCHED),
    "duplicates",
    "forwarded",
    "evicted_early",
    "idle_closed",
    *_HOST,
)
#: What joins with corrections count.
CORRECTED_COUNTERS: Final = (*COUNTERS, "corrected")
#: What aggregations, suppressions and the changes of tables count: the metrics of KIP-328.
TABLE_COUNTERS: Final = (
    *_ROWS,
    "records",
    "emitted",
    "late_record_drop",
    "expired_window_record_drop",
    "record_lateness_total",
    "record_lateness_max",
    "suppression_buffer_count_max",
    "suppression_buffer_size_max",
    "suppression_buffer_count_total",
    "suppression_buffer_size_total",
    "suppression_buffer_puts",
    "evicted_early",
    "spilled_rows",
    *_HOST,
)
MAXIMA: Final = METRIC_MAXIMA | {"max_event_time"}


@dataclass(frozen=True)
class ChangelogFolder:
    """Where the tasks of a query keep their changelogs, in the place of an engine's state store.

    Attributes:
        path: a folder that the driver and all workers see.
        partitions: over how many partitions the tasks are spread.
        blobs: where large blobs are on their way between workers; None: they go through the engine.
    """

    path: str
    partitions: int
    blobs: BlobFolder | None = None


@dataclass(frozen=True)
class StreamSpec:
    """One live operator.

    Attributes:
        operator: unique within the query; names its state, and its metrics in the query's progress.
        make_logic: makes an empty logic; picklable.
        fingerprint: what the state belongs to (operator, configuration); together with `tasks`.
        answers: all of its configuration, as text; what a worker has in memory is of one that answers alike.
        tasks: how many units of state.
        order_columns: per input how many columns `__o0 ..` give the order of arrival.
        keeps_order: whether the logic reads the order columns; else they end where the rows are sorted.
        common_sequence: the inputs interleave by `__o0`, which has one type in all; else by event time.
        n_keys: how many columns `__k0 ..` make the key.
        cache_bytes: what a worker process may keep of states between micro-batches.
        times: per input the column of its event time, by which inputs without a common sequence interleave.
        counters: what it counts.
        hands_over: its rows go straight to the next operator; None: Spark reads them.
        shows: the columns of its rows that travel; None: all.
        changelog: where the state is; None: in the engine's state store.
        idle_ms: after how long without rows a task gives out what is open, in wall clock; None is never.
    """

    operator: str
    make_logic: Callable[[], StreamLogic]
    fingerprint: str
    tasks: int = 16
    order_columns: tuple[int, ...] = (1,)
    keeps_order: bool = True
    common_sequence: bool = False
    n_keys: int = 1
    cache_bytes: int = 512 << 20
    times: tuple[str, ...] = ("__event_time", "__time")
    counters: tuple[str, ...] = COUNTERS
    idle_ms: int | None = None
    gives_updates: bool = False
    hands_over: Handover | None = None
    shows: tuple[str, ...] | None = None
    changelog: ChangelogFolder | None = None
    answers: str = ""

    @property
    def belongs_to(self) -> str:
        """What a task's state belongs to: with another number of tasks, the same task has other keys."""
        return f"{self.fingerprint}, {self.tasks} tasks"
