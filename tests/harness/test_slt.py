"""The harness itself: it reads what it writes, and it notices what is wrong."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.replay.types import from_micros, parse_type, reader_of
from sqlx.testing.slt import Result, case_files, read_case, results_table, run_directory, value_of, word_of, words_of

SEMANTICS = Path(__file__).parent.parent / "semantics"
EXAMPLE = SEMANTICS / "as_of_join" / "out_of_order_update_serves_later_lookups.slt"


def outcomes(path: Path, **options: bool) -> list[str]:
    return [result.outcome for result in run_directory(path, **options)]  # type: ignore[arg-type]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    target = tmp_path / EXAMPLE.name
    target.write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    return target


def test_complete_leaves_a_right_file_as_it_is(copy: Path) -> None:
    assert outcomes(copy, complete=True) == ["passed", "passed"]
    assert copy.read_text(encoding="utf-8") == EXAMPLE.read_text(encoding="utf-8")


def test_a_wrong_row_is_noticed_and_completed(copy: Path) -> None:
    copy.write_text(copy.read_text(encoding="utf-8").replace("@25 1 105", "@25 1 999"), encoding="utf-8")
    result, _ = run_directory(copy)
    assert result.outcome == "failed"
    assert "expected:\n    @25 1 999\n    @26 2 106\n  found:\n    @25 1 105" in result.message
    assert outcomes(copy, complete=True) == ["passed", "passed"]
    assert copy.read_text(encoding="utf-8") == EXAMPLE.read_text(encoding="utf-8")


def test_a_wrong_final_row_is_noticed_by_the_oracle(copy: Path) -> None:
    copy.write_text(copy.read_text(encoding="utf-8").replace("final\n1 106", "final\n1 105"), encoding="utf-8")
    assert outcomes(copy) == ["passed", "failed"]


def test_an_error_is_expected_with_its_words(copy: Path) -> None:
    text = (
        copy.read_text(encoding="utf-8")
        .split("\noracle\n")[0]
        .replace("r.rate FROM", "r.rat FROM")
        .replace(" oracle", "")
    )
    copy.write_text(f"{text}\n---- error BIND.UNKNOWN_COLUMN\nDid you mean `rate`?\n", encoding="utf-8")
    (result,) = run_directory(copy)
    assert result.outcome == "passed", result.message
    copy.write_text(f"{text}\n---- error BIND.UNKNOWN_RELATION\n", encoding="utf-8")
    assert outcomes(copy) == ["failed"]


def test_a_mark_that_is_stale_is_noticed(copy: Path) -> None:
    copy.write_text("# notyet replay: for no reason\n" + copy.read_text(encoding="utf-8"), encoding="utf-8")
    assert outcomes(copy) == ["failed", "passed"]


def test_a_broken_file_does_not_stop_the_others(copy: Path) -> None:
    copy.with_name("broken.slt").write_text("input\n", encoding="utf-8")
    results = run_directory(copy.parent)
    assert [result.outcome for result in results] == ["failed", "passed", "passed"]
    assert results_table(results).row_count == 2


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        case_files(tmp_path / "nope")


def test_comments_and_quotes_in_rows() -> None:
    assert words_of("'it''s' @5ms NULL # done") == ("'it''s'", "@5ms", "NULL")
    assert value_of("'it''s'", parse_type("string")) == "it's"
    assert read_case(EXAMPLE).source.startswith("KIP-914")


def test_results_are_records() -> None:
    assert Result(EXAMPLE, "t", "replay", "passed").message == ""


LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
VALUES: dict[str, st.SearchStrategy[object]] = {
    "string": st.text(st.characters(codec="utf-8", exclude_characters=LINE_ENDS)),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "decimal(38,6)": st.decimals(-(10**20), 10**20, places=6),
    "boolean": st.booleans(),
    "binary": st.binary(),
    "date": st.dates(dt.date(1, 1, 2)),
    "timestamp": st.integers(-(10**15), 10**16).map(from_micros),
}


@given(st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
def test_every_value_can_be_written_and_read(pair: tuple[str, object]) -> None:
    kind, value = parse_type(pair[0]), pair[1]
    (word,) = words_of(word_of(value))
    assert reader_of(kind)(value_of(word, kind)) == value


def test_decimals_keep_their_digits() -> None:
    assert value_of(word_of(Decimal("1.50")), parse_type("decimal(5,2)")) == Decimal("1.50")
