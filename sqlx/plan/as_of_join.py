"""The AS OF join: from the clause as written to a plan node with everything explicit.

Source: KIP-914 (versioned tables), KIP-923 (grace), semantics.md sections 2, 6, 7 and C.
"""

from __future__ import annotations

from typing import NoReturn

from sqlx.bind.comparison import check_collation
from sqlx.bind.scope import Reference
from sqlx.errors import BindError, TemporalParseError
from sqlx.plan.context import Context
from sqlx.plan.keyed_join import (
    Inputs,
    KeyedJoinBuilder,
    Projection,
    live_retention_us,
    result_columns,
    retention_notes,
    text_of,
)
from sqlx.plan.nodes import AsOfJoin
from sqlx.sql.expressions import Conjunct, split_conjuncts
from sqlx.sql.intervals import duration
from sqlx.sql.structure import AsOfClause, Join
from sqlx.sql.tokens import Span, Token, quoted, tokenize_span
from udtf.operators.as_of_join.config import AsOfJoinConfig

_TIME_TYPES = frozenset({"timestamp", "timestamp_ntz", "date"})
_UNORDERED = ("map<", "variant", "array<", "struct<", "boolean", "void", "interval")
_TIMES = "TIMESTAMP, TIMESTAMP_NTZ or DATE"
_MIRROR = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_CAST_HINT = "Cast it: CAST(… AS TIMESTAMP), or timestamp_seconds(…), timestamp_millis(…) for numbers."


