"""Builds models in Spark: one after the other, each as its configuration says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catalog.definitions import part_text
from sqlx.models.graph import reach
from sqlx.models.project import Model
from sqlx.models.statements import DEFINITIONS, Query, definition, listed, query_of, streaming_table, view
from sqlx.streaming.settings import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Without it insert_overwrite replaces the whole table; it is set in the session, where INSERT INTO looks for it.
_DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}


@dataclass
class Builder:
    """Builds the models of one folder.

    Args:
        spark: a session of ours.
        models: all models of the folder, in order.
        anew: make incremental tables and streaming tables from the beginning.
    """

    spark: SparkSession
    models: Sequence[Model]
    anew: bool = False
    _schemas: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._by_name = {model.name: model for model in self.models}

    def build(self, model: Model) -> str:
        """Build one model; what was done, in a word or two.

        Raises:
            RenderError: it is not one query, or its configuration does not fit.
            PySparkException: the query is wrong or failed.
        """
        self._make_schema(model)
        if model.materialized == "ephemeral":
            query_of(model, model.text)
            return "ephemeral"
        if model.materialized == "table":
            self._replace_table(model, self.query(model))
            return "table"
        if model.materialized == "incremental":
            return self._add_rows(model)
        if model.materialized == "streaming_table":
            self._drop_unless(model, is_view=False)
            self.spark.sql(streaming_table(model, self.query(model), anew=self.anew))
            return "streaming table"
        self._drop_unless(model, is_view=True)
        self.spark.sql((definition if model.materialized in DEFINITIONS else view)(model, self.query(model)))
        return model.materialized.replace("_", " ")

    def query(self, model: Model, text: str | None = None) -> Query:
        """The query of a model, with the ephemeral ones that it reads inside."""
        return query_of(model, model.text if text is None else text, self._inlined(model))

    def _inlined(self, model: Model) -> dict[str, Query]:
        ephemeral = {m.name: {r for r in m.refs if self._is_ephemeral(r)} for m in self.models}
        read = reach({ref for ref in model.refs if self._is_ephemeral(ref)}, ephemeral)
        return {m.relation: query_of(m, m.text) for m in self.models if m.name in read}

    def _is_ephemeral(self, name: str) -> bool:
        return self._by_name[name].materialized == "ephemeral"

    def _make_schema(self, model: Model) -> None:
        schema = str(model.config.get("schema") or "")
        if schema and schema not in self._schemas and model.materialized != "ephemeral":
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            self._schemas.add(schema)

    def _replace_table(self, model: Model, query: Query) -> None:
        """The table changes once its new rows are all there: a query that fails leaves the old ones."""
        made, file_format = f"{model.relation}__sqlx_new", str(model.config.get("file_format") or "parquet")
        self.spark.sql(query.placed).write.mode("overwrite").format(file_format).saveAsTable(made)
        self._drop(model)
        partitions = listed(model.config.get("partition_by"))
        if not partitions:
            self.spark.sql(f"ALTER TABLE {made} RENAME TO {model.relation}")
            return
        # A table that is renamed loses sight of its partitions where the catalog is in memory: it is written once more.
        self.spark.table(made).write.format(file_format).partitionBy(*partitions).saveAsTable(model.relation)
        self.spark.sql(f"DROP TABLE {made}")

    def _add_rows(self, model: Model) -> str:
        if self.anew or self._kind(model) != "table":
            self._replace_table(model, self.query(model))
            return "incremental, anew"
        columns = [part_text(name) for name in self.spark.table(model.relation).columns]
        rows = self.spark.sql(self.query(model, model.again).placed).select(*columns)
        with settings(self.spark, _DYNAMIC):
            rows.write.insertInto(model.relation, overwrite=model.incremental_strategy == "insert_overwrite")
        return f"incremental, {model.incremental_strategy.replace('_', ' ')}"

    def _kind(self, model: Model) -> str:
        """What stands under the name of a model: 'table', 'view' or ''."""
        if not self.spark.catalog.tableExists(model.relation):
            return ""
        found: Any = self.spark.catalog.getTable(model.relation)
        return "view" if found.tableType in ("VIEW", "TEMPORARY") else "table"

    def _drop_unless(self, model: Model, *, is_view: bool) -> None:
        """Drop what stands under the name where it is of the other kind."""
        kind = self._kind(model)
        if kind and (kind == "view") != is_view:
            self._drop(model)

    def _drop(self, model: Model) -> None:
        kind = self._kind(model)
        if kind:
            self.spark.sql(f"DROP {kind.upper()} {model.relation}")
