"""The rule of windows that every executor obeys: when one is closed. Compiled and plain, so this file imports no more.

Source: semantics.md 14, B3.
"""

from __future__ import annotations

from typing import Any

from udtf.rules import horizon


def close_bound(stream_time: Any, wait: Any, inclusive: Any) -> Any:
    """What ends before this is closed: [start, end) at its end and the wait, windows with their end in them after it.

    Args:
        stream_time: microseconds.
        wait: the grace period, and for sessions the gap, microseconds.
        inclusive: the end of a window belongs to it.
    """
    return horizon(stream_time, wait) + (0 if inclusive else 1)
