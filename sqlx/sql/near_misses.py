"""What a statement that Spark's parser refuses may have meant: words that are close to ours, and what to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlx.sql.tokens import NO_ALIAS, Span, Token


@dataclass(frozen=True)
class NearMiss:
    """Words that begin nothing, neither in Spark's SQL nor in ours.

    Attributes:
        words: each with its alternatives; ``#`` is a number or INTERVAL, ``@`` what begins no clause.
        hint: what to write.
        leads: whether the statement begins with them.
    """

    words: tuple[frozenset[str], ...]
    hint: str
    leads: bool = False

    def at(self, tokens: tuple[Token, ...], start: int) -> bool:
        """Whether these words are there."""
        if self.leads and start:
            return False
        found = tokens[start : start + len(self.words)]
        return len(found) == len(self.words) and all(map(_fits, found, self.words))


def _fits(token: Token, words: frozenset[str]) -> bool:
    is_length = token.kind == "number" or token.word == "INTERVAL"
    is_operand = not token.symbol and token.word not in NO_ALIAS
    named = token.word in words or token.symbol in words
    return named or ("#" in words and is_length) or ("@" in words and is_operand)


def _miss(words: str, hint: str, leads: bool = False) -> NearMiss:
    return NearMiss(tuple(frozenset(word.split("|")) for word in words.split()), hint, leads)


_STREAMING: Final = (
    "CREATE STREAMING TABLE name AS query begins a live query, and goes on from its checkpoint; "
    "SHOW STREAMING QUERIES, DESCRIBE STREAMING QUERY name and STOP STREAMING QUERY name are about those that run."
)
_DROP: Final = "STOP STREAMING QUERY name ends a live query; its result is a table of Spark's: DROP TABLE name."
_DEFINE: Final = "Write CREATE VERSIONED TABLE, or CREATE UPSERT TABLE; either takes AS query at its end."
_DEFINED: Final = (
    "A definition is a view of Spark's: DESCRIBE name shows its columns, SHOW STREAMS and SHOW VERSIONED TABLES what "
    "is defined, and CREATE OR REPLACE … changes it."
)
_OF_JOIN: Final = (
    "The options of an AS OF join come after its time or its condition: DIRECTION BACKWARD|FORWARD|NEAREST, "
    "TOLERANCE interval, GRACE PERIOD interval, TIES BY column, KNOWN AS OF time, WITH REASON [AS name], "
    "LATE TO table."
)
_OF_EMIT: Final = (
    "Options of EMIT come after it: EMIT FINAL BUFFER MAX 1000 ROWS WHEN FULL SPILL IDLE TIMEOUT INTERVAL '5' MINUTES."
)

_WITHIN: Final = (
    "WITHIN belongs to DEDUPLICATE. Rows of two streams within a time of each other: "
    "ON a.id = b.id AND b.time BETWEEN a.time - INTERVAL '5' MINUTES AND a.time + INTERVAL '5' MINUTES."
)

#: The longer words of two that begin alike come first.
NEAR_MISSES: Final = (
    _miss("DROP STREAMING", _DROP, leads=True),
    _miss("CREATE STREAMING", _STREAMING, leads=True),
    _miss("CREATE OR REPLACE STREAMING", _STREAMING, leads=True),
    _miss("SHOW|DESCRIBE|DESC|START|RESUME|RESTART|PAUSE|ALTER STREAMING", _STREAMING, leads=True),
    _miss("STOP|START|RESUME|RESTART|PAUSE|TERMINATE", _STREAMING, leads=True),
    _miss("SHOW QUERIES", _STREAMING, leads=True),
    _miss("DESCRIBE|DESC|ALTER|TRUNCATE|REFRESH|ANALYZE VERSIONED|UPSERT TABLE", _DEFINED, leads=True),
    _miss("ALTER STREAM", _DEFINED, leads=True),
    _miss("CREATE VERSIONED|UPSERT", _DEFINE, leads=True),
    _miss("CREATE OR REPLACE VERSIONED|UPSERT", _DEFINE, leads=True),
    _miss("FOR SYSTEM_TIME AS OF", "As of one time it comes before the name: FROM r FOR SYSTEM_TIME AS OF '…' AS x."),
    _miss("VERIFY", "Write VERIFY BATCH = STREAM query.", leads=True),
    _miss(
        "DEDUPLICATE BY|ON|WITHIN|(",
        "Write it after the relation: FROM r DEDUPLICATE WITHIN INTERVAL '10' MINUTES BY (column, …).",
    ),
    _miss("KEEP FIRST|LAST|LATEST|EARLIEST|NEWEST|OLDEST", "After BY (…) comes KEEP FIRST or KEEP LAST."),
    _miss(
        "EMIT",
        "EMIT takes FINAL, CHANGES, CORRECTIONS, EVERY interval PER KEY, ON WINDOW CLOSE or AFTER WINDOW CLOSE.",
    ),
    _miss(
        "SUPPRESS",
        "EMIT FINAL gives the result of a window once, when it is closed; EMIT EVERY INTERVAL '5' SECONDS PER KEY "
        "gives the last change of a key.",
    ),
    _miss(
        "WINDOW TUMBLING|HOPPING|SESSION",
        "Group by it: GROUP BY window(time, '5 minutes'), window(time, '10 minutes', '5 minutes') or "
        "session_window(time, '5 minutes').",
    ),
    _miss("BUFFER MAX", _OF_EMIT),
    _miss("WHEN FULL", _OF_EMIT),
    _miss("IDLE TIMEOUT", _OF_EMIT),
    _miss(
        "AS OF @",
        "Join it: JOIN r AS OF l.time ON l.id = r.id. One table as of one time: FROM r TIMESTAMP AS OF '…'.",
    ),
    _miss("TIES BY", _OF_JOIN),
    _miss("KNOWN AS", _OF_JOIN),
    _miss("WITH REASON|REASONS", _OF_JOIN),
    _miss("TOLERANCE #", _OF_JOIN),
    _miss(
        "WITH GRACE",
        "Write GRACE PERIOD INTERVAL '10' SECONDS after GROUP BY, or after the condition of an AS OF join.",
    ),
    _miss(
        "GRACE PERIOD|(|#",
        "GRACE PERIOD INTERVAL '10' SECONDS comes after GROUP BY, or after the condition of an AS OF join.",
    ),
    _miss("LATE TO", "LATE TO table comes after GRACE PERIOD interval, or among the options of a join."),
    _miss("WITHIN ( #", _WITHIN),
    _miss("WITHIN #", _WITHIN),
)


def near_miss(tokens: tuple[Token, ...], stopped_at: int) -> tuple[Span, str] | None:
    """Where a refused statement comes close to ours, and what to write instead.

    Args:
        tokens: of the statement.
        stopped_at: the offset at which Spark's parser stopped. There is one of the words that were meant, or the one
            after them: what stands elsewhere is not the reason.

    >>> from sqlx.sql.tokens import tokenize
    >>> text = "SELECT * FROM clicks DEDUPLICATE BY (id)"
    >>> span, hint = near_miss(tokenize(text), text.index("BY"))
    >>> span.of(text), hint
    ('DEDUPLICATE BY', "Write it after the relation: FROM r DEDUPLICATE WITHIN INTERVAL '10' MINUTES BY (column, …).")
    >>> near_miss(tokenize(text), text.index("FROM"))
    """
    for start in range(len(tokens)):
        for miss in NEAR_MISSES:
            words = tokens[start : start + len(miss.words) + 1]
            stop = next((n for n, token in enumerate(words) if token.start == stopped_at), None)
            if stop is None and len(words) == len(miss.words) and stopped_at >= words[-1].end:
                stop = len(words) - 1  # at the end of the text
            if stop is not None and miss.at(tokens, start):
                last = words[max(stop, len(miss.words) - 1)]
                return Span(tokens[start].start, last.end), miss.hint
    return None
