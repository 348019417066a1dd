"""What joins by key have in common: the condition taken apart into keys and the rest, types, and the two inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from catalog.entries import Column, Entry
from sqlx.bind.binder import ROW, Binder, RowOrder, is_row_order
from sqlx.bind.comparison import check_carried, check_case, check_collation, is_key, padded
from sqlx.bind.reads import rewritten_read, shows_versions
from sqlx.bind.right_side import RightSide, RightSideReader, renamed
from sqlx.bind.scope import Reference, RelationScope, Scope, Side, name_chains
from sqlx.errors import BindError, UnsupportedError
from sqlx.plan.context import Context
from sqlx.plan.nodes import Fragment
from sqlx.plan.payload import Needed, core_of, lasting_names, numbered_names, select_list
from sqlx.plan.subquery_text import with_clause
from sqlx.sql.cursor import Cursor
from sqlx.sql.expressions import Conjunct, split_conjuncts, unwrapped
from sqlx.sql.structure import Join, Level, Relation
from sqlx.sql.tokens import Span, Token, quoted, tokenize, tokenize_span
from udtf.columns.names import is_order

# The two inputs of a join by key as queries, and the names under which its operator and the query see them.


@dataclass(frozen=True)
class Inputs:
    """The two sides of a join as text.

    Attributes:
        left_with: the WITH clause that the left side needs, or "".
        left_from: what is after FROM for the left side.
        left: what the left side shows.
        left_needed: its columns that the query can read.
        right: the rows of the right side.
        right_name: its name in the query.
        right_needed: its columns that the query can read.
        names: of both sides what the needed columns are called on their way through the operator.
        arrival: what live rows of the left side carry along on Spark; None everywhere else.
    """

    left_with: str
    left_from: str
    left: tuple[RelationScope, ...]
    left_needed: tuple[tuple[RelationScope, Column], ...]
    right: RightSide
    right_name: str
    right_needed: tuple[Column, ...]
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    arrival: RowOrder | None = None

    def left_query(self, items: str) -> str:
        """The left side as a query of these items."""
        return f"{self.left_with}SELECT {items} FROM {self.left_from}"

    def right_query(self, items: str) -> str:
        """The right side as a query of these items."""
        return f"SELECT {items} FROM ({self.right.sql}) AS {quoted(self.right_name)}"

    def right_core(self, items: str) -> str:
        """The same without what the right side shows but for these items."""
        return f"SELECT {items} FROM ({self.right.core or self.right.sql}) AS {quoted(self.right_name)}"

    def payload_items(self) -> tuple[dict[str, str], dict[str, str]]:
        """The payload columns of both sides, name to expression."""
        name = quoted(self.right_name)
        left = (f"{quoted(v.name)}.{quoted(c.name)}" for v, c in self.left_needed)
        right = (f"{name}.{quoted(c.name)}" for c in self.right_needed)
        return dict(zip(self.names[0], left, strict=True)), dict(zip(self.names[1], right, strict=True))

    def hidden_items(self, *names: str) -> dict[str, str]:
        """Those of the hidden columns that the right side has, name to expression."""
        name = quoted(self.right_name)
        shown = {"__order0": "__arrival"}
        return {shown.get(h, h): f"{name}.{h}" for h in names if h in self.right.hidden}

    def payload_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the payload columns of both sides."""
        carried = () if self.arrival is None else ("__event_time",)
        return (*self.names[0], *carried), self.names[1]

    def shown_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names that the query knows the payload columns of both sides by."""
        return tuple(c.name for _, c in self.left_needed), tuple(c.name for c in self.right_needed)

    # live rows

    def row_order_items(self, otherwise: str) -> tuple[dict[str, str], dict[str, str]]:
        """What live rows of both sides carry along; the left side's time is ``otherwise`` where nothing shows it."""
        arrival = self.arrival
        if arrival is None:
            return {}, {}
        orders = [h for h in self.right.hidden if h.startswith("__order")]
        name = quoted(self.right_name)
        return replace(arrival, time=arrival.time or otherwise).named, {
            f"__o{n}": f"{name}.{h}" for n, h in enumerate(orders)
        }

    def row_order_after(self, alias: str) -> RowOrder | None:
        """What the rows of the result carry along: in the order of the left rows that caused them, then numbered."""
        return None if self.arrival is None else self.arrival.behind(alias)

    def is_common(self, left: Fragment, right: Fragment) -> bool:
        """Whether both inputs have a SEQUENCE BY of one type, by which they interleave."""
        if self.arrival is None or not (self.arrival.is_sequence and self.right.is_sequence):
            return False
        types = [{c.name: c.type for c in side.columns}.get("__o0") for side in (left, right)]
        return types[0] == types[1]


