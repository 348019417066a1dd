"""Folders of a checkpoint or a table, on a disk, in HDFS or in an object store: through Hadoop, or through a server."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.errors import AnalysisException

from udtf.engine.asking import probing
from udtf.engine.java import Py4JJavaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

#: The file that says what a folder belongs to.
NOTE: Final = "_sqlx.json"
#: The same written through a server, which can write folders of files only, and sees no name that begins with ``_``.
_NOTES: Final = "sqlx"
#: The folder of a lease on a checkpoint.
LEASE: Final = "_sqlx_lease"
_PATH, _FILES = "path", "binaryFile"


def last_number(names: Iterable[str]) -> int:
    """The greatest number that a name of a log is, or begins with; -1 where there is none.

    >>> last_number(["7", "9.compact", ".8.crc"]), last_number([])
    (9, -1)
    """
    begins = (name.partition(".")[0] for name in names)
    return max((int(text) for text in begins if text.isdigit()), default=-1)


class UnreadableError(Exception):
    """A file is there and cannot be read."""


class Folder(Protocol):
    """A folder that may not exist yet.

    Attributes:
        path: the whole URI.
    """

    path: str

    @property
    def shown(self) -> str:
        """The path for people: local ones without their scheme."""
        ...

    @property
    def is_file(self) -> bool:
        """Whether it is a file."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether nothing that counts is in it, or it is not there."""
        ...

    def names(self, inner: str = "") -> list[str]:
        """The names of what is in the folder, or in one inside of it; () where there is none."""
        ...

    def has_log(self, *names: str) -> bool:
        """Whether the log of a table, which is a folder of one of these names, has entries."""
        ...

    def noted(self) -> str | None:
        """The text that says what the folder belongs to, or None.

        Raises:
            UnreadableError: it is there and cannot be read.
        """
        ...

    def note(self, text: str) -> None:
        """Say what the folder belongs to."""
        ...

    def delete(self) -> None:
        """Delete the folder with all that is in it."""
        ...


def _shown(path: str) -> str:
    return path.removeprefix("file://").removeprefix("file:")


class HadoopFolder:
    """Through Hadoop's file systems, in the process of the driver.

    Args:
        spark: the session; its Hadoop configuration is used.
        path: an absolute path or a URI.

    Attributes:
        path: the whole URI.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm: Any = jvm
        given = jvm.org.apache.hadoop.fs.Path(path)
        java: Any = spark._jsparkSession
        self._system = given.getFileSystem(java.sessionState().newHadoopConf())
        self._folder = self._system.makeQualified(given)
        self.path = str(self._folder.toString())

    @property
    def shown(self) -> str:
        """The path for people."""
        return _shown(self.path)

    @property
    def exists(self) -> bool:
        """Whether something is there."""
        return bool(self._system.exists(self._folder))

    @property
    def is_file(self) -> bool:
        """Whether it is a file."""
        return self.exists and not self._system.getFileStatus(self._folder).isDirectory()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it but hidden files, a lease, and what a server leaves of a folder that it deleted."""
        return all(name.startswith(".") or name in ("_SUCCESS", LEASE) for name in self.names())

    def names(self, inner: str = "") -> list[str]:
        """The names of what is in the folder, or in one inside of it; () where there is none."""
        folder = self._inside(inner) if inner else self._folder
        if not self._system.exists(folder):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(folder))

    def has_log(self, *names: str) -> bool:
        """Whether one of them has files."""
        return any(self.names(name) for name in names)

    def noted(self) -> str | None:
        """The text of the note, from wherever it was written."""
        try:
            text = self.read(NOTE)
            if text is None:
                of_server = [name for name in self.names(_NOTES) if name.startswith("part-")]
                text = "".join(filter(None, (self.read(f"{_NOTES}/{name}") for name in of_server))) or None
        except Py4JJavaError as error:  # such as Hadoop's checksum
            msg = f"{NOTE}: {error.java_exception.getMessage()}"
            raise UnreadableError(msg) from error
        return text

    def note(self, text: str) -> None:
        """Write the note."""
        self.write(NOTE, text)

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
        if not self._system.rename(draft, self._inside(name)):  # there is one already
            self._replace(draft, self._inside(name))

    def _replace(self, draft: Any, path: Any) -> None:
        """In one step where the file system has one for that."""
        hadoop: Any = self._jvm.org.apache.hadoop.fs
        try:
            overwrite = self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename").getEnumConstants()[1]
            how = self._jvm.java.lang.reflect.Array.newInstance(overwrite.getClass(), 1)
            self._jvm.java.lang.reflect.Array.set(how, 0, overwrite)
            hadoop.FileContext.getFileContext(self._system.getUri(), self._system.getConf()).rename(draft, path, how)
        except Py4JJavaError:
            self._system.delete(path, False)
            self._system.rename(draft, path)

    def create(self, name: str, text: str) -> bool:
        """Write a file that is not there yet; False where it is."""
        self._system.mkdirs(self._folder)
        try:
            stream = self._system.create(self._inside(name), False)
        except Py4JJavaError:
            if self._system.exists(self._inside(name)):
                return False
            raise
        stream.write(bytearray(text.encode("utf-8")))
        stream.close()
        return True

    def touch(self, name: str) -> None:
        """Write an empty file anew, so that it is a later one."""
        self._system.create(self._inside(name), True).close()

    def modified_ms(self, name: str) -> int:
        """When a file was written, by the clock of its file system, milliseconds; 0 where there is none."""
        path = self._inside(name)
        return int(self._system.getFileStatus(path).getModificationTime()) if self._system.exists(path) else 0

    def seconds_old(self, name: str) -> float:
        """For how long a file that is there has been there."""
        return time.time() - self.modified_ms(name) / 1000

    def make(self, inner: str) -> None:
        """Make a folder inside of it."""
        self._system.mkdirs(self._inside(inner))

    def move(self, inner: str, to: str) -> None:
        """Move what is inside of it, where it is there, to another place inside of it."""
        if self._system.exists(self._inside(inner)):
            self._system.rename(self._inside(inner), self._inside(to))

    def date(self, name: str, ms: int) -> bool:
        """Say that a file was written at some time; False where its file system keeps its own time (object stores)."""
        self._system.setTimes(self._inside(name), ms, -1)
        return self.modified_ms(name) == ms

    def delete(self) -> None:
        """Delete the folder with all that is in it."""
        self._system.delete(self._folder, True)

    def _inside(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)


