from __future__ import annotations

import pytest
import sqlglot

from sqlx.sql.tokens import LexicalError, Span, tokenize, tokenize_span


def test_tokens_are_exact_pieces_of_the_text() -> None:
    text = "SELECT `a``b`, 1L, 1e3, x'1F', r'\\d', $1, ${v}, :p, ? -- end\r\nFROM größe /* c */ GROUP  BY a::int"
    for token in tokenize(text):
        assert text[token.start : token.end] == token.text
    assert [t.text for t in tokenize(text)][:6] == ["SELECT", "`a``b`", ",", "1L", ",", "1e3"]


def test_keywords_of_several_words_are_one_token_a_word() -> None:
    assert [t.word for t in tokenize("GROUP\n BY  x ORDER BY y")] == ["GROUP", "BY", "X", "ORDER", "BY", "Y"]


@pytest.mark.parametrize(
    "text", ["EXPLAIN SELECT a AS of", "SHOW TABLES LIKE 'x'", "CALL p(1)", "CACHE TABLE t AS SELECT 1"]
)
def test_what_follows_a_command_is_read_word_by_word(text: str) -> None:
    assert "".join(t.text for t in tokenize(text)) == text.replace(" ", "")


def test_a_quoted_name_is_never_a_word() -> None:
    (quoted,) = tokenize("`as`")
    assert (quoted.word, quoted.name, quoted.is_name, quoted.kind) == ("", "as", True, "quoted")
    assert tokenize("`e``f`")[0].name == "e`f"


def test_words_are_upper_case_and_may_hold_any_letter_or_begin_with_a_digit() -> None:
    assert [t.word for t in tokenize("aS größe 日本語 _x 1day")] == ["AS", "GRÖSSE", "日本語", "_X", "1DAY"]


def test_comments_and_hints_are_left_out() -> None:
    assert [t.text for t in tokenize("/* AS OF */ a -- OF\n b /*+ BROADCAST(x) */")] == ["a", "b"]


@pytest.mark.parametrize("text", ["SELECT 'a", "SELECT `a", "/* never closed", 'SELECT "a'])
def test_what_cannot_be_split_is_a_lexical_error(text: str) -> None:
    with pytest.raises(LexicalError):
        tokenize(text)


def test_tokenize_span_gives_the_tokens_inside() -> None:
    text = "a + b * c"
    assert [t.text for t in tokenize_span(text, Span(4, 9))] == ["b", "*", "c"]
    assert tokenize_span(text, None) == ()


def test_other_dialects_are_not_touched() -> None:
    tree = sqlglot.parse_one("SELECT * FROM a AS of JOIN b ON a.k = b.k", read="spark")
    assert tree.find(sqlglot.exp.TableAlias).name == "of"
    assert "SparkTemporal" in type(sqlglot.Dialect.get_or_raise("spark_temporal")).__name__
