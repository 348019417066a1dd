"""What `sqlx pack` writes, and what it says where it cannot."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from sqlx.cli import pack as packing
from sqlx.cli.app import app
from sqlx.failures import CommandError


class VenvPackException(Exception):  # its name in venv-pack
    """What venv-pack raises."""


def said(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["pack", *arguments])
    return done.exit_code, done.output


def with_packer(monkeypatch: pytest.MonkeyPatch, pack: Any) -> None:
    monkeypatch.setattr(packing, "_packer", lambda _: SimpleNamespace(pack=pack))


def test_the_code_is_a_zip_that_python_imports_from(tmp_path: Path) -> None:
    code, text = said(str(tmp_path / "new" / "out"))
    (path,) = (tmp_path / "new" / "out").iterdir()
    assert (code, f"spark-submit --py-files {path}" in text) == (0, True)
    assert {"udtf/__init__.py", "udtf/engine/shipping.py"} <= set(ZipFile(path).namelist())


def test_the_environment_is_packed_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def pack(**given: Any) -> None:
        asked.update(given)
        Path(given["output"]).write_bytes(b"archive")

    with_packer(monkeypatch, pack)
    code, text = said(str(tmp_path), "--environment")
    assert (code, asked["prefix"]) == (0, sys.prefix)
    line = f"--archives {tmp_path}/environment.tar.gz#environment --conf spark.pyspark.python=./environment/bin/python"
    assert f"cd {tmp_path} && spark-submit {line}" in text
    assert (tmp_path / "environment").resolve() == Path(sys.prefix).resolve()
    assert said(str(tmp_path), "--environment")[0] == 0, "a second time"
    (tmp_path / "environment").unlink()
    (tmp_path / "environment").mkdir()
    assert "is in the way of the link" in said(str(tmp_path), "--environment")[1]


def test_what_cannot_be_packed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pack(**_: Any) -> None:
        message = "Cannot pack an environment with editable packages"
        raise VenvPackException(message)

    with_packer(monkeypatch, pack)
    with pytest.raises(CommandError, match=r"editable packages\nHINT: .*pip install \."):
        packing._packed(tmp_path / "environment.tar.gz")
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(CommandError, match="not in an environment of its own"):
        packing._packed(tmp_path / "environment.tar.gz")


def test_a_packer_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "venv_pack", None)
    with pytest.raises(CommandError, match=r"takes venv-pack, which is not installed.\nHINT: pip install"):
        packing._packer(is_conda=False)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, text = said(str(tmp_path / "file"))
    assert (code, "is a file, not a folder" in text) == (1, True)
