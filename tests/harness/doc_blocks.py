"""The fenced blocks of the documentation, and what their first line says about running them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(ROOT.glob("docs/**/*.md"))]
_FENCE = re.compile(r"^( *)```(\w*)([^\n`]*)\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)
# What may stand between a statement and its result: at most one blank line.
_GAP = re.compile(r"\s*")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: its page.
        line: the line of its fence.
        language: the first word after the fence, such as ``sql``; "" where there is none.
        kind: the words after that, such as ``run``.
        text: what it holds.
        result: the ``text`` block directly after it, where that says ``result``; "" where there is none.
    """

    page: Path
    line: int
    language: str
    kind: str
    text: str
    result: str

    @property
    def place(self) -> str:
        """Page and line, as tests are called."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page, also those inside lists."""
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    results = {
        before.start(): dedent(after[4])
        for before, after in pairwise(found)
        if after[2] == "text" and after[3].strip() == "result" and _GAP.fullmatch(text, before.end(), after.start())
    }
    return [
        Block(
            page,
            text.count("\n", 0, match.start()) + 1,
            match[2],
            match[3].strip(),
            dedent(match[4]),
            results.get(match.start(), ""),
        )
        for match in found
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SQL_BLOCKS = [block for block in BLOCKS if block.language == "sql"]
CELLS = [block for block in BLOCKS if block.text.startswith("%%sqlx")]


def cells(table: str) -> list[list[str]]:
    """The table of a result block: its header and rows."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def shown(value: object) -> str:
    """A value as a result block writes it: a time without its zone, since all are UTC."""
    return "NULL" if value is None else str(value).removesuffix("+00:00")
