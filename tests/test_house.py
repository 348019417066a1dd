"""The laws of the house: who imports whom, what an operator consists of, how long things may get."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("sqlx", "udtf", "catalog")
MODULES = sorted(path for package in PACKAGES for path in ROOT.joinpath(package).rglob("*.py"))
OPERATORS = sorted(path.stem for path in ROOT.glob("sqlx/operators/*.py") if path.stem not in ("__init__", "base"))
OPERATOR_FILES = (
    "sqlx/operators/{}.py",
    "udtf/operators/{}.py",
    "docs/operators/{}.md",
    "sql_examples/{}.sql",
    "benchmarks/{}.py",
)
# The plain join of a stream with an upsert table: it has no batch answer to show or to time.
RUN_ON_STREAMS_ONLY = ("table_lookup",)
# What the modules under a path may never import (a path covers all that begins with it).
FORBIDDEN = {
    "udtf/": ("sqlx", "catalog", "sqlglot", "duckdb"),
    "udtf/operators/": ("pyspark", "udtf.spark"),
    "udtf/state/": ("pyspark", "udtf.spark", "udtf.operators"),
    "udtf/time.py": ("pyspark", "udtf.spark", "udtf.operators", "udtf.state"),
    "udtf/record.py": ("pyspark", "udtf.spark", "udtf.operators", "udtf.state"),
    "udtf/metrics.py": ("pyspark", "udtf.spark", "udtf.operators", "udtf.state"),
    "sqlx/operators/": ("sqlx.session", "sqlx.compiler", "sqlx.cli", "udtf.spark"),
    "": ("tests", "benchmarks"),
}
MOST_LINES_OF_A_MODULE = 300
MOST_LINES_OF_A_FUNCTION = 45


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it; ``from a import b`` as ``a`` and ``a.b``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{name.name}" for name in node.names)


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from ``def`` to its end, without its docstring."""
    total = int(function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    return total - (int(first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) else 0)


@pytest.mark.parametrize("where", FORBIDDEN)
def test_imports_follow_the_arrows(where: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in MODULES
        if path.relative_to(ROOT).as_posix().startswith(where)
        for module in imports(path)
        if any(is_in(module, package) for package in FORBIDDEN[where])
    ]
    assert wrong == []


def test_catalog_needs_the_standard_library_only() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in ROOT.glob("catalog/**/*.py")
        for module in imports(path)
        if (top := module.split(".")[0]) not in sys.stdlib_module_names | {"catalog"}
        and not (top == "pyspark" and path.name == "spark.py")
    ]
    assert wrong == []


def family(stem: str) -> str:
    """The operator that a module belongs to, by the first two words: ``as_of_join`` and ``as_of_tables`` are one's."""
    return "_".join(stem.split("_")[:2])


@pytest.mark.parametrize("package", ["sqlx.operators", "udtf.operators"])
def test_operators_do_not_know_each_other(package: str) -> None:
    folder = ROOT.joinpath(*package.split("."))
    operators = {family(operator) for operator in OPERATORS}
    modules = [path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "base")]
    wrong = [
        f"{package}.{importer} imports {imported}"
        for importer in modules
        for module in imports(folder / f"{importer}.py")
        for imported in modules
        if is_in(module, f"{package}.{imported}") and {family(importer), family(imported)} <= operators
        if family(importer) != family(imported)
    ]
    assert wrong == []


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator_has_all_its_files(operator: str) -> None:
    needed = OPERATOR_FILES[:3] if operator in RUN_ON_STREAMS_ONLY else OPERATOR_FILES
    files = [pattern.format(operator) for pattern in needed]
    assert [file for file in files if not ROOT.joinpath(file).is_file()] == []


def test_every_error_condition_has_a_case() -> None:
    conditions = json.loads(ROOT.joinpath("sqlx/error_conditions.json").read_text(encoding="utf-8"))
    files = [path for path in ROOT.glob("tests/errors/**/*") if path.suffix in (".slt", ".sql", ".py", ".txt")]
    cases = "".join(path.read_text(encoding="utf-8") for path in [*files, ROOT / "tests/unit/sqlx/test_java.py"])
    assert list(conditions) == sorted(conditions)
    assert [name for name in conditions if not re.search(rf"\b{re.escape(name)}(?![\w.])", cases)] == []


def test_workers_import_only_what_they_need() -> None:
    code = "import udtf, sys; print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv[1:])))"
    heavy = ["sqlglot", "duckdb", "sqlx", "catalog"]
    printed = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, cwd=ROOT, check=True)
    assert printed.stdout.strip() == "[]"


def too_long(path: Path) -> Iterator[str]:
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
    if (count := text.count("\n")) > MOST_LINES_OF_A_MODULE:
        yield f"{name}: {count} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of(node) > MOST_LINES_OF_A_FUNCTION:
            yield f"{name}:{node.lineno} {node.name}: {lines_of(node)} lines"


def test_modules_and_functions_stay_small() -> None:
    assert [complaint for path in MODULES for complaint in too_long(path)] == []
