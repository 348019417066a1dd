"""SQL scripts (BEGIN … END): each temporal statement is compiled when the script comes to it.

Spark parses a script as a whole before it runs. A temporal statement that was compiled then would read what was there
before the script, and not what the script has changed by then. So it goes into an EXECUTE IMMEDIATE, whose text Spark
parses when it is its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from catalog.statements import literal
from sqlx.errors import UnsupportedError
from sqlx.sql.edits import Edits
from sqlx.sql.tokens import Span, Token, quoted

_CONTROL = frozenset("BEGIN THEN ELSE DO LOOP REPEAT ATOMIC :".split())
_BEGINS = frozenset(
    "SELECT WITH FROM VALUES INSERT MERGE UPDATE DELETE CREATE REPLACE CACHE EXPLAIN TABLE ( DROP ALTER TRUNCATE "
    "EXECUTE REFRESH ANALYZE USE LOAD MSCK CALL UNCACHE CLEAR ADD COMMENT STOP SHOW DESCRIBE DESC".split()
)
_BEFORE_VALUES = frozenset(
    "SELECT DISTINCT ALL WHERE HAVING ON AND OR NOT BETWEEN IN LIKE ILIKE RLIKE ESCAPE CASE WHEN THEN ELSE LIMIT "
    "OFFSET OF FROM VALUES DIV".split()
)
_CLAUSES = frozenset("SELECT FROM WHERE HAVING LIMIT OFFSET QUALIFY".split())
_OF_ROWS = frozenset("SELECT WITH FROM VALUES".split())
_QUERIES = frozenset("SELECT WITH FROM VALUES TABLE ( EXPLAIN SHOW DESCRIBE DESC".split())


@dataclass(frozen=True)
class Step:
    """A statement between two semicolons of a script.

    Attributes:
        tokens: of all that is between them, control words too.
        start: where its own first token is among them; None where it is control flow alone.
    """

    tokens: tuple[Token, ...]
    start: int | None

    @property
    def own(self) -> tuple[Token, ...]:
        """The tokens of the statement itself."""
        return () if self.start is None else self.tokens[self.start :]

    @property
    def changes(self) -> bool:
        """Whether it may change what others read."""
        return bool(self.own) and _word(self.own[0]) not in _QUERIES


def steps(tokens: tuple[Token, ...]) -> Iterator[Step]:
    """The statements of a script, in the order in which they are written."""
    held: list[Token] = []
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text != ";" or depth:
            held.append(token)
            continue
        if held:
            yield _step(tuple(held))
        held = []
    if held:
        yield _step(tuple(held))


def _step(tokens: tuple[Token, ...]) -> Step:
    """With the first word that begins a statement and stands where one may."""
    depth = 0
    for at, token in enumerate(tokens):
        may_begin = at == 0 or _word(tokens[at - 1]) in _CONTROL
        if may_begin and depth == 0 and _word(token) in _BEGINS and not _in_case(tokens, at):
            return Step(tokens, at)
        depth += (token.text == "(") - (token.text == ")")
    return Step(tokens, None)


def _in_case(tokens: tuple[Token, ...], end: int) -> bool:
    words = [t.word for t in tokens[:end]]
    return words.count("CASE") > words.count("END")


def _word(token: Token) -> str:
    return token.word or token.text


@dataclass(frozen=True)
class Turns:
    """A script as it goes to Spark.

    Attributes:
        text: the script, with temporal statements that are compiled when it is their turn.
        stays: where the first one is, in the script as written, that is compiled now; None where there is none.
        changes: the script may change tables.
    """

    text: str
    stays: Span | None
    changes: bool


def at_its_turn(
    text: str,
    tokens: tuple[Token, ...],
    is_ours: Callable[[str, tuple[Token, ...]], bool],
    names_of: Callable[[str], frozenset[str] | None],
) -> Turns:
    """Let temporal statements of a script be compiled when it is their turn.

    The script's variables are handed over, as parameters. Where a variable may be a column, and where a query stands in
    the middle of control flow (FOR … AS query, IF EXISTS (query)), it is compiled now, see `refuse_stale`.

    Args:
        text: the script.
        tokens: its tokens.
        is_ours: whether a statement is temporal, by its text and tokens.
        names_of: of the relations that a statement reads and their columns, in lower case; None where one is not known.
    """
    found, variables = list(steps(tokens)), _declared(tokens)
    edits = Edits(text)
    stays: Span | None = None
    for step in found:
        control = step.tokens[: step.start]
        if control and is_ours(_span(control).of(text), control):
            stays = stays or _span(control)
        if not step.own or not is_ours(_span(step.own).of(text), step.own):
            continue
        own = _span(step.own)
        read = [t for n, t in enumerate(step.own) if t.name.lower() in variables and not _is_part(step.own, n)]
        names = names_of(own.of(text)) if read else frozenset()
        handed = None if names is None else _Handed.over(step.own, variables, names)
        if handed is None:
            stays = stays or _span(read[:1])
        else:
            edits.replace(own, f"EXECUTE IMMEDIATE {literal(handed.text(text, own))}{handed.using}")
    return Turns(edits.render(), stays, any(step.changes for step in found))


def refuse_stale(text: str, turns: Turns) -> None:
    """An operator that is compiled with its script would read what was there before it.

    Raises:
        UnsupportedError: `UNSUPPORTED.SCRIPT`: the script changes tables.
    """
    if turns.stays is not None and turns.changes:
        raise UnsupportedError("UNSUPPORTED.SCRIPT", text, turns.stays.pair)


@dataclass(frozen=True)
class _Handed:
    """The variables that a statement reads, as parameters of it.

    Attributes:
        places: where each stands, its parameter, and the name that the column has where it is one of its own.
        values: per parameter what the script gives for it.
    """

    places: tuple[tuple[Span, str, str], ...]
    values: Mapping[str, str]

    @classmethod
    def over(cls, own: tuple[Token, ...], variables: Set[str], names: Set[str]) -> _Handed | None:
        """The variables among a statement's tokens; None where one of these names may be something else, too.

        A name with a dot behind it is a row of FOR, and columns and relations come before variables, as in Spark.
        """
        places: list[tuple[Span, str, str]] = []
        values: dict[str, str] = {}
        items, start = _items(own), next((at for at, token in enumerate(own) if token.word in _OF_ROWS), len(own))
        if own[0].word in ("MERGE", "UPDATE", "DELETE"):  # the columns of their targets are read as well
            return None
        for at, token in enumerate(own[start:], start):  # before that are the names of what is made
            name = token.name.lower()
            if name not in variables or _is_part(own, at) or _text(own, at + 1) == "(":
                continue
            chain = own[at : at + 3] if _text(own, at + 1) == "." else own[at : at + 1]
            if name in names or not _may_be_value(own, at) or not chain[-1].is_name:
                return None
            parameter = "_".join(t.name.lower() for t in chain[::2])
            values[parameter] = ".".join(quoted(t.name) for t in chain[::2])
            is_item = at in items and _text(own, at + len(chain)).upper() in (",", "FROM", "")
            places.append((_span(chain), parameter, chain[-1].name if is_item else ""))
        return cls(tuple(places), values)

    def text(self, script: str, own: Span) -> str:
        """The statement with parameters."""
        edits = Edits(script)
        for span, parameter, column in self.places:
            edits.replace(span, f":{parameter}" + (f" AS {quoted(column)}" if column else ""))
        return edits.render(own)

    @property
    def using(self) -> str:
        """What hands the values over; empty where there are none."""
        given = ", ".join(f"{value} AS {parameter}" for parameter, value in self.values.items())
        return given and f" USING {given}"


def _items(own: tuple[Token, ...]) -> set[int]:
    """Where the items of select lists begin."""
    found: set[int] = set()
    in_list = [False]
    for at, token in enumerate(own):
        if token.text == "(":
            in_list.append(False)
        elif token.text == ")":
            in_list = in_list[:-1] or [False]
        elif token.word in ("SELECT", "FROM"):
            in_list[-1] = token.word == "SELECT"
        if in_list[-1] and (token.word in ("SELECT", "DISTINCT", "ALL") or token.text == ","):
            found.add(at + 1)
    return found


def _may_be_value(own: tuple[Token, ...], at: int) -> bool:
    """Whether a value may stand there: behind an operator, or a word that has one behind it. Else it is an alias.

    In ORDER BY and GROUP BY a value would be the number of a column.
    """
    before, depth = own[at - 1], 0
    if before.word not in _BEFORE_VALUES and (before.kind != "op" or before.text == ")"):
        return False
    if before.text == "(" and own[at - 2].word == "AS":  # the names of what a generator makes
        return False
    for token in reversed(own[:at]):
        depth += (token.text == ")") - (token.text == "(")
        if depth < 0 or (depth == 0 and token.word in _CLAUSES):
            return True
        if depth == 0 and token.word == "BY":
            return False
    return True


def _text(own: tuple[Token, ...], at: int) -> str:
    return own[at].text if at < len(own) else ""


def _span(tokens: Sequence[Token]) -> Span:
    return Span(tokens[0].start, tokens[-1].end)


def _declared(tokens: tuple[Token, ...]) -> set[str]:
    """Names after DECLARE, and those by which FOR calls its rows."""
    found: set[str] = set()
    for at, token in enumerate(tokens[:-1]):
        after = [t.word for t in tokens[at + 2 : at + 4]]
        if token.word == "FOR" and tokens[at + 1].is_name and after[:1] == ["AS"] and after != ["AS", "OF"]:
            found.add(tokens[at + 1].name.lower())
        if token.word != "DECLARE":
            continue
        rest = at + 1 + (tokens[at + 1].word in ("VARIABLE", "VAR"))
        while rest < len(tokens) and tokens[rest].is_name:
            found.add(tokens[rest].name.lower())
            rest += 2 if rest + 1 < len(tokens) and tokens[rest + 1].text == "," else len(tokens)
    return found


def _is_part(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether a token is no name, or one behind a dot."""
    return not tokens[at].is_name or (at > 0 and tokens[at - 1].text == ".")
