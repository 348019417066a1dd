"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Warehouse = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Keep tables and definitions in this folder (one process at a time)."),
]
Master = Annotated[
    str,
    typer.Option(metavar="URL", help="Run on this cluster, spark://HOST:7077 or yarn; else on this machine alone."),
]
