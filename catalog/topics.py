"""Definitions over topics of Kafka: their times, deletions and order, as expressions over a topic's rows."""

from __future__ import annotations

from dataclasses import replace

from catalog.binding import AnalysisError, Analyzer, checked, entry_of
from catalog.definitions import Definition, Refused, shown_name
from catalog.entries import Column, Entry
from catalog.kafka import TopicFormat
from catalog.topic_rows import FACTS, topic_query


def topic_entry(definition: Definition, columns: tuple[Column, ...], found: TopicFormat, topic: str) -> Entry:
    """The entry of a definition over a topic, unchecked.

    A record without a value deletes the row of its key, and a change event of a deletion the row that it shows. Neither
    has a row to say when: then it is the record's or the event's own time that counts.
    """
    relation = f"({topic_query(columns, found, topic)})"
    entry = entry_of(definition, columns, relation)
    order = ("topic", "partition", "offset") if found.several else ("partition", "offset")
    entry = replace(entry, topic=topic, arrival=tuple(f"{FACTS}.{name}" for name in order))
    time = definition.timestamp_by or f"{FACTS}.time"
    if not entry.is_table:
        return replace(entry, timestamp_by=time)
    if definition.timestamp_by:
        time = f"CASE WHEN {FACTS}.deleted THEN {FACTS}.time ELSE {definition.timestamp_by} END"
    deleted = f"{FACTS}.deleted"
    condition = f"({definition.delete_when}) OR {deleted}" if definition.delete_when else deleted
    return replace(entry, timestamp_by=time, delete_when=condition)


def bind_topic(
    definition: Definition, columns: tuple[Column, ...], found: TopicFormat, topic: str, analyzer: Analyzer
) -> Entry:
    """Check a definition over a topic.

    Raises:
        Refused: something does not fit.
    """
    entry = topic_entry(definition, columns, found, topic)
    try:
        analyzer.columns(f"SELECT * FROM {entry.relation}")
    except AnalysisError as error:
        name, span = shown_name(definition.name), definition.span("OPTIONS")
        raise Refused("DEFINITION.SOURCE", span, name=name, reason=error.reason) from error
    as_written = replace(entry, timestamp_by=definition.timestamp_by or entry.timestamp_by)
    checked(definition, replace(as_written, delete_when=definition.delete_when), analyzer)
    return entry
