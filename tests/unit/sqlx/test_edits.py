from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sqlx.sql.edits import Edits
from sqlx.sql.tokens import Span

TEXT = "SELECT a FROM b JOIN c ON b.k = c.k"


def test_an_edit_swallows_the_edits_inside_its_span() -> None:
    edits = Edits(TEXT)
    edits.replace(Span(14, 15), "x")
    edits.insert(15, " AS b")
    edits.replace(Span(14, 22), "y")
    assert edits.render() == "SELECT a FROM y ON b.k = c.k"
    assert edits.covers(14)
    assert not edits.covers(22)


def test_insertions_at_one_place_keep_their_order() -> None:
    edits = Edits("ab")
    edits.insert(1, "1")
    edits.insert(1, "2")
    assert edits.render() == "a12b"


def test_a_span_renders_with_the_edits_inside_it_only() -> None:
    edits = Edits(TEXT)
    edits.replace(Span(7, 8), "z")
    edits.replace(Span(14, 15), "x")
    assert edits.render(Span(9, 22)) == "FROM x JOIN c"


@given(st.text(max_size=30), st.data())
def test_text_outside_of_edits_stays_and_maps_back(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8, unique=True)))
    spans = [Span(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    edits = Edits(text)
    for n, span in enumerate(data.draw(st.permutations(spans))):
        edits.replace(span, f"<{n}>")
    rendered, at = edits.render(), 0
    kept = [
        Span(a, b) for a, b in zip([0, *(s.end for s in spans)], [*(s.start for s in spans), len(text)], strict=True)
    ]
    for span in kept:
        at = rendered.index(span.of(text), at)
        for offset in range(span.end - span.start):
            assert edits.origin(at + offset) == span.start + offset or span.of(text) in rendered[at + 1 :]
        at += span.end - span.start
    assert Edits(text).render() == text
