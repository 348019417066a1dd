"""Plain Spark SQL through our parser: the same text, the same plan, the same error."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from sqlx.sessions.hook import FrontEnd, SparkParserHook
from tests.corpus import ACCEPTED, REFUSED, statements
from tests.harness.releases import RELEASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CHANGING = r"Sample [^\n]*|#\d+L?|@[0-9a-f]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class Spy:
    """Spark's parser, with a note of each text that reached it."""

    def __init__(self, parser: Any) -> None:
        self.parser = parser
        self.texts: list[str] = []

    def parsePlan(self, text: str) -> Any:  # Spark's name
        self.texts.append(text)
        return self.parser.parsePlan(text)


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> Any:
    """Spark's own parser, which knows nothing of us."""
    return spark._jvm.org.apache.spark.sql.execution.SparkSqlParser()  # type: ignore[union-attr]


def shown(plan: Any) -> str:
    """A plan as text, without the numbers, addresses and labels that differ from parse to parse."""
    return re.sub(CHANGING, "#", str(plan.treeString()))


def outcome(parser: Any, text: str) -> tuple[Any, ...]:
    """The plan of a statement, or the error: its class, condition, SQLSTATE and message."""
    from pyspark.errors import PySparkException

    try:
        return ("plan", shown(parser.parsePlan(text)))
    except PySparkException as error:
        return ("error", type(error), error.getCondition(), error.getSqlState(), str(error))


def is_known(parser: Any, text: str) -> bool:
    """Whether it is a statement of this Spark: some are of the newest only, and 4.0 has no scripts."""
    try:
        return RELEASE >= (4, 3) or outcome(parser, text)[0] == "plan"
    except Py4JJavaError:
        return False


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_statement_of_spark_reaches_its_parser_byte_for_byte(spark: SparkSession, plain: Any, name: str) -> None:
    front = FrontEnd(spark.sparkContext)
    for text in filter(partial(is_known, plain), statements(name)):
        spy = Spy(plain)
        plan = SparkParserHook(spark._jsparkSession, spy, front).parsePlan(text)
        assert spy.texts == [text]
        assert ("plan", shown(plan)) == outcome(plain, text)


@pytest.mark.parametrize("name", [*ACCEPTED, REFUSED])
def test_a_session_of_ours_answers_as_spark_does(spark: SparkSession, plain: Any, name: str) -> None:
    ours = spark._jsparkSession.sessionState().sqlParser()
    assert "Proxy" in ours.getClass().getName()
    for text in statements(name):
        if name in ACCEPTED and not is_known(plain, text):
            continue
        expected = outcome(plain, text)
        if RELEASE >= (4, 3) or name in ACCEPTED:
            assert expected[0] == ("error" if name == REFUSED else "plan"), text
        assert outcome(ours, text) == expected, text
