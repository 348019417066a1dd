"""The shape of a statement: query blocks, the relations and joins of their FROM clauses, and the span of each.

Only the structure is read; expressions stay text. So constructs that no parser but Spark's own knows (``WATERMARK …
DELAY OF``, a leading ``window(…)``, ``NEAREST … BY``, pipes) pass through untouched, whatever they hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlx.sql.tokens import Span, Token
from udtf.operators.window_aggregate.config import Window

# Our clauses as they were written: spans and words, nothing resolved yet.


Spelling = Literal["as_of", "system_time", "match_condition", "asof_alias"]
Direction = Literal["backward", "forward", "nearest"]
Late = Literal["forward", "drop", "to"]
EmitKind = Literal["final", "changes", "every", "corrections"]
Shape = Literal["append", "upsert", "changelog"]
WhenFull = Literal["emit", "fail", "spill"]


@dataclass
class AsOfClause:
    """One AS OF join: which spelling, its time, its options; each option with the span that an error points to.

    Attributes:
        spelling: which of the four spellings of docs/operators/as_of_join.md it is.
        head: span of the words that make it an AS OF join.
        time: span of the AS OF expression, or of the whole MATCH_CONDITION.
        exclusive: EXCLUSIVE was written.
        options: option name to span of the whole option.
    """

    spelling: Spelling
    head: Span
    time: Span | None = None
    exclusive: bool | None = None
    direction: Direction | None = None
    tolerance_us: int | None = None
    grace_us: int | None = None
    idle_us: int | None = None
    ties: tuple[Span, ...] = ()
    known: Span | None = None
    reason: str | None = None
    late_to: str | None = None
    options: dict[str, Span] = field(default_factory=dict)


@dataclass
class DeduplicateClause:
    """One DEDUPLICATE WITHIN: its interval, what makes rows duplicates, its options with the span of each.

    Attributes:
        head: span of DEDUPLICATE WITHIN.
        interval_us: how far apart duplicates lie at most.
        by: spans of the BY expressions.
        time: span of the ON TIME expression.
        keeps_last: KEEP LAST was written.
        late: what was written after LATE; late_to: the table of LATE TO.
        idle_us: the interval of IDLE TIMEOUT.
        options: option name to span of the whole option.
    """

    head: Span
    interval_us: int = 0
    by: tuple[Span, ...] = ()
    time: Span | None = None
    keeps_last: bool = False
    late: Late | None = None
    late_to: str | None = None
    idle_us: int | None = None
    options: dict[str, Span] = field(default_factory=dict)


@dataclass
class EmitClause:
    """One EMIT: when results of a table go out, and as what.

    Attributes:
        span: all of it; head: its first words.
        kind: "final", "changes", "every" or "corrections"; every_us: the interval of EMIT EVERY.
        shape: what was written after AS; of EMIT CORRECTIONS without it "changelog".
        max_rows, max_bytes: limits of BUFFER MAX.
        when_full: what was written after WHEN FULL.
        idle_us: the interval of IDLE TIMEOUT.
        options: option name to span of the whole option.
    """

    span: Span
    head: Span
    kind: EmitKind = "changes"
    every_us: int = 0
    shape: Shape | None = None
    max_rows: int | None = None
    max_bytes: int | None = None
    when_full: WhenFull | None = None
    idle_us: int | None = None
    options: dict[str, Span] = field(default_factory=dict)


@dataclass
class QueryTail:
    """What follows the FROM clause of a query block.

    Attributes:
        where, having: the conditions.
        group: the grouping expressions; grouping: the whole clause.
        grace_us: of the query's own GRACE PERIOD; grace: the clause.
        late_to: table of the query's own LATE TO; late: the clause.
        emit: the EMIT clause.
        laterals: LATERAL VIEW, which belongs to the FROM clause.
        rest: ORDER BY, LIMIT and what else is Spark's.
        pipes: the pipe operators behind all of these.
    """

    where: Span | None = None
    grouping: Span | None = None
    group: tuple[Span, ...] = ()
    grace: Span | None = None
    grace_us: int = 0
    having: Span | None = None
    late: Span | None = None
    late_to: str | None = None
    emit: EmitClause | None = None
    laterals: list[Span] = field(default_factory=list)
    rest: list[Span] = field(default_factory=list)
    pipes: Span | None = None

    @property
    def ours(self) -> list[Span]:
        """The clauses that Spark does not know."""
        return [span for span in (self.grace, self.late, self.emit.span if self.emit else None) if span is not None]


@dataclass
class Relation:
    """One relation of a FROM clause.

    Attributes:
        kind: "name", "query" (subquery), "group" (joins in parentheses), "function", "values", "deduplicated" or
            "other".
        span: the relation with its alias.
        body: the relation without alias and STREAM.
        parts: the parts of a plain name.
        alias: the alias as a token, if there is one; columns: the names that it gives the columns.
        stream: whether STREAM is before it.
        lateral: whether LATERAL is before it.
        travel: the span of a time travel clause (``FOR SYSTEM_TIME AS OF …``) if there is one; travel_kind: its first
            word after FOR; travel_time: the span of its expression.
        extra: the span of its options, sample and watermark, if there are any.
        call: lower-case name of a table function.
        query: the level inside the parentheses of a subquery.
        group: the relations inside the parentheses of a group.
        inner: the relation before DEDUPLICATE; deduplicate: the clause; own_alias: the alias is after the clause.
        windows: the windows of TUMBLE, HOP, CUMULATE or SESSION around the plain name.
    """

    kind: str
    span: Span
    body: Span
    parts: tuple[str, ...] = ()
    alias: Token | None = None
    columns: tuple[Token, ...] = ()
    stream: bool = False
    lateral: bool = False
    travel: Span | None = None
    travel_kind: str = ""
    travel_time: Span | None = None
    extra: Span | None = None
    call: str = ""
    query: Level | None = None
    group: FromItem | None = None
    inner: Relation | None = None
    deduplicate: DeduplicateClause | None = None
    own_alias: bool = False
    windows: WindowRelation | None = None

    @property
    def visible_name(self) -> str | None:
        """The name by which columns of the relation are qualified, or None."""
        if self.alias is not None:
            return self.alias.name
        return self.parts[-1] if self.parts else None

    @property
    def given_name(self) -> str:
        """The same; one without gets a name, so that its columns can be asked for."""
        return self.visible_name or f"__sqlx_a{self.span.start}"


@dataclass
class Join:
    """One join of a FROM clause.

    Attributes:
        kind: the words before JOIN, upper case ("", "LEFT OUTER", "CROSS" …), ASOF left out.
        span: from its first word to the end of its condition and options.
        on: span of the ON condition; using: the tokens of USING columns.
        as_of: the AS OF temporal clause, if this is one.
    """

    kind: str
    span: Span
    relation: Relation
    on: Span | None = None
    using: tuple[Token, ...] = ()
    as_of: AsOfClause | None = None


@dataclass
class FromItem:
    """One comma-separated item of a FROM clause: a relation and the joins that follow it."""

    relation: Relation
    joins: list[Join] = field(default_factory=list)
    end: int = 0

    @property
    def start(self) -> int:
        """Where the item begins."""
        return self.relation.span.start


@dataclass
class Block:
    """One query block (a SELECT, or a pipe query that starts with FROM).

    Attributes:
        span: the whole block; select: the select list; tail: what follows the FROM clause.
        items: the comma-separated items of its FROM clause.
        clauses: what its tail says, once it was read.
    """

    span: Span
    select: Span | None
    items: list[FromItem]
    tail: Span
    level: Level
    pipe: bool = False
    clauses: QueryTail | None = None


@dataclass
class Cte:
    """One common table expression of a WITH clause; ``columns`` are the names that it gives its columns."""

    name: str
    span: Span
    query: Level
    columns: tuple[Token, ...] = ()


@dataclass
class Pipe:
    """A pipe operator ``|> DEDUPLICATE …``; its input is the query of the level up to it."""

    span: Span
    clause: DeduplicateClause


@dataclass
class Level:
    """What is between one pair of parentheses (or the whole statement): blocks, CTEs, and levels inside.

    Attributes:
        parent: the level around it.
        position: offset of its opening parenthesis in the parent, for the scope of CTEs.
        pipes: deduplications among the pipe operators of its query.
    """

    span: Span
    parent: Level | None
    ctes: list[Cte] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    children: list[Level] = field(default_factory=list)
    cte: Cte | None = None
    recursive: bool = False
    pipes: list[Pipe] = field(default_factory=list)

    def walk(self) -> list[Level]:
        """This level after all levels inside it, so the innermost come first."""
        found: list[Level] = []
        for child in self.children:
            found.extend(child.walk())
        return [*found, self]

    def relations(self) -> list[Relation]:
        """The relations of all FROM clauses at and below this level, see :func:`relations_of`."""
        items = [item for level in self.walk() for block in level.blocks for item in block.items]
        return [relation for item in items for relation in relations_of(item)]

    def read(self) -> list[Relation]:
        """The relations at and below this level that name something outside of the statement."""
        items = [(level, item) for level in self.walk() for block in level.blocks for item in block.items]
        found = [(level, relation) for level, item in items for relation in relations_of(item)]
        return [r for level, r in found if r.kind == "name" and level.cte_of(r) is None]

    def cte_of(self, relation: Relation) -> Cte | None:
        """The CTE that a relation names in this level; None where it names something else, or is no name."""
        if relation.kind != "name" or len(relation.parts) != 1:
            return None
        name = relation.parts[0].lower()
        return next((cte for cte in reversed(self.visible_ctes()) if cte.name.lower() == name), None)

    def query_of(self, relation: Relation) -> Level | None:
        """The query that a relation of this level is, as a subquery or by the name of a common table expression."""
        cte = self.cte_of(relation)
        return relation.query if cte is None else cte.query

    def visible_ctes(self) -> list[Cte]:
        """The CTEs that a query in this level may name, the outermost first."""
        above: list[Cte] = []
        if self.parent is not None:
            above = self.parent.visible_ctes()
            if self.cte is not None:  # inside a CTE: only those defined before it
                own = self.parent.ctes
                above = [c for c in above if c not in own] + own[: own.index(self.cte)]
        return above + self.ctes


def is_recursion(root: Level, relation: Relation) -> bool:
    """Whether a relation is the recursive common table expression in which it stands."""
    for level in root.walk():
        cte, above = level.cte, level.parent
        is_inside = level.span.start <= relation.span.start < level.span.end
        if cte is not None and above is not None and above.recursive and is_inside:
            return [part.lower() for part in relation.parts] == [cte.name.lower()]
    return False


def relations_of(item: FromItem) -> list[Relation]:
    """The relations of a FROM item, those in its groups and those that are deduplicated too."""
    found: list[Relation] = []
    for relation in (item.relation, *(j.relation for j in item.joins)):
        inner = relation
        while inner.inner is not None:
            inner = inner.inner
        found += relations_of(inner.group) if inner.group is not None else [inner]
    return found


@dataclass(frozen=True)
class WindowCall:
    """A window of a GROUP BY.

    Attributes:
        span: the call.
        column: what the select list calls the window: `window` or `session_window`, `sliding_window`.
        time: span of its first argument.
        window: the windows it makes.
    """

    span: Span
    column: str
    time: Span
    window: Window


@dataclass
class WindowRelation:
    """One such relation.

    Attributes:
        call: the windows, its time and where it is.
        name: its function, lower case.
        source: the table as written.
        partition: spans of the PARTITION BY columns of SESSION.
    """

    call: WindowCall
    name: str
    source: str
    partition: list[Span] = field(default_factory=list)
