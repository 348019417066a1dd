"""The OPTIONS of USING kafka: those of Spark's connector, and ours, which say how records become rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from catalog.definitions import Definition, Refused
from catalog.entries import Column

SOURCE = "kafka"
#: In the mode PERMISSIVE, a column of this name gets the text of a record that cannot be read.
CORRUPT = "_corrupt_record"
_VALUE_FORMATS = ("json", "avro", "string", "debezium-json")
_KEY_FORMATS = ("json", "avro", "string", "none")
_MODES = ("FAILFAST", "DROPMALFORMED", "PERMISSIVE")
_OURS = frozenset({"value.format", "value.schema", "key.format", "key.schema", "key.columns", "mode"})
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
    return {
        key: value
        for key, value in definition.options
        if key.lower() not in _OURS and not key.lower().startswith("json.")
    }


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
