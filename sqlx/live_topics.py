"""Topics of Kafka read live: their records as they come, each with its place in its partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # its usual name

from catalog.definitions import name_parts
from catalog.entries import Entry
from catalog.topic_rows import FACTS, halves
from sqlx.lower import query_frame
from udtf.stream.lanes import AT, LANE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from catalog.spark import SparkCatalog

_RAW, _PARSED = "__sqlx_topic", "__sqlx_parsed"
_SEPARATOR = "\x01"
#: Options of a bounded read alone.
_BOUNDED = frozenset({"endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp", "path", "serialization.format"})
_BEGINNINGS = frozenset({"startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp"})
_FIRST_PARTITION_BIT = 1 << 20


def topic_frame(spark: SparkSession, catalog: SparkCatalog, entry: Entry) -> DataFrame:
    """The rows of a topic as they come, from its beginning on unless OPTIONS say otherwise.

    Where records that cannot be read are passed over or shown with NULL, they are counted in the progress of the query
    (``kafka_<name>``: ``read``, ``malformed``).
    """
    options = {key: value for key, value in _options(spark, catalog, entry).items() if key.lower() not in _BOUNDED}
    if not _BEGINNINGS & {key.lower() for key in options}:
        options["startingOffsets"] = "earliest"  # as a bounded read begins, so that both see the same rows
    raw = spark.readStream.format("kafka").options(**options).load()
    shown, parsed, condition = halves(entry.relation[1:-1])
    frame = query_frame(parsed.replace(entry.topic, _RAW), spark, {_RAW: raw})
    if "raise_error" not in condition:
        frame = frame.observe(
            f"kafka_{entry.name}", F.count(F.lit(1)).alias("read"), F.count_if("__bad").alias("malformed")
        )
    return query_frame(f"{shown} FROM {_PARSED} AS __sqlx_records{condition}", spark, {_PARSED: frame})


def lanes(entry: Entry) -> tuple[str, ...]:
    """The order of arrival: each partition is a lane of its own, in the order of its offsets."""
    lane = f"CAST({FACTS}.partition AS BIGINT)"
    if f"{FACTS}.topic" in entry.arrival:
        lane = f"crc32({FACTS}.topic) * {_FIRST_PARTITION_BIT} + {FACTS}.partition"
    return (f"named_struct('{LANE}', {lane}, '{AT}', {FACTS}.offset)",)


def _options(spark: SparkSession, catalog: SparkCatalog, entry: Entry) -> dict[str, str]:
    """The options with which the raw records were opened."""
    parts = name_parts(entry.topic)
    if entry.temporary:
        return catalog.opened[parts[-1].lower()].options
    jvm: Any = spark.sparkContext._jvm
    some = jvm.scala.Option.apply
    name = jvm.org.apache.spark.sql.catalyst.TableIdentifier(parts[-1], some(parts[-2]))
    table: Any = spark._jsparkSession.sessionState().catalog().getTableMetadata(name)
    text = str(table.storage().properties().mkString(_SEPARATOR))
    return dict(pair.split(" -> ", 1) for pair in text.split(_SEPARATOR) if " -> " in pair)
