"""The dialect: sqlglot's Spark plus our words, and the token stream that every phase of the front end reads.

Stock sqlglot reads ``FROM a AS OF JOIN b`` as an alias named ``OF`` and rewrites parts of Spark 4.3 that it does not
know, so nothing is ever regenerated from its trees: the front end works on spans of the user's own text. The dialect
is a subclass; no other dialect in the process is touched.

Why so: docs/design/20261121_spans.md.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import TokenType

_WORD = re.compile(r"[^\W\d]\w*|\d+[^\W\d]\w*")
#: A number that is made of the characters of a word: 10L, 2BD, 1e9. Spark reads no name there.
_NUMBER = re.compile(r"\d+(?:[LSY]|(?:E\d+)?(?:F|D|BD)?)", re.IGNORECASE)
_PIECE = re.compile(r"\S+")
_NAMES = ("word", "quoted")
_STRINGS = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING, TokenType.NATIONAL_STRING})

#: Two words that begin a temporal clause; Spark 4.3 refuses each of them there, so neither may become an alias.
CLAUSE_PAIRS = frozenset(
    {
        ("AS", "OF"),
        ("DEDUPLICATE", "WITHIN"),
        ("EMIT", "FINAL"),
        ("EMIT", "CHANGES"),
        ("EMIT", "EVERY"),
        ("EMIT", "ON"),
        ("EMIT", "AFTER"),
        ("EMIT", "CORRECTIONS"),
        ("GRACE", "PERIOD"),
        ("GRACE", "INTERVAL"),
        ("TIES", "BY"),
        ("KNOWN", "AS"),
        ("WITH", "REASON"),
        ("LATE", "TO"),
        ("TOLERANCE", "INTERVAL"),
    }
)


class TemporalParser(SparkParser):
    """sqlglot's Spark parser with guarded aliases: a temporal clause is never read as the name of a table."""

    def _parse_table_alias(self, alias_tokens: Any = None) -> Any:
        this, following = self._curr, self._next
        if this and following and (this.text.upper(), following.text.upper()) in CLAUSE_PAIRS:
            return None
        return super()._parse_table_alias(alias_tokens=alias_tokens)


class SparkTemporal(Spark):
    """Spark SQL that knows time. Registered with sqlglot as the plug-in dialect ``spark_temporal``."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens; what follows EXPLAIN, SHOW or CALL is text like any other, not one opaque string."""

        COMMANDS: ClassVar[Any] = set()

    Parser = TemporalParser


class Token(NamedTuple):
    """One token of the user's text; ``text[start:end]`` is exactly what was written.

    Attributes:
        text: the text as written, quotes included.
        word: upper case for an unquoted word, else "" (so a quoted name is never a keyword).
        kind: "word", "quoted", "string", "number" or "op".
        name: the name that it spells, without quotes.
        is_name: whether it can name something: an unquoted word or a quoted identifier.
        symbol: the text of an operator, else "".
    """

    text: str
    word: str
    kind: str
    start: int
    end: int
    name: str
    is_name: bool
    symbol: str


class Span(NamedTuple):
    """A half-open range of character offsets in the statement."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """The text in the span."""
        return text[self.start : self.end]

    @property
    def pair(self) -> tuple[int, int]:
        """Start and end, as errors take them."""
        return self.start, self.end


class LexicalError(ValueError):
    """The text cannot be split into tokens (an open string or comment); Spark's own message is better than ours."""


def _kind(token_type: TokenType, text: str) -> str:
    if _WORD.fullmatch(text):
        return "number" if _NUMBER.fullmatch(text) else "word"
    if token_type in _STRINGS or text[0] in "'\"" or (text[-1] in "'\"" and len(text) > 1):
        return "string"
    if text[0] == "`":
        return "quoted"
    return "number" if token_type == TokenType.NUMBER else "op"


@lru_cache(maxsize=64)
def tokenize(text: str) -> tuple[Token, ...]:
    """Split Spark SQL text into tokens with exact offsets; comments and hints are left out.

    Raises:
        LexicalError: a string, quoted name or comment is not closed.

    >>> [t.text for t in tokenize("SELECT `a b`, 1L, 'it''s' -- x")]
    ['SELECT', '`a b`', ',', '1L', ',', "'it''s'"]
    """
    try:
        raw = SparkTemporal().tokenize(text)
    except TokenError as error:
        raise LexicalError(str(error)) from error
    tokens: list[Token] = []
    seen_end = -1
    for item in raw:
        start, end = item.start, item.end + 1
        if start < seen_end or item.token_type == TokenType.HINT:
            continue  # 1L is three sqlglot tokens over one span
        pieces = _pieces(item.token_type, text, start, end)
        if start == seen_end and tokens[-1].kind == pieces[0].kind == "string" and text[start - 1] == text[start]:
            start = tokens.pop().start  # 'it''s' is one string
            pieces = [_token(text[start:end], "string", start)]
        seen_end = end
        tokens.extend(pieces)
    return tuple(tokens)


