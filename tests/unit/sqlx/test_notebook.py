"""What a notebook does before Spark is asked: options, tables, errors. IPython's shell is the real one."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from sqlx.cli.output import Result
from sqlx.failures import CommandError, interrupts
from sqlx.notebook.arguments import Options, read
from sqlx.notebook.tables import Rows

ROWS = Result(("name", "n"), (False, True), (("a<b>", "1"), (None, "10")), has_more=True)


def test_sql_behind_options_stays_as_it_was_written() -> None:
    options, text = read("""--limit 3 -o top  SELECT 'it''s  $HOME {x}' -- --limit 5""")
    assert options == Options(limit=3, out="top")
    assert text == """SELECT 'it''s  $HOME {x}' -- --limit 5"""


def test_a_comment_is_no_option() -> None:
    assert read("-- a comment") == (Options(), "-- a comment")


def test_all_options_are_read() -> None:
    options, text = read("--limit=5 --out a --plot ts,price,sym --once --background --refresh 0.5")
    assert options == Options(5, "a", ("ts", "price", "sym"), once=True, background=True, refresh=0.5)
    assert text == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--limit 0", "--limit does not take 0"),
        ("--limit many SELECT 1", "--limit does not take many"),
        ("--limit", "--limit needs a value"),
        ("-o two-words SELECT 1", "--out does not take two-words"),
        ("--plot x SELECT 1", "--plot does not take x"),
        ("--refresh inf SELECT 1", "--refresh does not take inf"),
        ("--colour red SELECT 1", "no option --colour"),
    ],
)
def test_wrong_options_are_named(line: str, message: str) -> None:
    with pytest.raises(CommandError, match=message) as error:
        read(line)
    assert "HINT: Options: --limit N" in str(error.value)


def test_a_table_is_shown_in_html_with_its_data_escaped() -> None:
    html = Rows(ROWS)._repr_html_()
    assert "<b>" not in html
    assert "a&lt;b&gt;" in html
    assert '<td style="text-align: right">10</td>' in html
    assert ">NULL</span>" in html
    assert "the first 2 rows; --limit shows more" in html


def test_a_table_is_shown_as_text() -> None:
    assert repr(Rows(ROWS)).splitlines() == [
        "name   n",
        "────  ──",
        "a<b>   1",
        "NULL  10",
        "(the first 2 rows; --limit shows more)",
    ]


def test_text_is_cut_where_it_is_too_wide() -> None:
    result = Result(("a",), (False,), (("x" * 200,),), has_more=False)
    assert max(len(line) for line in repr(Rows(result)).splitlines()) == 60


def test_importing_sqlx_imports_neither_ipython_nor_matplotlib() -> None:
    code = "import sqlx, sqlx.cli, sys; print(sorted({'IPython', 'matplotlib', 'pandas'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"


SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.colors = "nocolor"
for cell in (%r, %r):
    result = shell.run_cell(cell)
print("failed:", type(result.error_in_exec).__name__)
"""


@pytest.mark.parametrize(
    ("cell", "message"),
    [("%sqlx", "There is no statement."), ("%sqlx --limit no SELECT 1", "--limit does not take no.")],
)
def test_an_error_is_a_message_without_a_stack_trace(cell: str, message: str) -> None:
    code = SHELL % ("%load_ext sqlx", cell)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("failed: CellError\n"), done.stdout + done.stderr
    assert message in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert 'File "' not in done.stdout + done.stderr


@interrupts()
def interrupted_in_py4j() -> None:
    """As it does it: interrupted, it asks a socket that is closed already for its peer."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with socket.socket() as closed:
            closed.getpeername()


def test_an_interrupt_in_a_call_of_java_is_one() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_in_py4j()
    with pytest.raises(FileNotFoundError), interrupts():
        raise FileNotFoundError
