"""The commands of ``sqlx``, their options and help."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sqlx.cli.cases import MODE_HELP, run_cases
from sqlx.cli.connectors import connectors
from sqlx.cli.dbt import SETTINGS, dbt
from sqlx.cli.doctor import doctor
from sqlx.cli.options import Master, Warehouse
from sqlx.cli.output import complain, note, out, reported
from sqlx.cli.pack import pack
from sqlx.cli.pipelines import pipelines
from sqlx.cli.scripts import Script, carrying_out_definitions, explained_query, read_scripts, run_scripts, split
from sqlx.cli.serve import serve
from sqlx.cli.start import started
from sqlx.cli.warm import warm
from sqlx.failures import CommandError
from sqlx.version import __version__


class Commands(TyperGroup):
    """All commands: whatever goes wrong in one becomes a message and an exit code here."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        with reported():
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Temporal SQL on stock Spark: Spark SQL with AS OF joins, versioned tables and streams.",
)

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="SQL scripts, or dbt-style models.")]
OneFile = Annotated[Path | None, typer.Argument(metavar="FILE", help="A SQL script, or a dbt-style model.")]
Text = Annotated[str | None, typer.Option("-e", "--execute", metavar="TEXT", help="SQL text in the place of a file.")]
Var = Annotated[list[str], typer.Option("--var", metavar="K=V", help="What var('K') answers in a file; repeatable.")]
Remote = Annotated[
    str,
    typer.Option(metavar="URL", help="Run on this stock server of Spark Connect, sc://HOST:PORT; no Java is needed."),
]
Limit = Annotated[int, typer.Option(min=1, metavar="N", help="The most rows to print of a result.")]
DEFAULT_LIMIT = 20


def _version(asked: bool) -> None:
    if asked:
        import pyspark

        out.print(f"sqlx {__version__} (PySpark {pyspark.__version__}, Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback()
def _all(
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    files: Files,
    var: Var = [],  # noqa: B006 - typer copies it
    warehouse: Warehouse = None,
    remote: Remote = "",
    master: Master = "",
    limit: Limit = DEFAULT_LIMIT,
    stream: Annotated[bool, typer.Option("--stream", help="Run streaming tables and the last query live.")] = False,
    checkpoint: Annotated[str, typer.Option(metavar="DIR", help="With --stream: where to go on from.")] = "",
    output: Annotated[
        str, typer.Option(metavar="FORMAT:PATH", help="With --stream: where the last query's rows go.")
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="With --stream: read what is there now, then end.")] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="With --stream: run when no other process with --standby does.")
    ] = False,
    metrics: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="With --stream: a page of them, and Prometheus."),
    ] = None,
) -> None:
    """Run the statements of scripts in order, and print each result.

    A file may use ref, source, var, config and {% include 'file.sql' %} as in dbt. A file that others refer to, or
    that says config(materialized='view' or 'table'), is a model: one query, known by the file's name, run before those
    that need it. A whole dbt project is built by `sqlx dbt build`.

    With --stream, CREATE STREAMING TABLE and the last query run until Ctrl-C, which lets the running micro-batch end.
    With --standby too, of several processes with the same command one runs them; when it dies another one goes on.
    """
    if not stream and (checkpoint or output or once or standby or metrics is not None):
        msg = "--checkpoint, --output, --once, --standby and --metrics are for live streams."
        raise CommandError(msg, "Add --stream.")
    if standby and (warehouse or remote):
        msg = "--standby goes with neither --warehouse nor --remote."
        raise CommandError(
            msg, "A warehouse of ours is one process's. Give the streaming tables a path and a CHECKPOINT."
        )
    scripts = read_scripts(files, var)
    with started(warehouse, remote=remote, master=master) as spark:
        from sqlx.cli.streams import StreamOptions, run_streams, stop_leftovers, watchable

        if stream:
            with watchable(spark, metrics):
                run_streams(spark, scripts, StreamOptions(checkpoint, output, once, limit, standby))
            return
        run_scripts(spark, scripts, limit)
        stop_leftovers(spark)


@app.command()
def sql(
    text: Text = None, warehouse: Warehouse = None, remote: Remote = "", master: Master = "", limit: Limit = 20
) -> None:
    """Type SQL at a prompt, or run one text with -e, or a script from standard input.

    The prompt has a history, completes keywords and names with Tab, and reads on until a semicolon.
    """
    if text is None and sys.stdin.isatty():
        from sqlx.cli.shell import interact

        with started(warehouse, remote=remote, master=master) as spark:
            interact(spark, limit)
        return
    script = _text_script(text, "-e") if text is not None else _text_script(sys.stdin.read(), "standard input")
    with started(warehouse, remote=remote, master=master) as spark:
        run_scripts(spark, [script], limit)


@app.command()
def explain(
    file: OneFile = None,
    text: Text = None,
    var: Var = [],  # noqa: B006 - typer copies it
    warehouse: Warehouse = None,
    remote: Remote = "",
) -> None:
    """Print every stage of each query: the plan, its operators, their inputs, and the plain SQL around them.

    Definitions (views, streams, versioned tables, settings) are carried out, so that names bind; nothing else is.
    """
    scripts = _file_or_text(file, text, var)
    with started(warehouse, remote=remote) as spark:
        from sqlx.sessions.session import explain as explained

        found = False
        for statement in carrying_out_definitions(spark, scripts):
            if query := explained_query(statement.text):
                out.print(explained(spark, query), soft_wrap=True)
                found = True
        if not found:
            note("There is no query to explain.")


