"""The examples in the documentation do what they say, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/**/*.md"))]
EXAMPLE = re.compile(r"```sql run\n(.*?)```\n+```text result\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")
EXAMPLES = [
    pytest.param(sql, result, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (sql, result) in enumerate(EXAMPLE.findall(page.read_text(encoding="utf-8")), 1)
]


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


@pytest.mark.parametrize(("sql", "result"), EXAMPLES)
def test_example_gives_its_result(spark: SparkSession, sql: str, result: str) -> None:
    session = spark.newSession()
    frames = [session.sql(statement) for statement in re.split(r";\s*(?:\n|$)", sql) if statement.strip()]
    shown = frames[-1]
    rows = [["NULL" if value is None else str(value) for value in row] for row in shown.collect()]
    assert [shown.columns, *rows] == cells(result)


def test_replay_example_of_the_readme_gives_its_result() -> None:
    text = ROOT.joinpath("README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(from sqlx.testing.*?)```", text, re.DOTALL)[0].strip()
    setup, last = code.rsplit("\n", 1)
    expression, result = last.split("# ")
    names: dict[str, object] = {}
    exec(setup, names)
    assert eval(expression, names) == eval(result)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
