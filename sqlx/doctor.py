"""What this machine lacks to run sqlx: each check looks at one thing and says what to do about it.

``sqlx doctor`` prints the findings. A check never changes anything and never raises for what it finds.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyspark
from packaging.requirements import Requirement
from packaging.version import Version

from sqlx.connectors.jars import CONNECTORS, Connector, jars_folder, missing
from sqlx.serving.options import refusal
from sqlx.sessions import java

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from pyspark.sql import SparkSession


# What a check has found.


Status = Literal["ok", "warning", "problem"]
_ORDER: tuple[Status, ...] = ("ok", "warning", "problem")


@dataclass(frozen=True)
class Finding:
    """The answer of one check.

    Attributes:
        check: what was looked at: "Java", "port 10000".
        status: "ok"; "warning" where something that not everybody needs will not work; "problem" where sqlx will not.
        found: what is there.
        remedy: what to do; "" where it is ok.
    """

    check: str
    status: Status
    found: str
    remedy: str = ""


def worst(findings: Iterable[Finding]) -> Status:
    """The gravest status of all.

    >>> worst([Finding("a", "ok", ""), Finding("b", "warning", "", "")]), worst([])
    ('warning', 'ok')
    """
    return max((finding.status for finding in findings), key=_ORDER.index, default="ok")


# The connectors of Spark that come as jars: which of them this machine has.


def connector(name: str, environ: Mapping[str, str], asked: bool = False) -> Finding:
    """Whether the jars of a connector are here.

    Args:
        name: one of :data:`sqlx.connectors.jars.CONNECTORS`.
        environ: where ``SPARK_HOME`` is looked up.
        asked: whether somebody needs it; else a missing one is only a warning.
    """
    wanted, check = CONNECTORS[name], f"connector {name}"
    if not wanted.is_available:
        found = f"no jar is made for PySpark {pyspark.__version__}: no {wanted.what}"
        return Finding(
            check, "problem" if asked else "warning", found, "docs/installing.md says which releases have it"
        )
    lacking = missing(wanted)
    if not lacking:
        return Finding(check, "ok", f"in {jars_folder()}")
    beside = next(_in_spark(wanted, environ), None)
    if beside is not None:
        return Finding(check, "ok", str(beside))
    found = f"{lacking[0]} is not in {jars_folder()}: no {wanted.what}"
    return Finding(check, "problem" if asked else "warning", found, f"sqlx connectors fetch {name}")


def _in_spark(wanted: Connector, environ: Mapping[str, str]) -> Iterator[Path]:
    """The connector's own jar, of whatever version, among those that Spark always loads."""
    spec = find_spec("pyspark")
    homes = [environ.get("SPARK_HOME", ""), str(Path(spec.origin).parent) if spec and spec.origin else ""]
    stem = wanted.artifacts[0].file.partition("_")[0]
    for home in filter(None, homes):
        yield from sorted(Path(home, "jars").glob(f"{stem}_*.jar"))


# The Python packages that decide whether Spark and its workers run: which versions are here.


WHY = {
    "pyspark": "sqlx is built on PySpark 4.0 to 4.3",
    "pandas": "PySpark does not work with pandas 3",
    "pyarrow": "PySpark needs 18 or newer",
    "numpy": "the compiled operators are built on numpy 2",
    "numba": "it compiles the operators",
    "protobuf": "Spark's stateful streams import it without asking for it",
}
"""Packages of which a wrong version is a known way to fail, and how; their bounds are those of our own metadata."""

_CLIENT = "pyspark-client"
CONNECT = {"grpcio": "grpc", "grpcio-status": "grpc_status", "googleapis-common-protos": "google.rpc", "zstandard": ""}
"""What a client of Spark Connect imports: the package, and its module where that has another name."""


def bounds() -> dict[str, SpecifierSet]:
    """The versions of each package of `WHY` that work, as the package's metadata asks for them."""
    asked = [Requirement(line) for line in metadata.requires("sqlx-temporal") or ()]
    return {found.name: found.specifier for found in asked if found.name in WHY and found.marker is None}


def version_of(package: str) -> Version | None:
    """The version of an installed package; None where there is none.

    >>> version_of("no-such-package") is None
    True
    """
    try:
        return Version(metadata.version(package))
    except metadata.PackageNotFoundError:
        return None


def is_client() -> bool:
    """Whether this is the Python of a client of Spark Connect, with neither Java nor the whole of PySpark."""
    return version_of("pyspark") is None and version_of(_CLIENT) is not None


