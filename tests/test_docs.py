"""The examples in the documentation do what they say, its links lead somewhere, and its site has every page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.doc_blocks import BLOCKS, CELLS, PAGES, ROOT, SQL_BLOCKS, Block, cells
from tests.harness.doc_replay import replayed
from tests.harness.doc_spark import World, last_rows, make_world, run_all
from tests.harness.releases import RELEASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")
NUMBERS = count(1)

# How an SQL block is run, by the words after ```sql; contributing.md explains them.
RUN = {
    "run": "a session of its own; its result is after it",
    "replay": "record by record, without Spark; its result is after it",
    "": "on top of docs/setup.sql; its result may stand after it",
}
# Blocks that are not run here, and why.
NOT_RUN = {
    "kafka": "needs a broker: tests/connectors/test_connector_docs.py runs it",
    "delta": "needs Delta's jars: tests/connectors/test_connector_docs.py runs it",
    "iceberg": "needs Iceberg's jar: tests/connectors/test_connector_docs.py runs it",
    "fragment": "a piece of a statement, or the text between two stages",
    "ksqldb": "another system's text",
    "flink": "another system's text",
    "snowflake": "another system's text",
    "slt": "a semantic case: tests/semantics runs the file that it names",
}


def of_kind(kind: str) -> list[object]:
    return [pytest.param(block, id=block.place) for block in SQL_BLOCKS if block.kind == kind]


@pytest.fixture(scope="session")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(spark, tmp_path_factory.mktemp("data"))


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with a database of its own, which is gone afterwards with all that runs in it."""
    database, own = f"docs_{next(NUMBERS)}", spark.newSession()
    own.sql(f"CREATE DATABASE {database}")
    own.sql(f"USE {database}")
    own.conf.set("sqlx.tasks", "2")  # less to start; no answer here depends on it
    yield own
    for row in own.sql("SHOW STREAMING QUERIES").collect():
        if row["status"] == "running":
            own.sql(f"STOP STREAMING QUERY {row['name']}")
    own.sql(f"DROP DATABASE {database} CASCADE")


@pytest.mark.parametrize("block", of_kind("run"))
def test_example_gives_its_result(session: SparkSession, block: Block) -> None:
    if "FROM deduplicate(" in block.text and RELEASE < (4, 1):
        pytest.skip("PySpark 4.1 has table functions that read Arrow batches")
    assert last_rows(session, block.text) == cells(block.result)


@pytest.mark.parametrize("block", of_kind("replay"))
def test_replayed_example_gives_its_result(block: Block) -> None:
    assert replayed(block.text) == cells(block.result)


@pytest.mark.parametrize("block", of_kind(""))
def test_statements_run(session: SparkSession, world: World, block: Block) -> None:
    text = world.located(block.text)
    for definition in world.needed(text):
        session.sql(definition)
    shown = run_all(session, text)
    assert not block.result or shown == cells(block.result)


def test_five_lines_of_the_readme_run(session: SparkSession, world: World) -> None:
    code = next(block.text for block in BLOCKS if block.page.stem == "README" and "sqlx.session()" in block.text)
    text = ";".join(re.findall(r'spark\.sql\("(.*?)"\)', code))
    for definition in world.needed(text):
        session.sql(definition)
    assert len(run_all(session, text)) == 1 + 3


@pytest.mark.parametrize("cell", [pytest.param(cell, id=cell.place) for cell in CELLS])
def test_cells_of_notebooks_run(session: SparkSession, world: World, cell: Block) -> None:
    text = cell.text.split("\n", 1)[1]
    for definition in world.needed(text):
        session.sql(definition)
    assert len(run_all(session, text)) > 1


def test_every_sql_block_says_how_it_is_run() -> None:
    assert [block.place for block in SQL_BLOCKS if block.kind not in RUN | NOT_RUN] == []
    assert [block.place for block in SQL_BLOCKS if block.kind in ("run", "replay") and not block.result] == []


def test_sql_does_not_hide_in_blocks_without_a_language() -> None:
    """Grammar and commands stand there: text with brackets, dots or a prompt."""
    plain = [block for block in BLOCKS if block.language in ("", "text")]
    hidden = [
        b for b in plain if re.match(r"\s*(SELECT|CREATE|INSERT|WITH|FROM)\b", b.text) and not re.search("[…|]", b.text)
    ]
    assert [block.place for block in hidden] == []


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


def test_site_builds_without_a_warning(tmp_path: Path) -> None:
    """A broken link, a missing anchor, or a page that the navigation leaves out is a warning, and strict."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    assert "```" not in re.sub(r"<code>.*?</code>", "", tmp_path.joinpath("index.html").read_text(encoding="utf-8"))


# What documents say of the code, and what the code says of documents.

PATH = re.compile(
    r"(?<![\w/.])((?:sqlx|udtf|catalog|tests|docs|benchmarks|sql_examples)/[\w./]*\w/?|[a-z_]+\.py)(?!\w)"
)
WORD = re.compile(r"`([A-Z]\w+|[a-z]+(?:_[a-z]+)+)(?:\(\))?`")
CODE = [
    path for folder in ("sqlx", "udtf", "catalog", "tests", "benchmarks") for path in ROOT.glob(f"{folder}/**/*.py")
]
NOTES = sorted(ROOT.glob("docs/design/2*.md"))


def test_names_in_the_architecture_exist() -> None:
    """Every path of the page is one, every file name some file's, and every name in backticks stands in the code."""
    text = ROOT.joinpath("docs/architecture.md").read_text(encoding="utf-8")
    files = {path.name for path in CODE}
    missing = [p for p in PATH.findall(text) if not (ROOT.joinpath(p).exists() if "/" in p else p in files)]
    code = "\n".join(path.read_text(encoding="utf-8") for path in CODE if "tests" not in path.parts)
    settings = ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8")
    unknown = [word for word in WORD.findall(text) if not re.search(rf"\b{word}\b", code + settings)]
    assert (missing, unknown) == ([], [])


def test_documents_that_the_code_cites_exist() -> None:
    cited = {
        (path, page) for path in CODE for page in re.findall(r"docs/[\w./]+\.md", path.read_text(encoding="utf-8"))
    }
    assert [f"{path}: {page}" for path, page in sorted(cited) if not ROOT.joinpath(page).exists()] == []
    bare = [
        path
        for path in CODE
        if re.search(r"(?<![\w/])design\.md", path.read_text(encoding="utf-8")) and path != Path(__file__)
    ]
    assert bare == []


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_a_design_note_has_a_status_and_the_code_leads_to_it(note: Path) -> None:
    assert re.search(
        r"^Status: (proposed|accepted|superseded by \S+), \d{4}-\d\d-\d\d\.$",
        note.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    sources = [*CODE, ROOT / "pyproject.toml"]
    assert any(f"docs/design/{note.name}" in path.read_text(encoding="utf-8") for path in sources)
