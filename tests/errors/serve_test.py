from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sqlx.errors import RunError
from sqlx.serving.clients import Owners
from sqlx.serving.connect import too_many_rows
from sqlx.serving.guard import refusal_text


def test_too_many_rows_says_the_limit_and_what_to_write() -> None:
    assert str(too_many_rows(1000)) == (
        "[SERVE.TOO_MANY_ROWS] The result has more than 1000 rows, which is what this server allows. SQLSTATE: 54000\n"
        "HINT: Write LIMIT, filter or aggregate. The option --max-rows of sqlx serve sets the number."
    )


def test_what_clients_may_not_do_is_refused_with_who_may_allow_it() -> None:
    assert refusal_text().replace("{what}", "files in /etc") == (
        "[SERVE.REFUSED] This server does not take from its clients: files in /etc. SQLSTATE: 42501\n"
        "HINT: Whoever runs the server may allow it: --folder names further folders of files, --trust-users lets "
        "clients do whatever the server's process may."
    )


def test_who_may_end_a_stream_is_said() -> None:
    owners, query = Owners([lambda _: "bob"], ["boss"]), SimpleNamespace(name="t", owner="ann")
    session: Any = SimpleNamespace(_jsparkSession=SimpleNamespace(sessionUUID=lambda: "1"))
    with pytest.raises(RunError) as refused:
        owners.check(session, query)  # type: ignore[arg-type]
    assert str(refused.value) == (
        "[SERVE.NOT_YOURS] The streaming query `t` was started by ann: others do not stop or replace it. "
        "SQLSTATE: 42501\nHINT: Ask ann, or an administrator: whoever runs the server names them with --admin."
    )
