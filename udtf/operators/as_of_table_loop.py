"""The loop of the bounded AS OF join: every left row of a table against all versions. Compiled by `compiled`."""

from __future__ import annotations

from typing import Any

from udtf.operators.as_of_kernel import (
    MATCH,
    NO_KEY,
    NULL_TIME,
    distance,
    pick,
    reason_without_pick,
    verdict,
)


def join_rows(
    codes: Any,
    as_of: Any,
    has_time: Any,
    spot: Any,
    known: Any,
    starts: Any,
    times: Any,
    spots: Any,
    tree: Any,
    tombstones: Any,
    passes: Any,
    direction: int,
    exclusive: bool,
    tolerance: Any,
    places: Any,
    reasons: Any,
) -> int:
    """Answer every left row: its place among the sorted versions (-1: no match) and its reason; returns the matches.

    Empty arrays stand for "all": `has_time` (all have one), `known`, `tombstones` (none is), `passes` (all do).
    `starts` has one entry more than there are keys; code -1 is a NULL key or one that no version has.
    """
    matches = 0
    for row in range(len(codes)):
        code = codes[row]
        places[row] = -1
        if len(has_time) > 0 and not has_time[row]:
            reasons[row] = NULL_TIME
            continue
        if code < 0:
            reasons[row] = NO_KEY
            continue
        low, high = starts[code], starts[code + 1]
        then = known[row] if len(known) > 0 else 0
        place = pick(times, spots, tree, low, high, as_of[row], spot[row], then, direction, exclusive)
        if place < 0:
            reasons[row] = reason_without_pick(tree, low, high, then, direction)
            continue
        reason = verdict(
            len(tombstones) > 0 and tombstones[place],
            len(passes) == 0 or passes[place],
            distance(spot[row], spots[place]) if tolerance >= 0 else tolerance,
            tolerance,
        )
        reasons[row] = reason
        if reason == MATCH:
            places[row] = place
            matches += 1
    return matches
