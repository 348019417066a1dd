"""Wrong definitions over topics (``kafka.txt``) with their whole errors, and what connectors and brokers may refuse."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from catalog.binding import AnalysisError
from catalog.definitions import Definition
from catalog.entries import Column
from catalog.planner import Planner
from sqlx.connectors import jars as fetching
from sqlx.connectors.jars import CONNECTORS, Artifact, connector_conf
from sqlx.errors import RunError, TemporalSqlError
from sqlx.sql.definitions import carets, parse_definition
from sqlx.streaming.failures import error_from
from tests.harness.refusals import check_refusals
from tests.unit.catalog.fake_session import FakeSession

CASES = Path(__file__).with_name("kafka.txt")
JAR = Artifact("org.example:jar:1", hashlib.sha256(b"jar").hexdigest())


class WithoutKafka(FakeSession):
    """A session without the connector."""

    def open_source(
        self, name: str, source: str, options: dict[str, str], columns: tuple[Column, ...]
    ) -> tuple[str, ...]:
        raise AnalysisError("Failed to find the data source: kafka.")


def error_of(text: str) -> str:
    try:
        statement = parse_definition(text)
        assert isinstance(statement, Definition)
        with carets(text):
            Planner(WithoutKafka()).create(statement)
    except TemporalSqlError as error:
        return "\n".join(line.rstrip() for line in error.getMessage().splitlines())
    return "no error"


def test_wrong_topics_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    check_refusals(CASES, error_of, golden)


@pytest.mark.parametrize(
    ("said", "condition", "reason"),
    [
        (
            "[USER_RAISED_EXCEPTION] [KAFKA.MALFORMED_RECORD] topic t partition 0 offset 7 is no json: {",
            "KAFKA.MALFORMED_RECORD",
            "topic t partition 0 offset 7 is no json: {",
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: x",
            "KAFKA.UNREACHABLE",
            "node assignment",
        ),
        ("UnknownTopicOrPartitionException: This server does not host this topic-partition.", "KAFKA.NO_TOPIC", "host"),
        ("Some data may have been lost because they are not available in Kafka any more", "KAFKA.DATA_LOST", "lost"),
    ],
)
def test_what_a_broker_does_is_said_in_words_of_ours(said: str, condition: str, reason: str) -> None:
    error = error_from("t", ["Job aborted due to stage failure", said])
    assert error.getCondition() == condition
    assert str(error).startswith(f"[{condition}] The streaming query `t` ")
    assert reason in str(error)
    assert "HINT: " in str(error)


@pytest.mark.parametrize(
    ("condition", "parameters"),
    [
        ("KAFKA.KEY_COLUMN", {"column": "i", "suggestion": "Did you mean `id`?"}),
        ("CONNECTOR.NEEDED", {"name": "delta"}),
        ("DELTA.OPTIONS", {"option": "readChangeFeed"}),
        ("DELTA.PATH", {"path": "/t"}),
    ],
)
def test_what_only_spark_finds_has_a_message_and_a_hint(condition: str, parameters: dict[str, str]) -> None:
    message = str(RunError(condition, **parameters))
    assert message.startswith(f"[{condition}] ")
    assert "HINT: " in message
    assert "{" not in message


def test_a_connector_without_jars_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLX_JARS", str(tmp_path))
    with pytest.raises(RunError) as missing:
        connector_conf({"sqlx.connectors": "kafka"})
    assert missing.value.getCondition() == "CONNECTOR.MISSING"
    assert "HINT: sqlx connectors fetch kafka brings it" in str(missing.value)
    with pytest.raises(RunError) as unknown:
        connector_conf({"sqlx.connectors": "kafak"})
    assert unknown.value.getCondition() == "CONNECTOR.UNKNOWN"
    assert "HINT: Did you mean `kafka`?" in str(unknown.value)
    assert connector_conf({}) == {}


def test_a_connector_without_a_jar_for_this_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "RELEASE", (4, 3))
    assert not CONNECTORS["iceberg"].is_available
    with pytest.raises(RunError) as refused:
        connector_conf({"sqlx.connectors": "iceberg"})
    assert refused.value.getCondition() == "CONNECTOR.NO_RELEASE"
    assert "there are jars for 4.0 and 4.1" in str(refused.value)
    monkeypatch.setattr(fetching, "RELEASE", (4, 1))
    assert "iceberg-spark-runtime-4.1_2.13-1.12.0.jar" in [
        artifact.file for artifact in CONNECTORS["iceberg"].artifacts
    ]


def test_a_catalog_of_iceberg_is_below_the_warehouse_unless_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "RELEASE", (4, 1))
    monkeypatch.setenv("SQLX_JARS", str(tmp_path))
    for artifact in (*CONNECTORS["iceberg"].artifacts, *CONNECTORS["delta"].artifacts):
        tmp_path.joinpath(artifact.file).touch()
    asked = {"sqlx.connectors": "iceberg,delta", "spark.sql.warehouse.dir": "/w"}
    conf = connector_conf(asked)
    assert conf["spark.sql.catalog.iceberg.warehouse"] == "/w/iceberg"
    assert conf["spark.sql.extensions"].count(",") == 1
    mine = connector_conf({**asked, "spark.sql.catalog.iceberg.type": "rest"})
    assert "spark.sql.catalog.iceberg.type" not in mine


def test_jars_are_added_to_those_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLX_JARS", str(tmp_path))
    for artifact in CONNECTORS["delta"].artifacts:
        tmp_path.joinpath(artifact.file).touch()
    conf = connector_conf({"sqlx.connectors": "delta", "spark.jars": "/a.jar", "spark.sql.extensions": "a.B"})
    assert conf["spark.jars"].split(",")[0] == "/a.jar"
    assert len(conf["spark.jars"].split(",")) == 1 + len(CONNECTORS["delta"].artifacts)
    assert conf["spark.sql.extensions"] == "a.B,io.delta.sql.DeltaSparkSessionExtension"


def test_only_the_jar_of_the_checksum_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path.joinpath("repository", JAR.path)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"other")
    monkeypatch.setenv("SQLX_MAVEN_REPOSITORY", tmp_path.joinpath("repository").as_uri())
    folder = tmp_path / "jars"
    with pytest.raises(RunError) as wrong:
        fetching.fetch([JAR], folder)
    assert wrong.value.getCondition() == "CONNECTOR.CHECKSUM"
    assert list(folder.iterdir()) == []
    place.write_bytes(b"jar")
    assert fetching.fetch([JAR], folder) == [JAR]
    assert fetching.fetch([JAR], folder) == []
    assert folder.joinpath("jar-1.jar").read_bytes() == b"jar"


def test_a_repository_that_cannot_be_reached_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLX_MAVEN_REPOSITORY", tmp_path.as_uri())
    with pytest.raises(RunError) as failed:
        fetching.fetch([JAR], tmp_path / "jars")
    assert failed.value.getCondition() == "CONNECTOR.NOT_FETCHED"
    assert "SQLX_MAVEN_REPOSITORY" in str(failed.value)
