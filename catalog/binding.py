"""Checks a definition against the columns that its source has, and makes the entry of it.

The types of expressions are the engine's to say: every question is a query of which the analyzer gives the columns.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import NoReturn, Protocol

from catalog.definitions import Definition, Offsets, Refused, part_text, shown_name
from catalog.entries import Column, Entry
from catalog.relations import alias_text, columns_text

_TIMES = frozenset({"timestamp", "timestamp_ltz", "timestamp_ntz", "date"})
_NOT_COMPARED = ("map<", "variant")


class AnalysisError(Exception):
    """The engine does not take a query.

    Args:
        reason: its message, one line.
        column: the column that it does not find, if that is the reason; relation: the relation.
    """

    def __init__(self, reason: str, column: str = "", relation: str = "") -> None:
        super().__init__(reason)
        self.reason, self.column, self.relation = reason, column, relation


class Analyzer(Protocol):
    """The engine's analyzer."""

    def columns(self, query: str) -> tuple[Column, ...]:
        """The result columns of a query.

        Raises:
            AnalysisError: the engine refuses it.
        """
        ...


def entry_of(definition: Definition, columns: tuple[Column, ...], relation: str) -> Entry:
    """The entry that a definition makes, unchecked."""
    return Entry(
        kind=definition.kind,
        name=shown_name(definition.name),
        columns=columns,
        relation=relation,
        timestamp_by=definition.timestamp_by,
        keys=tuple(_spelt(key, columns) for key in definition.keys),
        sequence_by=definition.sequence_by,
        delete_when=definition.delete_when,
        retention_us=definition.retention_us,
        late_to=definition.late_to,
        max_future_us=definition.max_future_us,
        valid_from=_spelt(definition.valid[0], columns) if definition.valid else None,
        valid_to=_spelt(definition.valid[1], columns) if definition.valid else None,
        temporary=definition.temporary,
        properties=definition.properties,
        alias=definition.alias or (definition.relation_parts[-1] if definition.relation_parts else ""),
        from_stream=definition.from_stream,
    )


def bind_entry(definition: Definition, relation: str, analyzer: Analyzer) -> Entry:
    """Check a definition over its source.

    Args:
        definition: what was written.
        relation: text for a FROM clause that yields the source's columns.
        analyzer: the engine that is asked.

    Returns:
        The entry; its relation is ``relation``, or a query over it where the definition names the columns anew.

    Raises:
        Refused: something does not fit.
    """
    columns = _source_columns(definition, relation, analyzer)
    if definition.columns and not definition.using and not definition.is_pushed:
        relation = _renamed(definition, relation, columns)
        columns = _declared(definition, relation, analyzer)
    return checked(definition, entry_of(definition, columns, relation), analyzer)


def checked(definition: Definition, entry: Entry, analyzer: Analyzer) -> Entry:
    """An entry whose keys and expressions fit its columns.

    Raises:
        Refused: something does not fit.
    """
    _check_keys(definition, entry)
    _check_expressions(definition, entry, analyzer)
    return entry


def declared_relation(definition: Definition) -> str:
    """A relation without rows that has the declared columns."""
    items = (f"CAST(NULL AS {column.type}) AS {part_text(column.name)}" for column in definition.columns)
    return f"(SELECT {', '.join(items)})"


def check_types(definition: Definition, analyzer: Analyzer) -> tuple[Column, ...]:
    """The declared columns with their types as the engine spells them.

    Raises:
        Refused: a type that the engine does not know.
    """
    try:
        return analyzer.columns(f"SELECT * FROM {declared_relation(definition)}")
    except AnalysisError:
        for column in definition.columns:
            try:
                analyzer.columns(f"SELECT CAST(NULL AS {column.type}) AS x")
            except AnalysisError as error:
                span = definition.span(f"COLUMN {column.name}")
                raise Refused("DEFINITION.COLUMN_TYPE", span, type=column.type) from error
        raise


def _source_columns(definition: Definition, relation: str, analyzer: Analyzer) -> tuple[Column, ...]:
    if definition.is_pushed:
        return check_types(definition, analyzer)
    clause = "RELATION" if definition.relation else "USING" if definition.using else "AS"
    try:
        return analyzer.columns(f"SELECT * FROM {relation}")
    except AnalysisError as error:
        span = definition.span(clause)
        if error.relation:
            raise Refused(
                "BIND.UNKNOWN_RELATION", _where(definition, span, error.relation), name=error.relation, suggestion=""
            ) from error
        span = _where(definition, span, error.column) if error.column else span
        raise Refused("DEFINITION.SOURCE", span, name=shown_name(definition.name), reason=error.reason) from error


def _renamed(definition: Definition, relation: str, columns: tuple[Column, ...]) -> str:
    """The source under the declared names and types, by position."""
    declared = definition.columns
    if len(declared) != len(columns):
        span = definition.span("COLUMNS")
        raise Refused("DEFINITION.COLUMN_COUNT", span, declared=str(len(declared)), found=str(len(columns)))
    items = (
        f"{f'CAST({part_text(c.name)} AS {d.type})' if d.type else part_text(c.name)} AS {part_text(d.name)}"
        for c, d in zip(columns, declared, strict=True)
    )
    return f"(SELECT {', '.join(items)} FROM {relation})"


