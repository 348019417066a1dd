"""Cases of which the gate runs some, or an older PySpark every third."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from tests.harness.releases import RELEASE

#: The older releases share random programs out: what each is to show is the release, not once more the program.
_OLDER = ((4, 0), (4, 1), (4, 2))


def gated(cases: Iterable[Any], gate: Collection[Any]) -> list[Any]:
    """All cases as parameters; those that are not in `gate` wait for `make test-all`."""
    return [pytest.param(case, marks=() if case in gate else pytest.mark.full) for case in cases]


def seeds(count: int, gate: Collection[int]) -> list[Any]:
    """Seeds of random programs: all on the newest release, on an older one those of the gate and every third."""
    every = range(count)
    if RELEASE in _OLDER:
        every = [seed for seed in every if seed in gate or seed % len(_OLDER) == _OLDER.index(RELEASE)]
    return gated(every, gate)