def needed(packages: Mapping[str, SpecifierSet] | None = None) -> Iterator[Finding]:
    """One finding per package that has to be there; PySpark's client without Java is a PySpark, too.

    Args:
        packages: the versions that work; default: what the metadata asks for.
    """
    for package, wanted in (bounds() if packages is None else packages).items():
        name = _CLIENT if package == "pyspark" and is_client() else package
        version, why = version_of(name), WHY.get(package, "sqlx needs it")
        remedy = f"pip install '{name}{_text(wanted)}'"
        if version is None:
            yield Finding(name, "problem", f"not installed; {why}", remedy)
        elif not wanted.contains(version, prereleases=True):
            yield Finding(name, "problem", f"{version}; {why}", remedy)
        else:
            yield Finding(name, "ok", str(version))


def _text(wanted: SpecifierSet) -> str:
    """As people write bounds: the lower one first."""
    return ",".join(sorted(map(str, wanted), key=lambda bound: not bound.startswith(">")))


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
    version = jars[-1].stem.rpartition("-")[2]
    if version == str(own):
        yield Finding("SPARK_HOME", "ok", f"Spark {version}, the same version")
    else:
        yield Finding("SPARK_HOME", "problem", f"Spark {version}, and PySpark is {own}", remedy)


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


# What other processes may have taken: ports, and the folder of a warehouse.


SERVED = {10000: "--thrift", 15002: "--connect"}
"""The ports that ``sqlx serve`` takes by default, and the options that name others."""

_LOCK = Path("metastore_db", "dbex.lck")
"""The file that Derby, the embedded metastore, holds a lock on while it runs."""


def port(number: int, host: str = "127.0.0.1", asked: bool = True) -> Finding:
    """Whether a server could listen there.

    Args:
        number: the TCP port.
        host: the address.
        asked: whether somebody wants this port; a default one that is taken is only a warning.
    """
    check = f"port {number}"
    error = refusal(host, number)
    if error is None:
        return Finding(check, "ok", "free")
    return Finding(check, "problem" if asked else "warning", *_refused(number, error))


def _refused(number: int, error: OSError) -> tuple[str, str]:
    option = SERVED.get(number, "--thrift or --connect")
    another = f"choose another for `sqlx serve` with {option}"
    if error.errno == errno.EADDRINUSE:
        return "in use by another process", f"End that process (`lsof -i :{number}` names it), or {another}."
    if error.errno == errno.EACCES:
        return "only the administrator may listen there", f"Take a port above 1023: {another}."
    return f"cannot be listened on: {error.strerror or error}", f"Check the address, or {another}."


def warehouse(folder: Path) -> Finding:
    """Whether a session can keep its tables and definitions in a folder now.

    Args:
        folder: as ``--warehouse`` names it; it need not exist yet.
    """
    check, another = "warehouse", "choose another folder with --warehouse"
    if folder.exists() and not folder.is_dir():
        return Finding(check, "problem", f"{folder} is a file", f"Move it away, or {another}.")
    nearest = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(check, "problem", f"{nearest} cannot be written to", f"Change its permissions, or {another}.")
    if is_locked(folder / _LOCK):
        remedy = f"End it, let `sqlx serve --warehouse {folder}` have it for all, or {another}."
        return Finding(check, "problem", f"{folder} is in use by another process; one at a time can have it", remedy)
    return Finding(check, "ok", str(folder) if folder.exists() else f"{folder} (will be made)")


