"""What an aggregation of a stream needs to know: its windows, its aggregates, and when results go out.

Source: KIP-328, KIP-450 (sliding windows), semantics.md sections 11 to 14, A and B.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from udtf.errors import OperatorError
from udtf.time import Micros


@dataclass(frozen=True)
class Window:
    """Which windows a row belongs to.

    Attributes:
        kind: 'time' (tumbling and hopping), 'cumulate' (windows of one start that grow by `slide_us` up to `size_us`),
            'session', 'sliding' (KIP-450: both ends inclusive), or 'none': the groups have no windows.
        size_us: length of a window; of a session the gap.
        slide_us: distance of the starts of time windows, step of cumulating ones; else 0.
        offset_us: where windows start, modulo the slide.
    """

    kind: str = "none"
    size_us: Micros = 0
    slide_us: Micros = 0
    offset_us: Micros = 0

    def __post_init__(self) -> None:
        _require("kind", self.kind, self.kind in ("time", "cumulate", "session", "sliding", "none"), "a kind of window")
        _require("size_us", self.size_us, self.kind == "none" or self.size_us > 0, "> 0")
        slides = self.kind in ("time", "cumulate")
        _require("slide_us", self.slide_us, not slides or 0 < self.slide_us <= self.size_us, "> 0 and <= size_us")

    @property
    def is_inclusive(self) -> bool:
        """A window is still open when stream time is exactly its end and the grace (semantics.md B3)."""
        return self.kind in ("session", "sliding")


@dataclass(frozen=True)
class Aggregate:
    """One aggregate function of the query.

    Attributes:
        function: its name in lower case, as `count`; 'rows' where its rows are kept for the engine to compute it.
        arguments: how many argument columns it has, `__a<n>_0 ..`; count(*) has none.
        distinct: of equal arguments only the first counts.
        ignore_nulls: first, last: look for values that are not NULL.
        has_filter: only rows whose column `__a<n>_f` is true count.
        type: Spark's name of the result's type, as `bigint` or `decimal(20,2)`.
    """

    function: str
    arguments: int = 0
    distinct: bool = False
    ignore_nulls: bool = False
    has_filter: bool = False
    type: str = "bigint"


@dataclass(frozen=True)
class WindowAggregateConfig:
    """Everything an aggregation needs to know; plain values only, so that it travels as JSON.

    Attributes:
        window: which windows a row belongs to.
        grace_us: how late a row may be for its window.
        emit: 'final' (once per window, when it is closed) or 'changes' (every update of a row).
        n_keys: how many grouping columns there are besides the window.
        aggregates: in the order of the output.
        max_rows, max_bytes: limits of what is open, with emit='final'; None is no limit.
        when_full: what happens at a limit: 'fail' or 'spill'.
        nets_updates: a session that one row deletes and makes again within its bounds is one update (AS CHANGELOG).
        max_future_us: refuse rows further ahead of stream time (B9); None is no limit.
        name: the operator's name in `_operator` and in messages.
    """

    window: Window = field(default_factory=Window)
    grace_us: Micros = 0
    emit: str = "changes"
    n_keys: int = 0
    aggregates: tuple[Aggregate, ...] = ()
    max_rows: int | None = None
    max_bytes: int | None = None
    when_full: str = "fail"
    nets_updates: bool = False
    max_future_us: Micros | None = None
    name: str = "window_aggregate"

    def __post_init__(self) -> None:
        _require("grace_us", self.grace_us, self.grace_us >= 0, ">= 0")
        _require("emit", self.emit, self.emit in ("final", "changes"), "'final' or 'changes'")
        has_end = self.emit == "changes" or self.window.kind != "none"
        _require("emit", self.emit, has_end, "'changes' without a window: nothing ever closes")
        _require("when_full", self.when_full, self.when_full in ("fail", "spill"), "'fail' or 'spill'")
        for name in ("max_rows", "max_bytes", "max_future_us"):
            value = getattr(self, name)
            _require(name, value, value is None or value >= 0, "None or >= 0")

    @property
    def is_final(self) -> bool:
        """Only final results go out."""
        return self.emit == "final"

    @property
    def horizon_us(self) -> Micros:
        """How long behind stream time a window closes after its end: the grace, and the gap of a session."""
        return self.grace_us + (self.window.size_us if self.window.kind == "session" else 0)

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WindowAggregateConfig:
        """From `to_json()`.

        >>> config = WindowAggregateConfig(Window("session", 10), aggregates=(Aggregate("count"),))
        >>> WindowAggregateConfig.from_json(config.to_json()) == config
        True
        """
        options: dict[str, Any] = json.loads(text)
        unknown = sorted(set(options) - {f.name for f in fields(cls)})
        if unknown:
            raise OperatorError.invalid_option("options", unknown, "names of WindowAggregateConfig")
        options["window"] = Window(**options.get("window", {}))
        options["aggregates"] = tuple(Aggregate(**a) for a in options.get("aggregates", ()))
        return cls(**options)


def _require(name: str, value: Any, holds: bool, wanted: str) -> None:
    if not holds:
        raise OperatorError.invalid_option(name, value, wanted)
