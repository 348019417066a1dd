"""Wrong texts beside their whole errors in one file: every one must be refused, and exactly so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

STATEMENT, CASE = "\n----\n", "\n====\n"


def check_refusals(path: Path, error_of: Callable[[str], str], golden: Callable[[Path, str], None]) -> None:
    """Compare the error of each text with the file; ``error_of`` says "no error" where there is none."""
    cases = [case.split(STATEMENT)[0] for case in path.read_text(encoding="utf-8").rstrip("\n").split(CASE)]
    found = [error_of(case) for case in cases]
    assert [case for case, error in zip(cases, found, strict=True) if error == "no error"] == []
    golden(path, CASE.join(f"{case}{STATEMENT}{error}" for case, error in zip(cases, found, strict=True)) + "\n")
