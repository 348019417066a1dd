"""What Spark says of a statement, said of what was written: where its parser stopped, and what was meant there."""

from __future__ import annotations

import re
from itertools import takewhile

from pyspark.errors import AnalysisException, PySparkException, QueryContextType

from sqlx.bind.binder import Binder
from sqlx.errors import BindError, RefusedBySpark, TemporalParseError, TemporalSqlError, shows_own_names
from sqlx.sql.edits import Edits
from sqlx.sql.near_misses import near_miss
from sqlx.sql.tokens import LexicalError, Span, Token, tokenize

_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")


def refused(binder: Binder, text: str, sql: str, edits: Edits | None = None) -> Exception:
    """The engine's error about a query that was made of a text, with a caret in the text as it was written.

    Args:
        binder: who asked the engine.
        text: the text.
        sql: the query.
        edits: what the text was rewritten by, if it was.
    """
    error = binder.refusal()
    if not isinstance(error, PySparkException) or isinstance(error, TemporalSqlError):
        return error or AssertionError("refused without a reason")
    return RefusedBySpark(error, text, _origin(error, text, sql, edits))


def refused_in(error: Exception, text: str, span: Span) -> Exception:
    """The engine's error about a query that was made of a part of a text, with a caret there; ours as it is.

    Args:
        error: what the engine said.
        text: the text.
        span: of the part.
    """
    if not isinstance(error, PySparkException) or isinstance(error, TemporalSqlError):
        return error
    contexts = error.getQueryContext()
    place = _only_place(contexts[0].fragment(), text, span) if contexts else None
    return RefusedBySpark(error, text, place or span.pair)


def meant(error: PySparkException, text: str) -> PySparkException:
    """The refusal of a statement; where its words are close to ours, a better one that says what to write.

    Args:
        error: what Spark said, or we.
        text: the statement as written.
    """
    text = (isinstance(error, RefusedBySpark) and error.text) or text  # of a part of it
    try:
        tokens = tokenize(text)
    except LexicalError:
        return error
    stopped_at = _offset(error, text, tokens)
    return (None if stopped_at is None else near_miss_error(text, tokens, stopped_at)) or error


def near_miss_error(text: str, tokens: tuple[Token, ...], stopped_at: int) -> TemporalParseError | None:
    """What to write in place of words that are close to ours, where a parser stopped at them; else None."""
    found = near_miss(tokens, stopped_at)
    if found is None:
        return None
    span, hint = found
    return TemporalParseError("PARSE.NEAR_MISS", text, span.pair, words=" ".join(span.of(text).split()), hint=hint)


def in_definition(error: BindError, text: str) -> TemporalSqlError:
    """What Spark's parser refused in the query of a definition, with a caret under it; every other error as it is."""
    cause = error.__cause__
    while cause is not None and not isinstance(cause, PySparkException):
        cause = cause.__cause__
    span = None if cause is None else _where_written(cause, text)
    if cause is None or span is None:
        return error
    return near_miss_error(text, tokenize(text), span[0]) or RefusedBySpark(cause, text, span)


def _where_written(error: PySparkException, text: str) -> tuple[int, int] | None:
    """The word at which Spark's parser stopped, in a text that it did not read as it was written."""
    word = _word(error)
    _, _, read = str(error).partition("== SQL ==\n")
    at = _at_place(error, read)
    return None if word is None or at is None else closest(text, word, read[:at])


def closest(text: str, words: str, before: str) -> tuple[int, int] | None:
    """Of the same words in a text those before which stands most of what stood before them where they were refused."""
    tokens = tokenize(text)
    ends = {token.end for token in tokens}
    begins = (token.start for token in tokens if words and text.startswith(words, token.start))
    places = [begin for begin in begins if begin + len(words) in ends]
    at = max(places, key=lambda place: _same_end(text[:place], before), default=None)
    return None if at is None else (at, at + len(words))


def _same_end(one: str, other: str) -> int:
    """How many characters two texts have in common at their ends."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def of_rewritten(error: PySparkException, text: str) -> PySparkException:
    """What Spark says about the text that a statement was rewritten to, without showing it."""
    is_shown = not isinstance(error, TemporalSqlError) and _word(error) is not None
    return RefusedBySpark(error, text, _where_written(error, text)) if is_shown else without_own_names(error, text)


def of_analysed(error: AnalysisException, text: str, sql: str) -> RefusedBySpark:
    """What Spark's analyzer says about the text that a statement was rewritten to, with a caret where it was written.

    Args:
        error: what it said.
        text: the statement.
        sql: what it was rewritten to.
    """
    return RefusedBySpark(error, text, _origin(error, text, sql, None))


def without_own_names(error: PySparkException, text: str) -> PySparkException:
    """An error that names what the user never wrote, without it."""
    is_shown = not isinstance(error, TemporalSqlError) and shows_own_names(str(error))
    return RefusedBySpark(error, text, None) if is_shown else error


def _word(error: PySparkException) -> str | None:
    """The word at which Spark's parser stopped; None where it read to the end, or refused for another reason."""
    if error.getCondition() != "PARSE_SYNTAX_ERROR":
        return None
    quoted = (error.getMessageParameters() or {}).get("error", "")
    return quoted[1:-1] if len(quoted) > 2 and quoted[0] == quoted[-1] == "'" else None


def _offset(error: PySparkException, text: str, tokens: tuple[Token, ...]) -> int | None:
    """Where Spark's parser stopped in a statement as written; by the word itself where it was rewritten before."""
    if error.getCondition() != "PARSE_SYNTAX_ERROR":
        return None
    if isinstance(error, TemporalSqlError) and error.span is not None:
        return error.span[0]
    at, word = _at_place(error, text), _word(error)
    same = [token.start for token in tokens if token.text == word]
    return same[0] if at is None and len(same) == 1 else at


def _at_place(error: PySparkException, text: str) -> int | None:
    """The offset that Spark's message gives by line and column, and nothing else; not every message does."""
    place = _PLACE.search(str(error))
    if place is None:
        return None
    before = text.split("\n")[: int(place[1]) - 1]
    return sum(len(line) + 1 for line in before) + int(place[2])


def _origin(error: PySparkException, text: str, sql: str, edits: Edits | None) -> tuple[int, int] | None:
    """Where what Spark pointed to in a query is in the text that the query was made of."""
    contexts = [one for one in error.getQueryContext() if one.contextType() is QueryContextType.SQL]
    if not contexts:
        return _where_written(error, text)
    fragment, start = contexts[0].fragment(), contexts[0].startIndex()
    place = closest(text, fragment, sql[:start])
    if place is not None or edits is None:
        return place
    first = edits.origin(start)
    return first, max(first + 1, min(edits.origin(contexts[0].stopIndex()) + 1, len(text)))


def _only_place(fragment: str, text: str, span: Span) -> tuple[int, int] | None:
    """Where a part of a text holds what Spark pointed to, if it does just once."""
    part = span.of(text)
    if not fragment or part.count(fragment) != 1:
        return None
    at = span.start + part.index(fragment)
    return at, at + len(fragment)
