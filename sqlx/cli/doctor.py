"""``sqlx doctor``: what this machine lacks, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from sqlx.cli.output import out
from sqlx.cli.start import started
from sqlx.connectors.jars import CONNECTORS
from sqlx.doctor import Finding, worst
from sqlx.failures import CommandError, message_of
from sqlx.version import __version__

if TYPE_CHECKING:
    from sqlx.doctor import Wanted  # it brings PySpark, which the command line starts without

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}

Ports = Annotated[list[int], typer.Option("--port", metavar="N", help="A port to serve on; default: 10000 and 15002.")]
Needed = Annotated[
    list[str], typer.Option("--connector", metavar="NAME", help=f"A connector you need: {', '.join(CONNECTORS)}.")
]
Warehouse = Annotated[Path | None, typer.Option(metavar="DIR", help="Look at the folder of a warehouse, too.")]


def doctor(
    port: Ports = [],  # noqa: B006 - typer copies it
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to serve on.")] = "127.0.0.1",
    connector: Needed = [],  # noqa: B006
    warehouse: Warehouse = None,
    start: Annotated[bool, typer.Option("--start", help="Start Spark, too, and run a query.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check Python, Java, Spark, packages, connectors, ports and the warehouse; say what to do.

    A warning is about something that not everybody needs; what an option names is needed. Exit code 1: a problem.
    """
    from sqlx.doctor import examine

    findings = list(examine(_wanted(port, host, connector, warehouse)))
    if start and worst(findings) != "problem":
        findings.append(_started())
    if as_json:
        checks = [asdict(finding) for finding in findings]
        out.print_json(json.dumps({"sqlx": __version__, "status": worst(findings), "checks": checks}))
    else:
        _show(findings)
    if worst(findings) == "problem":
        raise typer.Exit(1)


def _wanted(ports: Sequence[int], host: str, connectors: Sequence[str], warehouse: Path | None) -> Wanted:
    from sqlx.doctor import Wanted

    names = [name.lower() for name in connectors]
    for name in names:
        if name not in CONNECTORS:
            msg = f"--connector knows no {name}."
            raise CommandError(msg, f"There are: {', '.join(CONNECTORS)}.")
    return Wanted(ports, host, names, warehouse)


def _started() -> Finding:
    from sqlx.doctor import run

    try:
        with started(None) as spark:
            return run(spark)
    except Exception as error:  # noqa: BLE001 - whatever it was, it is what the doctor has found
        found = message_of(error) or f"{type(error).__name__}: {error}"
        return Finding("a query", "problem", found, "SQLX_DEBUG=1 sqlx doctor --start shows Spark's log.")


def _show(findings: Iterable[Finding]) -> None:
    findings = list(findings)
    wide = max(len(finding.check) for finding in findings)
    for finding in findings:
        line = Text(f"{finding.status:8} ", style=_STYLES[finding.status])
        line.append(f"{finding.check:{wide}}  {_indented(finding.found, wide + 11)}", style="default not bold")
        out.print(line, soft_wrap=True)
        if finding.remedy:
            out.print(Text(f"{'':{wide + 11}}→ {_indented(finding.remedy, wide + 13)}"), soft_wrap=True)
    counts = {status: sum(f.status == status for f in findings) for status in ("problem", "warning")}
    out.print()
    out.print(_summary(counts["problem"], counts["warning"]))


def _indented(text: str, by: int) -> str:
    return text.replace("\n", "\n" + " " * by)


def _summary(problems: int, warnings: int) -> str:
    """What it comes to, in a line.

    >>> _summary(0, 0), _summary(1, 2)
    ('sqlx can run here.', '1 problem, 2 warnings.')
    """
    if not problems and not warnings:
        return "sqlx can run here."
    counted = [(problems, "problem"), (warnings, "warning")]
    parts = ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counted if n)
    return f"{parts}." if problems else f"sqlx can run here; {parts}."
