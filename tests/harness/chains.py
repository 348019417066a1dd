"""Random programs in which one operator reads another's result, every option drawn at random.

A program is a pure function of its seed, so that a failure is found again by its number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

Records = list[tuple[str, dict[str, Any]]]

_DEFINITIONS = """\
CREATE STREAM s (id INT, k STRING, v INT, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE VERSIONED TABLE t (k STRING, x STRING, rate INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts
  APPLY AS DELETE WHEN x = 'gone' HISTORY RETENTION INTERVAL '{retention}' MICROSECONDS;
CREATE UPSERT TABLE u (k STRING, x STRING, rate INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts
  APPLY AS DELETE WHEN x = 'gone';
"""
_KEYS = ("a", "b", "c", None)


@dataclass(frozen=True)
class Program:
    """One program.

    Attributes:
        operators: what it chains, innermost first.
        text: definitions and one query.
        records: (definition, row) in order of arrival.
        sizes: how many of them each micro-batch has.
    """

    operators: tuple[str, ...]
    text: str
    records: Records
    sizes: tuple[int, ...]


def _micros(random: Random, most: int) -> str:
    return f"INTERVAL '{random.randint(0, most)}' MICROSECONDS"


def _maybe(random: Random, *texts: str) -> str:
    """One of the texts after a space, or nothing."""
    chosen = random.choice(("", *texts))
    return f" {chosen}" if chosen else ""


def _condition(random: Random, table: str) -> str:
    return _maybe(
        random, f"AND {table}.x <> 'p'", f"AND i.v < {table}.rate", "AND i.id > 2", f"AND {table}.x IS NOT NULL"
    )


def as_of_join(source: str, random: Random) -> str:
    """Rows keep their columns; the value is the rate where one is found."""
    direction = random.choice(("", "", " DIRECTION FORWARD", " DIRECTION NEAREST"))
    options = f"{direction} TOLERANCE {_micros(random, 9)} GRACE PERIOD {_micros(random, 8)}" if direction else (
        _maybe(random, f"TOLERANCE {_micros(random, 12)}") + _maybe(random, f"GRACE PERIOD {_micros(random, 12)}")
    )  # fmt: skip
    return (
        "SELECT i.id, i.k, coalesce(t.rate, i.v) AS v, i.ts FROM "
        f"{source} AS i {random.choice(('', 'LEFT '))}JOIN t AS OF i.ts{_maybe(random, 'EXCLUSIVE')} "
        f"ON i.k = t.k{_condition(random, 't')}{options}"
    )


def table_lookup(source: str, random: Random) -> str:
    """The row that an upsert table has now."""
    join = random.choice(("", "LEFT "))
    condition = _condition(random, "u")
    return f"SELECT i.id, i.k, coalesce(u.rate, i.v) AS v, i.ts FROM {source} AS i {join}JOIN u ON i.k = u.k{condition}"


def deduplicate(source: str, random: Random) -> str:
    """Rows of one key, or of one key and id."""
    by = random.choice(("k", "k, v", "id"))
    keep = random.choice((" LATE DROP", " LATE FORWARD", "", " KEEP LAST", " KEEP LAST LATE DROP"))
    return f"SELECT id, k, v, ts FROM {source} DEDUPLICATE WITHIN {_micros(random, 15)} BY ({by}){keep} AS i"


def filtered(source: str, random: Random) -> str:
    """Plain SQL in between: names change places, rows are left out."""
    condition = random.choice(("k IS NOT NULL", "v % 3 <> 0", "id > 1", "true"))
    return f"SELECT id, k, v + 1 AS v, ts FROM {source} AS i WHERE {condition}"


def windows(source: str, random: Random) -> str:
    """Final results of windows; their time is that of their newest row."""
    window = random.choice(("window(ts, '{} microseconds')", "session_window(ts, '{} microseconds')"))
    call = window.format(random.randint(1, 12))
    having = _maybe(random, "HAVING count(*) > 1")
    grace = _maybe(random, f"GRACE PERIOD {_micros(random, 9)}")
    name = call.partition("(")[0]
    return (
        f"SELECT max(id) AS id, k, CAST(sum(v) AS INT) AS v, {name}.start AS ts FROM {source} AS i "
        f"GROUP BY k, {call}{grace}{having} EMIT FINAL"
    )


def sliding(source: str, random: Random) -> str:
    """Final results of sliding windows."""
    return (
        f"SELECT max(id) AS id, k, CAST(count(v) AS INT) AS v, sliding_window.start AS ts FROM {source} AS i "
        f"GROUP BY k, sliding_window(ts, '{random.randint(1, 9)} microseconds') GRACE PERIOD {_micros(random, 9)} "
        "EMIT FINAL"
    )


def changes(source: str, random: Random) -> str:
    """A table of results that change; nothing can read it further."""
    shape = random.choice(("", " AS CHANGELOG"))
    if random.random() < 0.4:
        having = _maybe(random, "HAVING sum(v) > 5")
        return f"SELECT k, sum(v) AS v, max(id) AS id FROM {source} AS i GROUP BY k{having} EMIT CHANGES{shape}"
    call = f"window(ts, '{random.randint(1, 12)} microseconds')"
    grace = f"GRACE PERIOD {_micros(random, 9)}"
    return (
        f"SELECT k, window.start AS ws, sum(v) AS v, count(*) AS n FROM {source} AS i GROUP BY k, {call} {grace} "
        f"EMIT CHANGES{shape}"
    )


def suppressed(source: str, random: Random) -> str:
    """Results that wait before they are sent."""
    limit = _maybe(random, "BUFFER MAX 2 ROWS WHEN FULL EMIT EARLY")
    wait = _micros(random, 9)
    return f"SELECT k, count(*) AS n, sum(v) AS v FROM {source} AS i GROUP BY k EMIT EVERY {wait} PER KEY{limit}"


Operator = Callable[[str, Random], str]
INNER: tuple[Operator, ...] = (as_of_join, table_lookup, deduplicate, windows, sliding)
OUTER: tuple[Operator, ...] = (*INNER, changes, suppressed)


def program(seed: int, *, defined: bool = False) -> Program:
    """The program of a seed: each pair of operators comes up every `len(INNER) * len(OUTER)` seeds.

    Args:
        seed: its number.
        defined: an operator reads the one before it by the name of a definition, else as a subquery.
    """
    random = Random(seed)
    first, last = INNER[seed % len(INNER)], OUTER[seed // len(INNER) % len(OUTER)]
    chain = [first, *([filtered] if random.random() < 0.3 else []), last]
    source, definitions = "s", []
    for number, operator in enumerate(chain):
        query = operator(source, random)
        source = f"d{number}" if defined else f"({query})"
        definitions += [f"CREATE STREAM {source} TIMESTAMP BY ts AS {query};\n"] if defined else []
    text = "".join([_DEFINITIONS.format(retention=random.randint(20, 60)), *definitions[:-1], query])
    records = _records(random)
    return Program(tuple(operator.__name__ for operator in chain), text, records, _sizes(records, random))


# Groups of a stream that change, as a table that other operators read.


@dataclass(frozen=True)
class _Groups:
    """A query whose rows are groups, and the columns by which they are known."""

    text: str
    keys: tuple[str, ...]


def _groups(source: str, random: Random) -> _Groups:
    """Groups with or without windows; their time is that of their newest row."""
    values = f"count(*) AS n, CAST(sum(v) AS INT) AS v, max(ts) AS at FROM {source} AS i"
    having = _maybe(random, "HAVING count(*) < 4", "HAVING sum(v) > 5")
    if random.random() < 0.4:
        return _Groups(f"SELECT k, {values} GROUP BY k{having}", ("k",))
    name = random.choice(("window", "session_window", "sliding_window"))
    call = f"{name}(ts, '{random.randint(1, 12)} microseconds')"
    bound = random.choice(("start", "end"))
    grace = f" GRACE PERIOD {_micros(random, 20)}"
    return _Groups(f"SELECT k, {name}.{bound} AS w, {values} GROUP BY k, {call}{grace}{having}", ("k", "w"))


def _known(groups: _Groups) -> str:
    return ", ".join(f"g.{key}" for key in groups.keys)


def filtered_groups(source: str, groups: _Groups, random: Random) -> str:
    """Plain SQL over them."""
    return (
        f"SELECT {_known(groups)}, n, v + 1 AS v FROM {source} AS g{_maybe(random, 'WHERE n > 1', 'WHERE v % 2 = 0')}"
    )


def grouped_groups(source: str, groups: _Groups, random: Random) -> str:
    """Groups of groups."""
    key = random.choice(("n", *groups.keys))
    return f"SELECT {key}, count(*) AS c, max(v) AS most, sum(v) AS total FROM {source} AS g GROUP BY {key}"


def joined_groups(source: str, groups: _Groups, random: Random) -> str:
    """Joined with a table: by its key, which is that of the groups where they have no windows."""
    other = random.choice("tu")
    kind = random.choice(("", "LEFT ", "FULL ") if len(groups.keys) == 1 else ("", "LEFT "))
    shown = f"coalesce(g.k, {other}.k) AS k" if kind == "FULL " else _known(groups)
    return f"SELECT {shown}, g.n, g.v, {other}.x FROM {source} AS g {kind}JOIN {other} ON g.k = {other}.k"


TABLES = (filtered_groups, grouped_groups, joined_groups)


def program_of_groups(seed: int) -> Program:
    """A program whose last operators read groups of a stream as a table: by name, or as a subquery."""
    random = Random(seed)
    reader = TABLES[seed % len(TABLES)]
    first = random.choice((None, *INNER))
    groups = _groups("s" if first is None else f"({first('s', random)})", random)
    is_defined = random.random() < 0.5
    is_looked_up = is_defined and len(groups.keys) == 1 and random.random() < 0.5
    kind, as_of = random.choice((("UPSERT", ""), ("VERSIONED", "AS OF s.ts "))) if is_looked_up else ("UPSERT", "")
    keys, emit = ", ".join(groups.keys), _maybe(random, "EMIT CHANGES")
    definition = f"CREATE {kind} TABLE d KEYS ({keys}) TIMESTAMP BY at AS {groups.text}{emit};\n"
    source = "d" if is_defined else f"({groups.text})"
    if is_looked_up:
        query = f"SELECT s.id, s.k, g.n, g.v FROM s {random.choice(('', 'LEFT '))}JOIN d AS g {as_of}ON s.k = g.k"
    else:
        emit = random.choice(("CHANGES", "CHANGES AS CHANGELOG", f"EVERY {_micros(random, 9)} PER KEY"))
        query = f"{reader(source, groups, random)} EMIT {emit}"
    text = _DEFINITIONS.format(retention=random.randint(20, 60)) + (definition if is_defined else "") + query
    records = _records(random)
    names = (first.__name__ if first else "s", "groups", "table_lookup" if is_looked_up else reader.__name__)
    return Program(names, text, records, _sizes(records, random))


#: The programs that the gate runs live on Spark: each operator once as the last one, behind different first ones.
GATE = tuple(len(INNER) * last + last % len(INNER) for last in range(len(OUTER)))


def _sizes(records: Records, random: Random) -> tuple[int, ...]:
    """How many records each of three micro-batches has."""
    cuts = sorted({0, len(records), *random.sample(range(len(records)), 2)})
    return tuple(stop - start for start, stop in pairwise(cuts))


def _records(random: Random) -> Records:
    now, records = 100, []
    for number in range(random.randint(10, 24)):
        now += random.randint(0, 6)
        time = None if random.random() < 0.04 else now - random.choice((0, 0, 0, 1, 5, 14, 40))
        key = random.choice(_KEYS[:3] if random.random() < 0.95 else _KEYS)
        if random.random() < 0.6:
            records.append(("s", {"id": number, "k": key, "v": random.randint(0, 9), "ts": time}))
        else:
            row = {"k": key, "x": random.choice(("p", "q", None, "gone")), "rate": random.randint(0, 9), "ts": time}
            records.append((random.choice("tu"), row))
    return records