def result_columns(left: Fragment, right: Fragment, with_reason: bool) -> tuple[Column, ...]:
    """The columns of the result: the payloads of both sides, the reason, and what live rows carry along."""
    shown = [c for c in (*left.columns, *right.columns) if not c.name.startswith("__")]
    reason = [Column("__reason", "string")] if with_reason else []
    return with_row_order((*shown, *reason), left.columns)


def with_row_order(shown: tuple[Column, ...], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns of a result and after them what live rows of the input carry along."""
    carried = [c for c in columns if is_row_order(c.name)]
    count = sum(1 for c in carried if is_order(c.name))
    carried += [Column(f"__o{count}", "bigint")] if count else []
    return (*shown, *carried)


@dataclass
class Parts:
    """What a builder has found so far about one join; text is SQL over the relation of its side.

    Attributes:
        left_keys, right_keys: the two sides of each equality.
        key_columns: the columns of the right side among them, in lower case.
        further: the conjuncts that are no keys.
    """

    left_keys: list[str] = field(default_factory=list)
    right_keys: list[str] = field(default_factory=list)
    key_columns: set[str] = field(default_factory=set)
    further: list[Conjunct] = field(default_factory=list)


class KeyedJoinBuilder:
    """Reads the condition of one join.

    Args:
        context: what the operators share.
        join: the join as it was read.
        inputs: its two sides.

    Attributes:
        outlives_text: a live state of it may go on under another text. Of results that are changes none does.
    """

    outlives_text: ClassVar[bool] = True

    def __init__(self, context: Context, join: Join, inputs: Inputs) -> None:
        self.binder, self.text, self.streaming = context.binder, context.text, context.streaming
        self.join, self.inputs = join, inputs
        right = RelationScope(inputs.right_name, inputs.right.columns)
        self.scope = Scope(self.text, inputs.left, right, self._is_value)
        self.parts = Parts()

    @property
    def is_left(self) -> bool:
        """Whether rows without a match are kept."""
        return self.join.kind.startswith("LEFT")

    def read(self) -> None:
        """Read what does not depend on the columns that are needed: the kind and the condition.

        Raises:
            BindError, UnsupportedError: what was written cannot be joined so.
        """
        self.check_kind()
        if self.binder.case_sensitive:
            check_case(self.text, self.join.span.pair, [c for r in self.inputs.left for c in r.columns])
            check_case(self.text, self.join.span.pair, self.inputs.right.columns)
        self.read_condition()

    def notes(self) -> list[str]:
        """Defaults and options that could surprise, each said once by name."""
        return []

    def check_kind(self) -> None:
        """INNER and LEFT are defined.

        Raises:
            UnsupportedError: the join is of another kind.
        """
        if self.join.kind not in ("", "INNER", "LEFT", "LEFT OUTER"):
            span = (self.join.span.start, self.join.span.start + len(self.join.kind))
            raise UnsupportedError("UNSUPPORTED.JOIN_TYPE", self.text, span, kind=self.join.kind)

    def read_condition(self) -> None:
        """Sort the conjuncts of ON (or the columns of USING) into keys and the rest."""
        for token in self.join.using:
            self._using(token)
        if self.join.on is not None:
            for conjunct in self._conjuncts(self.join.on):
                self.scope.references(conjunct.tokens)  # names first: an unknown one is the better message
                may_be_key = conjunct.operator in ("=", "<=>") and not self._reads_parameter(conjunct)
                if not (may_be_key and self._equality(conjunct)):
                    self.further(conjunct)
        if self.join.on is not None and not self.parts.left_keys and not self.inputs.right.keys:
            self._check_equality()

    def _conjuncts(self, condition: Span) -> list[Conjunct]:
        tokens = tokenize_span(self.text, condition)
        conjuncts = split_conjuncts(tokens)
        if not all(conjunct.tokens for conjunct in conjuncts):
            start = tokenize(self.text).index(tokens[0])
            Cursor(self.text, tokenize(self.text), start, start + len(tokens)).skip_expression()
        return conjuncts

    def _is_value(self, name: str) -> bool:
        return self.binder.is_variable(name) or self.binder.is_parameter(name)

    def _reads_parameter(self, conjunct: Conjunct) -> bool:
        """Whether a name in it is a parameter: that is known around the operator, where the result is tested."""
        names = [chain[0] for chain in name_chains(conjunct.tokens) if len(chain) == 1]
        return any(self.binder.is_parameter(name.name) and not self.scope.references((name,)) for name in names)

    def _check_equality(self) -> None:
        """Any relation on the right may be joined without a key, but not by a condition in place of one.

        Raises:
            BindError: a conjunct compares both sides, and none of them is a key.
        """
        for conjunct in self.parts.further:
            if len(self.sides(conjunct.tokens)) > 1:
                raise BindError("KEYED_JOIN.NO_EQUALITY", self.text, conjunct.span.pair)

    def further(self, conjunct: Conjunct) -> None:
        """A conjunct that is no key is tested on the row that was found (semantics.md 6.8, C7)."""
        self.parts.further.append(conjunct)

    def _using(self, token: Token) -> None:
        left = [r for r in self.inputs.left if r.column(token.name) and token.name.lower() not in r.merged]
        right = self.scope.right.column(token.name) if self.scope.right else None
        if right is None or len(left) != 1:
            columns = [c.name for r in self.inputs.left for c in r.columns]
            raise BindError(
                "KEYED_JOIN.USING", self.text, (token.start, token.end), column=token.name,
                count=len(left), left=", ".join(columns[:8]), right="once" if right else "not",
            )  # fmt: skip
        self.parts.left_keys.append(f"{quoted(left[0].name)}.{quoted(token.name)}")
        self.parts.right_keys.append(f"{quoted(self.inputs.right_name)}.{quoted(token.name)}")
        self.parts.key_columns.add(token.name.lower())

    def sides(self, tokens: tuple[Token, ...]) -> set[Side]:
        """The sides that an expression refers to."""
        return {r.side for r in self.scope.references(tokens)}

    def _equality(self, conjunct: Conjunct) -> bool:
        """Whether the conjunct is a key: left expression = key column (any expression where no table is behind it)."""
        left, right = conjunct.left, conjunct.right
        if "right" in self.sides(left):
            left, right = right, left
        if self.sides(right) != {"right"} or "right" in self.sides(left):
            return False
        has_table = bool(self.inputs.right.keys)
        if not (self._is_key(right) if has_table else self.sides(left)):  # a table's key may equal a constant, too
            return False
        if conjunct.operator == "<=>":
            raise UnsupportedError("KEYED_JOIN.NULL_SAFE", self.text, conjunct.span.pair)
        self.parts.left_keys.append(text_of(self.text, left))
        self.parts.right_keys.append(text_of(self.text, right))
        return True

    def _is_key(self, tokens: tuple[Token, ...]) -> bool:
        """Whether the tokens are a key column of the table; it is noted as one that the join covers."""
        reference = self._plain(unwrapped(tokens))
        shown = [s.lower() for _, s in self.inputs.right.keys if s is not None]
        if reference is None or reference.column.name.lower() not in shown:
            return False
        self.parts.key_columns.add(reference.column.name.lower())
        return True

    def _plain(self, tokens: tuple[Token, ...]) -> Reference | None:
        """The column that the tokens are, when they are nothing but a column."""
        if any(not t.is_name and t.text != "." for t in tokens):
            return None
        references = self.scope.references(tokens)
        return references[0] if len(references) == 1 and references[0].exact else None

    def check_keys(self) -> None:
        """The equalities name one row of the table: they cover its KEYS.

        Raises:
            BindError: a key is missing.
        """
        right, used = self.inputs.right, self.parts.key_columns
        missing = [key for key, shown in right.keys if shown is None or shown.lower() not in used]
        if missing:
            names, keys = (", ".join(f"`{k}`" for k in found) for found in (missing, [key for key, _ in right.keys]))
            raise BindError(
                "KEYED_JOIN.KEYS_NOT_COVERED", self.text, (self.join.on or self.join.span).pair,
                table=right.name if right.entry is None else right.entry.name, keys=keys, missing=names,
            )  # fmt: skip

    # types

    def common(self, left: str, right: str) -> str | None:
        """The type in which both are compared, or None."""
        return left if left == right else self.binder.common_type(left, right)

    def projections(self) -> tuple[Projection, Projection]:
        """Both sides, with their key columns."""
        left = Projection(self.binder, self.inputs.left_query, self.inputs.left_query)
        right = Projection(self.binder, self.inputs.right_query, self.inputs.right_core)
        for side, keys in ((left, self.parts.left_keys), (right, self.parts.right_keys)):
            side.add({f"__k{n}": key for n, key in enumerate(keys or ["0"])})
        return left, right

    def cast_keys(self, left: Projection, right: Projection) -> None:
        """Cast the keys of both sides to the type in which they are compared.

        Raises:
            BindError: two keys cannot be compared.
        """
        for key in [name for name in left.items if name.startswith("__k") and name[3:].isdigit()]:
            common = self.common(left.type_of(key), right.type_of(key))
            if common is None or not is_key(common):
                raise BindError(
                    "KEYED_JOIN.KEY_TYPES", self.text, (self.join.on or self.join.span).pair,
                    left=f"`{left.items[key]}`", left_type=left.type_of(key).upper(),
                    right=f"`{right.items[key]}`", right_type=right.type_of(key).upper(),
                )  # fmt: skip
            left.cast(key, common)
            right.cast(key, common)
            check_collation(self.text, (self.join.on or self.join.span).pair, left.items[key], common)
            if common == "string":
                items = padded(left.items[key], left.column(key), right.items[key], right.column(key))
                left.items[key], right.items[key] = items

    def check_carried(self, *sides: Fragment) -> None:
        """What the query reads of both sides can go through a worker.

        Raises:
            UnsupportedError: something cannot.
        """
        for side, names in zip(sides, self.inputs.shown_names(), strict=True):
            payload = [c for c in side.columns if not c.name.startswith("__")]
            carried = [(name, c.type) for name, c in zip(names, payload, strict=False)]
            check_carried(self.text, self.join.span.pair, carried)


class Projection:
    """One side of a join as a query of named items.

    Its types come from the query itself: the analyzer is asked once, and once more only where an item is cast.

    Args:
        binder: names and types.
        query: from a select list to the query of the side.
        core: the same without what the side shows besides.
    """

    def __init__(self, binder: Binder, query: Callable[[str], str], core: Callable[[str], str]) -> None:
        self._binder, self._query, self._core = binder, query, core
        self.items: dict[str, str] = {}
        self._payload: set[str] = set()
        self._known: dict[str, Column] = {}
        self._asked: Fragment | None = None

    def add(self, items: Mapping[str, str]) -> None:
        """Further items: name to expression."""
        self.items.update(items)

    def add_payload(self, items: Mapping[str, str]) -> None:
        """Further items that are only handed on: what is kept of a row may gain such, and lose them."""
        self.items.update(items)
        self._payload.update(items)

    def column(self, name: str) -> Column:
        """An item as it was written."""
        if not self._known:
            self._known = {column.name: column for column in self.fragment().columns}
        return self._known[name]

    def type_of(self, name: str) -> str:
        """The type of an item as it was written."""
        return self.column(name).type

    def cast(self, name: str, wanted: str) -> None:
        """Cast an item where its type is another one."""
        if self.type_of(name) != wanted:
            self.items[name] = f"CAST({self.items[name]} AS {wanted})"

    def fragment(self) -> Fragment:
        """The side as a query.

        Raises:
            Exception: the engine's own, where it refuses it.
        """
        sql = self._query(select_list(self.items))
        if self._asked is None or self._asked.sql != sql:
            columns = self._binder.columns(sql)
            if columns is None:
                raise self._binder.refusal() or AssertionError(sql)
            kept = {name: item for name, item in self.items.items() if name not in self._payload}
            self._asked = Fragment(sql, columns, core=core_of(self._core(select_list(kept)), columns, self._payload))
        return self._asked


def text_of(text: str, tokens: tuple[Token, ...]) -> str:
    """What was written from the first to the last token."""
    return text[tokens[0].start : tokens[-1].end]


def with_needed(inputs: Inputs, needed: Needed, *, keeps_names: bool) -> Inputs:
    """The inputs of a join with their payload.

    Args:
        inputs: without it.
        needed: the columns.
        keeps_names: what is kept of rows outlives the text of the query.
    """
    right = RelationScope(inputs.right_name, inputs.right.columns)
    columns = [(v.name, c.name) for v, c in needed.left], [(right.name, c.name) for c in needed.right]
    names = numbered_names("l", columns[0]), numbered_names("r", columns[1])
    if keeps_names:
        names = lasting_names("l", inputs.left, columns[0]), lasting_names("r", (right,), columns[1])
    return replace(inputs, left_needed=needed.left, right_needed=needed.right, names=names)


def with_late_columns(needed: Needed, join: Join, inputs: Inputs) -> Needed:
    """All columns of an input whose refused rows go to a table."""
    left, right = needed.left, needed.right
    if join.as_of is not None and join.as_of.late_to is not None:
        left = tuple((v, c) for v in inputs.left for c in v.columns)
    if inputs.right.entry is not None and inputs.right.entry.late_to is not None:
        right = inputs.right.columns
    return Needed(left, right)


def with_row(needed: Needed, inputs: Inputs) -> Needed:
    """The hidden column of the left side's first relation too, for the deduplication that reads it."""
    hidden = [(v, c) for v in inputs.left for c in v.columns if c.name == ROW and (v, c) not in needed.left]
    return Needed((*needed.left, *hidden), needed.right)


# The operands of joins of ours: what is known of them, and right ones other than versioned tables under AS OF.


_CURRENT = (
    "`{name}` joins current rows of a versioned table: it is more than projections and filters over one. "
    "history(…) in it reads all versions."
)


def any_right(context: Context, reader: RightSideReader, relation: Relation, level: Level) -> RightSide:
    """MATCH_CONDITION and ASOF take any relation; a versioned table gives its versions, through a subquery too.

    Raises:
        BindError, UnsupportedError: there is no such relation, or it cannot stand there.
    """
    if context.streaming or shows_versions(context.binder, relation, level):
        try:
            return reader.read(relation, level)
        except UnsupportedError as error:
            if context.streaming or error.condition != "AS_OF_JOIN.RIGHT_SIDE":
                raise
            context.notes.append(_CURRENT.format(name=relation.visible_name or "the subquery"))
    read = rewritten_read(context.text, relation, context.binder, context.in_order)
    if read is not None:
        context.edits.replace(*read)
    prefix = with_clause(context.text, context.edits, level, relation.span)
    end = max(part.end for part in (relation.body, relation.travel, relation.extra) if part is not None)
    body = context.edits.render(Span(relation.body.start, end))
    sql = f"{prefix}SELECT * FROM {body}"
    columns = context.bound(sql, relation)
    arrival = context.binder.arrival(body) if not prefix else "monotonically_increasing_id()"
    sql = f"{prefix}SELECT *, {arrival} AS __order0 FROM {body}"
    side = RightSide(sql, columns, ("__order0",), (), None, relation.visible_name or "the right side")
    return renamed(side, relation.columns, context.text) if relation.columns else side


_DEFAULT_RETENTION_US = 86_400_000_000


def live_retention_us(entry: Entry | None) -> int:
    """How long a live versioned table keeps what is no longer current, microseconds."""
    given_us = entry.retention_us if entry is not None else None
    return _DEFAULT_RETENTION_US if given_us is None else given_us


def retention_notes(entry: Entry) -> list[str]:
    """That the default holds, where it does."""
    if entry.kind != "versioned" or entry.retention_us is not None:
        return []
    return [f"`{entry.name}` keeps its history for 1 day: HISTORY RETENTION was not given."]
