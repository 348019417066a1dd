from __future__ import annotations

from typing import Any

from sqlx.sessions.statements import substitute_parameters
from sqlx.sql.tokens import tokenize


class Literal:
    def __init__(self, text: str) -> None:
        self.text = text

    def sql(self) -> str:
        return self.text


class Values(dict[Any, Literal]):
    """A Scala map or sequence, as far as it is used."""

    def apply(self, key: Any) -> Literal:
        return self[key]

    def length(self) -> int:
        return len(self)

    def keysIterator(self) -> Any:
        keys = list(self)

        class Keys:
            def hasNext(self) -> bool:
                return bool(keys)

            def next(self) -> Any:
                return keys.pop(0)

        return Keys()


class Context:
    def __init__(self, kind: str, values: dict[Any, str]) -> None:
        self.kind = kind
        self.values = Values({k: Literal(v) for k, v in values.items()})

    def params(self) -> Values:
        return self.values

    def getClass(self) -> Context:
        return self

    def getSimpleName(self) -> str:
        return self.kind


def substituted(text: str, kind: str, values: dict[Any, str]) -> str:
    return substitute_parameters(text, tokenize(text), Context(kind, values))


def test_named_markers_become_literals_and_nothing_else_does() -> None:
    text = "SELECT ':x', a::x, m:x FROM t JOIN r AS OF :x ON t.k = :k AND 1 = :other"
    wanted = "SELECT ':x', a::x, m:x FROM t JOIN r AS OF TIMESTAMP 'now' ON t.k = 'a' AND 1 = :other"
    found = substituted(text.replace("m:x", "m : y"), "NamedParameterContext", {"x": "TIMESTAMP 'now'", "k": "'a'"})
    assert found == wanted.replace("m:x", "m : y")


def test_question_marks_are_filled_in_order() -> None:
    assert substituted("SELECT ?, '?', ?", "PositionalParameterContext", {0: "1", 1: "'b'"}) == "SELECT 1, '?', 'b'"


def test_a_statement_without_parameters_stays() -> None:
    assert substitute_parameters("SELECT ?", tokenize("SELECT ?"), None) == "SELECT ?"
