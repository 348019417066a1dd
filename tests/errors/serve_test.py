from __future__ import annotations

from sqlx.serving.connect import too_many_rows


def test_too_many_rows_says_the_limit_and_what_to_write() -> None:
    assert str(too_many_rows(1000)) == (
        "[SERVE.TOO_MANY_ROWS] The result has more than 1000 rows, which is what this server allows. SQLSTATE: 54000\n"
        "HINT: Write LIMIT, filter or aggregate. The option --max-rows of sqlx serve sets the number."
    )