def _declared(definition: Definition, relation: str, analyzer: Analyzer) -> tuple[Column, ...]:
    typed = [c for c in definition.columns if c.type]
    try:
        return analyzer.columns(f"SELECT * FROM {relation}")
    except AnalysisError as error:
        span = definition.span(f"COLUMN {typed[0].name}") if len(typed) == 1 else definition.span("COLUMNS")
        raise Refused("DEFINITION.SOURCE", span, name=shown_name(definition.name), reason=error.reason) from error


def _check_keys(definition: Definition, entry: Entry) -> None:
    known = {column.name.lower(): column for column in entry.columns}
    for clause, names in (("KEYS", definition.keys), ("VALID", definition.valid)):
        for name in names:
            span = definition.span(f"{clause} {name}")
            if name.lower() not in known:
                _refuse_column(definition, entry, clause, name, span)
            kind = known[name.lower()].type
            if clause == "KEYS" and any(part in kind for part in _NOT_COMPARED):
                raise Refused("DEFINITION.KEY_TYPE", span, column=name, type=kind.upper())
    if definition.valid:
        first, second = (known[name.lower()] for name in definition.valid)
        if first.type != second.type:
            types = {"first": first.type.upper(), "second": second.type.upper()}
            raise Refused("DEFINITION.VALID_TYPES", definition.span("VALID"), **types)


def _check_expressions(definition: Definition, entry: Entry, analyzer: Analyzer) -> None:
    written = {
        "TIMESTAMP BY": entry.timestamp_by,
        "SEQUENCE BY": entry.sequence_by,
        "APPLY AS DELETE WHEN": entry.delete_when,
    }
    expressions = {clause: text for clause, text in written.items() if text}
    try:
        types = _types(entry, list(expressions.values()), analyzer)
    except AnalysisError:
        types = [_types_of_one(definition, entry, clause, text, analyzer) for clause, text in expressions.items()]
    for clause, found in zip(expressions, types, strict=True):
        _check_type(definition, clause, expressions[clause], found)


def _types(entry: Entry, expressions: list[str], analyzer: Analyzer) -> list[str]:
    """The types of expressions over the rows; the columns stand beside them, so that an aggregate is refused."""
    items = ", ".join(f"({text}) AS __x{n}" for n, text in enumerate(expressions))
    query = f"SELECT {columns_text(entry)}, {items} FROM {entry.relation} AS {alias_text(entry)}"
    return [column.type for column in analyzer.columns(query)[-len(expressions) :]]


def _types_of_one(definition: Definition, entry: Entry, clause: str, text: str, analyzer: Analyzer) -> str:
    try:
        return _types(entry, [text], analyzer)[0]
    except AnalysisError as error:
        span = definition.span(clause)
        if error.column:
            _refuse_column(definition, entry, clause, error.column, _where(definition, span, error.column))
        name = shown_name(definition.name)
        raise Refused("DEFINITION.EXPRESSION", span, clause=clause, name=name, reason=error.reason) from error


def _check_type(definition: Definition, clause: str, expression: str, found: str) -> None:
    span = definition.span("VALID" if definition.valid else clause)
    if clause == "TIMESTAMP BY" and found not in _TIMES:
        parameters = {
            "clause": "VALID" if definition.valid else clause,
            "expression": expression,
            "type": found.upper(),
        }
        raise Refused("DEFINITION.TIME_TYPE", span, **parameters, hint=_time_hint(expression, found))
    if clause == "APPLY AS DELETE WHEN" and found != "boolean":
        raise Refused("DEFINITION.CONDITION_TYPE", span, type=found.upper())


def _time_hint(expression: str, found: str) -> str:
    if found.startswith("string"):
        return f"Write to_timestamp({expression}), with a format as its second argument where the text needs one."
    if found in ("bigint", "int", "smallint", "tinyint"):
        return (
            f"Write timestamp_seconds({expression}), timestamp_millis({expression}) or timestamp_micros({expression})."
        )
    return "Write an expression that yields a TIMESTAMP."


def _refuse_column(definition: Definition, entry: Entry, clause: str, column: str, span: Offsets) -> NoReturn:
    names = {c.name.lower(): c.name for c in entry.columns}
    close = get_close_matches(column.lower(), names, n=1, cutoff=0.6)
    listed = ", ".join(f"`{name}`" for name in list(names.values())[:8])
    suggestion = (
        f"Did you mean `{names[close[0]]}`?" if close else f"Its columns: {listed}{', …' if len(names) > 8 else ''}."
    )
    raise Refused(
        "DEFINITION.UNKNOWN_COLUMN",
        span,
        clause=clause,
        column=column,
        name=shown_name(definition.name),
        suggestion=suggestion,
    )


def _where(definition: Definition, span: Offsets, name: str) -> Offsets:
    """Where a name is within a clause; all of the clause where it is not found."""
    text = definition.text[slice(*span)]
    pattern = r"`?\s*\.\s*`?".join(re.escape(part) for part in name.split("."))
    found = re.search(rf"(?<![\w]){pattern}(?![\w])", text, re.IGNORECASE)
    return (span[0] + found.start(), span[0] + found.end()) if found else span


def _spelt(name: str, columns: tuple[Column, ...]) -> str:
    """A column as its source spells it."""
    return next((column.name for column in columns if column.name.lower() == name.lower()), name)
