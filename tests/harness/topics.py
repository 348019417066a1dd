"""Topics of a real broker: made, filled and read by an ordinary client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

_numbers = count(1)
_SECONDS = 60


@dataclass(frozen=True)
class Record:
    """What is written to a topic, or read from it; None is no key, or no value."""

    value: str | bytes | None
    key: str | bytes | None = None
    partition: int = 0
    timestamp_ms: int = 0


@dataclass(frozen=True)
class Topics:
    """The topics of a broker.

    Attributes:
        address: where it listens.
    """

    address: str

    def make(self, *records: Record, partitions: int = 1, **config: str) -> str:
        """A new topic with these records; its name."""
        name = f"topic{next(_numbers)}"
        admin = AdminClient({"bootstrap.servers": self.address})
        for made in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
            made.result(_SECONDS)
        self.write(name, *records)
        return name

    def write(self, name: str, *records: Record) -> None:
        """Append records, in this order."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        failed: list[Any] = []
        for record in records:
            producer.produce(
                name,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                on_delivery=lambda error, _message: failed.append(error) if error else None,
            )
            producer.poll(0)
        assert producer.flush(_SECONDS) == 0
        assert failed == []

    def into(self, name: str, **options: str) -> str:
        """The text of USING kafka OPTIONS (…) for a topic that is written; a dot in an option's name is ``__``."""
        pairs = {"kafka.bootstrap.servers": self.address, "topic": name, "value.format": "json"}
        pairs |= {option.replace("__", "."): value for option, value in options.items()}
        listed = ", ".join(f"'{option}' '{value}'" for option, value in pairs.items())
        return f"USING kafka OPTIONS ({listed})"

    def read(self, name: str) -> list[Record]:
        """All records that there are, by partition and offset."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "reader", "enable.auto.commit": False})
        try:
            partitions = consumer.list_topics(name, _SECONDS).topics[name].partitions
            return [record for number in sorted(partitions) for record in self._partition(consumer, name, number)]
        finally:
            consumer.close()

    def _partition(self, consumer: Consumer, name: str, number: int) -> Iterable[Record]:
        first, end = consumer.get_watermark_offsets(TopicPartition(name, number), timeout=_SECONDS)
        consumer.assign([TopicPartition(name, number, first)])
        position = first
        while position < end:
            (message,) = consumer.consume(1, timeout=_SECONDS)
            assert message.error() is None
            position = message.offset() + 1
            yield Record(_text(message.value()), _text(message.key()), number, message.timestamp()[1])


def _text(found: bytes | None) -> str | bytes | None:
    try:
        return None if found is None else found.decode()
    except UnicodeDecodeError:
        return found
