"""What a windowed aggregation answers, as short as it can be said; shares nothing with the code under test.

A history is a list of (key, time, value) in order of arrival. Every function works out everything anew from a history:
which windows there ever were and what each counted (semantics.md 12, 13, 14, B1, B3, B4, B14), and from two of these
what one record sent out. A window is {(key, start, end): members}; it closes by `end`, which is a session's last time.
"""

from __future__ import annotations

from typing import Any

FAR = -(2**62)
Windows = dict[tuple[Any, int, int], list]


def passed(history: list, kind: str, size: int, grace: int) -> int:
    """Windows with an end below this are closed, after the whole history."""
    now = max((time for _, time, _ in history), default=FAR)
    return now - grace - (size if kind == "session" else 0) + (kind in ("time", "cumulate"))


def spans(kind: str, size: int, slide: int, offset: int, time: int) -> list[tuple[int, int]]:
    """Windows of a time, tried one by one."""
    tried = range(time - 2 * size - slide, time + 1)
    if kind == "time":
        return [
            (start, start + size) for start in tried if (start - offset) % slide == 0 and start <= time < start + size
        ]
    begins = [start for start in tried if (start - offset) % size == 0 and start <= time < start + size]
    ends = [*range(slide, size, slide), size]
    return [(start, start + end) for start in begins for end in ends if time < start + end]


def time_windows(history: list, kind: str, size: int, slide: int, offset: int, grace: int) -> Windows:
    windows: Windows = {}
    for n, (key, time, _) in enumerate(history):
        for start, end in spans(kind, size, slide, offset, time):
            if end >= passed(history[: n + 1], kind, size, grace):
                windows.setdefault((key, start, end), []).append(history[n])
    return windows


def sliding_windows(history: list, size: int, grace: int) -> Windows:
    bounds = [passed(history[: n + 1], "sliding", size, grace) for n in range(len(history))]
    there = [n for n, (_, time, _) in enumerate(history) if time + size >= bounds[n]]
    ends = {(history[n][0], history[n][1]) for n in there if history[n][1] >= bounds[n]}
    for n in there:
        for m in there:
            key, end = history[n][0], history[n][1] + 1 + size
            if history[m][0] == key and end - size <= history[m][1] <= end and end >= bounds[max(n, m)]:
                ends.add((key, end))
    inside = lambda n, key, end: history[n][0] == key and end - size <= history[n][1] <= end and end >= bounds[n]  # noqa: E731
    return {(key, end - size, end): [history[n] for n in there if inside(n, key, end)] for key, end in ends}


def session_windows(history: list, gap: int, grace: int) -> tuple[Windows, Windows, list]:
    """All sessions that were not merged into others; those that the last record merged; the keys it was counted in."""
    windows: Windows = {}
    merged: Windows = {}
    touched: list = []
    for n, record in enumerate(history):
        bound, (key, time, _) = passed(history[: n + 1], "session", gap, grace), record
        since = max(bound - 2 * gap, time - gap)  # closed sessions merge, too; ours are kept for two gaps
        near = {w: windows[w] for w in windows if w[0] == key and w[2] >= since and w[1] <= time + gap}
        new = (key, min([time, *(w[1] for w in near)]), max([time, *(w[2] for w in near)]))
        merged, touched = {}, []
        if new[2] >= bound:
            members = [row for w in sorted(near, key=lambda w: w[1]) for row in near[w]]
            windows = {w: rows for w, rows in windows.items() if w not in near} | {new: [*members, record]}
            merged, touched = near, [new]
    return windows, merged, touched


def answer(members: list) -> tuple[Any, ...]:
    """count(*), sum(v), collect_list(v)."""
    values = [value for _, _, value in members if value is not None]
    return len(members), sum(values) if values else None, values


def reference(history: list, kind: str, size: int, slide: int, offset: int, grace: int, emit: str) -> list[list]:
    """What each record sent out: finals as (time, row), updates as (key, time, old, new)."""
    gap = size if kind == "session" else 0
    show = lambda w, members: (w[0], w[1], w[2] + gap, *answer(members)) if kind != "none" else (w[0], *answer(members))  # noqa: E731
    name = lambda w: (w[0], w[1], w[2] + gap) if kind != "none" else (w[0],)  # noqa: E731
    result = lambda w, members: w[2] if kind == "session" else max(time for _, time, _ in members)  # noqa: E731
    before: Windows = {}
    sent, open_from = [], FAR
    for n in range(1, len(history) + 1):
        merged: Windows = {}
        if kind == "session":
            windows, merged, changed = session_windows(history[:n], size, grace)
        elif kind == "none":
            windows = {}
            for record in history[:n]:
                windows.setdefault((record[0], 0, 0), []).append(record)
        elif kind == "sliding":
            windows = sliding_windows(history[:n], size, grace)
        else:
            windows = time_windows(history[:n], kind, size, slide, offset, grace)
        if kind != "session":
            changed = sorted((w for w in windows if windows[w] != before.get(w)), key=lambda w: w[1:])
        out: list = []
        if emit == "changes":
            in_place = list(merged) == changed and all(w[1] == w[2] for w in merged)
            gone = sorted(merged, key=lambda w: (w[2], w[1])) if not in_place else []
            out += [(name(w), w[2], show(w, merged[w]), None) for w in gone]
            old = {w: show(w, before[w]) for w in changed if w in before and w not in gone}
            out += [(name(w), result(w, windows[w]), old.get(w), show(w, windows[w])) for w in changed]
        else:
            bound = passed(history[:n], kind, size, grace)
            closed = [w for w in windows if open_from <= w[2] < bound]
            closed.sort(key=lambda w: (w[2], w[1], w[0] is not None, w[0] or ""))
            out += [(result(w, windows[w]), show(w, windows[w])) for w in closed]
            open_from = bound
        sent.append(out)
        before = windows
    return sent


def duckdb_sql(kind: str, size: int, slide: int, offset: int) -> str:
    """The complete answer over `s (k, t, v)`: k, start, end, count(*), sum(v)."""
    if kind == "session":
        return f"""
            WITH marked AS (
                SELECT *, coalesce(t - lag(t) OVER o > {size}, true)::INT AS begins FROM s
                WINDOW o AS (PARTITION BY k ORDER BY t)
            ), numbered AS (
                SELECT *, sum(begins) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING) AS session FROM marked
            )
            SELECT k, min(t), max(t) + {size}, count(*), sum(v)::BIGINT FROM numbered GROUP BY k, session"""
    return f"""
        WITH starts AS (SELECT range * {slide} + {offset} AS b FROM range(-1000, 1000))
        SELECT k, b, b + {size}, count(*), sum(v)::BIGINT
        FROM s JOIN starts ON b <= t AND t < b + {size} GROUP BY k, b"""
