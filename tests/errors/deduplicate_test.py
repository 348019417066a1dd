"""Every wrong DEDUPLICATE of ``deduplicate.txt`` with its whole error. `--complete` rewrites it.

A case that begins with LIVE is compiled for live rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.errors.query_test import CASE, STATEMENT, error_of

CASES = Path(__file__).with_name("deduplicate.txt")


def test_wrong_deduplications_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    cases = [case.split(STATEMENT)[0] for case in CASES.read_text(encoding="utf-8").rstrip("\n").split(CASE)]
    found = [error_of(case) for case in cases]
    assert [case for case, error in zip(cases, found, strict=True) if error == "no error"] == []
    golden(CASES, CASE.join(f"{case}{STATEMENT}{error}" for case, error in zip(cases, found, strict=True)) + "\n")
