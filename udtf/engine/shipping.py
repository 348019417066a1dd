"""How the code of the workers reaches those that do not have it: as an archive, or inside of what Spark sends them."""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from udtf.local_folder import scratch_folder

_HOME = Path(__file__).parents[1]

#: Functions of live queries bring their code along. The workers of a live query look for what came with a session in
#: the wrong folder (Spark 4.2); those with state, and the process beside the driver that looks at a processor before
#: its query starts, are given nothing that came with a job or a session at all. Where the same archive lies in the
#: folder of the executor all the same, that one is taken: it has compiled loops in it.
#: It is text here, since what is of a module would travel as the name of that module.
_CARRIERS = """
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

def unpacked(carried, name, archive):
    import glob, os, pickle, stat, sys, tempfile, uuid

    try:
        import udtf
    except ImportError:
        came = glob.glob(name) + glob.glob(os.path.join("*", name))
        if came:
            sys.path.insert(0, os.path.abspath(came[0]))
            return pickle.loads(carried)
        folder = os.path.join(tempfile.gettempdir(), f"sqlx-code-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise OSError(f"{folder} is not a private directory of this user")
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            draft = f"{path}.{uuid.uuid4().hex}"
            with open(draft, "wb") as out:
                out.write(archive)
            os.replace(draft, path)
        sys.path.insert(0, path)
    return pickle.loads(carried)

def carrying(*carried):
    def carrier(*given):
        return unpacked(*carried)(*given)

    return carrier

class Carrier(StatefulProcessor):
    def __init__(self, *carried):
        self.carried = carried

    def init(self, handle):
        self.real = unpacked(*self.carried)
        self.real.init(handle)

    def handleInputRows(self, key, rows, timerValues):
        return self.real.handleInputRows(key, rows, timerValues)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        return self.real.handleExpiredTimer(key, timerValues, expiredTimerInfo)

    def close(self):
        self.real.close()
"""


@cache
def archive() -> Path:
    """The package of the workers as a zip file, which Python imports from; its name says what code is in it.

    What of it is compiled here comes along, so that a worker like this machine need not compile it.
    """
    path = Path(scratch_folder(None), _name())
    _zip(path, [*_sources(), *compiled_loops()])
    return path


def compiled_loops() -> list[Path]:
    """What of the loops was compiled by this Python, beside their sources: in use, or by `sqlx warm`."""
    mine = f".py{sys.version_info.major}{sys.version_info.minor}."
    return [file for file in sorted(_HOME.rglob("__pycache__/*.nb[ci]")) if mine in file.name]


@cache
def _code() -> bytes:
    """The same without what is compiled: each stage of a live query carries it."""
    content = io.BytesIO()
    _zip(content, _sources())
    return content.getvalue()


@cache
def _name() -> str:
    contents = hashlib.sha256(b"".join(file.read_bytes() for file in _sources())).hexdigest()[:16]
    return f"sqlx_udtf_{contents}.zip"


def _sources() -> list[Path]:
    return sorted(_HOME.rglob("*.py"))


def _zip(target: Path | io.BytesIO, files: list[Path]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            packed.write(file, file.relative_to(_HOME.parent))


def carried_processor(processor: Any) -> Any:
    """A processor of ours in one that needs nothing of ours where it is unpacked.

    Args:
        processor: a `StatefulProcessor`.
    """
    return _carriers()["Carrier"](*_carried(processor))


def carried_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a function over batches, or over a micro-batch and its number."""
    found: Callable[..., Any] = _carriers()["carrying"](*_carried(function))
    return found


def _carriers() -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "__main__"}  # what is of no module that could be imported travels whole
    exec(_CARRIERS, space)
    return space


def _carried(ours: Any) -> tuple[bytes, str, bytes]:
    return cloudpickle.dumps(ours), _name(), _code()  # type: ignore[no-untyped-call]
