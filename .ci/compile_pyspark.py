"""Compiles the PySpark that Python workers import: it travels as a zip of sources, which each of them would compile.

Every live query starts a process of its own beside the workers; without this each costs a second more. Only for the
tests' environments; an installed product never has its PySpark changed.
"""

from __future__ import annotations

import py_compile
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
#: What workers never import.
_LEFT = ("/tests/", "pyspark/pandas/", "pyspark/ml/", "pyspark/mllib/", "pyspark/testing/")


def is_wanted(name: str) -> bool:
    """Whether it is a module that a worker may import."""
    return name.endswith(".py") and not any(part in name for part in _LEFT)


def compile_zip(path: Path) -> int:
    """Add the compiled modules to an archive of sources; how many, none where they are there."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        missing = {name: archive.read(name) for name in names if is_wanted(name) and f"{name}c" not in names}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, source in missing.items():
            plain, compiled = Path(folder) / "m.py", Path(folder) / "m.pyc"
            plain.write_bytes(source)
            py_compile.compile(str(plain), str(compiled), name, invalidation_mode=_UNCHECKED)
            archive.write(compiled, f"{name}c")
    return len(missing)


if __name__ == "__main__":
    for found in sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")):
        if count := compile_zip(found):
            sys.stderr.write(f"{found.name}: {count} modules compiled\n")
