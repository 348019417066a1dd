"""Where files of one process go: the folders that Spark was given for that (``spark.local.dir``)."""

from __future__ import annotations

import os


def first_folder(listed: str) -> str | None:
    """The first of folders as Spark lists them; None, which is the system's to ``tempfile``, where it cannot be used.

    >>> first_folder("") is None, first_folder("/no/such/folder,/tmp") is None
    (True, True)
    """
    first = listed.split(",")[0]
    return first if os.access(first, os.W_OK | os.X_OK) else None
