"""What cannot be stored: said before anything is made."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sqlx.errors import BindError, UnsupportedError
from sqlx.plan.compiler import compile_query
from sqlx.sessions.stored import parameters_named, store, stored_head
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


def test_a_parameter_of_a_function_is_unknown_to_an_operator_and_said_to_be_one() -> None:
    body = "SELECT * FROM orders DEDUPLICATE WITHIN INTERVAL 1 DAY BY (kk) ON TIME ts"
    text = f"CREATE FUNCTION f(n INT, kk STRING) RETURNS TABLE(id INT) RETURN {body}"
    with pytest.raises(UnsupportedError) as caught, parameters_named(stored_head(text, tokenize(text))):
        compile_query(body, BINDER, in_session=False)
    assert str(caught.value) == (
        "[UNSUPPORTED.FUNCTION_PARAMETER] `kk` is a parameter of the function: its value is known row by row where the "
        "function is called, and not to this clause of an operator. SQLSTATE: 0A000\n"
        f"LINE 1: {body}\n{' ' * len('LINE 1: ' + body.partition('kk')[0])}^^\n"
        "HINT: Compare with it in a WHERE, or beside the keys in ON."
    )
    with pytest.raises(BindError), parameters_named(stored_head(text, tokenize(text))):
        compile_query(body.replace("kk", "other"), BINDER, in_session=False)
