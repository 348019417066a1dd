"""``sqlx serve``: JDBC/ODBC and Spark Connect from one process, until somebody stops it."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sqlx.cli.output import note, out
from sqlx.failures import CommandError
from sqlx.serving.options import ServeOptions, Tls, check, check_free

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.serving.server import Server
    from sqlx.streaming.lease import Lease

_LOOK_SECONDS = 1.0
_UNITS = {"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600}
_LENGTH = re.compile(r"(\d+)\s*([a-z]*)")


def seconds_of(text: str) -> int:
    """A length of time in seconds.

    Raises:
        CommandError: it is none.

    >>> seconds_of("5min"), seconds_of("90"), seconds_of("1 h")
    (300, 90, 3600)
    """
    found = _LENGTH.fullmatch(text.strip().lower())
    unit = _UNITS.get(found[2] or "s") if found else None
    if found is None or unit is None:
        msg = f"--statement-timeout {text}: this is no length of time."
        raise CommandError(msg, "Write 90s, 5min or 1h; 0 is no limit.")
    return int(found[1]) * unit


def serve(
    thrift: Annotated[int | None, typer.Option(min=1, max=65535, metavar="PORT", help="Serve JDBC and ODBC.")] = None,
    connect: Annotated[int | None, typer.Option(min=1, max=65535, metavar="PORT", help="Serve Spark Connect.")] = None,
    warehouse: Annotated[
        Path, typer.Option(metavar="DIR", help="Where tables and definitions are (one process at a time).")
    ] = Path("warehouse"),
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen at.")] = "127.0.0.1",
    health: Annotated[int | None, typer.Option(min=1, max=65535, metavar="PORT", help="GET /health over HTTP.")] = None,
    metrics: Annotated[int | None, typer.Option(min=1, max=65535, metavar="PORT", help="Streams over HTTP.")] = None,
    users: Annotated[Path | None, typer.Option(metavar="FILE", help="Users and hashed passwords.")] = None,
    ldap: Annotated[str, typer.Option(metavar="URL", help="An LDAP server that knows the users.")] = "",
    ldap_base: Annotated[str, typer.Option(metavar="DN", help="Below which users are: uid=NAME,DN.")] = "",
    ldap_domain: Annotated[str, typer.Option(metavar="DOMAIN", help="Of an Active Directory: NAME@DOMAIN.")] = "",
    tls_cert: Annotated[Path | None, typer.Option(metavar="PEM", help="The server's certificate chain.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="PEM", help="Its private key (PKCS#8).")] = None,
    tls_keystore: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A Java keystore instead; password in SQLX_KEYSTORE_PASSWORD.")
    ] = None,
    plain_text: Annotated[bool, typer.Option("--plain-text", help="Beyond loopback without TLS.")] = False,
    statement_timeout: Annotated[str, typer.Option(metavar="TIME", help="90s, 5min, 1h; 0 is no limit.")] = "0",
    max_rows: Annotated[int, typer.Option(min=0, metavar="N", help="Most rows of a result; 0 is no limit.")] = 0,
    folder: Annotated[list[str], typer.Option(metavar="DIR", help="Further files for clients; repeatable.")] = [],  # noqa: B006
    trust_users: Annotated[bool, typer.Option("--trust-users", help="Clients may run code, use any file.")] = False,
    admin: Annotated[list[str], typer.Option(metavar="NAME", help="May stop others' streams; repeatable.")] = [],  # noqa: B006
    audit: Annotated[Path | None, typer.Option(metavar="FILE", help="Who did what; else standard error.")] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Java's heap.")] = "2g",
    standby: Annotated[bool, typer.Option("--standby", help="Serve when no other such process does.")] = False,
    conf: Annotated[list[str], typer.Option("--conf", metavar="K=V", help="Spark configuration; repeatable.")] = [],  # noqa: B006
    add_user: Annotated[str, typer.Option(metavar="NAME", help="Write a user into --users FILE, and end.")] = "",
    checks: Annotated[bool, typer.Option("--check", help="Ask a running server how it is, and end.")] = False,
) -> None:
    """Serve JDBC/ODBC (Thrift) and Spark Connect from one process, until Ctrl-C.

    Everybody may come in at 127.0.0.1. Any other address needs --users or --ldap, and TLS. Streaming tables that
    clients have started go on when they leave, and come back with the server.
    """
    if add_user:
        _add_user(users, add_user)
        return
    tls = Tls(tls_cert, tls_key, tls_keystore, os.environ.get("SQLX_KEYSTORE_PASSWORD", ""))
    options = ServeOptions(
        host, thrift, connect, warehouse, health, metrics, users, ldap, ldap_base, ldap_domain, most_rows=max_rows,
        tls=tls if tls != Tls(password=tls.password) else None, plain_text=plain_text, admins=tuple(admin), audit=audit,
        timeout_seconds=seconds_of(statement_timeout), folders=tuple(folder), trust_users=trust_users, standby=standby,
    )  # fmt: skip
    if checks:
        _check(options)
        return
    check(options)
    _run(options, dict(_assigned(text) for text in conf), memory)


def _assigned(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        msg = f"--conf {text}: this is no setting."
        raise CommandError(msg, "Write --conf NAME=VALUE.")
    return name.strip(), value


def _add_user(path: Path | None, name: str) -> None:
    from sqlx.serving.users import add_user

    if path is None:
        msg = "--add-user needs to know the file."
        raise CommandError(msg, "Give --users FILE; it is made if it is missing.")
    if sys.stdin.isatty():
        password = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    is_new = add_user(path, name, password)
    out.print(f"{path}: {'added' if is_new else 'changed the password of'} {name}")


def _check(options: ServeOptions) -> None:
    from sqlx.serving.health import ask
    from sqlx.serving.server import answers

    if not options.ports:
        msg = "--check has nothing to ask."
        raise CommandError(msg, "Name the ports of the running server: --health, --thrift, --connect.")
    for option, port in options.ports.items():
        down = ask(options.host, port) if option == "--health" else ""
        if down or not answers(options.host, port):
            msg = f"{option} {port}: {down or f'nothing takes connections at {options.host}:{port}'}"
            raise CommandError(msg)
    out.print("ok")


def _run(options: ServeOptions, further: dict[str, str], memory: str) -> None:
    from sqlx.cli.start import started
    from sqlx.serving.server import Server, Setting, conf_with

    with tempfile.TemporaryDirectory(prefix="sqlx-serve-", ignore_cleanup_errors=True) as scratch, _asked() as asked:
        setting = Setting(options, Path(scratch))
        with (
            _sheltered(started(options.warehouse, conf_with(setting, further, memory))) as spark,
            _active(spark, options, asked.stop) as lease,
        ):
            if not asked.stop.is_set():
                with Server(spark, setting) as server:
                    _tell(options, server)
                    while not asked.stop.wait(_LOOK_SECONDS):
                        server.look()
                        if lease is not None:
                            lease.check()
                    note("Stopping: no more clients; running micro-batches end.")
    if asked.number == signal.SIGTERM:
        note("Stopped.")
        return
    raise typer.Exit(130)


@contextmanager
def _active(spark: SparkSession, options: ServeOptions, stop: threading.Event) -> Iterator[Lease | None]:
    """With --standby: wait, warm, until no other process serves the warehouse, whose catalog is not opened before."""
    if not options.standby:
        yield None
        return
    from sqlx.spark.workers import warm
    from sqlx.streaming.lease import Lease

    warm(spark)
    lease = Lease(spark, str(options.warehouse))
    try:
        if lease.wait(lambda holder: note(f"Standing by: {holder.shown} serves {options.warehouse}."), stop):
            note(f"Active: this process serves {options.warehouse}.")
            check_free(options)
        yield lease
    finally:
        lease.release()


@dataclass
class _Asked:
    """Whether somebody wants the server to end."""

    stop: threading.Event
    number: int = 0


@contextmanager
def _asked() -> Iterator[_Asked]:
    """Within it Ctrl-C and SIGTERM are noted, once; the second one interrupts."""
    asked = _Asked(threading.Event())

    def note_signal(number: int, _frame: object) -> None:
        if asked.stop.is_set():
            raise KeyboardInterrupt
        asked.number = number
        asked.stop.set()

    before = {number: signal.signal(number, note_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _sheltered(starting: AbstractContextManager[SparkSession]) -> Iterator[SparkSession]:
    """Start Java so that SIGTERM passes it by: where a whole process group gets it, we have to end first.

    A signal that is ignored when Java starts stays ignored in it, as under nohup. For these seconds we ignore it, too.
    """
    ours = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with starting as spark:
        signal.signal(signal.SIGTERM, ours)
        yield spark


def _tell(options: ServeOptions, server: Server) -> None:
    """What listens where, and who may come in; the last line says that it is ready."""
    for query in server.restarted:
        if query.error is None:
            out.print(f"streaming    {query.name} goes on")
        else:
            note(f"streaming    {query.name} could not be started again: {query.error}")
    host = f"[{options.host}]" if ":" in options.host else options.host
    tls = "TLS" if options.tls is not None else "plain text"
    if options.thrift is not None:
        out.print(f"JDBC, ODBC   jdbc:hive2://{host}:{options.thrift}/default ({tls})")
    if options.connect is not None:
        out.print(f"Connect      sc://{host}:{options.connect} ({tls})")
    if options.health is not None:
        out.print(f"health       http://{host}:{options.health}/health")
    if options.metrics is not None:
        out.print(f"streams      http://127.0.0.1:{options.metrics}/queries, /metrics")
    out.print(f"who may in   {_who(options)}")
    out.print(f"may do       {_may(options)}")
    out.print(f"warehouse    {options.warehouse.resolve()}")
    out.print(f"ready, process {os.getpid()}; Ctrl-C stops it")
    sys.stdout.flush()


def _may(options: ServeOptions) -> str:
    if options.trust_users:
        return "whatever this process may: programs, code, any file"
    return ", ".join(
        ["SQL over the catalog", "files of the warehouse", *(f"of {folder}" for folder in options.folders)]
    )


def _who(options: ServeOptions) -> str:
    if options.users is not None:
        return f"the users of {options.users}"
    if options.ldap:
        return f"whom {options.ldap} lets in"
    return "everybody on this machine, without a password"
