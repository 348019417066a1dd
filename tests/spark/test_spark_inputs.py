"""Statements that are not ours reach Spark unchanged: those of Spark's own SQL tests, with the hook and without it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from sqlx.sessions.classic import front_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.full]
ROOT = Path(__file__).parents[2]
ARTIFACT = "org.apache.spark:spark-sql_2.13:4.2.0:jar:tests"
INPUTS = "sql-tests/inputs/"
#: What differs from one parse of a text to the next.
_NUMBERED = re.compile(r"#\d+L?|[0-9a-f]{8}-[0-9a-f-]{27}|@[0-9a-f]{5,8}\b")
_DELIMITED = re.compile(r"--QUERY-DELIMITER-(?:START|END)")
_END = re.compile(r"(?<=[^\\]);\s*(?:\n|$)")


def jar() -> Path:
    """Spark's tests of its SQL, fetched once."""
    kept = ROOT / ".cache" / "spark-tests"
    found = sorted(kept.glob("spark-sql*-tests.jar"))
    if not found:
        if shutil.which("mvn") is None:
            pytest.skip("there is no Maven to fetch Spark's tests with")
        command = ["mvn", "-q", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={kept}"]
        subprocess.run(command, check=True, timeout=300, cwd=ROOT)
        found = sorted(kept.glob("spark-sql*-tests.jar"))
    return found[0]


def statements(text: str) -> Iterator[str]:
    """The statements of a file of Spark's."""
    lines = [line for line in text.split("\n") if not line.startswith(("--SET", "--IMPORT", "--CONFIG"))]
    for number, piece in enumerate(_DELIMITED.split("\n".join(lines))):
        for statement in [piece] if number % 2 else _END.split(piece):
            plain = "\n".join(line for line in statement.split("\n") if not line.strip().startswith("--")).strip()
            if plain:
                yield plain.replace("\\;", ";")


def answer(parser: Any, text: str) -> str:
    """The parsed plan, or the condition with which it is refused."""
    try:
        return _NUMBERED.sub("", str(parser.parsePlan(text).toString()))
    except PySparkException as error:
        return f"refused: {error.getCondition()}"
    except Py4JJavaError as error:  # PySpark 4.0 has no class of its own for what a script may not be
        thrown = error.java_exception
        has_condition = is_instance_of(SparkContext._gateway, thrown, "org.apache.spark.SparkThrowable")
        return f"refused: {thrown.getCondition() if has_condition else thrown.getClass().getName()}"


@pytest.mark.timeout(1200)
def test_what_is_not_ours_reaches_spark_unchanged(spark: SparkSession) -> None:
    java: Any = spark._jsparkSession
    ours, plain = java.sessionState().sqlParser(), front_of(spark)._delegates[str(java.sessionUUID())]
    differing, count = [], 0
    with ZipFile(jar()) as tests:
        for name in sorted(n for n in tests.namelist() if n.startswith(INPUTS) and n.endswith(".sql")):
            for text in statements(tests.read(name).decode()):
                count += 1
                if answer(ours, text) != answer(plain, text):
                    differing.append((name, text))
    assert differing == []
    assert count > 5000
