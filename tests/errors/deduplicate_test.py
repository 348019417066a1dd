"""Every wrong DEDUPLICATE of ``deduplicate.txt`` with its whole error. `--complete` rewrites it.

A case that begins with LIVE is compiled for live rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.errors.query_test import error_of
from tests.harness.refusals import check_refusals

CASES = Path(__file__).with_name("deduplicate.txt")


def test_wrong_deduplications_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    check_refusals(CASES, error_of, golden)
