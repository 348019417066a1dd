"""``sqlx pack``: what the workers of a cluster need, in files that Spark brings to them."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sqlx.cli.output import out
from sqlx.cli.progress import waiting
from sqlx.failures import CommandError

_NAME = "environment"
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go; the folder is made.")]
Whole = Annotated[
    bool, typer.Option("--environment", help="Also the Python environment that this runs in, for bare workers.")
]


def pack(folder: Folder, environment: Whole = False) -> None:
    """Write what workers need: the code that they run as a zip, and with --environment all of this Python environment.

    A session brings the code to workers that lack it by itself; the zip is for those who want it in --py-files, or in
    addArtifacts of a session of Spark Connect. Loops that are compiled here come along. The environment is packed by
    conda-pack where it is one of conda's, else by venv-pack, whose archives need the same Python below them on every
    node. A link beside the archive lets a driver that is started in DIR find the environment where its workers have it.
    """
    from udtf.engine.shipping import archive, compiled_loops

    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        msg = f"{folder} is a file, not a folder."
        raise CommandError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    code = Path(shutil.copy(archive(), folder))
    loops = sum(file.suffix == ".nbi" for file in compiled_loops())
    _tell(code, f"the code of the workers, {loops} loops of it compiled", f"spark-submit --py-files {code} …")
    if not loops:
        out.print("  Workers compile what they run, some seconds each: `sqlx warm` before this does it for them.")
    if environment:
        packed = _packed(folder / f"{_NAME}.tar.gz")
        _link(folder / _NAME)
        python = f"--conf spark.pyspark.python=./{_NAME}/bin/python"
        use = f"cd {folder} && spark-submit --archives {packed}#{_NAME} {python} …"
        _tell(packed, "this Python environment; standalone, YARN and Kubernetes take it the same way", use)


def _link(path: Path) -> None:
    """Let the driver find this environment under the path that the workers unpack the archive to."""
    if path.is_symlink():
        path.unlink()
    try:
        path.symlink_to(sys.prefix, target_is_directory=True)
    except FileExistsError:
        msg = f"{path} is in the way of the link that the driver needs."
        raise CommandError(msg, "Name another folder, or move it away.") from None


def _tell(path: Path, what: str, use: str) -> None:
    out.print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {what}", soft_wrap=True)
    out.print(f"  {use}", soft_wrap=True)


def _packed(path: Path) -> Path:
    """The environment that this runs in as an archive."""
    is_conda = Path(sys.prefix, "conda-meta").is_dir()
    if not is_conda and sys.prefix == sys.base_prefix:
        msg = "This Python is not in an environment of its own, so there is nothing to pack."
        raise CommandError(msg, "Make one: python -m venv env, then env/bin/pip install 'sqlx-temporal[pack]'.")
    packer = _packer(is_conda)
    path.unlink(missing_ok=True)
    try:
        with waiting(f"Packing {sys.prefix}"):
            packer.pack(prefix=sys.prefix, output=str(path), compress_level=1)
    except Exception as error:
        path.unlink(missing_ok=True)
        if not type(error).__name__.endswith("PackException"):
            raise
        hint = "What was installed with pip install --editable has to be installed as it is: pip install ."
        raise CommandError(str(error).strip(), hint if "editable" in str(error) else "") from error
    return path


def _packer(is_conda: bool) -> Any:
    name = "conda-pack" if is_conda else "venv-pack"
    try:
        return importlib.import_module(name.replace("-", "_"))
    except ImportError:
        wanted = name if is_conda else "'sqlx-temporal[pack]'"
        msg = f"Packing this environment takes {name}, which is not installed."
        raise CommandError(msg, f"pip install {wanted}") from None
