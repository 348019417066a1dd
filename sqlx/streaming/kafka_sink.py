"""Rows of a stream as records of a Kafka topic: key columns as the key, a deletion as a record without a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.definitions import part_text
from catalog.statements import literal
from sqlx.errors import BindError, did_you_mean
from sqlx.lower_tables import CHANGE_TYPE
from sqlx.streaming.parse import StreamingTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sqlx.lower_stream import LiveQuery

#: Said once at the start of a stream into a topic.
NOTE = (
    "Kafka gets each row at least once: a micro-batch that runs again after a failure writes its records again. Readers"
    " of a topic with keys see the same last value; others should tell records apart by a column."
)
_OURS = frozenset({"value.format", "value.schema", "key.format", "key.schema", "key.columns"})
_FORMATS = ("json", "avro", "string")


@dataclass(frozen=True)
class KafkaSink:
    """How rows become records.

    Args:
        statement: CREATE STREAMING TABLE … USING kafka.
        live: its query.
    """

    statement: StreamingTable
    live: LiveQuery

    @property
    def options(self) -> dict[str, str]:
        """The OPTIONS of Spark's connector.

        Raises:
            BindError: one is missing.
        """
        for name, example in (("kafka.bootstrap.servers", "localhost:9092"), ("topic", "prices")):
            if name not in self._given:
                raise self._error("KAFKA.OPTION_MISSING", option=name, example=example)
        return {key: value for key, value in self.statement.options if key.lower() not in _OURS}

    def records(self) -> DataFrame:
        """The rows with `key` and `value`.

        Raises:
            BindError: an option is missing, or does not fit the query's columns.
        """
        if "value.format" not in self._given:
            raise self._error("KAFKA.OPTION_MISSING", option="value.format", example="json")
        keys = self._keys()
        columns = [name for name in self.live.frame.columns if name != CHANGE_TYPE or self._shape == "changelog"]
        value_format = self._format("value.format", "json")
        shown = [name for name in columns if name not in keys] if value_format == "string" else columns
        value = self._encoded("value", shown, value_format)
        if self._shape == "upsert":
            value = f"if({CHANGE_TYPE} = 'delete', NULL, {value})"
        key_format = self._format("key.format", "string" if len(keys) == 1 else "json")
        key = [f"{self._encoded('key', keys, key_format)} AS key"] if keys else []
        return self.live.frame.selectExpr(*key, f"{value} AS value")

    @property
    def _given(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.statement.options}

    @property
    def _shape(self) -> str:
        return self.live.plan.result.shape

    def _keys(self) -> list[str]:
        """The columns of the key: those that are named, else those by which the result's rows replace each other."""
        columns = self.live.frame.columns
        written = [name.strip() for name in self._given.get("key.columns", "").split(",") if name.strip()]
        known = {column.lower(): column for column in columns}
        for name in written:
            if name.lower() not in known:
                suggestion = did_you_mean(name, columns)
                raise self._error("KAFKA.KEY_COLUMN", "PROPERTY key.columns", column=name, suggestion=suggestion)
        named = [known[name.lower()] for name in written]
        return named or [columns[place] for place in self.live.plan.result.keys if self._shape != "append"]

    def _format(self, option: str, default: str) -> str:
        found = self._given.get(option, default).lower()
        if found not in _FORMATS:
            known = ", ".join(f"'{name}'" for name in _FORMATS)
            raise self._error("KAFKA.OPTION_VALUE", f"PROPERTY {option}", option=option, found=found, known=known)
        return found

    def _encoded(self, what: str, columns: list[str], kind: str) -> str:
        if kind == "string":
            if len(columns) != 1:
                raise self._error("KAFKA.ONE_COLUMN", what=what, count=str(len(columns)))
            return f"CAST({part_text(columns[0])} AS STRING)"
        struct = ", ".join(f"{literal(name)}, {part_text(name)}" for name in columns)
        if kind == "json":  # a column without a value is said to be NULL, so that readers see all columns
            return f"to_json(named_struct({struct}), map('ignoreNullFields', 'false'))"
        schema = self._given.get(f"{what}.schema", "")
        return f"to_avro(named_struct({struct}){f', {literal(schema)}' if schema else ''})"

    def _error(self, condition: str, at: str = "OPTIONS", /, **parameters: object) -> BindError:
        spans = self.statement.spans
        span = spans.get(at) or spans.get("OPTIONS") or self.statement.span("USING")
        return BindError(condition, self.statement.text, span, **parameters)
