"""Folders through Hadoop's file systems: a checkpoint may lie on a disk, in HDFS or in an object store."""

from __future__ import annotations

import os.path
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder:
    """A folder that may not exist yet.

    Args:
        spark: the session; its Hadoop configuration is used.
        path: a path or URI; a relative one is meant from where the user is.

    Attributes:
        path: the whole URI.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm: Any = jvm
        given = jvm.org.apache.hadoop.fs.Path(absolute(path))
        java: Any = spark._jsparkSession
        self._system = given.getFileSystem(java.sessionState().newHadoopConf())
        self._folder = self._system.makeQualified(given)
        self.path = str(self._folder.toString())

    @property
    def shown(self) -> str:
        """The path for people: local ones without their scheme."""
        return self.path.removeprefix("file://").removeprefix("file:")

    @property
    def exists(self) -> bool:
        """Whether something is there."""
        return bool(self._system.exists(self._folder))

    @property
    def is_file(self) -> bool:
        """Whether it is a file."""
        return self.exists and not self._system.getFileStatus(self._folder).isDirectory()

    def names(self, inner: str = "") -> list[str]:
        """The names of what is in the folder, or in one inside of it; () where there is none."""
        folder = self._inside(inner) if inner else self._folder
        if not self._system.exists(folder):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(folder))

    def read(self, name: str) -> str | None:
        """The text of a file, or None where there is none."""
        path = self._inside(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return bytes(stream.readAllBytes()).decode("utf-8", "replace")
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file in one step: it is there whole, or not at all."""
        self._system.mkdirs(self._folder)
        draft = self._inside(f".{name}.{uuid.uuid4().hex}")
        stream = self._system.create(draft, True)
        stream.write(bytearray(text.encode("utf-8")))
        stream.close()
        self._system.rename(draft, self._inside(name))

    def delete(self) -> None:
        """Delete the folder with all that is in it."""
        self._system.delete(self._folder, True)

    def _inside(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)


def absolute(path: str) -> str:
    """A path as it is meant from where the user is.

    >>> absolute("s3a://bucket/x"), absolute("/x")
    ('s3a://bucket/x', '/x')
    """
    return path if ":" in path or path.startswith("/") else os.path.abspath(path)
