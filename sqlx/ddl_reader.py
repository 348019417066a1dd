"""Reads what stands inside the clauses of a definition: names, columns with types, properties."""

from __future__ import annotations

import re
from collections.abc import Callable

from catalog.definitions import Offsets
from catalog.entries import Column
from sqlx.cursor import Cursor
from sqlx.dialect import Token
from sqlx.errors import TemporalParseError


class ListReader:
    """Reads lists in parentheses from a cursor.

    Attributes:
        spans: what was read ("KEYS id", "COLUMN id", "PROPERTY path" …) to its offsets.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.spans: dict[str, Offsets] = {}

    def error(self, condition: str, span: Offsets, **parameters: str) -> TemporalParseError:
        """An error with its caret."""
        return TemporalParseError(condition, self.cursor.text, span, **parameters)

    def in_parentheses(self, read_item: Callable[[], None]) -> None:
        """Items in parentheses, at least one, separated by commas."""
        if self.cursor.symbol() != "(":
            self.cursor.fail("`(`")
        self.cursor.closing()
        self.cursor.index += 1
        read_item()
        while self.cursor.symbol() == ",":
            self.cursor.index += 1
            read_item()
        if self.cursor.symbol() != ")":
            self.cursor.fail("`,` or `)`")
        self.cursor.index += 1

    def name_list(self, clause: str) -> tuple[str, ...]:
        found: list[str] = []

        def read_item() -> None:
            token = self.cursor.expect_name("the name of a column")
            self.spans[f"{clause} {token.name}"] = (token.start, token.end)
            found.append(token.name)

        self.in_parentheses(read_item)
        return tuple(found)

    def column_list(self) -> tuple[Column, ...]:
        start = self.cursor.index
        found: list[Column] = []

        def read_item() -> None:
            first = self.cursor.index
            name = self.cursor.expect_name("the name of a column")
            found.append(Column(name.name, self.type_text()))
            self.spans[f"COLUMN {name.name}"] = self.cursor.span_from(first).pair

        self.in_parentheses(read_item)
        self.spans["COLUMNS"] = self.cursor.span_from(start).pair
        return tuple(found)

    def type_text(self) -> str:
        """The text of a type: up to a comma or parenthesis that is not inside of one."""
        start, depth = self.cursor.index, 0
        while not self.cursor.done:
            symbol = self.cursor.symbol()
            if depth == 0 and symbol in (",", ")"):
                break
            depth += symbol.count("<") + (symbol == "(") - symbol.count(">") - (symbol == ")")
            self.cursor.index += 1
        return self.cursor.span_from(start).of(self.cursor.text) if self.cursor.index > start else ""

    def qualified(self, what: str) -> tuple[str, tuple[str, ...]]:
        """A dotted name: as written, and its parts."""
        start = self.cursor.index
        parts = tuple(part.name for part in self.cursor.path(what, "a name"))
        return self.cursor.span_from(start).of(self.cursor.text), parts

    def pairs(self, *, needs_equals: bool) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []

        def read_item() -> None:
            start = self.cursor.index
            key = self.key_text()
            has_equals = self.cursor.symbol() == "="
            self.cursor.index += has_equals
            if not has_equals and needs_equals:
                self.cursor.fail("`=`")
            found.append((key, self.value_text()))
            self.spans[f"PROPERTY {key}"] = self.cursor.span_from(start).pair

        self.in_parentheses(read_item)
        return tuple(found)

    def key_text(self) -> str:
        token = self.cursor.peek()
        if token is not None and token.kind == "string":
            return self._string()
        return ".".join(self.qualified("the name of a property")[1])

    def value_text(self) -> str:
        token = self.cursor.peek()
        sign = "-" if token is not None and token.text == "-" else ""
        self.cursor.index += bool(sign)
        token = self.cursor.peek()
        if token is None or token.kind == "op":
            self.cursor.fail("a value")
        return sign + (self._string() if token.kind == "string" else self.cursor.next().text)

    def _string(self) -> str:
        """A string; a doubled quote inside of one splits it into two tokens side by side."""
        token = self.cursor.next()
        value = _unquoted(token)
        following = self.cursor.peek()
        while following is not None and following.kind == "string" and following.start == token.end:
            token = self.cursor.next()
            value += token.text[0] + _unquoted(token)
            following = self.cursor.peek()
        return value


def _unquoted(token: Token) -> str:
    quote = token.text[-1]
    body = token.text[token.text.index(quote) + 1 : -1]
    return body if token.text[0] in "rR" else re.sub(r"\\(.)", r"\1", body)