def is_locked(file: Path) -> bool:
    """Whether another process holds a lock on a file.

    Args:
        file: a file that may be missing.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        with file.open("r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EAGAIN)
    return False


# The programs that Spark consists of: this Python, Java, and the Python of its workers.


OLDEST, NEWEST = (3, 11), (3, 13)
"""The first and the last version of Python that the tests run on."""

_WORKERS_NEED = ("udtf", "pyarrow", "pandas", "numba")
_ASK = """
import importlib.util, json, sys
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
print(json.dumps({"version": sys.version.split()[0], "missing": missing}))
"""
_UNSET = "Unset PYSPARK_PYTHON (sqlx then takes this Python, {own}), or set it to {own}."
_SECONDS_TO_ANSWER = 30


def python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Finding:
    """The Python that runs this.

    Args:
        version: its version; for tests.
    """
    text = ".".join(str(part) for part in version)
    found = f"{text} ({sys.executable})"
    if version[:2] < OLDEST:
        return Finding("Python", "problem", found, "sqlx needs Python 3.11 or newer: install it in one of those.")
    if version[:2] > NEWEST:
        return Finding(
            "Python", "warning", found, "sqlx is tested on Python 3.11 to 3.13; numba or PySpark may not run on this."
        )
    return Finding("Python", "ok", found)


def java_home(environ: Mapping[str, str]) -> Finding:
    """The Java that Spark will run on.

    Args:
        environ: where ``JAVA_HOME`` and ``PATH`` are looked up.
    """
    try:
        home = java.find_java(environ, java.PLACES)
    except java.JavaError as error:
        message, _, hint = str(error).partition("\nHINT: ")
        return Finding("Java", "problem", message, hint)
    found = f"{home.version} from {home.source}"
    if environ.get("JAVA_HOME") and home.source != "JAVA_HOME":
        remedy = f"Unset JAVA_HOME, or set it to a Java {' or '.join(str(n) for n in java.SUPPORTED)}."
        return Finding("Java", "warning", f"{found}; JAVA_HOME={environ['JAVA_HOME']} is none for Spark", remedy)
    return Finding("Java", "ok", found)


def workers_python(environ: Mapping[str, str]) -> Finding:
    """Whether the Python that Spark starts its workers with is like this one, and has what operators import.

    Args:
        environ: where ``PYSPARK_PYTHON`` is looked up.
    """
    check, given = "Python of workers", environ.get("PYSPARK_PYTHON", "")
    if not given:
        return Finding(check, "ok", "this Python (PYSPARK_PYTHON is not set)")
    remedy = _UNSET.format(own=sys.executable)
    program = shutil.which(given, path=environ.get("PATH", os.defpath))
    if program is None:
        return Finding(check, "problem", f"PYSPARK_PYTHON is {given}, and there is no such program", remedy)
    answer = _ask(program, environ)
    if answer is None:
        return Finding(check, "problem", f"PYSPARK_PYTHON is {given}, and it is no Python that runs", remedy)
    version, missing = str(answer["version"]), answer["missing"]
    own = sys.version.split()[0]
    if version.split(".")[:2] != own.split(".")[:2]:
        found = f"PYSPARK_PYTHON is {given}, a Python {version}; this one is {own}, and Spark needs two alike"
        return Finding(check, "problem", found, remedy)
    if missing:
        found = f"PYSPARK_PYTHON is {given}, which lacks {', '.join(missing)}"
        return Finding(check, "problem", found, f"{given} -m pip install sqlx-temporal, or: {remedy}")
    return Finding(check, "ok", f"{version} ({given})")


def _ask(program: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """What a Python says about itself, from a folder where nothing of ours lies; None where it does not answer."""
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": _SECONDS_TO_ANSWER, "check": True}
    try:
        done = subprocess.run([program, "-c", _ASK, *_WORKERS_NEED], env=dict(environ), cwd=Path.home(), **options)
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return answer


@dataclass(frozen=True)
class Wanted:
    """What somebody wants to do on this machine; a check of it that fails is a problem, not a warning.

    Attributes:
        ports: the ports to serve on; the default ones where there are none.
        host: the address to serve on.
        connectors: the connectors that are needed.
        warehouse: the folder of a warehouse; None looks at none.
    """

    ports: Sequence[int] = ()
    host: str = "127.0.0.1"
    connectors: Sequence[str] = ()
    warehouse: Path | None = None


def examine(wanted: Wanted, environ: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """Look at everything, one finding after the other; a client without Java needs none of what a server does.

    Args:
        wanted: what somebody wants to do.
        environ: the environment variables; default: this process's own.
    """
    environ = os.environ if environ is None else environ
    yield python()
    if is_client():
        yield from needed()
        yield connect()
        return
    yield java_home(environ)
    yield from needed()
    yield from spark_home(environ)
    yield workers_python(environ)
    yield connect()
    for name in CONNECTORS:
        yield connector(name, environ, name in wanted.connectors)
    for number in wanted.ports or SERVED:
        yield port(number, wanted.host, asked=bool(wanted.ports))
    if wanted.warehouse is not None:
        yield warehouse(wanted.warehouse)


def run(spark: SparkSession) -> Finding:
    """Whether Spark runs a temporal query through its Python workers.

    Args:
        spark: a sqlx session that has just been started.
    """
    spark.sql("CREATE TEMPORARY VIEW __doctor_rates AS SELECT 'a' AS k, TIMESTAMP '2026-01-01' AS ts, 1 AS rate")
    row = spark.sql(
        "SELECT r.rate FROM (SELECT 'a' AS k, TIMESTAMP '2026-01-02' AS ts) o "
        "ASOF JOIN __doctor_rates r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k"
    ).first()
    if row is None or row[0] != 1:
        remedy = "This is a bug of ours; please report it."
        return Finding("a query", "problem", f"an AS OF join answered {row}", remedy)
    return Finding("a query", "ok", f"Spark {spark.version} and its workers answer an AS OF join")
