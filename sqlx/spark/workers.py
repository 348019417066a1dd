"""Whether Spark's Python workers can run our operators: asked once a session, before rows flow.

On one machine workers run on the Python that started Spark. On a cluster they have one of their own, and what it
lacks would come out in the middle of a job, as a stack trace.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException

from sqlx.errors import RunError
from sqlx.failures import message_of
from sqlx.version import __version__
from udtf.engine import engine_of, is_remote
from udtf.engine.java import Py4JJavaError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

#: So many workers are asked at most: they are alike but for a node that was set up otherwise.
_MOST_ASKED: Final = 64
#: What is shipped to a worker cannot import anything of ours, so it travels as text.
_LOOK: Final = """
def look(_rows):
    import importlib.metadata, importlib.util, socket, sys
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
    yield socket.gethostname(), sys.executable, version, ", ".join(missing), shipped

def tell(row):
    import json
    return json.dumps(list(look([row])))
"""
_asked: WeakKeyDictionary[Any, list[Worker]] = WeakKeyDictionary()


@dataclass(frozen=True, order=True)
class Worker:
    """What a worker said of itself.

    Attributes:
        host: its machine.
        python: its interpreter.
        version: of this package, as it was installed there; "" where it was not installed.
        missing: the packages that it lacks.
        is_shipped: ours came along with the job (``--py-files``).
    """

    host: str
    python: str
    version: str
    missing: str
    is_shipped: bool


def check_workers(spark: SparkSession, *, is_live: bool) -> None:
    """Ask the workers of a cluster, once a session, whether they have what operators need.

    Args:
        spark: the session.
        is_live: whether live operators are to run there: Spark does not give them what came with the job.

    Raises:
        RunError: `WORKERS.NO_ANSWER`, `WORKERS.PACKAGE_MISSING`, `WORKERS.OTHER_VERSION`, `WORKERS.SHIPPED`.
    """
    if is_remote(spark):
        _check_remote(spark)
        return
    context = spark.sparkContext
    if str(context.master).split("[", maxsplit=1)[0] == "local":
        return
    if context not in _asked:
        _asked[context] = _ask(context)
    for worker in _asked[context]:
        check_worker(worker, is_live=is_live)


def _ask(context: SparkContext) -> list[Worker]:
    """What a worker for each core says.

    Raises:
        RunError: `WORKERS.NO_ANSWER`.
    """
    space: dict[str, Any] = {}
    exec(_LOOK, space)
    places = min(context.defaultParallelism, _MOST_ASKED)
    try:
        found = context.parallelize(range(places), places).mapPartitions(space["look"]).collect()
    except (Py4JJavaError, PySparkException) as error:
        reason = str(message_of(error)).splitlines()[0].rstrip(".")
        raise RunError("WORKERS.NO_ANSWER", reason=reason) from None
    return sorted({Worker(*one) for one in found})


def _check_remote(spark: SparkSession) -> None:
    """Bring our code to the workers behind Spark Connect, and ask one for each core what else it has; once a session.

    Raises:
        RunError: see `check_workers`.
    """
    if spark in _asked:
        return
    from pyspark.sql import functions as F

    engine: Any = engine_of(spark)
    engine.ship_code()
    space: dict[str, Any] = {}
    exec(_LOOK, space)
    places = min(engine.cores, _MOST_ASKED)
    try:
        told = spark.range(0, places, 1, places).select(F.udf(space["tell"])("id")).collect()
    except PySparkException as error:
        reason = str(message_of(error)).splitlines()[0].rstrip(".")
        raise RunError("WORKERS.NO_ANSWER", reason=reason) from None
    found = sorted({Worker(*one) for (text,) in told for one in json.loads(text)})
    for worker in found:
        check_worker(worker, is_live=False)
    _asked[spark] = found


def check_worker(worker: Worker, *, is_live: bool) -> None:
    """Refuse a worker that cannot run operators.

    Raises:
        RunError: see `check_workers`.
    """
    place = f"{worker.python} on {worker.host}"
    if worker.missing:
        raise RunError("WORKERS.PACKAGE_MISSING", missing=worker.missing, place=place, version=__version__)
    if worker.version and not worker.is_shipped and worker.version != __version__:
        raise RunError("WORKERS.OTHER_VERSION", found=worker.version, place=place, version=__version__)
    if worker.is_shipped and is_live:
        raise RunError("WORKERS.SHIPPED", place=place, version=__version__)
