"""Which jars a connector consists of, for the PySpark in use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Artifact:
    """A jar of Maven Central.

    Attributes:
        coordinates: ``group:artifact:version``.
        sha256: of the jar, in hexadecimal.
    """

    coordinates: str
    sha256: str

    @property
    def file(self) -> str:
        """The name of the jar.

        >>> Artifact("org.apache.kafka:kafka-clients:3.9.2", "").file
        'kafka-clients-3.9.2.jar'
        """
        _, name, version = self.coordinates.split(":")
        return f"{name}-{version}.jar"

    @property
    def path(self) -> str:
        """Where a Maven repository keeps it.

        >>> Artifact("org.apache.kafka:kafka-clients:3.9.2", "").path
        'org/apache/kafka/kafka-clients/3.9.2/kafka-clients-3.9.2.jar'
        """
        group, name, version = self.coordinates.split(":")
        return f"{group.replace('.', '/')}/{name}/{version}/{self.file}"


@dataclass(frozen=True)
class Connector:
    """Jars that belong together.

    Attributes:
        name: how users ask for it.
        what: what it is for, as a sentence's end.
        artifacts: its jars.
        conf: Spark settings that it needs, on every PySpark.
        conf_43: the same, on PySpark 4.3 and later only.
    """

    name: str
    what: str
    artifacts: tuple[Artifact, ...]
    conf: tuple[tuple[str, str], ...] = ()
    conf_43: tuple[tuple[str, str], ...] = ()


#: No connector of 4.3 was released: those of 4.2, and Avro's of 4.1, run on 4.2 and on 4.3 (docs/kafka.md).
CONNECTORS = {
    connector.name: connector
    for connector in (
        Connector(
            "kafka",
            "reading and writing Kafka topics",
            (
                Artifact(
                    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
                    "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
                ),
                Artifact(
                    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
                    "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
                ),
                Artifact(
                    "org.apache.kafka:kafka-clients:3.9.2",
                    "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
                ),
                Artifact(
                    "org.apache.commons:commons-pool2:2.13.1",
                    "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
                ),
            ),
        ),
        Connector(
            "avro",
            "Avro values in topics, and Avro files",
            (
                Artifact(
                    "org.apache.spark:spark-avro_2.13:4.1.1",
                    "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
                ),
            ),
        ),
        Connector(
            "delta",
            "Delta Lake tables",
            (
                Artifact(
                    "io.delta:delta-spark_4.2_2.13:4.4.0",
                    "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
                ),
                Artifact(
                    "io.delta:delta-storage:4.4.0",
                    "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
                ),
                Artifact(
                    "io.delta:delta-kernel-api:4.4.0",
                    "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
                ),
                Artifact(
                    "io.delta:delta-kernel-defaults:4.4.0",
                    "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
                ),
                Artifact(
                    "io.delta:delta-kernel-unitycatalog:4.4.0",
                    "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
                ),
                Artifact(
                    "io.unitycatalog:unitycatalog-client:0.6.0",
                    "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
                ),
            ),
            conf=(
                ("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"),
                ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"),
            ),
            conf_43=(("spark.databricks.delta.v2.enableMode", "STRICT"),),
        ),
    )
}
