"""What a join by foreign key shows of an update of its left side; plain and compiled alike.

Source: semantics.md 9.2, 9.3, 9.5.
"""

from __future__ import annotations


def shows_left(keeps_left: bool, had_key: bool, has_key: bool, is_same: bool, finds: bool) -> bool:
    """Whether an update of a left row is an update of the result.

    Args:
        keeps_left: rows without a match are in the result.
        had_key: there was a row before, and it pointed to something.
        has_key: there is a row now, and it points to something.
        is_same: to the same.
        finds: there is a right row where it points to now.
    """
    if keeps_left:
        return True
    if not has_key:
        return had_key
    return finds or (had_key and not is_same)  # a row that points elsewhere deletes what may never have been there


def asks_new(keeps_left: bool, is_now: bool, has_key: bool) -> bool:
    """Whether the time of the right row that counts is that of the row to which the left one points now."""
    return is_now if keeps_left else has_key
