"""The Python packages that decide whether Spark and its workers run: which versions are here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from sqlx.doctor.finding import Finding

Version = tuple[int, ...]


@dataclass(frozen=True)
class Bounds:
    """The versions of a package that work.

    Attributes:
        first: the oldest.
        below: the first that is too new; () where none is known.
        why: what goes wrong outside of them.
    """

    first: Version
    below: Version
    why: str

    def __str__(self) -> str:
        """As pip writes them."""
        below = f",<{_text(self.below)}" if self.below else ""
        return f">={_text(self.first)}{below}"


NEEDED = {
    "pyspark": Bounds((4, 2), (4, 4), "sqlx is built on PySpark 4.2 and 4.3"),
    "pandas": Bounds((2, 2), (3,), "PySpark does not work with pandas 3"),
    "pyarrow": Bounds((18,), (), "PySpark needs 18 or newer"),
    "numpy": Bounds((2, 0), (3,), "the compiled operators are built on numpy 2"),
    "numba": Bounds((0, 61), (1,), "it compiles the operators"),
    "protobuf": Bounds((6, 33, 5), (8,), "Spark's stateful streams import it without asking for it"),
}
"""What pyproject.toml asks for, as far as a wrong version is a known way to fail."""

CONNECT = {"grpcio": "grpc", "grpcio-status": "grpc_status", "googleapis-common-protos": "google.rpc", "zstandard": ""}
"""What a client of Spark Connect imports: the package, and its module where that has another name."""


def version_of(package: str) -> Version | None:
    """The version of an installed package; None where there is none.

    >>> version_of("no-such-package") is None
    True
    """
    try:
        return parsed(metadata.version(package))
    except metadata.PackageNotFoundError:
        return None


def parsed(version: str) -> Version:
    """The numbers that a version begins with.

    >>> parsed("3.0.1"), parsed("4.3.0.dev2"), parsed("2.0rc1")
    ((3, 0, 1), (4, 3, 0), (2, 0))
    """
    numbers = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in numbers[0].split(".")) if numbers else ()


def needed(packages: Mapping[str, Bounds] = NEEDED) -> Iterator[Finding]:
    """One finding per package that has to be there.

    Args:
        packages: their bounds.
    """
    for name, bounds in packages.items():
        version, remedy = version_of(name), f"pip install '{name}{bounds}'"
        if version is None:
            yield Finding(name, "problem", f"not installed; {bounds.why}", remedy)
        elif version < bounds.first or (bounds.below and version >= bounds.below):
            yield Finding(name, "problem", f"{_text(version)}; {bounds.why}", remedy)
        else:
            yield Finding(name, "ok", _text(version))


def spark_home(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether ``SPARK_HOME`` leads to another Spark than the Python package's own.

    Args:
        environ: where it is looked up.
    """
    home, own = environ.get("SPARK_HOME", ""), version_of("pyspark")
    if not home or own is None:
        return
    jars = sorted(Path(home).glob("jars/spark-core_*.jar"))
    remedy = "Unset SPARK_HOME: the Python package brings its own Spark."
    if not jars:
        yield Finding("SPARK_HOME", "problem", f"{home} holds no Spark", remedy)
        return
    version = parsed(jars[-1].stem.rpartition("-")[2])
    if version == own:
        yield Finding("SPARK_HOME", "ok", f"Spark {_text(version)}, the same version")
    else:
        yield Finding("SPARK_HOME", "problem", f"Spark {_text(version)}, and PySpark is {_text(own)}", remedy)


def connect() -> Finding:
    """Whether what a Spark Connect client imports is here."""
    missing = [package for package, module in CONNECT.items() if not _can_import(module or package)]
    if not missing:
        return Finding("Spark Connect", "ok", "its client's packages are here")
    found = f"no {', '.join(missing)}: a client of `sqlx serve --connect` needs them"
    return Finding("Spark Connect", "warning", found, "pip install 'sqlx-temporal[connect]'")


def _can_import(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _text(version: Version) -> str:
    return ".".join(str(number) for number in version)
