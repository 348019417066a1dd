"""Kafka Streams itself, as a process beside the tests that answers cases: `java/KafkaStreamsRuns.java`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sqlx.connectors.jars import Artifact, fetch
from tests.harness.stock_server import ROOT

SOURCE = Path(__file__).parent / "java" / "KafkaStreamsRuns.java"
JARS = ROOT / ".cache" / "jars"
#: The library that semantics.md was read off, and what its driver for tests needs.
ARTIFACTS = (
    Artifact(
        "org.apache.kafka:kafka-streams:4.3.1", "bd73f3805e116f711e8456ee89a8a5b43ff5dcf5a5bb865afae29deae89e7c4b"
    ),
    Artifact(
        "org.apache.kafka:kafka-streams-test-utils:4.3.1",
        "e84547c830b86dffdc4f5556d9d58fd1de5020a820b0de34d837b27aa4452d8c",
    ),
    Artifact(
        "org.apache.kafka:kafka-clients:4.3.1", "52501b7b47510c66f898871adaf6d2968ab7246561d44ced43643a8a587f0b36"
    ),
    Artifact("org.rocksdb:rocksdbjni:10.1.3", "e7f925287d9fe2574fb7c7a86f7facaa9b8ab602a2eed0e598bf633528121498"),
    Artifact("org.slf4j:slf4j-api:1.7.36", "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"),
    Artifact(
        "com.fasterxml.jackson.core:jackson-annotations:2.21",
        "53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b",
    ),
    Artifact(
        "com.fasterxml.jackson.core:jackson-core:2.21.2",
        "12e8655b100267b44d0f14d01b1f5082a5105e616174dc4307be1a761e92407b",
    ),
    Artifact(
        "com.fasterxml.jackson.core:jackson-databind:2.21.2",
        "8c982f01f148d805f0aaac2339011244757e0df7c6ff8951f2fa3f433b8ed849",
    ),
)
needs_javac = pytest.mark.skipif(
    shutil.which("javac") is None, reason="its runner is compiled first: a JDK has to be on the PATH"
)

#: Key, value (None: deleted) and time in ms; windows are named in the key, as `key@start,end`.
Row = tuple[str | None, str | None, int]


class Answer(NamedTuple):
    """What each record sent out; where one stopped the library, those before it, and why."""

    output: list[list[Row]]
    failure: str | None


class KafkaStreams:
    """The library, one case after the other.

    Args:
        folder: for its classes and its state.
    """

    def __init__(self, folder: Path) -> None:
        fetch(ARTIFACTS, JARS)
        jars = ":".join(str(JARS / artifact.file) for artifact in ARTIFACTS)
        subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", str(folder), str(SOURCE)], check=True)
        command = ["java", "-Xmx512m", "-cp", f"{folder}:{jars}", "KafkaStreamsRuns", str(folder)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True)

    def answer(self, op: dict[str, Any], records: list[tuple[str, str | None, str | None, int]]) -> Answer:
        """What it sends out.

        Args:
            op: the topology, as in `tests/data/worked_examples.json`.
            records: topic, key, value, and time in ms.
        """
        assert self._process.stdin is not None, "it is a pipe"
        assert self._process.stdout is not None, "it is a pipe"
        print(json.dumps({"op": op, "input": records}), file=self._process.stdin, flush=True)
        found = json.loads(self._process.stdout.readline())
        return Answer([[tuple(row) for row in rows] for rows in found["output"]], found.get("failure"))

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
