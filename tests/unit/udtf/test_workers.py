"""What a Python worker keeps out of the garbage collector's sight."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator

import pytest

from udtf.spark import workers


@pytest.fixture(autouse=True)
def _unsettled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "_settled", 0)
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_is_loaded_is_frozen_and_what_comes_later_is_collected() -> None:
    workers.freeze_loaded_modules()
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() >= 1
    assert gc.get_freeze_count() <= frozen  # another thread may have let go of a frozen object


def test_it_is_frozen_again_only_when_a_module_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    workers.freeze_loaded_modules()
    frozen = gc.get_freeze_count()
    held = [[number] for number in range(100)]
    workers.freeze_loaded_modules()
    assert gc.get_freeze_count() <= frozen
    monkeypatch.setitem(sys.modules, "a_module_that_has_come", types.ModuleType("a_module_that_has_come"))
    workers.freeze_loaded_modules()
    assert gc.get_freeze_count() >= frozen + len(held)
