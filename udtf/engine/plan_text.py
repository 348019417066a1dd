"""What Spark's EXPLAIN says of a query, read back: an estimate, whether it is a scan, which columns are but others.

A server of Spark Connect shows its plans as text only. What cannot be read here makes a query slower, never wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNITS = {unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}
_SIZE = re.compile(r", Statistics\(sizeInBytes=([\d.]+(?:E[+-]?\d+)?) ([KMGTPE]iB|B)[^()]*\)$")
_COLUMN = re.compile(r"(?P<source>\S+#\d+)L? AS (?P<name>\w+)#\d+L?")
_EQUALITY = re.compile(r"^Project \[\((?P<left>.*) = (?P<right>.*)\) AS \(a = b\)#\d+\]$", re.MULTILINE)
_CAST = re.compile(r"cast\((?P<from>.*) as (?P<to>.*)\)")


@dataclass(frozen=True)
class PlanText:
    """An optimised plan with its estimates.

    Attributes:
        lines: its nodes, the root first, as Spark prints them.
    """

    lines: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> PlanText:
        """The optimised plan in what EXPLAIN COST says."""
        _, _, found = text.partition("== Optimized Logical Plan ==\n")
        return cls(tuple(found.partition("\n\n")[0].splitlines()))

    @property
    def size(self) -> int | None:
        """The estimate of the whole, in bytes; None where it says none.

        >>> PlanText(("Range (0, 10, step=1), Statistics(sizeInBytes=1.5 KiB, rowCount=10)",)).size
        1536
        """
        found = _SIZE.search(self.lines[0]) if self.lines else None
        return None if found is None else int(float(found[1]) * _UNITS[found[2]])

    def is_scan(self) -> bool:
        """Whether it is projections and filters over one source."""
        nodes = [line.lstrip(" +-:") for line in self.lines]
        chain = all(line.startswith("   " * (depth - 1) + "+- ") for depth, line in enumerate(self.lines) if depth)
        return bool(nodes) and chain and all(node.startswith(("Project ", "Filter ")) for node in nodes[:-1])

    def sources(self) -> dict[str, str]:
        """Output column to the column that it is, where the root is a projection.

        >>> lines = "Project [id#3L AS __k0#0L, id#3L AS _l1#1L, (id#3L + 1) AS z#2L], Statistics(sizeInBytes=1.0 B)"
        >>> PlanText((lines,)).sources()
        {'__k0': 'id#3', '_l1': 'id#3'}
        """
        root = _SIZE.sub("", self.lines[0]) if self.lines else ""
        if not root.startswith("Project [") or not root.endswith("]"):
            return {}
        return dict(filter(None, map(column_read, _items(root[len("Project [") : -1]))))


def column_read(text: str) -> tuple[str, str] | None:
    """Name and source of an item of a projection as Spark prints it; None where it is more than a column.

    >>> column_read("ts#4 AS __time#9"), column_read("(a#1L + 1) AS b#2L")
    (('__time', 'ts#4'), None)
    """
    found = _COLUMN.fullmatch(text)
    return None if found is None else (found["name"], found["source"])


def _items(text: str) -> Iterator[str]:
    """What commas outside of brackets are between."""
    depth = start = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{<") - (sign in ")]}>")
        if sign == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()


def compared_type_in(text: str) -> str:
    """The type in which columns ``a`` and ``b`` are compared, or the name of the column whose type it is.

    >>> compared_type_in("Project [(a#22 = cast(b#23 as date)) AS (a = b)#24]")
    'a'
    >>> compared_type_in("Project [(cast(a#2 as bigint) = cast(cast(b#2 as int) as bigint)) AS (a = b)#28]")
    'bigint'
    """
    found = _EQUALITY.search(text)
    if found is None:
        message = f"no equality of two columns: {text[:200]}"
        raise ValueError(message)
    for side, name in ((found["left"], "a"), (found["right"], "b")):
        if _CAST.fullmatch(side) is None:
            return name
    cast = _CAST.fullmatch(found["left"])
    return "" if cast is None else cast["to"]