def with_backquotes(text: str, tokens: tuple[Token, ...]) -> str:
    """The text with its names in double quotes in backquotes, where double quotes are those of names.

    >>> with_backquotes('SELECT "a""b" FROM "x"', tokenize('SELECT "a""b" FROM "x"'))
    'SELECT `a"b` FROM `x`'
    """
    pieces, end = [], 0
    for token in tokens:
        if token.text[0] == '"':
            name = token.text[1:-1].replace('""', '"').replace("`", "``")
            pieces += [text[end : token.start], f"`{name}`"]
            end = token.end
    return "".join([*pieces, text[end:]])


def _pieces(token_type: TokenType, text: str, start: int, end: int) -> list[Token]:
    """A token; sqlglot's keywords of several words (GROUP BY) become one token a word."""
    written = text[start:end]
    kind = _kind(token_type, written)
    if kind != "op" or len(written) == 1 or len(written.split()) == 1:
        return [_token(written, kind, start)]
    pieces = _PIECE.finditer(written)
    return [_token(piece.group(), _kind(TokenType.VAR, piece.group()), start + piece.start()) for piece in pieces]


def _token(text: str, kind: str, start: int) -> Token:
    word = text.upper() if kind == "word" else ""
    name = text[1:-1].replace("``", "`") if kind == "quoted" else text
    return Token(text, word, kind, start, start + len(text), name, kind in _NAMES, text if kind == "op" else "")


def tokenize_span(text: str, span: Span | None) -> tuple[Token, ...]:
    """The tokens of the statement that stand in a span."""
    if span is None:
        return ()
    tokens, starts = tokenize(text), _starts(text)
    found = tokens[bisect_left(starts, span.start) : bisect_left(starts, span.end)]
    return found[:-1] if found and found[-1].end > span.end else found


@lru_cache(maxsize=64)
def _starts(text: str) -> list[int]:
    """Where the tokens of a statement begin, to find those of a span."""
    return [token.start for token in tokenize(text)]


def unquoted(token: Token) -> str:
    """The text that a string token stands for."""
    quote = token.text[-1]
    body = token.text[token.text.index(quote) + 1 : -1].replace(quote * 2, quote)
    return body if token.text[0] in "rR" else re.sub(r"\\(.)", r"\1", body)


def quoted(name: str) -> str:
    """A name in backticks."""
    return f"`{name.replace('`', '``')}`"


# Splits a script into its statements, for Spark, the command line and replay alike.


def statement_spans(text: str) -> list[Span]:
    """The statements of a script, split at semicolons; BEGIN … END of a compound statement is one.

    >>> [s.of("SELECT 1; SELECT ';' ;") for s in statement_spans("SELECT 1; SELECT ';' ;")]
    ['SELECT 1', "SELECT ';'"]
    """
    spans: list[Span] = []
    start: int | None = None
    end = depth = 0
    for token in tokenize(text):
        if token.text == ";" and depth == 0:
            if start is not None:
                spans.append(Span(start, end))
            start = None
            continue
        if start is None:
            start = token.start
            depth = 1 if token.word == "BEGIN" else 0
        elif depth:
            depth += (token.word in ("BEGIN", "CASE", "IF", "WHILE", "LOOP", "REPEAT", "FOR")) - (token.word == "END")
        end = token.end
    return [*spans, Span(start, end)] if start is not None else spans


# The words that end or begin something in a FROM clause: none of them names a relation there without AS.


TAIL_WORDS = frozenset(
    "WHERE GROUP HAVING ORDER LIMIT OFFSET WINDOW QUALIFY UNION EXCEPT INTERSECT MINUS SORT CLUSTER DISTRIBUTE "
    "SELECT INSERT MAP REDUCE".split()
)
JOIN_WORDS = frozenset({"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "OUTER", "ASOF"})
NO_ALIAS = (
    TAIL_WORDS
    | (JOIN_WORDS - {"ASOF"})
    | frozenset("ON USING LATERAL TABLESAMPLE PIVOT UNPIVOT FOR WATERMARK MATCH_CONDITION WHEN SET".split())
)
QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})
AFTER_QUERY = frozenset(
    {"UNION", "EXCEPT", "INTERSECT", "MINUS", "ORDER", "LIMIT", "OFFSET", "SORT", "CLUSTER", "DISTRIBUTE"}
)
TRAVEL_WORDS = frozenset({"SYSTEM_TIME", "SYSTEM_VERSION", "TIMESTAMP", "VERSION"})
