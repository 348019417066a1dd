"""``sqlx run DIR``: the models of a folder, in order, with what became of each."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sqlx.cli.failures import CommandError, message_of
from sqlx.cli.output import complain, note, out
from sqlx.cli.progress import watched
from sqlx.cli.start import started
from sqlx.jinja import parse_variables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.models.build import Builder
    from sqlx.models.project import Model


@dataclass(frozen=True)
class FolderOptions:
    """What the command line says about a folder.

    Attributes:
        select: which models; nothing is all of them.
        full_refresh: make incremental and streaming tables from the beginning.
        stream: let streaming tables run on, until somebody stops them.
    """

    select: Sequence[str] = ()
    full_refresh: bool = False
    stream: bool = False


@dataclass
class _Outcome:
    """What became of the models so far."""

    done: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        parts = [f"{self.done} done"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.skipped} skipped"] if self.skipped else []
        return ", ".join(parts)


def run_folder(folder: Path, assignments: Sequence[str], warehouse: Path | None, options: FolderOptions) -> None:
    """Run the models of a folder.

    Args:
        folder: a folder of ``.sql`` files, or a dbt project.
        assignments: ``name=value`` of ``--var``.
        warehouse: where tables are kept; None is for this command only.
        options: of the command line.

    Raises:
        RenderError: a file cannot be rendered, or the models cannot be ordered.
        typer.Exit: a model failed, or somebody stopped the streams.
    """
    from sqlx.models.graph import ordered, selected
    from sqlx.models.project import read_models

    models = ordered(read_models(folder, parse_variables(assignments)))
    chosen = selected(models, options.select)
    with started(warehouse) as spark:
        from sqlx.models.build import Builder

        builder = Builder(spark, models, options.full_refresh)
        begun = time.monotonic()
        outcome = _build_all(spark, builder, chosen)
        note(f"{len(chosen)} models: {outcome}, in {time.monotonic() - begun:.1f} s")
        if outcome.failed:
            raise typer.Exit(1)
        if options.stream:
            _follow_streams(spark, builder, chosen)


def _build_all(spark: SparkSession, builder: Builder, models: Sequence[Model]) -> _Outcome:
    """Build models in order; those behind one that failed are left out, all others are built."""
    outcome, missing, width = _Outcome(), dict[str, str](), max(len(model.name) for model in models)
    for number, model in enumerate(models, start=1):
        head = f"{number}/{len(models)}".rjust(2 * len(str(len(models))) + 1) + f"  {model.name:<{width}}"
        cause = next((missing[ref] for ref in model.refs if ref in missing), None)
        if cause is not None:
            missing[model.name] = cause
            outcome.skipped += 1
            out.print(f"{head}  skipped: {cause} failed", soft_wrap=True)
            continue
        begun = time.monotonic()
        what = _built(spark, builder, model, f"{number}/{len(models)} {model.name}")
        outcome.done += what is not None
        if what is None:
            missing[model.name] = model.name
            outcome.failed += 1
        out.print(f"{head}  {what or 'failed':<29}  {time.monotonic() - begun:6.1f} s", soft_wrap=True)
    return outcome


def _built(spark: SparkSession, builder: Builder, model: Model, what: str) -> str | None:
    """What a model became; None where it failed, which has been said."""
    try:
        return watched(spark, what, lambda: builder.build(model))
    except Exception as error:
        message = message_of(error)
        if message is None or os.environ.get("SQLX_DEBUG"):
            raise
        place = "" if str(model.path) in message else f"{model.path}:\n"
        complain(place + message)
        return None


def _follow_streams(spark: SparkSession, builder: Builder, models: Sequence[Model]) -> None:
    """Start the streaming tables anew, to run on, and show how far they are.

    Raises:
        CommandError: there is none.
        typer.Exit: somebody stopped them.
    """
    from sqlx.cli.streams import follow
    from sqlx.models.statements import streaming_table
    from sqlx.streaming.registry import registry

    live = [model for model in models if model.materialized == "streaming_table"]
    if not live:
        msg = "There is no streaming table among these models: --stream keeps those running."
        raise CommandError(msg, "Write {{ config(materialized='streaming_table') }} into a model.")
    for model in live:
        spark.sql(streaming_table(model, builder.query(model), anew=False, trigger=""))
    running = [query for query in registry(spark.sparkContext).all() if query.query.isActive]
    try:
        code = follow(running)
    finally:
        for query in running:
            query.query.stop()
    if code:
        raise typer.Exit(code)
