"""The OPTIONS of USING kafka: those of Spark's connector, and ours, which say how records become rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from catalog.binding import AnalysisError, Analyzer, checked, entry_of
from catalog.definitions import Definition, Refused, part_text, shown_name
from catalog.entries import Column, Entry
from catalog.statements import literal

SOURCE = "kafka"
#: In the mode PERMISSIVE, a column of this name gets the text of a record that cannot be read.
CORRUPT = "_corrupt_record"
_VALUE_FORMATS = ("json", "avro", "string", "debezium-json")
_KEY_FORMATS = ("json", "avro", "string", "none")
_MODES = ("FAILFAST", "DROPMALFORMED", "PERMISSIVE")
_OURS = frozenset({"value.format", "value.schema", "key.format", "key.schema", "key.columns", "mode"})
_FETCH_WAIT, _FETCH_WAIT_MS = "kafka.fetch.max.wait.ms", "5"
_SUBSCRIPTIONS = ("subscribe", "subscribepattern", "assign")


@dataclass(frozen=True)
class TopicFormat:
    """How records become rows.

    Attributes:
        value, key: their formats; "none" is a key that is not read.
        value_schema, key_schema: of Avro, as JSON.
        key_columns: the columns that the key holds.
        mode: what becomes of records that cannot be read.
        several: whether there may be more than one topic.
        json: further options of Spark's JSON parser.
    """

    value: str
    key: str
    value_schema: str = ""
    key_schema: str = ""
    key_columns: tuple[str, ...] = ()
    mode: str = "FAILFAST"
    several: bool = False
    json: tuple[tuple[str, str], ...] = field(default=())

    @property
    def is_debezium(self) -> bool:
        """Whether values are change events of Debezium."""
        return self.value == "debezium-json"


def is_topic(definition: Definition) -> bool:
    """Whether a definition reads Kafka."""
    return definition.using.lower() == SOURCE


def spark_options(definition: Definition) -> dict[str, str]:
    """The OPTIONS that are the connector's own."""
    own = {
        key: value
        for key, value in definition.options
        if key.lower() not in _OURS and not key.lower().startswith("json.")
    }
    return read_at_once(own)


def read_at_once(options: Mapping[str, str]) -> dict[str, str]:
    """The connector's options, with which a reader does not wait for records that nobody asked it for.

    Spark's reader asks for the next records while it still reads those that it has. The broker holds that request back
    until there are some, for 500 ms at most by Kafka's default; and what Spark asks next, which offsets there are,
    waits behind it.

    >>> read_at_once({"subscribe": "rates"})
    {'kafka.fetch.max.wait.ms': '5', 'subscribe': 'rates'}
    >>> read_at_once({"kafka.Fetch.Max.Wait.ms": "100"})
    {'kafka.Fetch.Max.Wait.ms': '100'}
    """
    is_set = _FETCH_WAIT in {key.lower() for key in options}
    return {**({} if is_set else {_FETCH_WAIT: _FETCH_WAIT_MS}), **options}


def topic_format(definition: Definition) -> TopicFormat:
    """What the OPTIONS say of records.

    Raises:
        Refused: an option is missing, unknown, or does not fit the definition.
    """
    given = {key.lower(): value for key, value in definition.options}
    _check_source(definition, given)
    value = _choice(definition, given, "value.format", _VALUE_FORMATS)
    found = TopicFormat(
        value=value,
        key=_key_format(definition, given, value),
        value_schema=_schema(definition, given, "value", value),
        key_columns=_key_columns(definition, given),
        mode=_choice(definition, given, "mode", _MODES, "FAILFAST"),
        several="subscribe" not in given or "," in given["subscribe"],
        json=tuple((key[5:], text) for key, text in definition.options if key.lower().startswith("json.")),
    )
    found = TopicFormat(**{**vars(found), "key_schema": _schema(definition, given, "key", found.key)})
    _check_columns(definition, found)
    return found


def _check_source(definition: Definition, given: dict[str, str]) -> None:
    if "kafka.bootstrap.servers" not in given:
        raise _refused(definition, "KAFKA.OPTION_MISSING", option="kafka.bootstrap.servers", example="localhost:9092")
    if not any(name in given for name in _SUBSCRIPTIONS):
        raise _refused(definition, "KAFKA.OPTION_MISSING", option="subscribe", example="topic")
    if "value.format" not in given:
        raise _refused(definition, "KAFKA.OPTION_MISSING", option="value.format", example="json")
    if not definition.columns:
        raise Refused("KAFKA.NO_COLUMNS", definition.span("NAME"))


