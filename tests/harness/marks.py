"""Cases of which the gate runs some."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def gated(cases: Iterable[Any], gate: Collection[Any]) -> list[Any]:
    """All cases as parameters; those that are not in `gate` wait for `make test-all`."""
    return [pytest.param(case, marks=() if case in gate else pytest.mark.full) for case in cases]
