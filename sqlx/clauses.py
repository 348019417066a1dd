"""Our clauses as they were written: spans and words, nothing resolved yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlx.dialect import Span

Spelling = Literal["as_of", "system_time", "match_condition", "asof_alias"]
Direction = Literal["backward", "forward", "nearest"]
Late = Literal["forward", "drop", "to"]
EmitKind = Literal["final", "changes", "every"]
Shape = Literal["append", "upsert", "changelog"]
WhenFull = Literal["emit", "fail", "spill"]


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


@dataclass
class EmitClause:
    """One EMIT: when results of a table go out, and as what.

    Attributes:
        span: all of it; head: its first words.
        kind: "final", "changes" or "every"; every_us: the interval of EMIT EVERY.
        shape: what was written behind AS.
        max_rows, max_bytes: limits of BUFFER MAX.
        when_full: what was written behind WHEN FULL.
        idle_us: the interval of IDLE TIMEOUT.
        options: option name to span of the whole option.
    """

    span: Span
    head: Span
    kind: EmitKind = "changes"
    every_us: int = 0
    shape: Shape | None = None
    max_rows: int | None = None
    max_bytes: int | None = None
    when_full: WhenFull | None = None
    idle_us: int | None = None
    options: dict[str, Span] = field(default_factory=dict)


@dataclass
class QueryTail:
    """What follows the FROM clause of a query block.

    Attributes:
        where, having: the conditions.
        group: the grouping expressions; grouping: the whole clause.
        grace_us: of the query's own GRACE PERIOD; grace: the clause.
        late_to: table of the query's own LATE TO; late: the clause.
        emit: the EMIT clause.
        laterals: LATERAL VIEW, which belongs to the FROM clause.
        rest: ORDER BY, LIMIT and what else is Spark's.
    """

    where: Span | None = None
    grouping: Span | None = None
    group: tuple[Span, ...] = ()
    grace: Span | None = None
    grace_us: int = 0
    having: Span | None = None
    late: Span | None = None
    late_to: str | None = None
    emit: EmitClause | None = None
    laterals: list[Span] = field(default_factory=list)
    rest: list[Span] = field(default_factory=list)

    @property
    def ours(self) -> list[Span]:
        """The clauses that Spark does not know."""
        return [span for span in (self.grace, self.late, self.emit.span if self.emit else None) if span is not None]
