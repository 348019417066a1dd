"""What of a streaming table's sources is history: from BACKFILL, the definitions that its query reads, and a cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NoReturn

from pyspark.errors import PySparkException

from catalog.kafka import FACTS
from catalog.relations import alias_text
from catalog.spark import SparkCatalog, analysis_error, type_text
from sqlx.errors import BindError, RefusedBySpark, TemporalSqlError, UnsupportedError
from sqlx.spark.histories import Cut, place_of, rows_of_history, shown
from sqlx.streaming.sources import Source, sources_of
from udtf.engine import engine_of
from udtf.engine.asking import probing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from catalog.definitions import Offsets
    from catalog.entries import Entry
    from sqlx.sql.definitions import Backfill, StreamingTable

_ARRIVED: Final = "__arrived"
_TIMES: Final = frozenset({"timestamp", "timestamp_ntz", "date", "string"})


@dataclass(frozen=True)
class History:
    """The history of one source.

    Attributes:
        place: of the definition, see `place_of`.
        entry: the definition.
        relation: where its rows are, as in a FROM clause.
        cut: up to where they are history; None: all of them.
        span: where the statement says so.
    """

    place: str
    entry: Entry
    relation: str
    cut: Cut | None
    span: Offsets


@dataclass
class HistoryReader:
    """Reads BACKFILL.

    Args:
        spark: the session.
        statement: what was written.
        known: the cuts of a backfill that was begun, by place: UNTIL is asked once.
    """

    spark: SparkSession
    statement: StreamingTable
    known: dict[str, Cut]

    def read(self) -> tuple[History, ...]:
        """The history of each source.

        Raises:
            BindError: `BACKFILL.SOURCE`, `BACKFILL.UNTIL` or `BACKFILL.HISTORY`.
        """
        named = self._named()
        found = [self._history(place, *one) for place, one in named.items()]
        rest = [entry for source, entry in self._sources(frozenset(named)) if source.is_first]
        others = [entry for entry in rest if place_of(self._catalog, entry.name) not in named]
        if others:
            found += [self._own(entry, found) for entry in others]
        for one in found:
            self._check(one)
        return tuple(found)

    @cached_property
    def _catalog(self) -> SparkCatalog:
        return SparkCatalog(self.spark)

    # whose history it is

    def _named(self) -> dict[str, tuple[Backfill, Entry]]:
        """By the place of a definition what is said of it, and the definition."""
        sources = {place_of(self._catalog, entry.name): (one, entry) for one, entry in self._sources(frozenset())}
        if not sources:
            self._refuse("SOURCE", self.statement.span("BACKFILL"), reason="the query reads no stream that is defined")
        found: dict[str, tuple[Backfill, Entry]] = {}
        for clause in self.statement.backfills:
            place = place_of(self._catalog, clause.source) if clause.source else self._only_stream(clause, sources)
            span = clause.spans.get("SOURCE", clause.spans["RELATION"])
            if place not in sources:
                names = ", ".join(f"`{entry.name}`" for _, entry in sources.values())
                reason = f"the query does not read `{'.'.join(clause.source)}`, it reads {names}"
                self._refuse("SOURCE", span, reason=reason)
            if place in found:
                self._refuse("SOURCE", span, reason=f"`{sources[place][1].name}` has two of them")
            found[place] = clause, sources[place][1]
        return found

    def _only_stream(self, clause: Backfill, sources: dict[str, tuple[Source, Entry]]) -> str:
        direct = {place: entry for place, (one, entry) in sources.items() if one.is_direct}
        asked = {place: entry for place, entry in direct.items() if entry.kind == "stream"} or direct
        if len(asked) != 1:
            names = ", ".join(f"`{entry.name}`" for entry in asked.values())
            self._refuse("SOURCE", clause.spans["RELATION"], reason=f"the query reads {names}")
        return next(iter(asked))

    def _sources(self, stop: frozenset[str]) -> Iterator[tuple[Source, Entry]]:
        """The definitions that the query reads; behind those at which it is to stop nothing is looked for."""
        for source in sources_of(self._catalog, self.statement.query, stop):
            if source.entry is None:
                start, end = (place + self.statement.query_start for place in source.span)
                reason = f"`{source.name}` is no definition: make one of it with CREATE STREAM"
                self._refuse("SOURCE", (start, end), reason=reason)
            yield source, source.entry

    # where its rows are

    def _history(self, place: str, clause: Backfill, entry: Entry) -> History:
        cut = self.known.get(place)
        if cut is None and clause.until:
            cut = self._cut(clause, entry)
        return History(place, entry, clause.relation, cut, clause.spans["RELATION"])

    def _own(self, entry: Entry, named: list[History]) -> History:
        """A source without a history of its own: its rows that are there, before the cut of the others."""
        cuts = {one.cut for one in named}
        cut = next(iter(cuts))
        if len(cuts) != 1 or cut is None or not cut.is_time:
            names = ", ".join(f"`{one.entry.name}`" for one in named)
            reason = f"`{entry.name}` is read too: name its history as well, or one time for all after UNTIL"
            self._refuse("UNTIL", named[0].span, reason=f"{names} has no time UNTIL which it is history, and {reason}")
        return History(place_of(self._catalog, entry.name), entry, entry.relation, cut, named[0].span)

    # the cut

    def _cut(self, clause: Backfill, entry: Entry) -> Cut:
        time_us = self._time_us(clause)
        if time_us is not None:
            return Cut(f"timestamp_micros({time_us})", is_time=True)
        query, span = (
            f"SELECT ({clause.until}) AS cut FROM {clause.relation} AS {alias_text(entry)}",
            clause.spans["UNTIL"],
        )
        try:
            kind = type_text(self.spark.sql(query).schema.fields[0].dataType)
        except PySparkException as error:
            self._refuse("UNTIL", span, reason=str(analysis_error(error)))
        if kind != "boolean":
            self._refuse("UNTIL", span, reason=f"it is of the type {kind.upper()}")
        return Cut(clause.until, is_time=False)

    def _time_us(self, clause: Backfill) -> int | None:
        """A constant time, microseconds; None where it reads columns."""
        engine, span = engine_of(self.spark), clause.spans["UNTIL"]
        try:
            with probing():
                kind = type_text(engine.query(f"SELECT ({clause.until}) AS cut").schema.fields[0].dataType)
        except PySparkException:
            return None
        if kind not in _TIMES:
            self._refuse("UNTIL", span, reason=f"it is of the type {kind.upper()}")
        try:
            found = engine.query(f"SELECT unix_micros(CAST(({clause.until}) AS TIMESTAMP)) AS cut").collect()[0][0]
        except PySparkException as error:
            self._refuse("UNTIL", span, reason=str(analysis_error(error)))
        if found is None:
            self._refuse("UNTIL", span, reason="it is NULL")
        return int(found)

    # the rows

    def arrived(self, history: History) -> dict[str, str]:
        """Name to expression of what says which of two rows of one time came last; {} where nothing does."""
        entry, relation = history.entry, history.relation
        if entry.topic and relation == entry.relation:
            order = entry.arrival
        else:
            order = () if relation.startswith("(") else self._catalog.arrival(relation)
        return {f"{_ARRIVED}{number}": expression for number, expression in enumerate(order)}

    def rows(self, history: History, further: Mapping[str, str] | None = None) -> DataFrame:
        """The rows of a history.

        Args:
            history: of a source.
            further: name to expression of columns that the rows are to show besides.

        Raises:
            BindError: `BACKFILL.HISTORY`, Spark refuses to read them.
        """
        entry = history.entry
        try:
            relation, further = self._with_facts(entry, history.relation, further or {})
            return self.spark.sql(rows_of_history(entry, relation, history.cut, further))
        except TemporalSqlError as error:
            if not isinstance(error, RefusedBySpark):
                self._refuse("HISTORY", history.span, name=history.entry.name, reason=str(error))
            raise
        except PySparkException as error:
            reason = str(analysis_error(error))
            self._refuse("HISTORY", history.span, name=history.entry.name, reason=reason)

    def _with_facts(self, entry: Entry, relation: str, further: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        """The rows with what is told of a record by its topic, which a history need not have: none deletes its key so.

        Returns:
            The relation, and what is still to be selected of it: `_metadata` does not pass a subquery in Spark 4.1.
        """
        if not entry.topic or relation == entry.relation:
            return relation, further
        columns = {name.lower() for name in self.spark.sql(f"SELECT * FROM {relation}").columns}
        if FACTS in columns:
            return relation, further
        facts = self.spark.sql(f"SELECT {FACTS}.* FROM {entry.relation}").schema.fields
        told = {
            one.name: "false" if one.name == "deleted" else f"CAST(NULL AS {type_text(one.dataType)})" for one in facts
        }
        pairs = ", ".join(f"'{name}', {text}" for name, text in told.items())
        items = ["*", f"named_struct({pairs}) AS {FACTS}", *(f"{text} AS {name}" for name, text in further.items())]
        return f"(SELECT {', '.join(items)} FROM {relation})", {}

    def refuse_source(self, source: str) -> NoReturn:
        """Refuse a query that reads something else, too.

        Raises:
            BindError: `BACKFILL.SOURCE`.
        """
        reason = f"the query reads {source} too, which is behind no definition"
        self._refuse("SOURCE", self.statement.span("BACKFILL"), reason=reason)

    def _check(self, history: History) -> None:
        entry, rows = history.entry, self.rows(history)
        has = {field.name.lower(): type_text(field.dataType) for field in rows.schema.fields}
        for column in entry.columns:
            found = has.get(column.name.lower())
            if found is None:
                reason = f"it has no column `{column.name}`"
                self._refuse("HISTORY", history.span, name=entry.name, reason=reason)
            if found != column.type:
                reason = (
                    f"its column `{column.name}` is {found.upper()}, and that of `{entry.name}` {column.type.upper()}"
                )
                self._refuse("HISTORY", history.span, name=entry.name, reason=reason)
        if entry.timestamp_by == f"{FACTS}.time" and history.relation != entry.relation:
            reason = (
                "its event time is that of its records, and a relation has none: give the definition a TIMESTAMP BY"
            )
            self._refuse("HISTORY", history.span, name=entry.name, reason=reason)
        for expression in filter(None, (entry.timestamp_by, entry.sequence_by, entry.delete_when)):
            try:
                shown(entry, rows).selectExpr(expression)
            except PySparkException as error:
                self._refuse("HISTORY", history.span, name=entry.name, reason=str(analysis_error(error)))
        if entry.kind == "upsert" and not entry.sequence_by:
            reason = (
                "it is an upsert table without SEQUENCE BY, and a relation does not say which of two rows came last"
            )
            self._refuse("HISTORY", history.span, name=entry.name, reason=reason)

    def _refuse(self, about: str, span: Offsets, **parameters: str) -> NoReturn:
        condition = f"BACKFILL.{about}"
        raise BindError(condition, self.statement.text, span, **parameters)


def check_possible(statement: StreamingTable, *, is_remote: bool, has_checkpoint: bool) -> None:
    """Refuse BACKFILL where it cannot be.

    Raises:
        UnsupportedError: over Spark Connect: the checkpoint is changed when the stream takes over.
        BindError: rows that go nowhere have no checkpoint, and every start would read the history again.
    """
    span = statement.span("BACKFILL")
    if is_remote:
        what = "BACKFILL: a client cannot change the files of a checkpoint"
        raise UnsupportedError("UNSUPPORTED.CONNECT", statement.text, span, what=what)
    if not has_checkpoint:
        reason = "a table without a CHECKPOINT would read it again at every start"
        raise BindError("BACKFILL.SOURCE", statement.text, span, reason=reason)
