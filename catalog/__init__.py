"""What names mean: streams, versioned tables and upsert tables, and the plain SQL that each reads as."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from catalog.entries import Entry


class MemoryCatalog:
    """Definitions of one process, by name without regard to case: the catalog of replay.

    >>> from catalog.entries import Column
    >>> catalog = MemoryCatalog()
    >>> catalog.define(Entry("stream", "orders", (Column("ts", "timestamp"),), "", "ts"))
    True
    >>> catalog.resolve("ORDERS").timestamp_by, catalog.resolve("rates"), catalog.closest("order")
    ('ts', None, 'orders')
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = {entry.name.lower(): entry for entry in entries}

    def define(self, entry: Entry, *, replace: bool = False) -> bool:
        """Add a definition.

        Returns:
            Whether it was added: False where the name is taken and `replace` is not set.
        """
        if entry.name.lower() in self._entries and not replace:
            return False
        self._entries[entry.name.lower()] = entry
        return True

    def drop(self, name: str) -> bool:
        """Remove a definition; returns whether there was one."""
        return self._entries.pop(name.lower(), None) is not None

    def resolve(self, name: str | tuple[str, ...]) -> Entry | None:
        """The definition of that name, or None."""
        return self._entries.get((name if isinstance(name, str) else ".".join(name)).lower())

    def names(self) -> tuple[str, ...]:
        """The names as they were written, in order of definition."""
        return tuple(entry.name for entry in self._entries.values())

    def closest(self, name: str) -> str | None:
        """The defined name that is most like `name`, or None."""
        close = get_close_matches(name.lower(), self._entries, n=1, cutoff=0.6)
        return self._entries[close[0]].name if close else None
