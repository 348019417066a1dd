"""A real HDFS of one machine: Hadoop's own MiniDFSCluster as a process beside the tests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from threading import Event

import pyspark

from sqlx.connectors.jars import Artifact, fetch
from tests.harness.stock_server import ROOT, spark_home_of

JARS = ROOT / ".cache" / "jars"
_HADOOP = "3.5.0"
#: What is not among PySpark's own jars: the cluster, and what its classes of tests refer to.
ARTIFACTS = (
    Artifact(
        f"org.apache.hadoop:hadoop-client-minicluster:{_HADOOP}",
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    ),
    Artifact(
        "org.junit.jupiter:junit-jupiter-api:5.10.2", "afff77c186cd317275803872fa5133aa801fd6ac40bd91c78a6cf8009b4b17cc"
    ),
    Artifact(
        "org.junit.platform:junit-platform-commons:1.10.2",
        "b56a5ec000a479df4973b18bba24c98fe0db8faa14c8907d3ef451d8c71fd8ae",
    ),
    Artifact("org.opentest4j:opentest4j:1.3.0", "48e2df636cab6563ced64dcdff8abb2355627cb236ef0bf37598682ddf742f1b"),
    Artifact("org.mockito:mockito-core:4.11.0", "4b909690cab288c761eb94c0bf0e814496cf3921d8affac84cd87774530351e5"),
)
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
_SECONDS, _LOOKS = 60, 0.1


def _hadoop() -> Path:
    """A folder with jars of the cluster's own Hadoop: those of this PySpark, or where it is older, of the newest."""
    jars = Path(pyspark.__file__).parent / "jars"
    is_here = any(jars.glob(f"hadoop-client-api-{_HADOOP}*"))
    return jars if is_here else Path(spark_home_of(ROOT / ".venv/bin/python"), "jars")


class Hdfs:
    """A name node and a data node, below a folder.

    Attributes:
        url: ``hdfs://localhost:PORT``.
    """

    def __init__(self, folder: Path) -> None:
        fetch(ARTIFACTS, JARS)
        own = [str(JARS / artifact.file) for artifact in ARTIFACTS]
        classes = ":".join([*own, f"{_hadoop()}/*"])
        details = folder / "details.json"
        asked = ["java", "-Xmx512m", "-cp", classes, _MAIN, "-format", "-datanodes", "1", "-writeDetails", str(details)]
        self._log = folder / "hdfs.log"
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(asked, cwd=folder, stdout=log, stderr=log)
        waited = Event()
        for _ in range(int(_SECONDS / _LOOKS)):
            if details.exists() and details.read_text(encoding="utf-8").endswith("}"):
                break
            assert self._process.poll() is None, self._log.read_text(encoding="utf-8")
            waited.wait(_LOOKS)
        self.url = f"hdfs://localhost:{json.loads(details.read_text(encoding='utf-8'))['namenode_port']}"

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(_SECONDS)
