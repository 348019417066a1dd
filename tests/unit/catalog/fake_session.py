"""A session without Spark: a few tables, and an analyzer that knows the types of a few expressions."""

from __future__ import annotations

import re

from catalog.binding import AnalysisError
from catalog.definitions import name_parts
from catalog.entries import Column, Entry
from catalog.planner import Found

EXPRESSIONS = {
    "ts": "timestamp",
    "t.ts": "timestamp",
    "seq": "bigint",
    "id": "bigint",
    "name": "string",
    "op = 'd'": "boolean",
    "op": "string",
    "day": "date",
    "`valid_from`": "timestamp",
    "`id`": "bigint",
    "to_timestamp(name)": "timestamp",
}
COLUMNS = tuple(
    Column(name, kind)
    for name, kind in {
        "id": "bigint",
        "name": "string",
        "tags": "map<string,string>",
        "op": "string",
        "seq": "bigint",
        "ts": "timestamp",
        "day": "date",
        "valid_from": "timestamp",
        "valid_to": "timestamp",
    }.items()
)
TYPES = {"INT": "int", "BIGINT": "bigint", "STRING": "string", "TIMESTAMP": "timestamp"}


class FakeSession:
    """The table `t`, the user's table `taken` and view `seen`, and whatever entries are given."""

    def __init__(self, *entries: Entry) -> None:
        self.known = {entry.name: Found(entry.temporary, is_view=True, owner="", entry=entry) for entry in entries}
        self.known["taken"] = Found(is_temporary=False, is_view=False, owner="", entry=None)
        self.known["seen"] = Found(is_temporary=False, is_view=True, owner="", entry=None)
        self.closed: list[str] = []

    def find(self, parts: tuple[str, ...], *, permanent: bool = False) -> Found | None:
        found = self.known.get(parts[-1].lower())
        return None if found is None or (permanent and found.is_temporary) else found

    def entries(self) -> tuple[Entry, ...]:
        return tuple(found.entry for found in self.known.values() if found.entry is not None)

    def current_catalog(self) -> str:
        return "spark_catalog"

    def current_database(self) -> str:
        return "default"

    def has_database(self, name: str) -> bool:
        return name in ("default", "db")

    def is_temporary(self, parts: tuple[str, ...]) -> bool:
        return parts == ("passing",)

    def arrival(self, relation: str) -> tuple[str, ...]:
        return ("_metadata.row_index",)

    def new_log(self, columns: tuple[Column, ...]) -> str:
        return "/warehouse/log"

    def open_source(
        self, name: str, source: str, options: dict[str, str], columns: tuple[Column, ...]
    ) -> tuple[str, ...]:
        if source == "nosuch":
            raise AnalysisError("Failed to find the data source: nosuch.")
        return ()

    def close_source(self, name: str) -> None:
        self.closed.append(name)

    def columns(self, query: str) -> tuple[Column, ...]:
        if casts := re.findall(r"CAST\(NULL AS (.*?)\) AS `?(\w+)`?", query):
            return self._expressions(query, tuple(Column(name, self._type(kind)) for kind, name in casts))
        if "nope" in query:
            raise AnalysisError("There is no such table.", relation="nope")
        if "read_it(" in query:
            raise AnalysisError("Could not resolve `read_it` to a table-valued function.")
        return self._expressions(query, COLUMNS)

    def _type(self, kind: str) -> str:
        if kind not in TYPES:
            raise AnalysisError(kind)
        return TYPES[kind]

    def _expressions(self, query: str, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        found = [Column("__x", self._expression(text)) for text in re.findall(r"\((.*?)\) AS __x\d", query)]
        return (*columns, *found)

    def _expression(self, text: str) -> str:
        text = text.rpartition(", (")[2]
        if text.startswith("max("):
            raise AnalysisError("The query has an aggregate without GROUP BY.")
        if text not in EXPRESSIONS:
            raise AnalysisError("A column cannot be resolved.", column=name_parts(text.split("(")[-1].rstrip(")"))[-1])
        return EXPRESSIONS[text]
