"""What the layout promises: who imports whom, what an operator consists of, how long a function may get."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sqlx.plan.operators import DESCRIPTORS, EXECUTORS, Descriptor, Missing
from tests.harness.reach import LEFT_OUT

ROOT = Path(__file__).parent.parent
PACKAGES = ("sqlx", "udtf", "catalog")
MODULES = sorted(path for package in PACKAGES for path in ROOT.joinpath(package).rglob("*.py"))
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
MOST_LINES_OF_A_FUNCTION = 45
# Parts of a query rather than clauses of their own: another operator's page, example and benchmark show them.
SHOWN_BY = {"suppress": "emit", "table_changes": "emit"}
# The plain join of a stream with an upsert table has no batch answer to show or to time.
EXAMPLES = {"window_aggregate": "windows/final"}
WITHOUT_BATCH = ("corrected_join", "table_lookup", "suppress", "table_aggregate", "table_changes", "table_join")


#: Errors whose cases need more than a statement.
OTHER_CASES = [
    ROOT / "tests/unit/sqlx/test_java.py",
    ROOT / "tests/unit/sqlx/test_class_archive.py",
    ROOT / "tests/connect/test_connect.py",
]


class Broken(NamedTuple):
    """An import that a contract forbids: one line at the end of a file."""

    file: str
    line: str


# Each contract of pyproject.toml by its name's beginning, and an import that has to break it.
FORBIDDEN = {
    "phases": Broken("sqlx/sql/cursor.py", "import sqlx.plan.nodes"),
    "workers": Broken("udtf/rules.py", "import udtf.record"),
    "packages": Broken("udtf/record.py", "import sqlx.errors"),
    "operators": Broken("udtf/operators/suppress/logic.py", "import udtf.operators.deduplicate.rules"),
    "engine-free": Broken("udtf/stream/log.py", "import pyspark"),
    "catalog-alone": Broken("catalog/entries.py", "import pyarrow"),
    "replay-alone": Broken("sqlx/replay/hosts.py", "import sqlx.spark.batch"),
    "circles": Broken("sqlx/sql/tokens.py", "import sqlx.sql.parser"),
}


@pytest.mark.parametrize("contract", FORBIDDEN)
def test_an_import_that_a_contract_forbids_is_found(contract: str, tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [str(LINT_IMPORTS), "--contract", contract, "--no-cache"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    broken = tmp_path / FORBIDDEN[contract].file
    broken.write_text(f"{broken.read_text(encoding='utf-8')}\n{FORBIDDEN[contract].line}\n", encoding="utf-8")
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "1 broken" in found.stdout


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: descriptor.name)
def test_operator_has_all_its_files(descriptor: Descriptor) -> None:
    page = SHOWN_BY.get(descriptor.name, descriptor.name)
    files = [f"udtf/operators/{descriptor.name}/logic.py", f"docs/operators/{page}.md"]
    if descriptor.name not in WITHOUT_BATCH:
        files += [
            f"sql_examples/{EXAMPLES.get(descriptor.name, descriptor.name)}.sql",
            f"benchmarks/{descriptor.name}.py",
        ]
    assert [file for file in files if not ROOT.joinpath(file).is_file()] == []


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: descriptor.name)
def test_operator_runs_in_every_executor_or_says_why_not(descriptor: Descriptor, executor: str) -> None:
    found = getattr(descriptor, executor)
    if isinstance(found, Missing):
        assert found.reason
        return
    module, _, name = found.partition(":")
    tree = ast.parse(ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_folder_of_an_operator_has_a_descriptor() -> None:
    folders = {path.name for path in ROOT.glob("udtf/operators/*") if path.joinpath("logic.py").is_file()}
    assert folders == {descriptor.name for descriptor in DESCRIPTORS}


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from ``def`` to its end, without its docstring."""
    total = int(function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    return total - (int(first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) else 0)


def test_every_error_condition_has_a_case() -> None:
    conditions = json.loads(ROOT.joinpath("sqlx/error_conditions.json").read_text(encoding="utf-8"))
    files = [path for path in ROOT.glob("tests/errors/**/*") if path.suffix in (".slt", ".sql", ".py", ".txt")]
    cases = "".join(path.read_text(encoding="utf-8") for path in [*files, *OTHER_CASES])
    assert list(conditions) == sorted(conditions)
    assert [name for name in conditions if not re.search(rf"\b{re.escape(name)}(?![\w.])", cases)] == []


def test_workers_import_only_what_they_need() -> None:
    code = "import udtf, sys; print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv[1:])))"
    heavy = ["sqlglot", "duckdb", "sqlx", "catalog"]
    printed = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, cwd=ROOT, check=True)
    assert printed.stdout.strip() == "[]"


def too_long(path: Path) -> Iterator[str]:
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of(node) > MOST_LINES_OF_A_FUNCTION:
            yield f"{name}:{node.lineno} {node.name}: {lines_of(node)} lines"


def test_functions_stay_small() -> None:
    assert [complaint for path in MODULES for complaint in too_long(path)] == []


def test_what_the_gate_leaves_out_is_there() -> None:
    """A renamed test would be in the gate again, unseen; a choice anew (`make choose`) follows it."""
    for file, functions in _left_out().items():
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert functions <= found, f"{file}: {functions - found}"


def _left_out() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in json.loads(LEFT_OUT.read_text(encoding="utf-8")):
        file, _, function = name.partition("::")
        found.setdefault(file, set()).add(function.partition("[")[0])
    return found
