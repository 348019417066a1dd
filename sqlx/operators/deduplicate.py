"""DEDUPLICATE WITHIN: from the clause as written to a plan node with everything explicit.

Source: KIP-655, semantics.md section 16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from catalog.entries import Column
from sqlx.arrival import Arrival
from sqlx.bind import Binder
from sqlx.clauses import DeduplicateClause
from sqlx.dialect import Span, quoted, tokenize_span
from sqlx.errors import BindError
from sqlx.join_inputs import with_carried
from sqlx.plan import Deduplicate, Fragment
from sqlx.refusals import refused
from sqlx.scope import Scope, Visible
from udtf.operators.deduplicate import DeduplicateConfig

_TIMES = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class DeduplicateInput:
    """The relation before DEDUPLICATE as text.

    Attributes:
        with_clause: the WITH clause that it needs, or "".
        from_text: what stands behind FROM.
        shown: its name and all its columns.
        needed: those of its columns that the query can read.
        hidden: which of ``__time``, ``__seq``, ``__arrival0`` … it has.
        max_future_us: of the stream that it is, or None.
        what: what messages call it.
        arrival: what live rows carry along on Spark; None everywhere else.
    """

    with_clause: str
    from_text: str
    shown: Visible
    needed: tuple[Column, ...]
    hidden: tuple[str, ...]
    max_future_us: int | None = None
    what: str = "the relation"
    arrival: Arrival | None = None

    def query(self, items: list[str]) -> str:
        """The relation as a query of these items."""
        return f"{self.with_clause}SELECT {', '.join(items)} FROM {self.from_text}"


class DeduplicateBuilder:
    """Builds one deduplication.

    Args:
        binder: names and types.
        text: the statement, for carets.
        clause: the clause as it was read.
        inputs: the relation.
        streaming: rows come live.
    """

    def __init__(
        self, binder: Binder, text: str, clause: DeduplicateClause, inputs: DeduplicateInput, streaming: bool
    ) -> None:
        self.binder, self.text, self.streaming = binder, text, streaming
        self.clause, self.inputs = clause, inputs
        self.scope = Scope(text, (inputs.shown,), None)

    def build(self, name: str) -> Deduplicate:
        """The plan node.

        Raises:
            BindError: the clause does not fit the relation.
        """
        keys = [self._expression(span) for span in self.clause.by]
        time = self._time()
        self._check_keys(keys)
        items = [f"{key} AS __k{n}" for n, key in enumerate(keys)]
        items += [f"{time} AS __time"] if time else []
        alias = quoted(self.inputs.shown.name)
        items += [f"{alias}.{hidden} AS {hidden}" for hidden in self.inputs.hidden if hidden != "__time"]
        payload = tuple(f"_l{n}" for n in range(len(self.inputs.needed)))
        shown = zip(payload, self.inputs.needed, strict=True)
        items += [f"{alias}.{quoted(column.name)} AS {place}" for place, column in shown]
        arrival = self.inputs.arrival
        if arrival is not None:
            items += replace(arrival, time=arrival.time or "CAST(NULL AS TIMESTAMP)").items
        sql = self.inputs.query(items)
        columns = self._columns(sql)
        output = tuple(c for c in columns if c.name in payload)
        if arrival is not None:
            output, payload = with_carried(output, columns), (*payload, "__event_time")
        fragment, shown_name = Fragment(sql, columns), self.inputs.shown.name
        names = tuple(column.name for column in self.inputs.needed)
        config, late_to = self._config(payload), self.clause.late_to
        return Deduplicate(name, fragment, config, output, shown_name, late_to, names)

    def _expression(self, span: Span) -> str:
        """An expression over the relation.

        Raises:
            BindError: it names a column that is not there.
        """
        try:
            self.scope.references(tokenize_span(self.text, span))
        except BindError as error:
            if error.condition != "BIND.UNKNOWN_COLUMN":
                raise
            raise BindError("DEDUPLICATE.UNKNOWN_COLUMN", self.text, error.span, **error.parameters) from None
        return span.of(self.text)

    def _time(self) -> str:
        """The time that is compared; "" where it is the event time that comes with each live row.

        Raises:
            BindError: there is none, or it is no time.
        """
        if self.clause.time is None:
            if "__time" not in self.inputs.hidden:
                if self.streaming:
                    return ""
                raise BindError("DEDUPLICATE.NO_TIME", self.text, self.clause.head.pair, name=self.inputs.what)
            return self._cast(f"{quoted(self.inputs.shown.name)}.__time", self.clause.head)
        return self._cast(self._expression(self.clause.time), self.clause.time)

    def _cast(self, time: str, span: Span) -> str:
        """A time as a timestamp."""
        (column,) = self._columns(self.inputs.query([f"{time} AS __x0"]))
        if column.type == "date":
            return f"CAST({time} AS TIMESTAMP_NTZ)"
        if column.type not in _TIMES:
            self._refuse_time(time, column.type, span)
        return time

    def _refuse_time(self, found: str, type_name: str, span: Span) -> NoReturn:
        raise BindError("DEDUPLICATE.TIME_TYPE", self.text, span.pair, found=found, type=type_name.upper())

    def _check_keys(self, keys: list[str]) -> None:
        """Every type that can be compared for equality can be a key.

        Raises:
            BindError: one cannot.
        """
        types = self._columns(self.inputs.query([f"{key} AS __x{n}" for n, key in enumerate(keys)]))
        for key, column, span in zip(keys, types, self.clause.by, strict=True):
            if "map<" in column.type or "variant" in column.type or column.type in ("interval", "void"):
                raise BindError("DEDUPLICATE.KEY_TYPE", self.text, span.pair, key=key, type=column.type.upper())

    def _columns(self, sql: str) -> tuple[Column, ...]:
        columns = self.binder.columns(sql)
        if columns is None:
            raise refused(self.binder, self.text, None)
        return columns

    def _config(self, payload: tuple[str, ...]) -> DeduplicateConfig:
        return DeduplicateConfig(
            interval_us=self.clause.interval_us,
            keep="last" if self.clause.keeps_last else "first",
            late=self.clause.late,
            n_keys=len(self.clause.by),
            columns=payload,
            has_sequence="__seq" in self.inputs.hidden,
            max_future_us=self.inputs.max_future_us if self.streaming else None,
        )
