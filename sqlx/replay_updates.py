"""A fragment over a table that changes: it shows what became of the old row and of the new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlx.replay_fragments import FragmentRunner
from sqlx.replay_rows import Values
from udtf.record import Update


@dataclass(frozen=True)
class UpdateReader:
    """One reader of an operator whose result is a table.

    Attributes:
        runner: the fragment.
        bare: the fragment without its condition, for what a deletion shows.
        read: the operator's name in both.
        filters: whether there is a condition.
        sink: what the updates go to.
    """

    runner: FragmentRunner
    bare: FragmentRunner
    read: str
    filters: bool
    sink: Callable[[list[Update]], None]

    def deliver(self, updates: Sequence[Update]) -> None:
        """Hand the updates of one record on: one that shows nothing before and after is dropped (semantics.md 5.2)."""
        found = [self._through(update) for update in updates]
        kept = [update for update in found if not self.filters or update.old is not None or update.new is not None]
        if kept:
            self.sink(kept)

    def _through(self, update: Update) -> Update:
        old, new = (self._row(self.runner, row) for row in (update.old, update.new))
        return update._replace(old=old, new=new, gone=self._row(self.bare, update.gone))

    def _row(self, runner: FragmentRunner, values: Values | None) -> Values | None:
        rows = [] if values is None else runner.run(self.read, values)
        return rows[0] if rows else None
