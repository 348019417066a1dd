"""Starts Spark for one command: quietly, and with a catalog in a folder where one is asked for."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlx.cli.output import note
from sqlx.cli.progress import waiting
from sqlx.failures import CommandError, is_lost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LINES_OF_LOG = 15
#: So often a server that has gone is asked again, for half a minute in all; Spark's client would try for ten.
_TRIES = 6


@contextmanager
def started(
    warehouse: Path | None, conf: Mapping[str, str] | None = None, remote: str = "", master: str = ""
) -> Iterator[SparkSession]:
    """A session for one command; it ends with the block.

    Args:
        warehouse: the folder of a catalog that stays; None for one that goes with the command.
        conf: further Spark configuration.
        remote: the URL of a server of Spark Connect, in the place of a Spark of our own.
        master: the URL of a cluster's master; "" is this machine.

    Raises:
        CommandError: the folder is a file, a server has its own, or Spark did not start.
        JavaError: there is no Java that Spark can run on.
        RunError: the server does not answer.
    """
    if remote:
        for option, given in (("--warehouse", warehouse), ("--master", master)):
            if given:
                msg = f"--remote and {option} do not go together."
                raise CommandError(msg, "The server of Spark Connect has a master and a warehouse of its own.")
        _quiet_loggers()
        spark = _connect(remote, conf or {})
        try:
            yield spark
        except Exception as error:
            _give_up_if_lost(spark, error)
            raise
        finally:
            spark.stop()
        return
    if warehouse is not None and warehouse.exists() and not warehouse.is_dir():
        msg = f"--warehouse takes a folder, and {warehouse} is a file."
        raise CommandError(msg)
    _quiet_loggers()
    with tempfile.TemporaryDirectory(prefix="sqlx-", ignore_cleanup_errors=True) as scratch:
        spark = _start(warehouse, Path(scratch), conf or {}, master)
        try:
            yield spark
        finally:
            spark.stop()


def _connect(url: str, conf: Mapping[str, str]) -> SparkSession:
    from sqlx.sessions import remote
    from sqlx.sessions import session as sessions

    with waiting(f"Connecting to {url}"):
        spark = sessions.session(conf=conf, remote=url)
        remote.give_up_after(spark, _TRIES)
        return spark


def _give_up_if_lost(spark: SparkSession, error: Exception) -> None:
    """A server that was asked for half a minute, and did not answer, is not asked again."""
    from sqlx.sessions import remote

    if is_lost(error):
        remote.give_up_after(spark, 0)


def _start(warehouse: Path | None, scratch: Path, further: Mapping[str, str], master: str) -> SparkSession:
    from sqlx.sessions import session as sessions

    conf = {"spark.ui.enabled": "false", **further}
    if warehouse is None:  # tables of a catalog in memory must not outlive it
        conf["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    log = scratch / "spark.log"
    try:
        with _stderr_of_children(log), waiting("Starting Spark"):
            where = None if warehouse is None else str(warehouse)
            return sessions.session(conf=conf, warehouse=where, master=master or None)
    except RuntimeError as error:  # PySpark's PySparkRuntimeError: Java ended before it answered
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        raise CommandError("\n".join(["Spark did not start.", *lines[-_LINES_OF_LOG:]])) from error


@contextmanager
def _stderr_of_children(log: Path) -> Iterator[None]:
    """Let the Java that starts in the block, and its Python workers, write their stderr into a file.

    Spark's log would write over results and shows stack traces; what matters comes back as an error. ``SQLX_DEBUG``
    leaves it on the terminal.
    """
    if os.environ.get("SQLX_DEBUG"):
        yield
        return
    ours, terminal = sys.stderr, os.dup(2)
    with (
        log.open("wb") as file,
        open(os.dup(terminal), "w", encoding="utf-8") as own,
    ):
        os.dup2(file.fileno(), 2)
        if ours is sys.__stderr__:
            sys.stderr = own
        try:
            yield
        finally:
            sys.stderr = ours
            os.dup2(terminal, 2)
            os.close(terminal)


def _quiet_loggers() -> None:
    """PySpark logs each error beside raising it; the compiler's remarks become notes."""
    from pyspark.logger import PySparkLogger

    if not os.environ.get("SQLX_DEBUG"):
        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    tell_remarks(note)


def tell_remarks(say: Callable[[str], None]) -> None:
    """Show what the compiler wants to say once; who asked first goes on showing it.

    Args:
        say: shows a line.
    """
    remarks = logging.getLogger("sqlx")
    # By its name: a notebook may have loaded this module anew.
    if not any(type(handler).__name__ == _Notes.__name__ for handler in remarks.handlers):
        remarks.addHandler(_Notes(say))
        remarks.propagate = False


class _Notes(logging.Handler):
    """What the compiler wants to say once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"NOTE: {record.getMessage()}")
