"""``sqlx connectors``: which connectors there are, and fetching their jars."""

from __future__ import annotations

from typing import Annotated

import typer

from sqlx.cli.output import out

connectors = typer.Typer(
    no_args_is_help=False,
    help="Jars that PySpark's wheel leaves out: Kafka, Avro, Delta, Iceberg.",
    invoke_without_command=True,
)
Names = Annotated[list[str], typer.Argument(metavar="NAME", help="kafka, avro, delta or iceberg; several are fine.")]


@connectors.callback()
def listed(context: typer.Context) -> None:
    """List the connectors, and whether their jars are there."""
    if context.invoked_subcommand is not None:
        return
    from sqlx.connectors.jars import CONNECTORS, jars_folder, missing

    for connector in CONNECTORS.values():
        state = "none" if not connector.is_available else "missing" if missing(connector) else "there"
        out.print(f"{connector.name:<8}{state:<9}{connector.what}", soft_wrap=True)
    out.print(f"Folder: {jars_folder()}", soft_wrap=True)


@connectors.command()
def fetch(names: Names) -> None:
    """Fetch the jars of connectors from Maven Central, checked against their checksums.

    They go to ~/.cache/sqlx/jars, or to the folder that SQLX_JARS names. SQLX_MAVEN_REPOSITORY names a mirror.
    """
    from sqlx.connectors.jars import fetch as fetch_jars
    from sqlx.connectors.jars import jars_folder, named

    folder = jars_folder()
    artifacts = [artifact for connector in named(names) for artifact in connector.artifacts]
    fetched = fetch_jars(artifacts, folder, lambda artifact: out.print(f"  {artifact.file}", soft_wrap=True))
    found = "were there already" if not fetched else "are there now"
    out.print(f"The jars of {', '.join(dict.fromkeys(names))} {found}: {folder}", soft_wrap=True)
    out.print(f"A session has them with SQLX_CONNECTORS={','.join(dict.fromkeys(names))}.", soft_wrap=True)
