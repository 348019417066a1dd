"""SQL cells in IPython's own shell, over the session of all tests, and one notebook in a real kernel."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from pyspark.sql import DataFrame

import sqlx
from sqlx.notebook.tables import Rows
from sqlx.streaming.registry import registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINITIONS = """
CREATE OR REPLACE TEMPORARY VIEW nb_orders AS SELECT * FROM VALUES
  (1, 'EUR', TIMESTAMP '2026-03-02 08:30:00'), (2, 'EUR', TIMESTAMP '2026-03-02 09:15:00')
  AS t(id, currency, ordered_at);
CREATE OR REPLACE TEMPORARY VIEW nb_changes AS SELECT * FROM VALUES
  ('EUR', TIMESTAMP '2026-03-02 09:00:00', 1.05) AS t(currency, changed_at, rate);
CREATE OR REPLACE TEMPORARY VERSIONED TABLE nb_rates FROM nb_changes KEYS (currency) TIMESTAMP BY changed_at;
"""
JOIN = "SELECT o.id, r.rate FROM nb_orders o LEFT JOIN nb_rates r AS OF o.ordered_at ON o.currency = r.currency"
TABLE = "id  rate\n──  ────\n 1  NULL\n 2  1.05\n(2 rows)"


@pytest.fixture
def shell(spark: SparkSession) -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance(user_ns={"spark": spark})
    shell.colors = "nocolor"
    shell.run_cell("%load_ext sqlx")
    yield shell
    InteractiveShell.clear_instance()
    for name in ("nb_orders", "nb_changes", "nb_rates", "nb_source"):
        spark.catalog.dropTempView(name)
    for query in registry(spark.sparkContext).all():
        query.query.stop()
        registry(spark.sparkContext).forget(query.name)
    spark.sql("DROP TABLE IF EXISTS nb_table")


def run(shell: InteractiveShell, cell: str) -> tuple[list[dict[str, Any]], str, BaseException | None]:
    """What a cell displays, what it prints, and how it fails."""
    with capture_output() as captured:
        result = shell.run_cell(cell)
    return [output.data for output in captured.outputs], captured.stdout + captured.stderr, result.error_in_exec


def test_a_cell_of_statements_shows_its_result(shell: InteractiveShell) -> None:
    shown, _, error = run(shell, f"%%sqlx\n{DEFINITIONS}{JOIN} ORDER BY o.id;")
    assert error is None
    assert [data["text/plain"] for data in shown] == [TABLE]
    assert '<td style="text-align: right">1.05</td>' in shown[0]["text/html"]


def test_every_query_of_a_cell_is_shown_and_the_last_one_kept(shell: InteractiveShell) -> None:
    shown, _, error = run(shell, "%%sqlx --limit 1 -o last\nSELECT 'one' AS a;\nSELECT id AS b FROM range(3)")
    assert error is None
    assert [data["text/plain"].split()[0] for data in shown] == ["a", "b"]
    assert "the first 1 row; --limit shows more" in shown[1]["text/plain"]
    kept = shell.user_ns["last"]
    assert isinstance(kept, DataFrame)
    assert kept.count() == 3


def test_a_line_gives_its_result(shell: InteractiveShell) -> None:
    _, _, error = run(shell, "found = %sqlx SELECT '$HOME {x}' AS a")
    found = shell.user_ns["found"]
    assert error is None
    assert isinstance(found, Rows)
    assert found.result.rows == (("$HOME {x}",),)
    assert found.frame is not None
    assert found.frame.columns == ["a"]


def test_an_error_is_our_message_with_its_caret(shell: InteractiveShell) -> None:
    _, printed, error = run(
        shell, f"%%sqlx\n{DEFINITIONS}SELECT *\nFROM nb_orders o JOIN nb_rats r AS OF o.ts ON o.id = r.id"
    )
    assert type(error).__name__ == "CellError"
    assert "cell, statement 4 (line 7):" in printed
    assert "LINE 2: FROM nb_orders o JOIN nb_rats r" in printed
    assert "^^^^^^^" in printed
    assert "Did you mean `nb_rates`?" in printed
    assert "Traceback" not in printed
    assert 'File "' not in printed


def test_an_error_of_spark_is_its_message(shell: InteractiveShell) -> None:
    _, printed, error = run(shell, "%sqlx SELECT assert_true(id < 1, 'too large') FROM range(3)")
    assert type(error).__name__ == "CellError"
    assert "too large" in printed
    assert "Traceback" not in printed
    assert "\tat " not in printed


def source(spark: SparkSession, folder: Path) -> None:
    spark.range(30).coalesce(1).write.parquet(str(folder / "source"))
    spark.readStream.schema("id BIGINT").parquet(str(folder / "source")).createOrReplaceTempView("nb_source")


def test_a_stream_is_shown_until_its_end(shell: InteractiveShell, spark: SparkSession, tmp_path: Path) -> None:
    source(spark, tmp_path)
    shown, printed, error = run(shell, "%%sqlx --once --limit 2 -o live\nSELECT id * 2 AS twice FROM nb_source")
    assert error is None, printed
    last = shown[-1]
    assert last["text/plain"].startswith("query: finished, 30 rows, ")
    assert last["text/plain"].endswith("twice\n─────\n   56\n   58\n(the last 2 rows of 30)")
    for word in ("rows/s", "lag", "late", "<td>30</td>", "the last 2 rows of 30"):
        assert word in last["text/html"]
    assert shell.user_ns["live"].isStreaming


def interrupted_after_rows(spark: SparkSession, name: str) -> threading.Thread:
    """Sends what a notebook's stop button sends, once the query has counted its rows."""

    def watch() -> None:
        for _ in range(2000):
            query = next((q for q in registry(spark.sparkContext).all() if q.name.endswith(name)), None)
            if query is not None and query.refresh().rows == 30:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return
            waited.wait(0.05)

    waited = threading.Event()
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_an_interrupt_ends_a_query_and_its_view(shell: InteractiveShell, spark: SparkSession, tmp_path: Path) -> None:
    source(spark, tmp_path)
    watching = interrupted_after_rows(spark, "query")
    shown, printed, error = run(shell, "%%sqlx --refresh 0.1\nSELECT id FROM nb_source")
    watching.join()
    assert error is None, printed
    assert shown[-1]["text/plain"].startswith("query: stopped, 30 rows")
    assert [q.status for q in registry(spark.sparkContext).all()] == ["stopped"]


