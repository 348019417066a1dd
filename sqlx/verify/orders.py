"""Orders of arrival: those that a query's grace allows, and the better ones by which a difference is explained."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlx.plan.nodes import Plan
from sqlx.verify.recording import Arrival, in_event_time, recorded


def allowed_us(plan: Plan) -> int:
    """How late a row may come without a change of the answer: the least grace of the operators, microseconds."""
    return min((getattr(config, "grace_us", None) or 0 for config in _configs(plan)), default=0)


def has_grace(plan: Plan) -> bool:
    """Whether an operator of the query can wait."""
    return any(hasattr(config, "grace_us") for config in _configs(plan))


def _configs(plan: Plan) -> list[Any]:
    return [
        getattr(operator, "live_config", None) or getattr(operator, "config", None) for operator in plan.operators()
    ]


def shuffled(arrivals: Sequence[Arrival], late_us: int, seed: int) -> tuple[Arrival, ...]:
    """Another order: each row comes up to so many microseconds late, and equal times in any order.

    Args:
        arrivals: the rows.
        late_us: the most; 0 is the order of event time.
        seed: of the pseudo-random numbers; the same gives the same order.
    """
    chance = random.Random(seed)
    keyed = [((_time(row) + chance.randint(0, late_us), chance.random()), row) for row in arrivals]
    return as_they_replace([row for _, row in sorted(keyed, key=lambda pair: pair[0])], arrivals)


def as_they_replace(order: Sequence[Arrival], arrivals: Sequence[Arrival]) -> tuple[Arrival, ...]:
    """The same order, but that rows of each upsert table are among themselves as recorded: the last to arrive counts.

    Args:
        order: another order of the rows.
        arrivals: the rows as recorded.
    """
    names = {row.entry.name for row in arrivals if row.entry.kind == "upsert"}
    following = {name: iter([row for row in arrivals if row.entry.name == name]) for name in names}
    return tuple(next(following[row.entry.name]) if row.entry.name in names else row for row in order)


def with_ties_in_order(arrivals: Sequence[Arrival]) -> tuple[Arrival, ...]:
    """The same order, but that rows of equal event time are among themselves as in the bounded query."""
    groups: dict[int | None, list[int]] = defaultdict(list)
    for place, row in enumerate(arrivals):
        groups[row.time_us].append(place)
    found = list(arrivals)
    for places in groups.values():
        if len(places) > 1:
            rows = in_event_time(sorted((arrivals[place] for place in places), key=recorded))
            for place, row in zip(places, rows, strict=True):
                found[place] = row
    return as_they_replace(found, arrivals)


def lateness_us(arrivals: Iterable[Arrival]) -> int:
    """How far the latest row is behind the greatest event time before it, microseconds."""
    now: int | None = None
    most = 0
    for row in arrivals:
        if row.time_us is not None:
            now = row.time_us if now is None else max(now, row.time_us)
            most = max(most, now - row.time_us)
    return most


def _time(row: Arrival) -> int:
    return 0 if row.time_us is None else row.time_us
