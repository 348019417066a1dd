"""Replacing spans of a text: everything outside them stays byte for byte as it was written."""

from __future__ import annotations

from dataclasses import dataclass

from sqlx.sql.tokens import Span


@dataclass(frozen=True)
class Edit:
    """New text for a span; an empty span is an insertion."""

    span: Span
    text: str


class Edits:
    """The edits of one text; an edit swallows the edits inside its span.

    >>> edits = Edits("SELECT a FROM b")
    >>> edits.replace(Span(14, 15), "c")
    >>> edits.render()
    'SELECT a FROM c'
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._edits: list[Edit] = []

    def replace(self, span: Span, new: str) -> None:
        """Put ``new`` in place of the text in ``span``."""
        kept = [e for e in self._edits if not (span.start <= e.span.start and e.span.end <= span.end)]
        self._edits = sorted([*kept, Edit(span, new)], key=lambda e: (e.span.start, e.span.end))

    def insert(self, at: int, new: str) -> None:
        """Put ``new`` at an offset, after what was put there before."""
        self._edits = sorted([*self._edits, Edit(Span(at, at), new)], key=lambda e: (e.span.start, e.span.end))

    def covers(self, offset: int) -> bool:
        """Whether an edit replaces the character at ``offset``."""
        return any(e.span.start <= offset < e.span.end for e in self._edits)

    def render(self, span: Span | None = None) -> str:
        """The text of ``span`` (of all) with the edits inside it."""
        span = span or Span(0, len(self.text))
        pieces: list[str] = []
        at = span.start
        for edit in self._edits:
            if edit.span.start < at or edit.span.end > span.end:
                continue
            pieces += [self.text[at : edit.span.start], edit.text]
            at = edit.span.end
        return "".join([*pieces, self.text[at : span.end]])

    def origin(self, offset: int) -> int:
        """Where a character of the rendered text came from; for new text, where the edit is."""
        shift = 0
        for edit in self._edits:
            start = edit.span.start + shift
            if offset < start:
                break
            if offset < start + len(edit.text):
                return edit.span.start
            shift += len(edit.text) - (edit.span.end - edit.span.start)
        return max(0, min(offset - shift, len(self.text)))