class AsOfJoinBuilder(KeyedJoinBuilder):
    """Builds one AS OF join."""

    def __init__(self, context: Context, join: Join, inputs: Inputs) -> None:
        super().__init__(context, join, inputs)
        assert join.as_of is not None
        self.clause: AsOfClause = join.as_of
        self.direction, self.exclusive = self.clause.direction, bool(self.clause.exclusive)
        self.inequality: Conjunct | None = None
        self.as_of = self.version_time = ""

    def read(self) -> None:
        """Read the condition and the times.

        Raises:
            TemporalParseError, BindError, UnsupportedError: what was written cannot be joined so.
        """
        super().read()
        self._read_time()
        self.check_keys()

    def build(self, name: str) -> tuple[AsOfJoin, tuple[Conjunct, ...]]:
        """The plan node, and the ON conjuncts that are still to be tested on the picked version.

        Raises:
            TemporalParseError, BindError, UnsupportedError: what was written cannot be joined so.
        """
        ties = self._ties()
        left_side, right_side = self._sides([text for text, _ in ties])
        config = self._config(tuple(order for _, order in ties))
        left, right = left_side.fragment(), right_side.fragment()
        self.check_carried(left, right)
        columns = result_columns(left, right, config.with_reason)
        table, is_common = self.inputs.right.name, self.inputs.is_common(left, right)
        late_to, names = self.clause.late_to, self.inputs.shown_names()
        places = tuple((option, span.pair) for option, span in self.clause.options.items())
        idle_us = self.clause.idle_us if self.streaming else None
        node = AsOfJoin(name, left, right, config, columns, table, late_to, is_common, *names, places, idle_us)
        return node, tuple(self.parts.further)

    def notes(self) -> list[str]:
        """Defaults and options that could surprise, each said once by name."""
        clause, right, found = self.clause, self.inputs.right, []
        if self.streaming and right.entry is not None:
            found += retention_notes(right.entry)
        if clause.reason and not self.is_left:
            found.append("WITH REASON on an INNER join is NULL throughout: only matches are kept.")
        if clause.late_to and not self.streaming:
            found.append("LATE TO plays no part in a batch query: over bounded inputs nothing is late.")
        if clause.grace_us is not None and not self.streaming:
            found.append("GRACE PERIOD plays no part in a batch query: every version is there.")
        if clause.idle_us is not None and not self.streaming:
            found.append("IDLE TIMEOUT plays no part in a batch query: nothing waits.")
        return found

    def _sides(self, ties: list[str]) -> tuple[Projection, Projection]:
        """Both inputs, their keys and times in the types in which they are compared."""
        left, right = self.projections()
        left.add({"__as_of": self.as_of})
        right.add({"__time": self.version_time})
        if self.clause.known is not None:
            known, seq = self._known(self.clause.known)
            left.add({"__known": known})
            right.add({"__seq": seq})
        right.add({f"__tie{n}": text for n, text in enumerate(ties)})
        one_order = () if "__order1" in self.inputs.right.hidden or self.streaming else ("__order0",)
        right.add(self.inputs.hidden_items(*one_order, "__arrival", "__deleted", "__pass"))
        for side, carried, payload in zip(
            (left, right), self.inputs.row_order_items(self.as_of), self.inputs.payload_items(), strict=True
        ):
            side.add(carried)
            side.add_payload(payload)
        self.cast_keys(left, right)
        by = self.clause.options.get("TIES BY", self.clause.head).pair
        for tie in [name for name in right.items if name.startswith("__tie")]:
            check_collation(self.text, by, right.items[tie], right.type_of(tie))
        self._cast_times(left, right)
        if self.clause.known is not None:
            self._cast_known(left, right)
        return left, right

    # times

    def further(self, conjunct: Conjunct) -> None:
        """For the ASOF spelling the one comparison of both sides is the time; the rest is tested later."""
        both = {"left", "right"}
        is_time = self.clause.spelling == "asof_alias" and conjunct.operator in _MIRROR
        if is_time and self.sides(conjunct.left) | self.sides(conjunct.right) == both:
            if self.inequality is not None:
                self._refuse_alias("two")
            self.inequality = conjunct
        else:
            super().further(conjunct)

    def _read_time(self) -> None:
        if self.clause.spelling == "match_condition":
            self._read_comparison(self._match_condition())
        elif self.clause.spelling == "asof_alias":
            if self.inequality is None:
                self._refuse_alias("none")
            self._read_comparison(self.inequality)
        else:
            assert self.clause.time is not None
            self.as_of = self._left_expression(self.clause.time)
            self.version_time = f"{quoted(self.inputs.right_name)}.__time"

    def _left_expression(self, span: Span) -> str:
        """An expression that may read the left side only.

        Raises:
            BindError: it reads the right side, or a column that is not there.
        """
        for reference in self.scope.references(tokenize_span(self.text, span)):
            if reference.side == "right":
                column = f"{reference.relation.name}.{reference.column.name}"
                raise BindError("AS_OF_JOIN.TIME_FROM_RIGHT", self.text, reference.span.pair, column=column)
        return span.of(self.text)

    def _refuse_alias(self, found: str) -> NoReturn:
        right = self.inputs.right_name
        raise TemporalParseError("AS_OF_JOIN.ASOF_ALIAS", self.text, self.clause.head.pair, found=found, right=right)

    def _match_condition(self) -> Conjunct:
        assert self.clause.time is not None
        tokens = tokenize_span(self.text, self.clause.time)
        conjuncts = split_conjuncts(tokens) if tokens else []
        if len(conjuncts) != 1 or conjuncts[0].operator not in _MIRROR:
            self._refuse_match("it is not one comparison")
        return conjuncts[0]

    def _refuse_match(self, reason: str) -> NoReturn:
        span = self.clause.time or self.clause.head
        raise TemporalParseError("AS_OF_JOIN.MATCH_CONDITION", self.text, span.pair, reason=reason)

    def _read_comparison(self, conjunct: Conjunct) -> None:
        """Both times from a comparison; ``left >= right`` looks backward, ``<=`` forward."""
        sides = self.sides(conjunct.left), self.sides(conjunct.right)
        left, right, operator = conjunct.left, conjunct.right, conjunct.operator
        if sides == ({"right"}, {"left"}):
            left, right, operator = right, left, _MIRROR[operator]
        elif sides != ({"left"}, {"right"}):
            self._refuse_match("one operand must come from the left side and one from the right")
        if self.clause.direction is not None:
            hint = "The comparison says the direction: >= and > look backward, <= and < forward."
            span = self.clause.options["DIRECTION"].pair
            raise TemporalParseError(
                "AS_OF_JOIN.CONFLICTING_OPTIONS", self.text, span, first="DIRECTION", second="a comparison", hint=hint
            )
        self.direction = "backward" if operator.startswith(">") else "forward"
        self.exclusive = "=" not in operator
        self.as_of, self.version_time = text_of(self.text, left), text_of(self.text, right)

    def _cast_times(self, left: Projection, right: Projection) -> None:
        """Cast both times to their common type.

        Raises:
            BindError: not times, or TOLERANCE on something that is not a time.
        """
        left_type, right_type = left.type_of("__as_of"), right.type_of("__time")
        common = self.common(left_type, right_type)
        if self.clause.spelling in ("as_of", "system_time") and left_type not in _TIME_TYPES:
            self._refuse_type("The AS OF expression", _TIMES, self.as_of, left_type, _CAST_HINT)
        if common is None or common.startswith(_UNORDERED):
            found, hint = f"{self.as_of}` against `{self.version_time}", "Cast both to one type that has an order."
            types = f"{left_type} and {right_type}"
            self._refuse_type("The comparison", "two values of one ordered type", found, types, hint)
        if self.clause.tolerance_us is not None and common not in _TIME_TYPES:
            span = self.clause.options["TOLERANCE"].pair
            raise BindError("AS_OF_JOIN.TOLERANCE_TYPE", self.text, span, type=common.upper())
        check_collation(self.text, (self.clause.time or self.clause.head).pair, self.as_of, common)
        is_event_time = left.items.get("__event_time") == self.as_of
        left.cast("__as_of", common)
        right.cast("__time", common)
        if is_event_time:  # nothing shows it but this
            left.items["__event_time"] = left.items["__as_of"]

    def _refuse_type(self, what: str, expected: str, found: str, type_name: str, hint: str) -> NoReturn:
        span = self.clause.options.get("KNOWN AS OF") if what.startswith("The KNOWN") else None
        span = span or self.clause.time or self.clause.head
        raise BindError(
            "AS_OF_JOIN.TIME_TYPE", self.text, span.pair,
            what=what, expected=expected, found=f"`{found}`", type=type_name.upper(), hint=hint,
        )  # fmt: skip

    # options

    def _known(self, span: Span) -> tuple[str, str]:
        """What was known when, and since when each version is known (C4).

        Raises:
            BindError: the table has no SEQUENCE BY.
        """
        known = self._left_expression(span)
        if "__seq" not in self.inputs.right.hidden:
            self._refuse_known("no SEQUENCE BY")
        return known, f"{quoted(self.inputs.right_name)}.__seq"

    def _cast_known(self, left: Projection, right: Projection) -> None:
        """Cast both to their common type.

        Raises:
            BindError: SEQUENCE BY or what was known is no time.
        """
        left_type, right_type = left.type_of("__known"), right.type_of("__seq")
        if right_type not in _TIME_TYPES:
            self._refuse_known(f"SEQUENCE BY a {right_type.upper()}")
        common = self.common(left_type, right_type)
        if common is None or left_type not in _TIME_TYPES:
            self._refuse_type("The KNOWN AS OF expression", _TIMES, left.items["__known"], left_type, _CAST_HINT)
        left.cast("__known", common)
        right.cast("__seq", common)

    def _refuse_known(self, found: str) -> NoReturn:
        span = self.clause.options["KNOWN AS OF"].pair
        table = self.inputs.right.name
        raise BindError("AS_OF_JOIN.KNOWN_NEEDS_SEQUENCE", self.text, span, table=table, found=found)

    def _ties(self) -> list[tuple[str, tuple[str, str]]]:
        """TIES BY items as (expression, (direction, nulls)); SEQUENCE BY, the arrival, breaks what is left (B8)."""
        found = []
        for number, span in enumerate(self.clause.ties):
            tokens = tokenize_span(self.text, span)
            for reference in self._named(tokens, is_behind_comma=number > 0):
                if reference.side == "left":
                    column = f"{reference.relation.name}.{reference.column.name}"
                    raise BindError("AS_OF_JOIN.TIES_FROM_LEFT", self.text, reference.span.pair, column=column)
            found.append(_sort_item(self.text, tokens))
        hidden = self.inputs.right.hidden
        orders = [] if self.streaming else [h for h in hidden if h.startswith("__order")]
        arrived = [h for h in hidden if h == "__seq"] + (orders if len(orders) > 1 else [])
        return found + [(f"{quoted(self.inputs.right_name)}.{h}", ("asc", "first")) for h in arrived]

    def _named(self, tokens: tuple[Token, ...], *, is_behind_comma: bool) -> list[Reference]:
        """What an item of TIES BY names."""
        try:
            return self.scope.references(tokens)
        except BindError as error:
            if error.condition != "BIND.UNKNOWN_COLUMN" or not is_behind_comma:
                raise
            suggestion = "The comma goes on with TIES BY: put TIES BY before ON, or write CROSS JOIN for the comma. "
            parameters = {**error.parameters, "suggestion": suggestion}
            raise BindError(error.condition, self.text, error.span, **parameters) from None

    def _config(self, ties: tuple[tuple[str, str], ...]) -> AsOfJoinConfig:
        entry = self.inputs.right.entry
        given_us = entry.retention_us if entry is not None else None
        retention_us = live_retention_us(entry) if self.streaming else given_us
        self._check_wait(retention_us)
        left_columns, right_columns = self.inputs.payload_names()
        return AsOfJoinConfig(
            join="left" if self.is_left else "inner",
            direction=self.direction or "backward",
            exclusive=self.exclusive,
            tolerance_us=self.clause.tolerance_us,
            has_known=self.clause.known is not None,
            ties=ties,
            with_reason=self.clause.reason is not None or (self.is_left and bool(self.parts.further)),
            n_keys=max(1, len(self.parts.left_keys)),
            left_columns=left_columns,
            right_columns=right_columns,
            grace_us=self.clause.grace_us,
            retention_us=retention_us if self.streaming else None,
            right_max_future_us=entry.max_future_us if entry and self.streaming else None,
        )

    def _check_wait(self, retention_us: int | None) -> None:
        """KIP-923: history retention must be at least the grace period; looking forward waits the tolerance more."""
        clause, looks_ahead = self.clause, self.direction in ("forward", "nearest")
        if clause.idle_us is not None and clause.grace_us is None:
            raise BindError("AS_OF_JOIN.IDLE_NEEDS_GRACE", self.text, clause.options["IDLE TIMEOUT"].pair)
        if self.streaming and looks_ahead:
            self._check_ahead()
        wait = (clause.grace_us or 0) + ((clause.tolerance_us or 0) if looks_ahead and self.streaming else 0)
        if clause.grace_us is not None and retention_us is not None and wait > retention_us:
            raise BindError(
                "AS_OF_JOIN.GRACE_EXCEEDS_RETENTION", self.text, clause.options["GRACE PERIOD"].pair,
                wait=duration(wait), table=self.inputs.right.name, retention=duration(retention_us),
            )  # fmt: skip

    def _check_ahead(self) -> None:
        """C6: on a stream, looking forward needs to know how far and how long to wait."""
        options = {"TOLERANCE": self.clause.tolerance_us, "GRACE PERIOD": self.clause.grace_us}
        missing = " and ".join(name for name, value in options.items() if value is None)
        if missing:
            direction = str(self.direction).upper()
            raise BindError(
                "AS_OF_JOIN.NEEDS_TOLERANCE_AND_GRACE", self.text, self.direction_span.pair, direction=direction,
                missing=missing,
            )  # fmt: skip

    @property
    def direction_span(self) -> Span:
        """Where the direction is written."""
        return self.clause.options.get("DIRECTION") or self.clause.time or self.clause.head


def _sort_item(text: str, tokens: tuple[Token, ...]) -> tuple[str, tuple[str, str]]:
    """``expr [ASC|DESC] [NULLS FIRST|LAST]``: NULLs sort as in Spark, first when ascending."""
    nulls, direction = "", "asc"
    if len(tokens) > 2 and tokens[-2].word == "NULLS":
        nulls, tokens = tokens[-1].word.lower(), tokens[:-2]
    if len(tokens) > 1 and tokens[-1].word in ("ASC", "DESC"):
        direction, tokens = tokens[-1].word.lower(), tokens[:-1]
    return text_of(text, tokens), (direction, nulls or ("first" if direction == "asc" else "last"))
