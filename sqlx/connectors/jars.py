"""Finds the jars of connectors, and what a session has to be told to use them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from catalog.statements import absolute
from sqlx.errors import RunError, did_you_mean
from udtf.engine.release import release_of

# Which jars a connector consists of, for the PySpark in use.


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


Release = tuple[int, int]
#: The PySpark in use.
RELEASE: Final = release_of(pyspark.__version__)


@dataclass(frozen=True)
class Connector:
    """Jars that belong together.

    Attributes:
        name: how users ask for it.
        what: what it is for, as a sentence's end.
        of_release: the jar that is made for a release of Spark, and for the newer ones up to the next that is named;
            None where there is none.
        others: its jars that are the same for all.
        conf: Spark settings that it needs, on every PySpark; {warehouse} is the folder of tables.
        conf_43: the same, on PySpark 4.3 and later only.
    """

    name: str
    what: str
    of_release: Mapping[Release, Artifact | None]
    others: tuple[Artifact, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()
    conf_43: tuple[tuple[str, str], ...] = ()

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Its jars for the PySpark in use.

        Raises:
            RunError: there are none.
        """
        found = self._own()
        if found is None:
            there = " and ".join(f"{major}.{minor}" for (major, minor), jar in self.of_release.items() if jar)
            raise RunError("CONNECTOR.NO_RELEASE", name=self.name, found=pyspark.__version__, there=there)
        return (found, *self.others)

    @property
    def is_available(self) -> bool:
        """Whether there are jars for the PySpark in use."""
        return self._own() is not None

    def _own(self) -> Artifact | None:
        return self.of_release[max(known for known in self.of_release if known <= RELEASE)]


