"""Brings jars from Maven Central into a folder: each is checked against its checksum before it gets its name."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from sqlx.connectors.artifacts import Artifact
from sqlx.errors import RunError

#: Another repository of Maven's layout, for instance a company's mirror.
REPOSITORY_VARIABLE = "SQLX_MAVEN_REPOSITORY"
CENTRAL = "https://repo.maven.apache.org/maven2"
_AT_ONCE = 4
_SECONDS = 60


def fetch(
    artifacts: Iterable[Artifact], folder: Path, told: Callable[[Artifact], None] = lambda _artifact: None
) -> list[Artifact]:
    """Fetch the jars that a folder lacks.

    Args:
        artifacts: what is wanted.
        folder: where it goes; made where it is missing.
        told: is called with each jar that has come.

    Returns:
        The jars that were fetched; those that were there with the right checksum are left alone.

    Raises:
        RunError: a jar cannot be had, or is not the one that its checksum says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [artifact for artifact in artifacts if not is_there(artifact, folder)]

    def one(artifact: Artifact) -> None:
        _fetch_one(artifact, folder)
        told(artifact)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(one, missing))
    return missing


def is_there(artifact: Artifact, folder: Path) -> bool:
    """Whether the folder has the jar, whole."""
    file = folder / artifact.file
    return file.is_file() and _sha256(file.read_bytes()) == artifact.sha256


def repository() -> str:
    """Where jars come from."""
    return os.environ.get(REPOSITORY_VARIABLE, "").rstrip("/") or CENTRAL


def _fetch_one(artifact: Artifact, folder: Path) -> None:
    url = f"{repository()}/{artifact.path}"
    try:
        with urlopen(url, timeout=_SECONDS) as answer:
            content = answer.read()
    except (OSError, URLError, ValueError) as error:
        raise RunError("CONNECTOR.NOT_FETCHED", url=url, reason=str(getattr(error, "reason", error))) from error
    found = _sha256(content)
    if found != artifact.sha256:
        raise RunError("CONNECTOR.CHECKSUM", url=url, found=found, wanted=artifact.sha256)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as draft:  # a reader sees a whole jar, or none
        draft.write(content)
    Path(draft.name).chmod(0o644)
    Path(draft.name).rename(folder / artifact.file)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
