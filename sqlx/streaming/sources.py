"""The definitions that a live query reads: those that it names, and those behind them down to the first ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog.relations import source_query
from sqlx.spark.histories import place_of
from sqlx.spark.view_text import view_text
from sqlx.sql.parser import scan

if TYPE_CHECKING:
    from catalog.definitions import Offsets
    from catalog.entries import Entry
    from catalog.spark import SparkCatalog
    from sqlx.sql.structure import Relation


@dataclass(frozen=True)
class Source:
    """A definition that a query reads, or a stream of Spark's.

    Attributes:
        name: as it is read.
        entry: the definition; None where STREAM is before something that is none.
        is_direct: whether the query itself names it.
        is_first: whether it reads no other one.
        span: where the query names it, or what it is behind.
    """

    name: str
    entry: Entry | None
    is_direct: bool
    is_first: bool
    span: Offsets


def sources_of(catalog: SparkCatalog, query: str, stop: frozenset[str] = frozenset()) -> Iterator[Source]:
    """What a query reads live, each once.

    Args:
        catalog: the session's definitions.
        query: the query.
        stop: the places of definitions behind which nothing is looked for, see `place_of`.
    """
    walk = _Walk(catalog, stop)
    for relation in scan(query).read():
        yield from walk.behind(relation, relation.body.pair, is_direct=True)


@dataclass
class _Walk:
    catalog: SparkCatalog
    stop: frozenset[str]
    seen: set[str] = field(default_factory=set)

    def behind(self, relation: Relation, span: Offsets, *, is_direct: bool) -> Iterator[Source]:
        """A relation, and what is behind it."""
        entry = self.catalog.resolve(relation.parts) if relation.parts else None
        if entry is None:
            yield from self._of_spark(relation, span, is_direct=is_direct)
            return
        place = place_of(self.catalog, entry.name)
        if place in self.seen:
            return
        self.seen.add(place)
        reads = [] if place in self.stop or entry.topic else list(scan(source_query(entry)).read())
        further = [one for read in reads for one in self.behind(read, span, is_direct=False)]
        is_first = not any(one.entry for one in further)
        yield Source(entry.name, entry, is_direct, is_first, span)
        yield from (one for one in further if one.entry is not None)

    def _of_spark(self, relation: Relation, span: Offsets, *, is_direct: bool) -> Iterator[Source]:
        view = view_text(self.catalog, relation.parts) if relation.parts else None
        if view is not None:
            for read in scan(view).read():
                yield from self.behind(read, span, is_direct=is_direct)
        elif relation.stream:
            yield Source(".".join(relation.parts), None, is_direct, True, span)