@app.command()
def verify(
    file: OneFile = None,
    text: Text = None,
    var: Var = [],  # noqa: B006 - typer copies it
    warehouse: Warehouse = None,
    remote: Remote = "",
    limit: Limit = DEFAULT_LIMIT,
    shuffle: Annotated[
        int,
        typer.Option("--shuffle", min=0, max=1000, metavar="N", help="Verify in so many further orders."),
    ] = 3,
) -> None:
    """Show whether each query answers live, over its rows as they arrived, as it does over bounded tables.

    The rows are replayed in the order in which they were recorded, and in others that the grace of the query allows.
    Rows that differ are printed with the cause; the exit code is 1 then. Other statements are run.
    """
    scripts = _file_or_text(file, text, var)
    with started(warehouse, remote=remote) as spark:
        from sqlx.cli.verification import verify_scripts

        verify_scripts(spark, scripts, shuffle, limit)


@app.command()
def rescale(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Its name, or the folder of its checkpoint.")],
    partitions: Annotated[int, typer.Argument(min=1, metavar="N", help="How many partitions it is to have.")],
    warehouse: Warehouse = None,
    master: Master = "",
) -> None:
    """Move the state of a streaming query that does not run to another number of partitions.

    Answers stay what they are; the query goes on with its CREATE STREAMING TABLE. A query that runs is altered in its
    own process: ALTER STREAMING QUERY q SET PARTITIONS n.
    """
    with started(warehouse, master=master) as spark:
        from sqlx.cli.streams import rescale_stopped

        rescale_stopped(spark, query, partitions)


@app.command()
def queries(
    url: Annotated[str, typer.Argument(metavar="URL", help="Of a process with --metrics.")] = "http://localhost:9464",
    once: Annotated[bool, typer.Option("--once", help="Print them once, and end.")] = False,
) -> None:
    """Show the streaming queries of a running process, until Ctrl-C: rate, how far behind, refused rows, state.

    The process is `sqlx run --stream --metrics PORT` or `sqlx serve --metrics PORT`.
    """
    from sqlx.cli.queries import watch

    watch(url, once)


@app.command("compile")
def compile_(
    file: OneFile = None,
    text: Text = None,
    var: Var = [],  # noqa: B006 - typer copies it
    warehouse: Warehouse = None,
    remote: Remote = "",
) -> None:
    """Print a script as plain Spark SQL with calls of table functions, for a Spark that runs without our parser.

    Definitions are carried out, so that names bind; nothing else is. udtf.register(spark) brings the table functions.
    """
    scripts = _file_or_text(file, text, var)
    with started(warehouse, remote=remote) as spark:
        from sqlx.sessions.compile_text import compile_text

        for statement in carrying_out_definitions(spark, scripts):
            out.print(compile_text(spark, statement.text).rstrip().rstrip(";") + ";\n", soft_wrap=True)


@app.command("test")
def cases(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of .slt cases, or one.")],
    mode: Annotated[list[str], typer.Option("--mode", metavar="MODE", help=MODE_HELP)] = ["replay", "oracle"],  # noqa: B006
    complete: Annotated[bool, typer.Option("--complete", help="Write what replay answers into the cases.")] = False,
) -> None:
    """Run .slt cases: SQL with its rows and the answers that are expected.

    By default without Spark, in milliseconds: record by record in process (replay), and on DuckDB (oracle).
    """
    run_cases(path, mode, complete)


@app.command()
def demo() -> None:
    """Join 336,776 real departures with the weather at their airport, as of departure."""
    from sqlx.cli.demo import run_demo

    run_demo()


app.command(context_settings=SETTINGS)(dbt)
app.command()(doctor)
app.add_typer(connectors, name="connectors")
app.command()(serve)
app.command(context_settings=SETTINGS)(pipelines)
app.command()(pack)
app.command()(warm)


def _text_script(text: str, name: str) -> Script:
    statements = split(text, name)
    if not statements:
        msg = f"{name} holds no statement."
        raise CommandError(msg)
    return Script(statements)


def _file_or_text(file: Path | None, text: str | None, assignments: list[str]) -> list[Script]:
    if (file is None) == (text is None):
        msg = "Name a file, or give a text with -e; not both." if file else "Name a file, or give a text with -e."
        raise CommandError(msg)
    if file is not None:
        return read_scripts([file], assignments)
    return [_text_script(text or "", "-e")]


def main() -> None:
    """The entry point: no stack trace, whatever happens."""
    try:
        app()
    except KeyboardInterrupt:  # outside of any command
        sys.exit(130)
    except Exception as error:  # the last resort
        if os.environ.get("SQLX_DEBUG"):
            raise
        complain(
            f"sqlx failed in a way that it should not: {type(error).__name__}: {error}\n"
            "HINT: this is a bug of ours. SQLX_DEBUG=1 shows where; please report it."
        )
        sys.exit(70)