class ServedFolder:
    """Through a server of Spark Connect, by reading and writing with its data sources: there is no other way to files.

    Args:
        spark: the session.
        path: a path or URI, as the server reads it.

    Attributes:
        path: the same.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self.path = spark, path

    @property
    def shown(self) -> str:
        """The path for people."""
        return _shown(self.path)

    @property
    def is_file(self) -> bool:
        """Whether reading it lists the file itself."""
        return any(_shown(path) == self.shown for path in self._listed(self.path))

    @property
    def is_empty(self) -> bool:
        """Whether no file is in it at any depth, hidden ones aside."""
        return not self._listed(self.path, most=1, recursiveFileLookup="true")

    def names(self, inner: str = "") -> list[str]:
        """The names of its files; folders in it are not seen."""
        return sorted(path.rpartition("/")[2] for path in self._listed(f"{self.path}/{inner}".rstrip("/")))

    def has_log(self, *names: str) -> bool:
        """Logs are not seen; a table that has one has files, and Spark lists those that are in its log."""
        del names
        return not self.is_empty

    def noted(self) -> str | None:
        """The text of the note of such a session; that of a session with a JVM is not seen."""
        try:
            with probing():
                rows = self._spark.read.text(f"{self.path}/{_NOTES}", wholetext=True).collect()
        except AnalysisException:
            return None
        return "".join(str(row[0]) for row in rows) or None

    def note(self, text: str) -> None:
        """Write the note as a folder of one file."""
        frame = self._spark.createDataFrame([(text,)], "value STRING")
        frame.coalesce(1).write.mode("overwrite").text(f"{self.path}/{_NOTES}")

    def delete(self) -> None:
        """Overwrite the folder with nothing, which leaves an empty folder."""
        nothing = self._spark.range(0).selectExpr("'' AS value", "id")
        nothing.write.mode("overwrite").partitionBy("id").text(self.path)

    def _listed(self, path: str, most: int | None = None, **options: str) -> list[str]:
        try:
            with probing():
                found = self._spark.read.format(_FILES).options(**options).load(path).select(_PATH)
                rows = (found if most is None else found.limit(most)).collect()
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error.getCondition()):
                return []
            raise
        return [str(row[0]) for row in rows]
