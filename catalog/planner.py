"""Turns statements about definitions into plain Spark statements. What it has to know of a session, it asks for."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Protocol

from catalog.binding import AnalysisError, Analyzer, bind_entry, check_types, declared_relation
from catalog.definitions import (
    KIND_NAMES,
    KIND_WORDS,
    Definition,
    Drop,
    Refused,
    name_parts,
    name_text,
    part_text,
    shown_name,
)
from catalog.entries import Column, Entry
from catalog.kafka import SOURCE, bind_topic, is_topic, spark_options, topic_entry, topic_format
from catalog.relations import PARQUET_ARRIVAL
from catalog.statements import (
    NOTHING,
    Lowered,
    create_log,
    create_source,
    create_source_view,
    create_temporary_log,
    create_view,
    source_options,
)

SESSION_CATALOG = "spark_catalog"
#: Data sources that PySpark's wheel leaves out, and that `sqlx connectors` brings.
_CONNECTORS = frozenset({"avro", "delta", "kafka"})


@dataclass(frozen=True)
class Found:
    """What Spark knows under a name."""

    is_temporary: bool
    is_view: bool
    owner: str
    entry: Entry | None

    @property
    def words(self) -> str:
        """What it is, for messages."""
        if self.entry is not None:
            return KIND_NAMES[self.entry.kind]
        return "a view of Spark's" if self.is_view else "a table of Spark's"


class Session(Analyzer, Protocol):
    """What there is in a session."""

    def find(self, parts: tuple[str, ...], *, permanent: bool = False) -> Found | None:
        """What is under a name; ``permanent`` passes over temporary views."""
        ...

    def entries(self) -> tuple[Entry, ...]:
        """The definitions of the current database and the session."""
        ...

    def current_catalog(self) -> str:
        """The name of the current catalog."""
        ...

    def current_database(self) -> str:
        """The current database of Spark's own catalog."""
        ...

    def has_database(self, name: str) -> bool:
        """Whether Spark's own catalog has that database."""
        ...

    def is_temporary(self, parts: tuple[str, ...]) -> bool:
        """Whether the name is that of a temporary view."""
        ...

    def arrival(self, relation: str) -> tuple[str, ...]:
        """How the rows of a relation arrived, as ORDER BY expressions over them; () where that is not known."""
        ...

    def new_log(self, columns: tuple[Column, ...]) -> str:
        """The path of new, empty Parquet files for the rows of a temporary definition; they go with the session."""
        ...

    def open_source(
        self, name: str, source: str, options: dict[str, str], columns: tuple[Column, ...]
    ) -> tuple[str, ...]:
        """Make a temporary view over a data source.

        Returns:
            How its rows arrived, as :meth:`arrival` says it of the source itself; the view has these expressions as
            further columns ``__arrived0`` ….

        Raises:
            AnalysisError: the source cannot be read.
        """
        ...

    def close_source(self, name: str) -> None:
        """Drop such a view."""
        ...


