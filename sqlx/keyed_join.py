"""What joins by key have in common: the condition taken apart into keys and the rest, types, and the two inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from catalog.entries import Column
from sqlx.bind import Binder
from sqlx.conditions import Conjunct, split_conjuncts, unwrapped
from sqlx.dialect import Token, quoted, tokenize_span
from sqlx.errors import BindError, UnsupportedError
from sqlx.join_inputs import Inputs
from sqlx.plan import Fragment
from sqlx.scope import Reference, Scope, Side, Visible
from sqlx.structure import Join


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
        binder: names and types.
        text: the statement, for carets.
        join: the join as it was read.
        inputs: its two sides.
        streaming: rows come live.
    """

    def __init__(self, binder: Binder, text: str, join: Join, inputs: Inputs, streaming: bool) -> None:
        self.binder, self.text, self.streaming = binder, text, streaming
        self.join, self.inputs = join, inputs
        self.scope = Scope(text, inputs.left, Visible(inputs.right_name, inputs.right.columns))
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
        self.read_condition()

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
            for conjunct in split_conjuncts(tokenize_span(self.text, self.join.on)):
                self.scope.references(conjunct.tokens)  # names first: an unknown one is the better message
                if not (conjunct.operator in ("=", "<=>") and self._equality(conjunct)):
                    self.further(conjunct)
        if self.join.on is not None and not self.parts.left_keys and self.inputs.right.entry is None:
            self._check_equality()

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
        has_table = self.inputs.right.entry is not None
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
        entry = self.inputs.right.entry
        if entry is None:
            return
        used = self.parts.key_columns
        missing = [key for key, shown in self.inputs.right.keys if shown is None or shown.lower() not in used]
        if missing:
            names, keys = (", ".join(f"`{k}`" for k in found) for found in (missing, entry.keys))
            raise BindError(
                "KEYED_JOIN.KEYS_NOT_COVERED", self.text, (self.join.on or self.join.span).pair,
                table=entry.name, keys=keys, missing=names,
            )  # fmt: skip

    # types

    def schema(self, expressions: list[str], query: Callable[[str], str]) -> list[str]:
        """The types of expressions over a side."""
        items = ", ".join(f"{text} AS __x{n}" for n, text in enumerate(expressions))
        return [c.type for c in self.ask(query(items))]

    def ask(self, sql: str) -> tuple[Column, ...]:
        """The columns of a query that must be fine by now.

        Raises:
            Exception: the engine's own, where it is not.
        """
        columns = self.binder.columns(sql)
        if columns is None:
            raise self.binder.refusal() or AssertionError(sql)
        return columns

    def fragment(self, items: list[str], query: Callable[[str], str]) -> Fragment:
        """A side as a query of these items."""
        sql = query(", ".join(items))
        return Fragment(sql, self.ask(sql))

    def common(self, left: str, right: str) -> str | None:
        """The type in which both are compared, or None."""
        return left if left == right else self.binder.common_type(left, right)

    def key_items(self) -> tuple[list[str], list[str]]:
        """The key columns of both sides, cast to the type in which they are compared.

        Raises:
            BindError: two keys cannot be compared.
        """
        left_keys, right_keys = self.parts.left_keys or ["0"], self.parts.right_keys or ["0"]
        lefts = self.schema(left_keys, self.inputs.left_query)
        rights = self.schema(right_keys, self.inputs.right_query)
        items: tuple[list[str], list[str]] = ([], [])
        for n, (left, right) in enumerate(zip(lefts, rights, strict=True)):
            common = self.common(left, right)
            if common is None or common.startswith(("map<", "variant")):
                raise BindError(
                    "KEYED_JOIN.KEY_TYPES", self.text, (self.join.on or self.join.span).pair,
                    left=f"`{left_keys[n]}`", left_type=left.upper(),
                    right=f"`{right_keys[n]}`", right_type=right.upper(),
                )  # fmt: skip
            items[0].append(f"{cast(left_keys[n], left, common)} AS __k{n}")
            items[1].append(f"{cast(right_keys[n], right, common)} AS __k{n}")
        return items


def cast(text: str, found: str, wanted: str) -> str:
    """The expression in the wanted type."""
    return text if found == wanted else f"CAST({text} AS {wanted})"


def text_of(text: str, tokens: tuple[Token, ...]) -> str:
    """What was written from the first to the last token."""
    return text[tokens[0].start : tokens[-1].end]
