"""Processes of Spark's beside the tests: started, waited for by what they log, and ended with all that they started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO


@contextmanager
def running(
    command: Sequence[str], says: str, folder: Path, environment: Mapping[str, str], log: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process for the block, from the line of its log on that says that it has started.

    Args:
        command: what to start.
        says: a part of that line.
        folder: where it runs, and its log is.
        environment: its variables, in the place of those of Python here.
        log: the name of its log.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "SPARK"))}
    process = subprocess.Popen(
        command,
        env=own | {"TZ": "UTC", **environment},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        _await(process.stderr, says)
        Thread(target=_drain, args=(process.stderr, folder / log), daemon=True).start()  # the pipe must not fill up
        yield process
    finally:
        _end(process)
        process.stderr.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """It is asked to; what has not ended after a minute, as a stock server on a busy machine, is killed."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def _await(pipe: IO[bytes], says: str) -> None:
    seen = []
    for line in pipe:
        seen.append(line.decode(errors="replace"))
        if says in seen[-1]:
            return
    message = "it did not start:\n" + "".join(seen[-30:])
    raise AssertionError(message)


def _drain(pipe: IO[bytes], log: Path) -> None:
    with log.open("ab") as out:
        for line in pipe:
            out.write(line)
