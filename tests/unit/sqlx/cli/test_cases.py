"""``sqlx test`` on a case that passes and one that does not."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from sqlx.cli.app import app

CASE = """# title: an order finds its rate
# source: here
# modes: replay
CREATE STREAM orders (ts TIMESTAMP, id INT, ccy STRING) TIMESTAMP BY ts;
CREATE VERSIONED TABLE rates (ts TIMESTAMP, ccy STRING, rate INT) KEYS (ccy) TIMESTAMP BY ts;

input rates
@10 EUR 105
input orders
@25 1 EUR
query
SELECT o.id, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy
---- emits
@25 1 {rate}
"""


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["test", *args])
    return result.exit_code, result.output


def test_cases_that_pass(tmp_path: Path) -> None:
    (tmp_path / "good.slt").write_text(CASE.format(rate=105))
    code, output = run(str(tmp_path))
    assert code == 0
    assert "1 cases: 1 passed, 0 failed, 0 skipped" in output


def test_a_case_that_fails_shows_both_answers(tmp_path: Path) -> None:
    (tmp_path / "bad.slt").write_text(CASE.format(rate=107))
    code, output = run(str(tmp_path))
    assert code == 1
    assert "bad.slt (replay): an order finds its rate" in output
    assert "@25 1 107" in output
    assert "@25 1 105" in output


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    assert run(str(tmp_path)) == (1, f"There is no .slt case in {tmp_path}.\n")
    assert run(str(tmp_path / "no")) == (1, f"There is no folder {tmp_path / 'no'}.\n")
    assert run(str(tmp_path), "--mode", "dream")[1].startswith("There is no mode `dream`.")
