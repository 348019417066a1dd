"""dbt's own YAML: sources, variables, and configurations of models, where a folder has such files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlx.errors import caret_lines
from sqlx.jinja import RenderError, render_value

SKIPPED = ("target", "dbt_packages", "logs", "sqlx-warehouse")
"""Folders in which dbt and we keep what was made."""


@dataclass
class Declared:
    """What the YAML files of a folder say.

    Attributes:
        project: the name in ``dbt_project.yml``, or "".
        model_paths, macro_paths: where models and macros lie, relative to the folder.
        variables: of ``vars``.
        defaults: configurations by folder, the outer ones first: parts of the path to options.
        configs: configurations by model.
        sources: per source its tables, each with the name that SQL reads.
    """

    project: str = ""
    model_paths: tuple[str, ...] = (".",)
    macro_paths: tuple[str, ...] = ("macros",)
    variables: dict[str, object] = field(default_factory=dict)
    defaults: list[tuple[tuple[str, ...], dict[str, Any]]] = field(default_factory=list)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, dict[str, str]] = field(default_factory=dict)


def read_yaml(folder: Path, variables: Mapping[str, object]) -> Declared:
    """Read ``dbt_project.yml`` and all other YAML files of a folder's models.

    Args:
        folder: the folder.
        variables: what ``--var`` gave; it wins over ``vars``.

    Raises:
        RenderError: a file is no YAML, or says something else than expected.
    """
    declared = Declared()
    project = folder / "dbt_project.yml"
    if project.exists():
        _read_project(declared, _loaded(project))
    declared.variables.update(variables)
    for path in files_of(folder, declared.model_paths, ("*.yml", "*.yaml")):
        if path != project and path.name != "profiles.yml":
            _read_properties(declared, path, _loaded(path))
    return declared


def files_of(folder: Path, paths: Iterable[str], patterns: Iterable[str]) -> list[Path]:
    """The files below some folders of a folder, in order; hidden ones and what tools have made are left out."""
    found = {path for below in paths for pattern in patterns for path in (folder / below).rglob(pattern)}
    return sorted(path for path in found if path.is_file() and not _is_skipped(path.relative_to(folder)))


def _is_skipped(path: Path) -> bool:
    return any(part in SKIPPED or (part.startswith(".") and part != "..") for part in path.parts)


def _loaded(path: Path) -> dict[str, Any]:
    import yaml  # a folder without such files does without it

    text = path.read_text(encoding="utf-8")
    try:
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else "\n" + caret_lines(text, mark.index, mark.index + 1)
        msg = f"{path} is not YAML: {error.problem}.{where}"
        raise RenderError(msg) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        msg = f"{path} is not YAML: {error}"
        raise RenderError(msg) from error
    if content is not None and not isinstance(content, dict):
        msg = f"{path}: expected keys such as `sources` or `models` at its top, found a {type(content).__name__}."
        raise RenderError(msg)
    return content or {}


def _read_project(declared: Declared, content: dict[str, Any]) -> None:
    declared.project = str(content.get("name", ""))
    declared.model_paths = tuple(content.get("model-paths") or ["models"])
    declared.macro_paths = tuple(content.get("macro-paths") or ["macros"])
    variables = dict(content.get("vars") or {})
    own = variables.pop(declared.project, None)
    declared.variables.update(variables | (own if isinstance(own, dict) else {}))
    _read_defaults(declared, (), content.get("models") or {})


def _read_defaults(declared: Declared, below: tuple[str, ...], tree: dict[str, Any]) -> None:
    """``models:`` of a project: ``+option`` holds for the folder that it stands in, other keys are folders."""
    options = {key.removeprefix("+"): value for key, value in tree.items() if key.startswith("+")}
    options |= {key: value for key, value in tree.items() if key == "materialized"}
    if options:
        declared.defaults.append((below, options))
    for key, value in tree.items():
        if isinstance(value, dict) and not key.startswith("+"):
            _read_defaults(declared, below if key == declared.project else (*below, key), value)


def _read_properties(declared: Declared, path: Path, content: dict[str, Any]) -> None:
    declared.variables = {**(content.get("vars") or {}), **declared.variables}
    for model in _named(path, content, "models"):
        declared.configs.setdefault(str(model["name"]), {}).update(model.get("config") or {})
    for source in _named(path, content, "sources"):
        name = str(source["name"])
        schema = render_value(str(source.get("schema", name)), declared.variables, path)
        tables = declared.sources.setdefault(name, {})
        for table in _named(path, source, "tables"):
            identifier = render_value(str(table.get("identifier", table["name"])), declared.variables, path)
            tables[str(table["name"])] = f"{schema}.{identifier}"


def _named(path: Path, content: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The items under a key, each of which has a name."""
    items = content.get(key) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) and "name" in item for item in items):
        msg = f"{path}: `{key}` holds a list of items that each have a name:\n{key}:\n  - name: …"
        raise RenderError(msg)
    return items
