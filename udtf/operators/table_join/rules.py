"""What a join of tables shows of an update of one side; plain and compiled alike.

Source: semantics.md 8.4 to 8.6, 9.2, 9.3, 9.5.
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


def asks_new(keeps_left: bool, has_key: bool) -> bool:
    """Whether the time of the right row that counts is that of the row to which the left one points now, if it does.

    Else it is that of the row to which it pointed: an inner join sends the deletion by way of that row. A left join
    deletes on its own, and at its own time.
    """
    return keeps_left or has_key


def shows(keeps_own: bool, has_row: bool, meets: bool) -> bool:
    """Whether an update of one side of a join by primary key is an update of the result (8.4 to 8.6).

    Args:
        keeps_own: rows of this side without a match are in the result.
        has_row: there was a row, or there is one now.
        meets: there is a row of the other side; a deletion of what was not there is an update then, too.
    """
    return meets or (keeps_own and has_row)


def is_joined(keeps_left: bool, keeps_right: bool, has_left: bool, has_right: bool) -> bool:
    """Whether a left and a right row, either of which may be none, are a row of the result."""
    return (has_left and (has_right or keeps_left)) or (has_right and keeps_right)
