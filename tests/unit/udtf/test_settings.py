"""Settings that are numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from udtf.engine.settings import whole_number
from udtf.errors import SettingError


def session(**settings: str) -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=lambda name, usual: settings.get(name, usual)))


def test_they_are_read_and_nothing_is_the_usual() -> None:
    assert whole_number(session(), "sqlx.tasks", 16) == 16
    assert whole_number(session(**{"sqlx.tasks": " "}), "sqlx.tasks", 16) == 16
    assert whole_number(session(**{"sqlx.tasks": " 8 "}), "sqlx.tasks", 16, least=1) == 8
    assert whole_number(session(**{"sqlx.tasks": "0"}), "sqlx.tasks", 16) == 0


@pytest.mark.parametrize("value", ["many", "64MB", "1.5", "-1", "0"])
def test_what_is_no_such_number_is_refused(value: str) -> None:
    with pytest.raises(
        SettingError, match=f"sqlx.tasks must be a whole number of at least 1, and is `{value}`"
    ) as refused:
        whole_number(session(**{"sqlx.tasks": value}), "sqlx.tasks", 16, least=1)
    assert refused.value.condition == "SETTING.NUMBER"
