"""Records of Kafka as rows: the query over raw records that a definition over a topic reads.

::

    raw topic (key, value, topic, partition, offset, timestamp)
      -> parsed: __value, __key (structs), __bad: the record cannot be read as its format says
      -> shown: the declared columns, the record's own facts under their names, and all facts as ``__kafka``
"""

from __future__ import annotations

from catalog.definitions import part_text
from catalog.entries import Column
from catalog.kafka import CORRUPT, TopicFormat, value_columns
from catalog.statements import literal

#: How the expressions of a definition read a record's own facts, whatever its columns are called.
FACTS = "__kafka"
#: Not deterministic to Spark, so that no condition is moved before it; otherwise a constant.
_ONCE = "spark_partition_id()"
_OPERATIONS = "('c', 'r', 'u', 'd')"
_BEGIN, _END = " FROM (SELECT *, ", ") AS __sqlx_records"


def topic_query(columns: tuple[Column, ...], found: TopicFormat, topic: str) -> str:
    """The rows of a topic.

    Args:
        columns: as declared, with types as the engine spells them.
        found: how records become rows.
        topic: a relation with the columns of Spark's Kafka source.

    Returns:
        A query with the columns, ``topic``, ``partition``, ``offset`` and ``timestamp`` of the record (and of a change
        event ``op`` and ``ts_ms``) where no column is called so, and ``__kafka``.
    """
    items = [f"{_column(column, found)} AS {part_text(column.name)}" for column in columns]
    taken = {column.name.lower() for column in columns}
    facts = {"topic": "topic", "partition": "partition", "offset": "offset", "timestamp": "timestamp"}
    if found.is_debezium:
        facts |= {"op": f"{_event('op')}", "ts_ms": _happened_ms()}
    items += [f"{text} AS {name}" for name, text in facts.items() if name not in taken]
    happened = f"timestamp_millis({_happened_ms()})" if found.is_debezium else "timestamp"
    deleted = f"{_event('op')} = 'd'" if found.is_debezium else "value IS NULL"
    struct = {
        "topic": "topic",
        "partition": "partition",
        "offset": "offset",
        "time": happened,
        "deleted": f"coalesce({deleted}, false)",
    }
    pairs = ", ".join(f"'{name}', {text}" for name, text in struct.items())
    shown = f"SELECT {', '.join(items)}, named_struct({pairs}) AS {FACTS}"
    return f"{shown}{_BEGIN}{_parsed(columns, found, topic)}{_END}{_condition(found)}"


def halves(query: str) -> tuple[str, str, str]:
    """A query of :func:`topic_query` in three: what is shown, the parsed records, and the condition behind them."""
    shown, rest = query.split(_BEGIN, 1)
    parsed, condition = rest.rsplit(_END, 1)
    return shown, f"SELECT *, {parsed}", condition


def _parsed(columns: tuple[Column, ...], found: TopicFormat, topic: str) -> str:
    """The records with value and key as structs, and whether they can be read."""
    keys = tuple(column for column in columns if column.name in found.key_columns)
    value = _struct("value", value_columns(columns, found), found.value, found.value_schema, found.json)
    inner = f"SELECT *, {value} AS __value"
    bad = _bad("value", value_columns(columns, found), found.value)
    if found.key != "none":
        inner += f", {_struct('key', keys, found.key, found.key_schema, found.json)} AS __key"
        bad = f"({bad}) OR ({_bad('key', keys, found.key)})"
    return f"coalesce({bad}, false) AS __bad, {_ONCE} AS __once FROM ({inner} FROM {topic})"


