"""An archive of the classes that Java loads when Spark starts: with it a start takes a third less time.

Java reads and checks some fourteen thousand classes of Spark anew in each process. An archive (JEP 350) has them as
they are after that, mapped into memory. It is of one Java and one installation of PySpark; another one leaves it alone.
`sqlx warm` makes it. Why so: docs/design/20261126_class_archive.md.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from sqlx.connectors.jars import cache_folder
from sqlx.errors import RunError

if TYPE_CHECKING:
    from sqlx.sessions.java import JavaHome

#: Another file for the archive; "" is none.
VARIABLE: Final = "SQLX_CLASS_ARCHIVE"
#: Options of Java that Spark's launcher reads.
_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
#: What does not fit, such as another garbage collector, is done without, and not worth a word.
_QUIET: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
_SECONDS: Final = 600


def archive_of(java: JavaHome) -> Path | None:
    """Where the archive of a Java and of the PySpark in use is, or would be; None where the environment wants none."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given).expanduser().absolute() if given else None
    place = hashlib.sha1(f"{java.path} {pyspark.__file__}".encode(), usedforsecurity=False).hexdigest()[:12]
    return cache_folder() / f"classes-java{java.version}-pyspark{pyspark.__version__}-{place}.jsa"


@contextmanager
def used(java: JavaHome) -> Iterator[None]:
    """Within it a Java that starts takes its archive, where there is one."""
    archive = archive_of(java)
    if archive is None or not archive.is_file():
        yield
        return
    with _options(f"{shlex.quote(f'-XX:SharedArchiveFile={archive}')} {_QUIET}"):
        yield


def make(java: JavaHome, archive: Path) -> None:
    """Make an archive of what is loaded by a bounded and a live query, in a process of its own.

    Raises:
        RunError: `JAVA_NO_CLASS_ARCHIVE`.
    """
    draft = archive.with_name(f".{archive.name}.{uuid.uuid4().hex}")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        reason = _written(java, draft)
        if not reason:
            draft.replace(archive)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    finally:
        with suppress(OSError):
            draft.unlink()
    if reason:
        raise RunError("JAVA_NO_CLASS_ARCHIVE", java=java.version, reason=reason.rstrip("."))


def _written(java: JavaHome, draft: Path) -> str:
    """Let a process write it at its end; why there is none, or ""."""
    with _options(shlex.quote(f"-XX:ArchiveClassesAtExit={draft}")):
        environment = {**os.environ, VARIABLE: "", "JAVA_HOME": str(java.path)}
    command = [sys.executable, "-m", "sqlx.sessions.warming"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode == 0 and draft.is_file():
        return ""
    said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return said[-1] if said else "it made no file"


@contextmanager
def _options(further: str) -> Iterator[None]:
    before = os.environ.get(_OPTIONS)
    os.environ[_OPTIONS] = f"{before or ''} {further}".strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ[_OPTIONS]
        else:
            os.environ[_OPTIONS] = before
