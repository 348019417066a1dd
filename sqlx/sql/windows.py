"""Reads the calls that group by windows: window, session_window and our sliding_window.

Source: Spark's functions of these names; KIP-450 (sliding windows), semantics.md sections 12, 13, B14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sqlx.errors import BindError, TemporalParseError, UnsupportedError
from sqlx.sql.cursor import Cursor
from sqlx.sql.intervals import parse_interval
from sqlx.sql.structure import WindowCall, WindowRelation
from sqlx.sql.tokens import Span, Token, quoted, tokenize
from udtf.operators.window_aggregate.config import Window

if TYPE_CHECKING:
    from collections.abc import Set

    from sqlx.sql.structure import Relation


CALLS = ("window", "session_window", "sliding_window")
_MOST_ARGUMENTS = {"window": 4, "session_window": 2, "sliding_window": 2}
_WANTED = {"window": "a time, a length, and perhaps a slide and a start", "session_window": "a time and a gap"}
_LENGTHS = {"window": "length", "session_window": "gap", "sliding_window": "length"}


def window_call(text: str, tokens: tuple[Token, ...]) -> WindowCall | None:
    """The window call that an expression is; None for any other.

    Raises:
        BindError: a length is not above zero, or the slide is longer than the window.
        TemporalParseError: an argument is no interval.
    """
    if len(tokens) < 3 or tokens[0].name.lower() not in CALLS or not tokens[0].is_name or tokens[1].text != "(":
        return None
    cursor = Cursor(text, tokens, 1)
    if cursor.closing() != len(tokens) - 1:
        return None
    name = tokens[0].name.lower()
    inner = Cursor(text, tokens, 2, len(tokens) - 1)
    arguments = [] if inner.done else inner.expressions()
    if not inner.done:
        inner.fail("`,` or `)`")
    span = Span(tokens[0].start, tokens[-1].end)
    if not 2 <= len(arguments) <= _MOST_ARGUMENTS[name]:
        wanted, plural = _WANTED.get(name, "a time and a length"), "s" * (len(arguments) != 1)
        raise BindError(
            "WINDOW.ARGUMENTS",
            text,
            span.pair,
            function=name,
            wanted=wanted,
            count=f"{len(arguments)} argument{plural}",
        )
    lengths = [length_us(text, argument, name) for argument in arguments[1:]]
    return WindowCall(span, name, arguments[0], _window(text, name, arguments, lengths))


def _window(text: str, name: str, arguments: list[Span], lengths: list[int]) -> Window:
    size_us = lengths[0]
    if size_us <= 0:
        _refuse(text, arguments[1], "WINDOW.LENGTH", function=name, what=_LENGTHS[name])
    if name != "window":
        return Window("session" if name == "session_window" else "sliding", size_us)
    slide_us = lengths[1] if len(lengths) > 1 else size_us
    if slide_us <= 0:
        _refuse(text, arguments[2], "WINDOW.LENGTH", function=name, what="slide")
    if slide_us > size_us:
        _refuse(text, arguments[2], "WINDOW.SLIDE")
    return Window("time", size_us, slide_us, lengths[2] % slide_us if len(lengths) > 2 else 0)


def _refuse(text: str, span: Span, condition: str, **parameters: str) -> NoReturn:
    raise BindError(condition, text, span.pair, found=span.of(text), **parameters)


def length_us(text: str, span: Span, what: str) -> int:
    """The length that an argument gives: an INTERVAL literal, or a string such as '10 minutes'.

    Raises:
        TemporalParseError: it is neither.
        UnsupportedError: it is an expression: how long a window is must be known before rows come.
    """
    tokens = [t for t in tokenize(text) if span.start <= t.start and t.end <= span.end]
    if len(tokens) == 1 and tokens[0].kind == "string":
        written = tokens[0].text[1:-1].strip()
        literal = f"INTERVAL '{written[8:].strip() if written.lower().startswith('interval') else written}'"
        try:
            return parse_interval(tokenize(literal), 0, what, literal, allow_negative=True)[0]
        except TemporalParseError as error:
            parameters = {**error.parameters, "found": tokens[0].text}
            raise TemporalParseError(error.condition, text, span.pair, **parameters) from None
    if tokens and (tokens[0].word == "INTERVAL" or tokens[0].text in "+-"):
        value_us, end = parse_interval(tokens, 0, what, text, allow_negative=True)
        if end == len(tokens):
            return value_us
    raise UnsupportedError("WINDOW.LENGTH_EXPRESSION", text, span.pair, function=what, found=span.of(text))


# Flink's windows as relations: TUMBLE, HOP, CUMULATE and SESSION over a table.
#
# ::
#
#     FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
#
# Bounded, the relation becomes a subquery with ``window_start``, ``window_end`` and ``window_time``; live, a GROUP BY
# of ``window_start`` and ``window_end`` over it is a grouping by windows. Source: Flink SQL, "Windowing TVF".


_LENGTHS_OF_RELATION = {"tumble": (1, 2), "hop": (2, 3), "cumulate": (2, 3), "session": (1, 1)}
#: What such a relation adds to the columns, and the live aggregation's SQL for it.
BOUNDS = {"window_start": "__ws", "window_end": "__we", "window_time": "(__we - INTERVAL 1 MILLISECOND)"}
_FORMS = {
    "tumble": "TUMBLE(TABLE t, DESCRIPTOR(ts), size)",
    "hop": "HOP(TABLE t, DESCRIPTOR(ts), slide, size)",
    "cumulate": "CUMULATE(TABLE t, DESCRIPTOR(ts), step, max_size)",
    "session": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), gap)",
}


def windowed(text: str, tokens: tuple[Token, ...], found: Relation) -> Relation:
    """The same relation, understood: it has the parts of its table where it is a window function of Flink's.

    Raises:
        TemporalParseError: it is one, and not of its form.
    """
    inside = [n for n, t in enumerate(tokens) if found.body.start <= t.start and t.end <= found.body.end]
    words = [tokens[n].word for n in inside]
    if "DESCRIPTOR" not in words:
        return found
    first = inside[2] if words[0] == "TABLE" else inside[0]
    name = tokens[first].name.lower()
    if name not in _LENGTHS_OF_RELATION:
        return found
    last = inside[-2] if words[0] == "TABLE" else inside[-1]
    cursor = Cursor(text, tokens, first + 2, last)
    relation, parts, found.stream = _read(cursor, name, found.body)
    found.kind, found.parts, found.windows = "name", parts, relation
    return found


def _read(cursor: Cursor, name: str, body: Span) -> tuple[WindowRelation, tuple[str, ...], bool]:
    """What it does, over which table, and whether that is read live: `TABLE STREAM t`."""
    _skip_name(cursor)
    if not cursor.take("TABLE"):
        _form(cursor, name)
    following = cursor.peek(1)
    stream = following is not None and following.is_name and following.word != "PARTITION" and cursor.take("STREAM")
    start = cursor.index
    parts = tuple(part.name for part in cursor.path("a table; name a query in a WITH clause"))
    source = cursor.span_from(start).of(cursor.text)
    partition = _partition(cursor, name)
    _comma(cursor, name)
    if not cursor.take("DESCRIPTOR") or cursor.symbol() != "(":
        _form(cursor, name)
    inner = Cursor(cursor.text, cursor.tokens, cursor.index + 1, cursor.closing())
    time = inner.skip_expression()
    cursor.skip_group()
    lengths: list[Span] = []
    while not cursor.done:
        _comma(cursor, name)
        lengths.append(cursor.skip_expression())
    least, most = _LENGTHS_OF_RELATION[name]
    if not least <= len(lengths) <= most:
        _form(cursor, name)
    window = _window_of_relation(cursor.text, name, lengths)
    return WindowRelation(WindowCall(body, "", time, window), name, source, partition), parts, stream


def _partition(cursor: Cursor, name: str) -> list[Span]:
    if not cursor.take("PARTITION", "BY"):
        return []
    if name != "session":
        _form(cursor, name)
    if cursor.symbol() != "(":
        return [cursor.skip_expression()]
    inner = Cursor(cursor.text, cursor.tokens, cursor.index + 1, cursor.closing())
    found = inner.expressions()
    cursor.skip_group()
    return found


def _comma(cursor: Cursor, name: str) -> None:
    if cursor.symbol() != ",":
        _form(cursor, name)
    cursor.step()
    _skip_name(cursor)


def _skip_name(cursor: Cursor) -> None:
    """``SIZE => …``: arguments may be named, in their order."""
    if cursor.symbol(1) == "=>":
        cursor.step(2)


def _form(cursor: Cursor, name: str) -> NoReturn:
    cursor.fail(_FORMS[name])


def _window_of_relation(text: str, name: str, lengths: list[Span]) -> Window:
    sizes = [length_us(text, span, name.upper()) for span in lengths]
    for span, size in zip(lengths[: 1 if name in ("tumble", "session") else 2], sizes, strict=False):
        if size <= 0:
            what = "gap" if name == "session" else "length"
            raise BindError("WINDOW.LENGTH", text, span.pair, function=name.upper(), what=what, found=span.of(text))
    if name == "session":
        return Window("session", sizes[0])
    size_us, slide_us = (sizes[0], sizes[0]) if name == "tumble" else (sizes[1], sizes[0])
    if slide_us > size_us:
        raise BindError("WINDOW.SLIDE", text, lengths[0].pair)
    offset = sizes[1] if name == "tumble" and len(sizes) > 1 else sizes[2] if len(sizes) > 2 else 0
    if name == "cumulate" and size_us % slide_us:
        raise BindError("WINDOW.STEP", text, lengths[0].pair)
    step = size_us if name == "cumulate" else slide_us
    return Window("cumulate" if name == "cumulate" else "time", size_us, slide_us, offset % step)


# bounded


def bounded_windows(text: str, relation: Relation) -> tuple[Span, str] | None:
    """The edit that makes the relation a subquery of plain Spark SQL; None for every other relation."""
    if relation.windows is None:
        return None
    alias = "" if relation.alias is not None else f" AS {quoted(relation.parts[-1])}"
    return relation.body, _bounded(text, relation.windows) + alias


def _bounded(text: str, relation: WindowRelation) -> str:
    window, time = relation.call.window, relation.call.time.of(text)
    if window.kind == "session":
        return _sessions(text, relation, time)
    size, slide, offset = (f"'{us} microseconds'" for us in (window.size_us, window.slide_us, window.offset_us))
    if window.kind == "cumulate":
        return _cumulated(relation, time, size, offset)
    rows = f"SELECT *, window({time}, {size}, {slide}, {offset}) AS __w FROM {relation.source}"
    return f"(SELECT * EXCEPT (__w), {_bounds('__w.start', '__w.end')} FROM ({rows}))"


def _bounds(start: str, end: str) -> str:
    time = f"{end} - INTERVAL 1 MILLISECOND AS window_time"
    return f"{start} AS window_start, {end} AS window_end, {time}"


def _cumulated(relation: WindowRelation, time: str, size: str, offset: str) -> str:
    window = relation.call.window
    steps = -(-window.size_us // window.slide_us)
    rows = f"SELECT *, window({time}, {size}, {size}, {offset}).start AS __s FROM {relation.source}"
    length = f"least(i * {window.slide_us}L, {window.size_us}L)"
    ends = f"transform(sequence(1, {steps}), i -> __s + make_dt_interval(0, 0, 0, {length} / 1000000BD))"
    rows = f"SELECT *, explode(filter({ends}, e -> e > {time})) AS __e FROM ({rows})"
    return f"(SELECT * EXCEPT (__s, __e), {_bounds('__s', '__e')} FROM ({rows}))"


def _sessions(text: str, relation: WindowRelation, time: str) -> str:
    """A row begins a session when the one before it is further away than the gap."""
    gap_us = relation.call.window.size_us
    keys = ", ".join(span.of(text) for span in relation.partition)
    by = f"PARTITION BY {keys} " if keys else ""
    before = f"lag({time}) OVER ({by}ORDER BY {time})"
    begins = f"coalesce(unix_micros({time}) - unix_micros({before}) > {gap_us}, true)"
    rows = f"SELECT *, {begins} AS __b FROM {relation.source} WHERE {time} IS NOT NULL"
    rows = f"SELECT *, sum(int(__b)) OVER ({by}ORDER BY {time}) AS __n FROM ({rows})"
    of = f"OVER (PARTITION BY {keys + ', ' if keys else ''}__n)"
    gap = f"INTERVAL '{gap_us // 1_000_000}.{gap_us % 1_000_000:06d}' SECOND"
    bounds = _bounds(f"min({time}) {of}", f"max({time}) {of} + {gap}")
    return f"(SELECT * EXCEPT (__b, __n), {bounds} FROM ({rows}))"


def check_bounds(text: str, relation: WindowRelation, grouped: Set[str]) -> None:
    """Live, the groups are those of the windows: both bounds are grouped by.

    Raises:
        BindError: one is not.
    """
    if not {"window_start", "window_end"} <= grouped:
        span = relation.call.span.pair
        raise BindError("WINDOW.RELATION_UNGROUPED", text, span, name=relation.name.upper())


def check_partition(text: str, relation: WindowRelation, keys: list[tuple[Token, ...]]) -> None:
    """Live, the sessions of a key are those of a group.

    Raises:
        TemporalParseError: PARTITION BY and GROUP BY name other columns.
    """
    if relation.name != "session":
        return
    grouped = {"".join(t.text.lower() for t in key).split(".")[-1] for key in keys}
    divided = {span.of(text).lower().split(".")[-1] for span in relation.partition}
    if grouped != divided:
        raise TemporalParseError("WINDOW.PARTITION", text, relation.call.span.pair)
