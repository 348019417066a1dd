"""Where a streaming table keeps the state of its operators: Spark's state store, or changelogs beside the checkpoint.

Why so: docs/design/20261125_changelog_folder.md.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from sqlx.errors import BindError
from udtf.engine import is_remote
from udtf.engine.executors import is_local
from udtf.engine.release import release_of
from udtf.engine.scratch import scratch_of
from udtf.engine.settings import whole_number
from udtf.spark.tasks import PARTITIONS, stream_conf
from udtf.stream.blob_files import LEAST_BYTES, BlobFolder
from udtf.stream.spec import ChangelogFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.streaming.checkpoint import Checkpoint
    from sqlx.streaming.identity import Identity

SETTING: Final = "sqlx.state_backend"
STORE, CHANGELOG = "store", "changelog"
#: From how many bytes on rows go from one worker to another in a file.
BLOB_BYTES: Final = "sqlx.blob_file_bytes"
#: Said where the setting asks for what cannot be.
NOTE: Final = "`{name}` keeps its state in Spark's state store, not as a changelog: {reason}."
#: Spark sees no state in such a query, and may plan each micro-batch anew while it runs: partitions have to stay.
_UNCHANGED_PLAN: Final = {"spark.sql.adaptive.streaming.stateless.enabled": "false"}
#: On a disk Spark would start ten programs (``readlink``, ``chmod``) for each file of its logs; its other way to write
#: them starts two. Why so: docs/design/20261127_small_waits.md.
_LOG_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
_PLAIN_FILES: Final = "FileSystemBasedCheckpointFileManager"
_ASYNC: Final = "asyncprogresstrackingenabled"


def chosen(spark: SparkSession, text: str) -> str | None:
    """What the session's setting asks for; None where it says nothing.

    Raises:
        BindError: there is no such place.
    """
    found = str(spark.conf.get(SETTING, "") or "").strip().lower()
    if found not in ("", STORE, CHANGELOG):
        raise BindError("STREAMING.STATE_BACKEND", text, (0, len(text.rstrip())), found=found, setting=SETTING)
    return found or None


def misfit(spark: SparkSession, checkpoint: Checkpoint | None, options: dict[str, str]) -> str:
    """Why a query cannot keep its state as changelogs; "" where it can."""
    if is_remote(spark):
        return "over Spark Connect nobody can say that the workers see the folder of the checkpoint"
    if checkpoint is None:
        return "it has no checkpoint"
    if changelog_path(checkpoint) is None:
        return f"workers write it as files of a disk, and the checkpoint is in {checkpoint.folder.shown}"
    if any(name.lower() == _ASYNC for name in options):
        return "it begins micro-batches before the ones before them are committed (asyncProgressTrackingEnabled)"
    return ""


def start_conf(spark: SparkSession, path: str | None, *, has_changelogs: bool) -> dict[str, str]:
    """What to set while a query is started, beside what its operators want.

    Args:
        spark: the session.
        path: of its checkpoint; None is a temporary folder of Spark's.
        has_changelogs: its state is in them.
    """
    found = dict(_UNCHANGED_PLAN) if has_changelogs else {}
    if path is not None and local_path(path) is not None and spark.conf.get(_LOG_FILES, None) is None:
        package = "org.apache.spark.sql.execution.streaming"
        package += "" if release_of(spark.version) == (4, 0) else ".checkpointing"
        found[_LOG_FILES] = f"{package}.{_PLAIN_FILES}"
    return found


def folder_for(spark: SparkSession, checkpoint: Checkpoint, stored: Identity | None, tasks: int) -> ChangelogFolder:
    """Where its changelogs are, and over how many partitions its tasks are spread."""
    path = changelog_path(checkpoint)
    assert path is not None, "said to fit"
    return changelogs_in(spark, path, tasks, stored.partitions if stored is not None else 0)


def changelogs_in(spark: SparkSession, path: str, tasks: int, partitions: int = 0) -> ChangelogFolder:
    """The changelogs of a query that starts now.

    Args:
        spark: the session.
        path: of their folder.
        tasks: of the query.
        partitions: over how many they are spread; 0 is as many as such a query has.

    Raises:
        SettingError: `SETTING.NUMBER`: a setting is no number.
    """
    blobs = None
    if is_local(spark):
        own = scratch_of(spark) / f"blobs-{uuid.uuid4().hex}"
        blobs = BlobFolder(str(own), whole_number(spark, BLOB_BYTES, LEAST_BYTES))
    return ChangelogFolder(path, partitions or int(stream_conf(spark, tasks)[PARTITIONS]), blobs)


def changelog_path(checkpoint: Checkpoint) -> str | None:
    """The folder of a checkpoint that has the changelogs; None where it is on no disk."""
    path = local_path(checkpoint.path)
    return None if path is None else f"{path}/changelog"


def local_path(path: str) -> str | None:
    """The path of a folder on a disk, of a path as Hadoop writes it; None where it is elsewhere.

    >>> local_path("file:///tmp/50%#1"), local_path("/tmp/a"), local_path("hdfs://one/tmp")
    ('/tmp/50%#1', '/tmp/a', None)
    """
    scheme, _, rest = path.partition(":/")
    if scheme == "file":
        return f"/{rest.lstrip('/')}"
    return path if path.startswith("/") else None