class Planner:
    """Plans statements in one session.

    Args:
        session: what is asked.
        in_order: finds out how the rows of a table arrived that are made of those of a stream.
    """

    def __init__(self, session: Session, in_order: Callable[[Entry], Entry] = lambda entry: entry) -> None:
        self.session, self.in_order = session, in_order

    def create(self, definition: Definition) -> Lowered:
        old = self.session.find(definition.name, permanent=not definition.temporary)
        if old is not None and old.is_temporary != definition.temporary:
            old = None
        if old is not None and self._is_kept(definition, old):
            return Lowered(NOTHING)
        home = self._home(definition)
        entry, made = self._source(definition, home)
        entry = replace(entry, late_to=self._late_to(entry.late_to))
        prepare = self._outdated(old.entry, entry) if old is not None and old.entry is not None else []
        for statement in made:
            self._check_free(definition, name_parts(self._made(entry)), old)
            prepare.append(statement)
        name = name_text((*home, definition.name[-1]))
        return Lowered(create_view(name, entry, self._rows(definition, entry), replace=definition.replace), prepare)

    def _late_to(self, name: str | None) -> str | None:
        """The table of refused rows with its database: like all names of a definition it means what it meant here."""
        parts = name_parts(name or "")
        if len(parts) != 1 or self.session.current_catalog() != SESSION_CATALOG:
            return name
        return shown_name((self.session.current_database(), *parts))

    def _rows(self, definition: Definition, entry: Entry) -> Entry:
        """The same definition, as its view reads its rows."""
        if definition.is_pushed or definition.using or not entry.is_table:
            return entry
        is_name = definition.relation_parts and not definition.columns
        read = entry if is_name else replace(entry, relation=f"({_query(definition)})")
        ordered = self.in_order(read)
        return entry if ordered is read else ordered

    def _is_kept(self, definition: Definition, old: Found) -> bool:
        """Whether IF NOT EXISTS leaves the old definition in place."""
        is_same = old.entry is not None and old.entry.kind == definition.kind
        if definition.if_not_exists and is_same:
            return True
        if not definition.replace or old.entry is None:
            hint = "Write CREATE OR REPLACE, or IF NOT EXISTS." if is_same else "Choose another name, or drop it first."
            name = shown_name(definition.name)
            raise Refused("DEFINITION.NAME_EXISTS", definition.span("NAME"), found=old.words, name=name, hint=hint)
        return False

    def _home(self, definition: Definition) -> tuple[str, ...]:
        """The catalog and database in which a definition lives; none for a temporary one."""
        if definition.temporary:
            return ()
        name = definition.name
        catalog = name[0] if len(name) == 3 else self.session.current_catalog()
        if catalog.lower() != SESSION_CATALOG or len(name) > 3:
            parameters = {"name": shown_name(name), "catalog": catalog}
            raise Refused("DEFINITION.OTHER_CATALOG", definition.span("NAME"), **parameters)
        database = name[-2] if len(name) > 1 else self.session.current_database()
        return (SESSION_CATALOG, database)

    def _check_free(self, definition: Definition, parts: tuple[str, ...], old: Found | None) -> None:
        """The table beside a definition may not be one of the user's."""
        found = self.session.find(parts, permanent=not definition.temporary)
        if definition.temporary or found is None or (old is not None and found.owner):
            return
        if found.owner:  # left behind by a definition whose view was dropped without us
            hint = f"Drop it first: DROP {'VIEW' if found.is_view else 'TABLE'} {shown_name(parts)}."
        else:
            hint = "The definition needs that name for its rows: choose another name for it."
        name, span = shown_name(parts), definition.span("NAME")
        raise Refused("DEFINITION.NAME_EXISTS", span, found=found.words, name=name, hint=hint)

    def _source(self, definition: Definition, home: tuple[str, ...]) -> tuple[Entry, list[str]]:
        """The entry with its final relation, and the statements that make that relation."""
        name, owner = definition.name[-1], shown_name(definition.name)
        if definition.is_pushed:
            return self._pushed(definition, name_text((*home, f"{name}__log")), owner)
        source = name_text((*home, f"{name}__source"))
        if is_topic(definition):
            return self._topic(definition, name_text((*home, f"{name}__topic")), owner)
        if definition.using:
            return self._using(definition, source, owner)
        if definition.relation_parts and not definition.columns:
            relation = self._qualified(definition)
            entry = bind_entry(definition, relation, self.session)
            return replace(entry, arrival=self.session.arrival(relation)), []
        query = _query(definition)
        entry = bind_entry(definition, f"({query})", self.session)
        query = f"SELECT * FROM {entry.relation}" if definition.columns else query
        # Two parts where that is enough: not every statement about views takes a catalog.
        near = home[1:] if home and self.session.current_catalog() == home[0] else home
        view = name_text((*near, f"{name}__source"))
        made = create_source_view(view, query, owner, temporary=definition.temporary)
        return replace(entry, relation=source), [made]

    def _pushed(self, definition: Definition, log: str, owner: str) -> tuple[Entry, list[str]]:
        entry = bind_entry(definition, declared_relation(definition), self.session)
        entry = replace(entry, relation=log, arrival=PARQUET_ARRIVAL)
        if not definition.temporary:
            return entry, [create_log(log, owner, entry.columns)]
        # Spark hides the files of a temporary view, and with them the order of arrival: so the rows are read by path.
        path = self.session.new_log(entry.columns)
        made = create_temporary_log(log, entry.columns, path)
        return replace(entry, relation=f"parquet.{part_text(path)}"), [made]

    def _using(self, definition: Definition, source: str, owner: str) -> tuple[Entry, list[str]]:
        """USING: checked over a passing view of the same source, before anything is made."""
        options = source_options(definition)
        columns = check_types(definition, self.session) if definition.columns else ()
        probe = f"__sqlx_probe_{uuid.uuid4().hex}"
        try:
            arrival = self.session.open_source(probe, definition.using, options, columns)
        except AnalysisError as error:
            raise _no_source(definition, error) from error
        hidden = tuple(f"__arrived{n}" for n in range(len(arrival)))
        relation = f"(SELECT * EXCEPT ({', '.join(hidden)}) FROM {probe})" if hidden else probe
        try:
            entry = bind_entry(definition, relation, self.session)
        finally:
            self.session.close_source(probe)
        if not definition.temporary:
            return replace(entry, relation=source, arrival=arrival), [create_source(source, definition, owner)]
        self.session.open_source(f"{definition.name[-1]}__source", definition.using, options, columns)
        return replace(entry, relation=source, arrival=hidden), []

    def _topic(self, definition: Definition, topic: str, owner: str) -> tuple[Entry, list[str]]:
        """USING kafka: the raw records as a relation of Spark's, and a query over it that makes rows of them."""
        options, found = spark_options(definition), topic_format(definition)
        columns = check_types(definition, self.session)
        probe = f"__sqlx_probe_{uuid.uuid4().hex}"
        raw = replace(definition, options=tuple(options.items()), columns=())
        try:
            self.session.open_source(probe, SOURCE, options, ())
        except AnalysisError as error:
            raise _no_source(definition, error) from error
        try:
            bind_topic(definition, columns, found, probe, self.session)
        finally:
            self.session.close_source(probe)
        entry = topic_entry(definition, columns, found, topic)
        if not definition.temporary:
            return entry, [create_source(topic, raw, owner)]
        self.session.open_source(name_parts(topic)[-1], SOURCE, options, ())
        return entry, []

    def _qualified(self, definition: Definition) -> str:
        """A plain name with its catalog and database, so that it means the same from everywhere."""
        parts = definition.relation_parts
        if len(parts) > 2 or self.session.is_temporary(parts):
            return name_text(parts)
        catalog = self.session.current_catalog()
        if catalog != SESSION_CATALOG or (len(parts) == 2 and not self.session.has_database(parts[0])):
            return definition.relation  # another catalog's own ways, or files: parquet.`path`
        database = parts[0] if len(parts) == 2 else self.session.current_database()
        return name_text((SESSION_CATALOG, database, parts[-1]))

    def drop(self, statement: Drop) -> Lowered:
        found, name = self.session.find(statement.name), shown_name(statement.name)
        if found is None:
            if statement.if_exists:
                return Lowered(NOTHING)
            known = [entry.name for entry in self.session.entries() if entry.kind == statement.kind]
            close = get_close_matches(name, known, n=1, cutoff=0.6)
            suggestion = f"Did you mean `{close[0]}`? " if close else ""
            kind = KIND_NAMES[statement.kind].split(" ", 1)[1]
            raise Refused("DEFINITION.NOT_FOUND", statement.span, kind=kind, name=name, suggestion=suggestion)
        if found.entry is None or found.entry.kind != statement.kind:
            words = KIND_WORDS[found.entry.kind] if found.entry else "VIEW" if found.is_view else "TABLE"
            parameters = {"found": found.words, "wanted": KIND_NAMES[statement.kind], "words": words}
            raise Refused("DEFINITION.WRONG_KIND", statement.span, name=name, **parameters)
        return Lowered(f"DROP VIEW {name_text(statement.name)}", self._drops(found.entry))

    def _drops(self, entry: Entry) -> list[str]:
        """The statements that drop what was made beside a definition, and nothing of the user's."""
        relation = self._made(entry)
        found = self.session.find(name_parts(relation)) if relation else None
        if found is None or not (found.is_temporary or found.owner):
            return []
        kind = "VIEW" if found.is_view or found.is_temporary else "TABLE"
        return [f"DROP {kind} IF EXISTS {relation}"]

    def _outdated(self, old: Entry, new: Entry) -> list[str]:
        """What the old definition leaves behind; a temporary view of the same name is replaced, not dropped."""
        return [] if old.temporary and self._made(old) == self._made(new) else self._drops(old)

    def _made(self, entry: Entry) -> str:
        """The table or view beside a definition, or ""."""
        if entry.temporary and entry.relation.startswith("parquet.`"):
            return part_text(f"{name_parts(entry.name)[-1]}__log")
        return entry.topic or (entry.relation if entry.relation.endswith(("__log`", "__source`")) else "")


def _query(definition: Definition) -> str:
    """What a definition over a relation reads."""
    return definition.query or f"SELECT * FROM {definition.relation}"


def _no_source(definition: Definition, error: AnalysisError) -> Refused:
    """Why a data source cannot be opened: it is a connector that the session does not have, or what Spark says."""
    span, source = definition.span("USING"), definition.using.lower()
    if source in _CONNECTORS and "data source" in error.reason:
        return Refused("CONNECTOR.NEEDED", span, name=source)
    return Refused("DEFINITION.SOURCE", span, name=shown_name(definition.name), reason=error.reason)