def _choice(
    definition: Definition, given: dict[str, str], option: str, known: tuple[str, ...], default: str = ""
) -> str:
    text = given.get(option, default)
    found = next((name for name in known if name.lower() == text.lower()), None)
    if found is None:
        parameters = {"option": option, "found": text, "known": ", ".join(f"'{name}'" for name in known)}
        raise Refused("KAFKA.OPTION_VALUE", _where(definition, option), **parameters)
    return found


def _key_format(definition: Definition, given: dict[str, str], value: str) -> str:
    """What was written; else the key of a table's record is its only KEYS column as text: tombstones need it."""
    if "key.format" in given:
        return _choice(definition, given, "key.format", _KEY_FORMATS)
    if definition.kind == "stream" and "key.columns" in given:
        return "string"
    if definition.kind == "stream" or value == "debezium-json":
        return "none"
    if len(definition.keys) > 1:
        raise _refused(definition, "KAFKA.OPTION_MISSING", option="key.format", example="json")
    return "string"


def _key_columns(definition: Definition, given: dict[str, str]) -> tuple[str, ...]:
    written = tuple(name.strip() for name in given.get("key.columns", "").split(",") if name.strip())
    known = {column.name.lower(): column.name for column in definition.columns}
    for name in written:
        if name.lower() not in known:
            columns = ", ".join(f"'{column.name}'" for column in definition.columns)
            parameters = {"option": "key.columns", "found": name, "known": columns}
            raise Refused("KAFKA.OPTION_VALUE", _where(definition, "key.columns"), **parameters)
    return tuple(known[name.lower()] for name in written or definition.keys if name.lower() in known)


def _schema(definition: Definition, given: dict[str, str], what: str, kind: str) -> str:
    option = f"{what}.schema"
    if kind == "avro" and option not in given:
        raise _refused(definition, "KAFKA.OPTION_MISSING", option=option, example='{"type": "record", …}')
    return given.get(option, "")


def _check_columns(definition: Definition, found: TopicFormat) -> None:
    """A text holds one column, and change events make tables."""
    if found.is_debezium and definition.kind == "stream":
        raise Refused("KAFKA.CHANGES_AS_STREAM", _where(definition, "value.format"))
    if found.key != "none" and not found.key_columns:
        raise _refused(definition, "KAFKA.OPTION_MISSING", option="key.columns", example="id")
    if found.key == "string" and len(found.key_columns) > 1:
        count = str(len(found.key_columns))
        raise Refused("KAFKA.ONE_COLUMN", _where(definition, "key.columns"), what="key", count=count)
    values = value_columns(definition.columns, found)
    if found.value == "string" and len(values) != 1:
        span = definition.span("COLUMNS")
        raise Refused("KAFKA.ONE_COLUMN", span, what="value", count=str(len(values)))


def value_columns(columns: tuple[Column, ...], found: TopicFormat) -> tuple[Column, ...]:
    """The columns that a value may hold: of JSON all, else those that the key does not hold."""
    shown = tuple(column for column in columns if column.name.lower() != CORRUPT)
    if "json" in found.value or found.key == "none":
        return shown
    held = {name.lower() for name in found.key_columns}
    return tuple(column for column in shown if column.name.lower() not in held)


def _refused(definition: Definition, condition: str, **parameters: str) -> Refused:
    return Refused(condition, definition.span("OPTIONS" if definition.options else "USING"), **parameters)


def _where(definition: Definition, option: str) -> tuple[int, int]:
    written = next((key for key, _ in definition.options if key.lower() == option), option)
    return definition.spans.get(f"PROPERTY {written}", definition.span("OPTIONS"))


# Records of Kafka as rows: the query over raw records that a definition over a topic reads.
#
# ::
#
#     raw topic (key, value, topic, partition, offset, timestamp)
#       -> parsed: __value, __key (structs), __bad: the record cannot be read as its format says
#       -> shown: the declared columns, the record's own facts under their names, and all facts as ``__kafka``


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


def split_topic_query(query: str) -> tuple[str, str, str]:
    """A query of :func:`topic_query` in three: what is shown, the parsed records, and the condition after them."""
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
    """Which records are rows. One that tells of a change that was told already (a tombstone after it) is none."""
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


# Definitions over topics of Kafka: their times, deletions and order, as expressions over a topic's rows.


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
