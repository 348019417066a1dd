from __future__ import annotations

import string

import pytest

from sqlx.errors import BindError, caret_lines, conditions, did_you_mean

WIDTH = 120


def under(text: str, start: int, end: int) -> str:
    """What is above the carets, where every letter is one column wide."""
    line, carets = caret_lines(text, start, end).split("\n")
    return line[carets.index("^") : carets.rindex("^") + 1]


@pytest.mark.parametrize("before", [0, 5, 90, 119, 120, 500])
@pytest.mark.parametrize("behind", [0, 5, 119, 500])
def test_carets_stand_under_the_span_in_a_line_of_any_length(before: int, behind: int) -> None:
    text = "a" * before + "WORD" + "b" * behind
    assert under(text, before, before + 4) == "WORD"
    line = caret_lines(text, before, before + 4).split("\n")[0]
    assert len(line) <= WIDTH + len("LINE 1: ……")
    assert ("…" in line) == (before + 4 + behind > WIDTH)


def test_a_span_that_is_cut_or_goes_on_in_the_next_line_ends_with_the_line_that_is_shown() -> None:
    assert under("ab cd\nef", 3, 8) == "cd"
    assert set(caret_lines("x" * 400, 10, 400).split("\n")[1].strip()) == {"^"}
    assert len(caret_lines("x" * 400, 10, 400).split("\n")[1]) <= WIDTH + len("LINE 1: …")


def test_wide_letters_take_two_columns_and_marks_none() -> None:
    assert caret_lines("FROM 日本 xy", 8, 10) == "LINE 1: FROM 日本 xy\n" + " " * 18 + "^^"
    assert caret_lines("FROM 日本", 5, 7) == "LINE 1: FROM 日本\n" + " " * 13 + "^^^^"
    assert caret_lines("e\u0301 x", 3, 4) == "LINE 1: e\u0301 x\n" + " " * 10 + "^"


def test_windows_line_ends_and_tabs_do_not_move_the_carets() -> None:
    assert caret_lines("a\r\n\tb c\r\n", 6, 7) == "LINE 2:  b c\n" + " " * 11 + "^"


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\r\n"])
def test_the_end_of_the_text_has_a_caret(text: str) -> None:
    assert caret_lines(text, len(text), len(text) + 1).endswith("^")


def test_conditions_are_complete_and_sorted() -> None:
    assert list(conditions()) == sorted(conditions())
    for name, entry in conditions().items():
        assert set(entry) <= {"message", "sqlstate", "hint"}, name
        assert len(entry["sqlstate"]) == 5, name
        assert entry["message"].rstrip()[-1] in ".}", name
        for text in (entry["message"], entry.get("hint", "")):
            assert all(field != "" for _, field, _, _ in string.Formatter().parse(text)), name


def test_a_suggestion_is_the_closest_name_or_a_few() -> None:
    assert did_you_mean("RATE", ["Rates", "orders"]) == "Did you mean `Rates`? "
    assert did_you_mean("zzz", ["a", "b"]) == "There are: `a`, `b`. "
    assert did_you_mean("zzz", []) == ""
    assert did_you_mean("zzz", [f"n{i}" for i in range(20)]).endswith("`n7`, …. ")


def test_an_error_without_text_has_no_caret() -> None:
    error = BindError("KEYED_JOIN.DUPLICATE_NAME", name="{braces}")
    assert "LINE" not in str(error)
    assert "{braces}" in str(error)
