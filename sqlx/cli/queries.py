"""``sqlx queries``: the streaming queries of a running process, as a table that keeps up with them."""

from __future__ import annotations

import json
import threading
from typing import Any, Final

from rich.live import Live
from rich.table import Table
from rich.text import Text

from sqlx.cli.output import out
from sqlx.cli.streams import size, span
from sqlx.failures import CommandError
from sqlx.serving.http import got

#: Where `--metrics` of a process on this machine listens, if nothing else is said.
PORT: Final = 9464
_LOOK_SECONDS: Final = 1.0
_STYLES: Final = {"running": "green", "failed": "red"}


def watch(url: str, once: bool) -> None:
    """Show the queries until Ctrl-C, or once.

    Args:
        url: of the process, as `--metrics` has printed it.
        once: print them and end.

    Raises:
        CommandError: nobody answers there, or somebody else.
    """
    if once or not out.is_terminal:
        out.print(table(fetched(url)))
        return
    with Live(table(fetched(url)), console=out, auto_refresh=False) as shown:
        while not threading.Event().wait(_LOOK_SECONDS):
            shown.update(table(fetched(url)), refresh=True)


def fetched(url: str) -> list[dict[str, Any]]:
    """What the process says of its queries."""
    place = f"{url.rstrip('/').removesuffix('/queries')}/queries.json"
    try:
        found: list[dict[str, Any]] = json.loads(got(place))
    except (OSError, ValueError) as error:
        msg = f"No queries at {place}: {getattr(error, 'reason', error)}."
        hint = f"Name what --metrics PORT of `sqlx run --stream` or `sqlx serve` has printed: http://host:{PORT}."
        raise CommandError(msg, hint) from None
    return found


def table(queries: list[dict[str, Any]]) -> Table:
    """The queries, one a row."""
    found = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("query", "status"):
        found.add_column(title, overflow="fold")
    for title in ("rows", "rows/s", "batch", "behind", "refused", "state", "parts"):
        found.add_column(title, justify="right")
    for one in queries:
        status = str(one["status"])
        found.add_row(
            one["name"],
            Text(status, style=_STYLES.get(status, "dim")),
            f"{one['rows']:,}",
            f"{one['rows_per_second']:,.0f}",
            f"{one['batch_ms']:,} ms",
            "" if one["lag_ms"] is None else span(one["lag_ms"] * 1000),
            f"{one['refused']:,}",
            f"{one['state_rows']:,} rows, {size(one['state_bytes'])}",
            str(one["partitions"] or ""),
        )
        if one["error"]:
            found.add_row("", Text(one["error"], style="red"))
    if not queries:
        found.add_row(Text("none yet", style="dim"))
    return found
