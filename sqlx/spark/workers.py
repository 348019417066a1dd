"""Whether Spark's Python workers can run our operators: asked once a session, before rows flow.

On one machine workers run on the Python that started Spark. On a cluster they have one of their own, and what it
lacks would come out in the middle of a job, as a stack trace.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import pyspark
from pyspark.errors import PySparkException

from sqlx.errors import RunError, UnsupportedError
from sqlx.failures import message_of
from sqlx.version import __version__
from udtf.engine import engine_of, is_remote
from udtf.engine.executors import is_local
from udtf.engine.java import Py4JJavaError
from udtf.engine.release import release_of
from udtf.spark.workers import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: So many workers are asked at most: they are alike but for a node that was set up otherwise.
_MOST_ASKED: Final = 64
#: What is shipped to a worker cannot import anything of ours, so it travels as text.
_LOOK: Final = """
def look(_):
    import importlib.metadata, importlib.util, json, socket, sys
    from pyspark import SparkFiles
    found = {}
    for name in ("udtf", "pyarrow", "pandas", "numpy", "numba"):
        try:
            found[name] = importlib.util.find_spec(name)
        except ImportError:
            found[name] = None
    try:
        version = importlib.metadata.version("sqlx-temporal")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    udtf = found["udtf"]
    places = [] if udtf is None else [udtf.origin or "", *(udtf.submodule_search_locations or [])]
    shipped = any(place.startswith(SparkFiles.getRootDirectory()) for place in places)
    missing = [name for name, spec in found.items() if spec is None]
    return json.dumps([socket.gethostname(), sys.executable, version, ", ".join(missing), shipped])
"""
#: The first PySpark whose client of Spark Connect has transformWithStateInPandas.
_SENDS_STATE: Final = (4, 1)
_asked: WeakKeyDictionary[Any, list[Worker]] = WeakKeyDictionary()


@dataclass(frozen=True, order=True)
class Worker:
    """What a worker said of itself.

    Attributes:
        host: its machine.
        python: its interpreter.
        version: of this package, as it was installed there; "" where it was not installed.
        missing: the packages that it lacks.
        is_shipped: ours came along, with the job (``--py-files``) or because it was missing.
    """

    host: str
    python: str
    version: str
    missing: str
    is_shipped: bool


def check_workers(spark: SparkSession) -> None:
    """Ask the workers of a cluster, or behind Spark Connect, once whether they have what operators need.

    Our own code is brought to those that lack it.

    Raises:
        RunError: `WORKERS.NO_ANSWER`, `WORKERS.PACKAGE_MISSING`, `WORKERS.OTHER_VERSION`.
    """
    owner = spark if is_remote(spark) else spark.sparkContext
    if owner is not spark and is_local(spark):
        return
    if owner not in _asked:
        _asked[owner] = _with_code(spark)
    if any(worker.is_shipped for worker in _asked[owner]):
        engine_of(spark).carry_code()
    for worker in _asked[owner]:
        check_worker(worker)


def check_driver(spark: SparkSession) -> None:
    """Whether the driver's machine has the Python of the workers: Spark starts it there once for a live operator.

    Raises:
        RunError: `WORKERS.PYTHON_OF_DRIVER`.
    """
    if is_remote(spark):
        return
    python = str(spark.sparkContext.pythonExec)
    if shutil.which(python) is None:
        raise RunError("WORKERS.PYTHON_OF_DRIVER", python=python)


def check_client(spark: SparkSession, text: str) -> None:
    """Refuse an operator with state where a client of Spark Connect cannot send one: that of PySpark 4.0.

    Args:
        spark: the session.
        text: the query.

    Raises:
        UnsupportedError: `UNSUPPORTED.CONNECT`.
    """
    if is_remote(spark) and release_of(pyspark.__version__) < _SENDS_STATE:
        what = f"a live operator that keeps state, from a client of PySpark {pyspark.__version__}; newer ones send it"
        raise UnsupportedError("UNSUPPORTED.CONNECT", text, (0, len(text)), what=what)


def warm(spark: SparkSession) -> None:
    """Start a worker for each core, and let it load what operators need: the next query finds them ready."""
    _row_for_each(spark).mapInArrow(load, "id BIGINT").collect()


def _row_for_each(spark: SparkSession) -> DataFrame:
    """A row for a worker on each core."""
    places = min(engine_of(spark).cores, _MOST_ASKED)
    return spark.range(0, places, 1, places)


def _with_code(spark: SparkSession) -> list[Worker]:
    """What workers say of themselves, once our code has been brought to those that lack it."""
    if is_remote(spark):  # a stock server has never heard of us
        engine_of(spark).ship_code()
        return _ask(spark)
    found = _ask(spark)
    if not any("udtf" in worker.missing.split(", ") for worker in found):
        return found
    engine_of(spark).ship_code()
    return _ask(spark)


def _ask(spark: SparkSession) -> list[Worker]:
    """What a worker for each core says.

    Raises:
        RunError: `WORKERS.NO_ANSWER`.
    """
    from pyspark.sql import functions as F

    space: dict[str, Any] = {}
    exec(_LOOK, space)
    try:
        told = _row_for_each(spark).select(F.udf(space["look"])("id")).collect()
    except (Py4JJavaError, PySparkException) as error:
        reason = str(message_of(error)).splitlines()[0].rstrip(".")
        raise RunError("WORKERS.NO_ANSWER", reason=reason) from None
    return sorted({Worker(*json.loads(text)) for (text,) in told})


def check_worker(worker: Worker) -> None:
    """Refuse a worker that cannot run operators.

    Raises:
        RunError: see `check_workers`.
    """
    place = f"{worker.python} on {worker.host}"
    if worker.missing:
        raise RunError("WORKERS.PACKAGE_MISSING", missing=worker.missing, place=place, version=__version__)
    if worker.version and not worker.is_shipped and worker.version != __version__:
        raise RunError("WORKERS.OTHER_VERSION", found=worker.version, place=place, version=__version__)
