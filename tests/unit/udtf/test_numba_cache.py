"""Compiled loops that come along with their source: they are taken where they fit, and else compiled anew."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import udtf
from udtf.engine.shipping import archive, compiled_loops
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import join_tables

JOIN = """
import pyarrow as pa
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import join_tables
left = pa.table({"__k0": [1], "__as_of": [2]}); right = pa.table({"__k0": [1], "__time": [1], "r0": [7]})
print(join_tables(AsOfJoinConfig(right_columns=("r0",)), left, right)["r0"].to_pylist())
"""
#: Root can write everywhere: numba asks by making a file.
READ_ONLY = """
import sys, tempfile
make = tempfile.TemporaryFile
def refuse(*given, dir=None, **more):
    if str(dir).startswith(sys.path[1]):
        raise PermissionError(dir)
    return make(*given, dir=dir, **more)
tempfile.TemporaryFile = refuse
"""
LOADED, SAVED = "data loaded from", "data saved to"


def done(program: str, path: Path, home: Path) -> str:
    """What a process prints that has nothing in its caches, with what numba loads and saves."""
    environment = os.environ | {"PYTHONPATH": str(path), "HOME": str(home), "TMPDIR": str(home)}
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    command = [sys.executable, "-B", "-c", program]
    ran = subprocess.run(
        command,
        env=environment | {"NUMBA_DEBUG_CACHE": "1"},
        capture_output=True,
        text=True,
        cwd=home,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module", autouse=True)
def compiled_here() -> None:
    left = pa.table({"__k0": [1], "__as_of": [2]})
    right = pa.table({"__k0": [1], "__time": [1], "r0": [7]})
    join_tables(AsOfJoinConfig(right_columns=("r0",)), left, right)


def test_loops_come_with_the_code_of_workers(tmp_path: Path) -> None:
    archive.cache_clear()
    text = done(JOIN, archive(), tmp_path)
    assert ("[7]" in text, LOADED in text, SAVED in text) == (True, True, False)
    assert list(tmp_path.glob("sqlx-numba-*/**/*.nbc"))


def test_loops_of_an_installation_that_cannot_be_written_to(tmp_path: Path) -> None:
    shutil.copytree(udtf.__path__[0], tmp_path / "all" / "udtf")
    text = done(READ_ONLY + JOIN, tmp_path / "all", tmp_path)
    assert ("[7]" in text, LOADED in text, SAVED in text) == (True, True, False)
    assert f"{LOADED} '{tmp_path}/all" not in text, "they are copied to the user's own"


@pytest.mark.full
@pytest.mark.slow  # everything is compiled anew
def test_without_any_place_each_process_compiles(tmp_path: Path) -> None:
    (tmp_path / f"sqlx-numba-{os.getuid()}").write_text("a file where the folder would be")
    assert "[7]" in done(JOIN, archive(), tmp_path)


@pytest.mark.full
@pytest.mark.slow  # everything is compiled anew
def test_loops_of_another_source_or_damaged_are_compiled_anew(tmp_path: Path) -> None:
    home = tmp_path / "all" / "udtf"
    shutil.copytree(udtf.__path__[0], home)
    source = home / "operators/as_of_join/loops.py"
    source.write_text(source.read_text() + "\n# edited\n")
    for file in (home / "columns/__pycache__").glob("*.nb[ci]"):
        file.write_bytes(b"damaged")
    text = done(READ_ONLY + JOIN, tmp_path / "all", tmp_path)
    assert ("[7]" in text, SAVED in text) == (True, True)


def test_files_of_two_kinds_of_arguments_that_were_mixed_up(tmp_path: Path) -> None:
    (tmp_path / "halves.py").write_text("def halve(numbers):\n    return numbers[0] / 2\n")
    program = """
import numpy as np, halves
from udtf.numba_cache import compiled
halve = compiled(halves.halve)
print([halve(np.array([3], kind)) for kind in ("int64", "float64")])
"""
    (tmp_path / "udtf").symlink_to(udtf.__path__[0])
    assert "[1.5, 1.5]" in done(program, tmp_path, tmp_path)
    one, other = sorted((tmp_path / "__pycache__").glob("halves.*.nbc"))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    assert "[1.5, 1.5]" in done(program, tmp_path, tmp_path)


def test_only_what_this_python_compiled_is_shipped() -> None:
    mine = f".py{sys.version_info.major}{sys.version_info.minor}."
    assert compiled_loops()
    assert all(mine in file.name for file in compiled_loops())
