"""Golden plans: extended SQL, then every stage of what it becomes. `--complete` rewrites what is below a text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlx.sessions.explain import explain_plan
from tests.harness.fake_binder import compiled

PLANS = Path(__file__).parent / "plans"
STAGES, CASE = "\n----\n", "\n====\n"
LIVE = ("live_tables", "table_lookup", "window_aggregate")


def explained(case: str, live: bool) -> str:
    text = case.split("\n", 1)[1]
    stages = explain_plan(compiled(text, streaming=live))
    written = f"== Statement ==\n{text.strip()}\n\n"
    assert stages.startswith(written)
    return stages.removeprefix(written).strip()


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.sql")), ids=lambda path: path.stem)
def test_plans_are_those_in_the_file(path: Path, golden: Callable[[Path, str], None]) -> None:
    cases = [case.split(STAGES)[0] for case in path.read_text(encoding="utf-8").rstrip("\n").split(CASE)]
    found = [f"{case}{STAGES}{explained(case, path.stem in LIVE)}" for case in cases]
    assert all(case.startswith("# ") for case in cases)
    golden(path, CASE.join(found) + "\n")
