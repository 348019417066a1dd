"""What other processes may have taken: ports, and the folder of a warehouse."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sqlx.doctor.finding import Finding
from sqlx.serving.options import refusal

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
