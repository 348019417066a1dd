"""What was measured of ways over bounded rows, by case; answers are compared with those of one of the ways."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from benchmarks.measure import Measured

if TYPE_CHECKING:
    from rich.console import Console

HEADER = ("case", "way", "rows", "seconds", "CPU s", "others", "rows/s", "peak GB", "answer")


class HasRows(Protocol):
    """What a case is to the table."""

    @property
    def name(self) -> str:
        """As in the table."""
        ...

    @property
    def rows(self) -> int:
        """How many rows the ways read."""
        ...


@dataclass
class BatchResults:
    """What was measured.

    Attributes:
        reference: the way whose answers are right.
        unchecked: ways that answer another question.
        cases: by name.
        ways: by case and way.
    """

    reference: str
    unchecked: tuple[str, ...] = ()
    cases: dict[str, HasRows] = field(default_factory=dict)
    ways: dict[tuple[str, str], Measured] = field(default_factory=dict)

    def add(self, case: HasRows, way: str, found: Measured, console: Console) -> None:
        """Keep a measurement; it loses its time when the answer is not that of the reference."""
        right = self.ways.get((case.name, self.reference))
        is_wrong = right is not None and found.seconds and way not in self.unchecked and found.answer != right.answer
        if is_wrong:
            found = Measured(answer=found.answer, note="WRONG ANSWER")
        self.cases[case.name] = case
        self.ways[case.name, way] = found
        console.print(f"{case.name}: {way}: {' '.join(f'{s:.2f}' for s in found.seconds)} {found.note}")

    def median(self, case: str, way: str) -> float | None:
        """Median seconds."""
        found = self.ways.get((case, way))
        return found.median if found else None

    def rate(self, case: str, way: str) -> float | None:
        """Rows per second."""
        median = self.median(case, way)
        return self.cases[case].rows / median if median else None

    def rows(self) -> Iterable[tuple[str, ...]]:
        """The lines of the table."""
        for (case, way), found in self.ways.items():
            yield (
                case,
                way,
                f"{self.cases[case].rows:,}",
                f"{found.median:.2f}" if found.median else found.note,
                f"{found.cpu_seconds:.1f}",
                f"{found.others_share:.0%}",
                f"{self.rate(case, way) or 0:,.0f}",
                f"{found.peak_bytes / 1e9:.2f}",
                self._answer(way, found),
            )

    def _answer(self, way: str, found: Measured) -> str:
        if way == self.reference:
            return "reference"
        if found.median is None:
            return "WRONG" if found.answer else ""
        return "another" if way in self.unchecked else "equal"
