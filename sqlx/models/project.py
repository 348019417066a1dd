"""Reads a folder of models: every file rendered, its configuration, and what it refers to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from sqlx.errors import did_you_mean
from sqlx.jinja import Rendered, RenderError, Surroundings, render_file
from sqlx.models.yaml_files import Declared, files_of, read_yaml

MATERIALIZATIONS = (
    "view", "table", "incremental", "ephemeral", "streaming_table", "stream", "versioned_table", "upsert_table",
)  # fmt: skip
_STRATEGIES = ("append", "insert_overwrite")
_SAME = {"streaming": "streaming_table"}


@dataclass(frozen=True)
class Model:
    """One file of a folder.

    Attributes:
        name: the file's stem.
        path: the file.
        relation: the name under which SQL reads it.
        materialized: one of :data:`MATERIALIZATIONS`.
        refs: the models that it refers to.
        config: its whole configuration: the folder's, the YAML's, its own.
        text: its SQL; for an incremental model the one of a first run.
        again: for an incremental model the SQL of a run over a table that is there.
    """

    name: str
    path: Path
    relation: str
    materialized: str = "view"
    refs: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    again: str = ""

    @property
    def tags(self) -> tuple[str, ...]:
        """What ``tag:`` finds it by."""
        found = self.config.get("tags") or ()
        return (found,) if isinstance(found, str) else tuple(map(str, found))

    @property
    def incremental_strategy(self) -> str:
        """How an incremental model adds rows."""
        return str(self.config.get("incremental_strategy") or "append")


def read_models(folder: Path, variables: Mapping[str, object]) -> list[Model]:
    """All models of a folder, by path.

    Args:
        folder: a folder of ``.sql`` files, or a dbt project.
        variables: what ``--var`` gave.

    Raises:
        RenderError: a file cannot be rendered, two have one name, or one asks for what is not there.
    """
    declared = read_yaml(folder, variables)
    paths = files_of(folder, declared.model_paths, ("*.sql",))
    if declared.model_paths == (".",):
        paths = [path for path in paths if path.relative_to(folder).parts[0] not in declared.macro_paths]
    if not paths:
        msg = f"There is no model in {folder}: it holds no .sql file."
        raise RenderError(msg)
    return _Reader(folder, declared, paths).models()


class _Reader:
    """Reads the files of one folder, twice: first what they say of themselves, then with the names of all."""

    def __init__(self, folder: Path, declared: Declared, paths: list[Path]) -> None:
        self.folder, self.declared, self.paths = folder, declared, paths
        self.macros = tuple(files_of(folder, declared.macro_paths, ("*.sql",)))
        self.relations: dict[str, str] = {}

    def models(self) -> list[Model]:
        """The models."""
        by_name: dict[str, Path] = {}
        for path in self.paths:
            if path.stem in by_name:
                msg = f"Two models have the name {path.stem}: {by_name[path.stem]} and {path}."
                raise RenderError(msg)
            by_name[path.stem] = path
        self.relations = {name: name for name in by_name}
        configs = {path: self._config(self._render(path)) for path in self.paths}
        self.relations = {path.stem: _relation(path.stem, config) for path, config in configs.items()}
        return [self._model(path, config) for path, config in configs.items()]

    def _model(self, path: Path, config: Mapping[str, Any]) -> Model:
        name = path.stem
        written = str(config.get("materialized", "view"))
        materialized = _SAME.get(written, written)
        if materialized not in MATERIALIZATIONS:
            hint = did_you_mean(written, MATERIALIZATIONS).strip()
            msg = f"{path}: materialized='{written}' cannot be run here.\nHINT: {hint}"
            raise RenderError(msg)
        first = self._render(path)
        again = self._render(path, is_incremental=True) if materialized == "incremental" else first
        refs = tuple(dict.fromkeys([*first.refs, *again.refs]))
        model = Model(name, path, self.relations[name], materialized, refs, config, first.text, again.text)
        if materialized == "incremental":
            _check_strategy(model)
        return model

    def _render(self, path: Path, *, is_incremental: bool = False) -> Rendered:
        around = Surroundings(
            self.declared.variables,
            ref=partial(_ref, self.relations),
            source=partial(_source, self.declared.sources),
            this=self.relations[path.stem],
            is_incremental=is_incremental,
            macros=self.macros,
        )
        return render_file(path, self.declared.variables, around)

    def _config(self, rendered: Rendered) -> dict[str, Any]:
        """The folder's configuration, the YAML's over it, its own over both."""
        bases = [self.folder / below for below in self.declared.model_paths]
        base = next(base for base in bases if rendered.path.is_relative_to(base))
        parts = rendered.path.relative_to(base).with_suffix("").parts
        config: dict[str, Any] = {}
        for below, options in self.declared.defaults:
            if parts[: len(below)] == below:
                config.update(options)
        return {**config, **self.declared.configs.get(rendered.name, {}), **rendered.config}


def _check_strategy(model: Model) -> None:
    strategy = model.incremental_strategy
    if strategy not in _STRATEGIES:
        msg = (
            f"{model.path}: incremental_strategy='{strategy}' cannot be run here.\n"
            "HINT: 'append' adds rows and 'insert_overwrite' replaces partitions; "
            "'merge' needs a format with MERGE, such as Delta, and dbt: sqlx dbt run."
        )
        raise RenderError(msg)
    if strategy == "insert_overwrite" and not model.config.get("partition_by"):
        msg = (
            f"{model.path}: insert_overwrite replaces partitions, and the model has none.\n"
            "HINT: config(…, partition_by='day')"
        )
        raise RenderError(msg)


def _relation(name: str, config: Mapping[str, Any]) -> str:
    table = str(config.get("alias") or name)
    has_schema = config.get("schema") and config.get("materialized") != "ephemeral"
    return f"{config['schema']}.{table}" if has_schema else table


def _ref(relations: Mapping[str, str], name: str) -> str:
    if name not in relations:
        msg = f"ref('{name}'): there is no model of that name. {did_you_mean(name, relations)}".strip()
        raise TemplateError(msg)
    return relations[name]


def _source(sources: Mapping[str, Mapping[str, str]], source: str, table: str) -> str:
    if source not in sources:  # without a file that declares it, it is what it says
        return f"{source}.{table}"
    if table not in sources[source]:
        hint = did_you_mean(table, sources[source])
        msg = f"source('{source}', '{table}'): the source has no table of that name. {hint}".strip()
        raise TemplateError(msg)
    return sources[source][table]
