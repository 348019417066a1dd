"""What cannot be stored: said before anything is made."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sqlx.errors import UnsupportedError
from sqlx.plan.compiler import compile_query
from sqlx.sessions.stored import store, stored_head
from sqlx.sql.tokens import tokenize
from tests.harness.fake_binder import BINDER


def test_the_body_of_a_function_is_a_query() -> None:
    body = "1 + (SELECT count(*) FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k)"
    text = f"CREATE TEMPORARY FUNCTION f() RETURNS BIGINT RETURN {body}"
    head = stored_head(text, tokenize(text))
    assert head is not None
    assert (head.kind, head.parts, head.query, head.temporary) == ("function", ("f",), body, True)
    with pytest.raises(UnsupportedError) as caught:
        store(head, compile_query(body, BINDER, in_session=False), cast("Any", None))
    assert str(caught.value) == (
        "[UNSUPPORTED.FUNCTION_BODY] A SQL function whose body is an expression is read by Spark without sqlx, so it "
        "cannot hold temporal clauses. SQLSTATE: 0A000\n"
        f"LINE 1: {body}\n        {'^' * len(body)}\nHINT: Let the body be a query: RETURN SELECT …."
    )