def _struct(
    what: str, columns: tuple[Column, ...], kind: str, schema: str, options: tuple[tuple[str, str], ...]
) -> str:
    if kind == "avro":
        return f"from_avro({what}, {literal(schema)}, map('mode', 'PERMISSIVE'))"
    text = f"CAST({what} AS STRING)"
    if kind == "string":
        return f"named_struct({literal(columns[0].name)}, try_cast({text} AS {columns[0].type}))"
    fields = ", ".join(f"{part_text(column.name)} {column.type}" for column in columns)
    if kind == "debezium-json":
        row = ", ".join(f"{part_text(column.name)}: {column.type}" for column in columns)
        event = {"before": f"STRUCT<{row}>", "after": f"STRUCT<{row}>", "op": "STRING", "ts_ms": "BIGINT"}
        event["source"] = "STRUCT<ts_ms: BIGINT>"
        inner = ", ".join(f"{name}: {type_}" for name, type_ in event.items())
        fields = ", ".join([*(f"{name} {type_}" for name, type_ in event.items()), f"payload STRUCT<{inner}>"])
    pairs = (("mode", "PERMISSIVE"), ("columnNameOfCorruptRecord", "__corrupt"), *options)
    listed = ", ".join(literal(part) for pair in pairs for part in pair)
    return f"from_json({text}, {literal(', '.join([fields, '__corrupt STRING']))}, map({listed}))"


def _bad(what: str, columns: tuple[Column, ...], kind: str) -> str:
    """Whether a record's key or value is there, but not what its format says."""
    struct, text = f"__{what}", f"trim(CAST({what} AS STRING))"
    if kind == "string":
        return f"{what} IS NOT NULL AND {struct}.{part_text(columns[0].name)} IS NULL"
    if kind == "avro":  # Spark says no more of a broken record than NULL in all fields
        nothing = " AND ".join(f"{struct}.{part_text(column.name)} IS NULL" for column in columns)
        return f"{what} IS NOT NULL AND {nothing} AND to_json({struct}) = '{{}}'"
    bad = f"{struct} IS NULL OR {struct}.__corrupt IS NOT NULL OR left({text}, 1) <> '{{'"
    if kind == "debezium-json":
        bad += f" OR {_event('op')} IS NULL OR {_event('op')} NOT IN {_OPERATIONS} OR {_row()} IS NULL"
    return f"{what} IS NOT NULL AND ({bad})"


def _event(name: str) -> str:
    """A field of a change event, which may stand in an envelope with its schema."""
    return f"coalesce(__value.payload.{name}, __value.{name})"


def _happened_ms() -> str:
    """When a change happened: in the database where the event says it, else when it was captured."""
    return f"coalesce(__value.payload.source.ts_ms, __value.source.ts_ms, {_event('ts_ms')})"


def _row() -> str:
    return f"if({_event('op')} = 'd', {_event('before')}, {_event('after')})"


def _column(column: Column, found: TopicFormat) -> str:
    name = part_text(column.name)
    if column.name.lower() == CORRUPT:
        return "if(__bad, CAST(value AS STRING), NULL)"
    from_key = f"__key.{name}" if found.key != "none" and column.name in found.key_columns else ""
    in_value = f"{_row()}.{name}" if found.is_debezium else f"__value.{name}"
    value = in_value if value_columns((column,), found) else ""
    both = ", ".join(text for text in (from_key, value) if text)
    text = f"coalesce({both})" if from_key and value else both
    return f"CAST({text} AS {column.type})" if "avro" in (found.value, found.key) else text


def _condition(found: TopicFormat) -> str:
    """Which records are rows. One that tells of a change that was told already (a tombstone behind it) is none."""
    told = " AND value IS NOT NULL" if found.is_debezium else ""
    if found.mode == "PERMISSIVE":
        return f" WHERE true{told}"
    if found.mode == "DROPMALFORMED":
        return f" WHERE NOT __bad{told}"
    # Without __once Spark would look for bad records before it makes rows, and parse each record again for that.
    return f" WHERE if(__bad, CAST(raise_error({_complaint(found)}) AS BOOLEAN), __once >= 0){told}"


def _complaint(found: TopicFormat) -> str:
    """Which record is bad, and how it begins; failures of a stream are known by these words."""
    pieces = ["'[KAFKA.MALFORMED_RECORD] topic '", "topic", "' partition '", "partition", "' offset '", "offset"]
    pieces.append(literal(f" is no {found.value}{'' if found.key == 'none' else f' with a {found.key} key'}: "))
    if found.key != "none":
        pieces += [_beginning("key"), "' '"]
    return f"concat({', '.join([*pieces, _beginning('value')])})"


def _beginning(column: str) -> str:
    return f"coalesce(left(CAST({column} AS STRING), 120), 'NULL')"