def test_an_interrupt_ends_the_view_of_a_streaming_table(
    shell: InteractiveShell, spark: SparkSession, tmp_path: Path
) -> None:
    source(spark, tmp_path)
    watching = interrupted_after_rows(spark, "nb_table")
    checkpoint = tmp_path / "checkpoint"
    cell = (
        f"%%sqlx --refresh 0.1\nCREATE STREAMING TABLE nb_table CHECKPOINT '{checkpoint}' AS SELECT id FROM nb_source"
    )
    shown, printed, error = run(shell, cell)
    watching.join()
    assert error is None, printed
    assert "STOP STREAMING QUERY" in printed
    (query,) = registry(spark.sparkContext).all()
    assert query.status == "running"
    assert "nb_table: running, 30 rows" in shown[-1]["text/plain"]
    query.stop()
    assert spark.table("nb_table").count() == 30


def test_a_stream_that_fails_is_a_message(shell: InteractiveShell, spark: SparkSession, tmp_path: Path) -> None:
    source(spark, tmp_path)
    _, printed, error = run(shell, "%sqlx --once SELECT assert_true(id < 1, 'too large') FROM nb_source")
    assert type(error).__name__ == "CellError"
    assert "[STREAMING.QUERY_FAILED]" in printed
    assert "too large" in printed
    assert "Traceback" not in printed


def test_options_that_do_not_fit_a_stream_are_explained(
    shell: InteractiveShell, spark: SparkSession, tmp_path: Path
) -> None:
    source(spark, tmp_path)
    assert "CREATE STREAMING TABLE" in run(shell, "%sqlx --background SELECT id FROM nb_source")[1]
    assert "draw that" in run(shell, "%sqlx --plot id,id SELECT id FROM nb_source")[1]


def test_a_query_is_drawn(shell: InteractiveShell) -> None:
    query = "SELECT timestamp_seconds(id * 3600) AS hour, id AS n, id % 2 AS kind FROM range(10)"
    shown, printed, error = run(shell, f"%%sqlx --plot hour,n,kind\n{query}")
    assert error is None, printed
    assert shown[-1]["image/png"]


def test_lines_stand_where_their_rows_are(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT window(ts, '1 hour') AS w, k, count(*) AS n, sum(id) AS total FROM "
        "(SELECT timestamp_seconds(id * 1800) AS ts, id % 2 AS k, id FROM range(6)) GROUP BY window(ts, '1 hour'), k"
    )
    picture = sqlx.plot(frame, "w", ["n", "total"], by="k")
    lines = {line.get_label(): line for line in picture.axes.get_lines()}
    assert set(lines) == {"0 n", "0 total", "1 n", "1 total"}
    assert list(lines["1 total"].get_xdata()) == [datetime(1970, 1, 1, hour) for hour in range(3)]
    assert list(lines["1 total"].get_ydata()) == [1.0, 3.0, 5.0]
    assert picture.save(tmp_path / "picture.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert io.BytesIO(picture._repr_png_()).read(4) == b"\x89PNG"


def test_words_are_drawn_as_bars_and_the_limit_is_said(spark: SparkSession) -> None:
    picture = sqlx.plot(spark.sql("SELECT concat('k', id) AS k, id AS n FROM range(5)"), "k", "n", limit=3)
    assert [bar.get_height() for bar in picture.axes.patches] == [0.0, 1.0, 2.0]
    assert [tick.get_text() for tick in picture.axes.get_xticklabels()] == ["k0", "k1", "k2"]
    assert picture.axes.get_title(loc="right") == "the first 3 rows"


CELLS = (
    "%load_ext sqlx",
    f"%%sqlx\n{DEFINITIONS}{JOIN} ORDER BY o.id",
    "spark.range(30).coalesce(1).write.parquet('source')\n"
    "spark.readStream.schema('id BIGINT').parquet('source').createOrReplaceTempView('nb_source')",
    "%%sqlx --once --refresh 0.1\nSELECT id FROM nb_source",
    "%sqlx SELECT * FROM nb_orders o JOIN nb_rates r AS OF o.ordered ON o.currency = r.currency",
)


@pytest.mark.full
def test_a_notebook_runs_in_a_kernel(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = NotebookClient(book, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    with pytest.raises(CellExecutionError, match=r"AS OF o\.ordered"):  # the last cell: a notebook stops at an error
        client.execute()
    tables = [output["data"]["text/plain"] for output in book.cells[1].outputs if output.output_type == "display_data"]
    assert tables == [TABLE]
    (live,) = [output for output in book.cells[3].outputs if output.output_type == "display_data"]  # one, updated
    assert live["data"]["text/plain"].startswith("query: finished, 30 rows")
    (failed,) = [output for output in book.cells[4].outputs if output.output_type == "error"]
    assert "AS OF o.ordered" in "\n".join(failed.traceback)
    assert "Traceback" not in "\n".join(failed.traceback)
