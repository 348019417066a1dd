from __future__ import annotations

import pytest

from sqlx.sql.expressions import split_conjuncts
from sqlx.sql.tokens import tokenize


def operators(text: str) -> list[tuple[str, str]]:
    return [(c.span.of(text), c.operator) for c in split_conjuncts(tokenize(text))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.x = b.x", [("a.x = b.x", "=")]),
        ("a.x == b.x", [("a.x == b.x", "=")]),
        ("a.x <=> b.x", [("a.x <=> b.x", "<=>")]),
        ("((a = b) AND (c >= d))", [("a = b", "="), ("c >= d", ">=")]),
        ("(a = b AND c < d) AND (e)", [("a = b", "="), ("c < d", "<"), ("e", "")]),
        ("(a) = (b)", [("(a) = (b)", "=")]),
        ("a = b OR c = d", [("a = b OR c = d", "")]),
        ("a = b AND (c = d OR e = f)", [("a = b", "="), ("c = d OR e = f", "")]),
        ("NOT a = b", [("NOT a = b", "")]),
        ("! a = b", [("! a = b", "")]),
        ("a <> b AND c != d", [("a <> b", ""), ("c != d", "")]),
        ("a BETWEEN b AND c AND d = e", [("a BETWEEN b AND c", ""), ("d = e", "=")]),
        ("a BETWEEN 1 AND 2 AND b BETWEEN 3 AND 4", [("a BETWEEN 1 AND 2", ""), ("b BETWEEN 3 AND 4", "")]),
        ("a = CASE WHEN b AND c THEN d END", [("a = CASE WHEN b AND c THEN d END", "=")]),
        ("CASE WHEN a = b AND c THEN d END", [("CASE WHEN a = b AND c THEN d END", "")]),
        ("a = b = c", [("a = b = c", "")]),
        ("a = f(b AND c)", [("a = f(b AND c)", "=")]),
        ("a IN (SELECT b FROM c WHERE d = e AND f)", [("a IN (SELECT b FROM c WHERE d = e AND f)", "")]),
        ("(SELECT a AND b)", [("(SELECT a AND b)", "")]),
        ("exists(xs, x -> x = 1 AND x > 0)", [("exists(xs, x -> x = 1 AND x > 0)", "")]),
        ("a = b IS TRUE", [("a = b IS TRUE", "")]),
        ("true", [("true", "")]),
    ],
)  # fmt: skip
def test_conjuncts_and_their_comparisons(text: str, found: list[tuple[str, str]]) -> None:
    assert operators(text) == found


def test_both_sides_of_a_comparison() -> None:
    (conjunct,) = split_conjuncts(tokenize("upper(a.k) || 'x' = b.`k y`"))
    assert "".join(t.text for t in conjunct.left) == "upper(a.k)||'x'"
    assert "".join(t.text for t in conjunct.right) == "b.`k y`"
