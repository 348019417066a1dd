"""Our clauses of a FROM clause as they were written: spans and words, nothing resolved yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlx.dialect import Span

Spelling = Literal["as_of", "system_time", "match_condition", "asof_alias"]
Direction = Literal["backward", "forward", "nearest"]
Late = Literal["forward", "drop", "to"]


@dataclass
class AsOfClause:
    """One AS OF join: which spelling, its time, its options; each option with the span that an error points to.

    Attributes:
        spelling: which of the four spellings of design.md it is.
        head: span of the words that make it an AS OF join.
        time: span of the AS OF expression, or of the whole MATCH_CONDITION.
        exclusive: EXCLUSIVE was written.
        options: option name to span of the whole option.
    """

    spelling: Spelling
    head: Span
    time: Span | None = None
    exclusive: bool | None = None
    direction: Direction | None = None
    tolerance_us: int | None = None
    grace_us: int | None = None
    ties: tuple[Span, ...] = ()
    known: Span | None = None
    reason: str | None = None
    late_to: str | None = None
    options: dict[str, Span] = field(default_factory=dict)


@dataclass
class DeduplicateClause:
    """One DEDUPLICATE WITHIN: its interval, what makes rows duplicates, its options with the span of each.

    Attributes:
        head: span of DEDUPLICATE WITHIN.
        interval_us: how far apart duplicates lie at most.
        by: spans of the BY expressions.
        time: span of the ON TIME expression.
        keeps_last: KEEP LAST was written.
        late: what was written behind LATE; late_to: the table of LATE TO.
        options: option name to span of the whole option.
    """

    head: Span
    interval_us: int = 0
    by: tuple[Span, ...] = ()
    time: Span | None = None
    keeps_last: bool = False
    late: Late | None = None
    late_to: str | None = None
    options: dict[str, Span] = field(default_factory=dict)
