"""Where files of one process go: the folders that Spark was given for that (``spark.local.dir``), this user's own."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from functools import cache


def first_folder(listed: str) -> str | None:
    """The first of folders as Spark lists them; None, which is the system's to ``tempfile``, where it cannot be used.

    >>> first_folder("") is None, first_folder("/no/such/folder,/tmp") is None
    (True, True)
    """
    first = listed.split(",")[0]
    return first if os.access(first, os.W_OK | os.X_OK) else None


@cache
def scratch_folder(beside: str | None) -> str:
    """A folder of this process alone, in one of those; it goes when the process ends."""
    path = tempfile.mkdtemp(prefix="sqlx-", dir=beside)
    atexit.register(_remove_own, path, os.getpid())
    return path


def _remove_own(path: str, owner: int) -> None:
    if os.getpid() == owner:  # what it has forked ends before it
        shutil.rmtree(path, ignore_errors=True)


def private_folder(name: str) -> str:
    """A folder of this user alone among the system's temporary ones, made if it is missing: what is in it is trusted.

    Raises:
        OSError: it cannot be made, or others have a part in it.
    """
    path = os.path.join(tempfile.gettempdir(), name)
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        message = f"{path} is not a private directory of this user"
        raise OSError(message)
    return path
