"""The loop of the join with an UPSERT table over a micro-batch, compiled by `udtf.numba_cache`."""

from __future__ import annotations

from typing import Any


def join_current(codes: Any, cells: Any, ask_codes: Any, puts_before: Any, current: Any, rows: Any) -> int:
    """Put table rows and answer stream rows in the order of arrival; what came before counts, nothing else (6.2).

    A cell is the number of a payload row times 2, plus 1 where the filter is true; -1 is no row (a tombstone). `rows`
    gets the payload row of every answer, -1 for none. Returns how many keys more have a row.
    """
    put = 0
    more = 0
    for ask in range(len(ask_codes) + 1):
        end = puts_before[ask] if ask < len(ask_codes) else len(codes)
        while put < end:
            code = codes[put]
            more += (cells[put] >= 0) - (current[code] >= 0)
            current[code] = cells[put]
            put += 1
        if ask < len(ask_codes):
            code = ask_codes[ask]
            cell = current[code] if code >= 0 else -1
            rows[ask] = cell >> 1 if cell >= 0 and cell & 1 else -1
    return more