#: No connector of 4.3 was released: those of 4.2, and Avro's of 4.1, run on 4.2 and on 4.3 (docs/kafka.md).
CONNECTORS = {
    connector.name: connector
    for connector in (
        Connector(
            "kafka",
            "reading and writing Kafka topics",
            {
                (4, 0): Artifact(
                    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1",
                    "a9c5366a61087e7e7ff903c3dc160e80b33d2ea04d365e0795cc4a58befc3a16",
                ),
                (4, 1): Artifact(
                    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
                    "9c1ce986f548e6b1dcb0e2dfe2f253a0bc58f2232a32a0c9c6c674dd25a8570c",
                ),
                (4, 2): Artifact(
                    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
                    "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
                ),
            },
            (
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
            {
                (4, 0): Artifact(
                    "org.apache.spark:spark-avro_2.13:4.0.1",
                    "834207b759159ceb7e367df9c0fe5998bbb547fdcdc5269dfeeba2c6803559b6",
                ),
                (4, 1): Artifact(
                    "org.apache.spark:spark-avro_2.13:4.1.1",
                    "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
                ),
            },
        ),
        Connector(
            "delta",
            "Delta Lake tables",
            {
                (4, 0): Artifact(
                    "io.delta:delta-spark_4.0_2.13:4.4.0",
                    "49e899667168b9412f83cbe894ce264107d7b896d6c5e12edca4e216845c1104",
                ),
                (4, 1): Artifact(
                    "io.delta:delta-spark_4.1_2.13:4.4.0",
                    "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
                ),
                (4, 2): Artifact(
                    "io.delta:delta-spark_4.2_2.13:4.4.0",
                    "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
                ),
            },
            (
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
        Connector(
            "iceberg",
            "Iceberg tables, in a catalog of the name iceberg",
            {
                (4, 0): Artifact(
                    "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
                    "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc",
                ),
                (4, 1): Artifact(
                    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
                    "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
                ),
                (4, 2): None,  # what is made for 4.1 fails on it and on 4.3: a class has become an interface
            },
            conf=(
                ("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"),
                ("spark.sql.catalog.iceberg", "org.apache.iceberg.spark.SparkCatalog"),
                ("spark.sql.catalog.iceberg.type", "hadoop"),
                ("spark.sql.catalog.iceberg.warehouse", "{warehouse}/iceberg"),
                # A session sees at once what a stream has written, which is a session of its own.
                ("spark.sql.catalog.iceberg.cache-enabled", "false"),
            ),
        ),
    )
}


# Brings jars from Maven Central into a folder: each is checked against its checksum before it gets its name.


#: Another repository of Maven's layout, for instance a company's mirror.
REPOSITORY_VARIABLE = "SQLX_MAVEN_REPOSITORY"
CENTRAL = "https://repo.maven.apache.org/maven2"
_AT_ONCE = 4
_SECONDS = 60


def fetch(
    artifacts: Iterable[Artifact], folder: Path, told: Callable[[Artifact], None] = lambda _artifact: None
) -> list[Artifact]:
    """Fetch the jars that a folder lacks.

    Args:
        artifacts: what is wanted.
        folder: where it goes; made where it is missing.
        told: is called with each jar that has come.

    Returns:
        The jars that were fetched; those that were there with the right checksum are left alone.

    Raises:
        RunError: a jar cannot be had, or is not the one that its checksum says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [artifact for artifact in artifacts if not is_there(artifact, folder)]

    def one(artifact: Artifact) -> None:
        _fetch_one(artifact, folder)
        told(artifact)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(one, missing))
    return missing


def is_there(artifact: Artifact, folder: Path) -> bool:
    """Whether the folder has the jar, whole."""
    file = folder / artifact.file
    return file.is_file() and _sha256(file.read_bytes()) == artifact.sha256


def repository() -> str:
    """Where jars come from."""
    return os.environ.get(REPOSITORY_VARIABLE, "").rstrip("/") or CENTRAL


def _fetch_one(artifact: Artifact, folder: Path) -> None:
    url = f"{repository()}/{artifact.path}"
    try:
        with urlopen(url, timeout=_SECONDS) as answer:
            content = answer.read()
    except (OSError, URLError, ValueError) as error:
        raise RunError("CONNECTOR.NOT_FETCHED", url=url, reason=str(getattr(error, "reason", error))) from error
    found = _sha256(content)
    if found != artifact.sha256:
        raise RunError("CONNECTOR.CHECKSUM", url=url, found=found, wanted=artifact.sha256)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as draft:  # a reader sees a whole jar, or none
        draft.write(content)
    Path(draft.name).chmod(0o644)
    Path(draft.name).rename(folder / artifact.file)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


#: Spark setting and environment variable that ask for connectors: names, separated by commas.
CONF = "sqlx.connectors"
VARIABLE = "SQLX_CONNECTORS"
#: The folder of the jars, where it is not the usual one.
FOLDER_VARIABLE = "SQLX_JARS"
_EXTENSIONS: Final = "spark.sql.extensions"


def cache_folder() -> Path:
    """Where what can be had again is kept: ``~/.cache/sqlx`` (``XDG_CACHE_HOME`` is heeded)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sqlx")


def jars_folder() -> Path:
    """Where jars are kept: ``SQLX_JARS``, else ``jars`` in the cache's folder."""
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given).expanduser().absolute() if given else cache_folder() / "jars"


def named(names: Iterable[str]) -> list[Connector]:
    """Connectors by name.

    Raises:
        RunError: there is none of that name.
    """
    found = []
    for name in names:
        if name.lower() not in CONNECTORS:
            raise RunError("CONNECTOR.UNKNOWN", name=name, suggestion=did_you_mean(name, CONNECTORS).strip())
        found.append(CONNECTORS[name.lower()])
    return found


def asked(conf: Mapping[str, str]) -> list[Connector]:
    """The connectors that a session is to have, by its setting or the environment.

    Raises:
        RunError: there is none of that name.
    """
    text = conf.get(CONF, os.environ.get(VARIABLE, ""))
    return named(name.strip() for name in text.split(",") if name.strip())


def missing(connector: Connector, folder: Path | None = None) -> list[str]:
    """The files of a connector that the folder lacks."""
    place = folder or jars_folder()
    return [artifact.file for artifact in connector.artifacts if not (place / artifact.file).is_file()]


def connector_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """What a session's settings have to say besides, so that it has the connectors that are asked for.

    Args:
        conf: the settings; those of jars, extensions and catalogs in them are kept.

    Raises:
        RunError: a connector's jars are not there.
    """
    wanted = asked(conf)
    if not wanted:
        return {}
    folder, extensions = jars_folder(), _listed(conf, _EXTENSIONS)
    settings: dict[str, str] = {}
    warehouse = absolute(conf.get("spark.sql.warehouse.dir", "spark-warehouse"))
    for connector in wanted:
        lacking = missing(connector, folder)
        if lacking:
            raise _missing(connector, lacking[0], folder)
        own = {**dict(connector.conf), **(dict(connector.conf_43) if is_43() else {})}
        extensions += _listed(own, _EXTENSIONS)
        settings |= {name: value.format(warehouse=warehouse) for name, value in own.items() if name not in conf}
    jars = [str(folder / artifact.file) for connector in wanted for artifact in connector.artifacts]
    settings["spark.jars"] = ",".join([*_listed(conf, "spark.jars"), *jars])
    if extensions:
        settings[_EXTENSIONS] = ",".join(dict.fromkeys(extensions))
    return settings


def _missing(connector: Connector, jar: str, folder: Path) -> RunError:
    return RunError("CONNECTOR.MISSING", name=connector.name, what=connector.what, jar=jar, folder=folder)


def is_43() -> bool:
    """Whether this is PySpark 4.3 or later."""
    return RELEASE >= (4, 3)


def _listed(conf: Mapping[str, str], name: str) -> list[str]:
    return [part for part in conf.get(name, "").split(",") if part]
