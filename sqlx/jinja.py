"""dbt-style files: SQL with ``ref``, ``source``, ``var`` and ``config``, rendered through Jinja."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound, TemplateSyntaxError


class RenderError(Exception):
    """A file that Jinja cannot turn into SQL; the message says where and why."""


@dataclass
class Rendered:
    """One file as SQL, and what it said about itself on the way.

    Attributes:
        name: the model's name, which is the file's stem.
        path: the file.
        text: the SQL.
        refs: the models that it reads, in the order of its ``ref`` calls.
        config: what it gave to ``config(…)``.
    """

    name: str
    path: Path
    text: str = ""
    refs: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)


def render_file(path: Path, variables: Mapping[str, object]) -> Rendered:
    """Render one file; ``{% include 'other.sql' %}`` finds files beside it.

    Args:
        path: the file, in UTF-8.
        variables: what ``var(name)`` answers.

    Raises:
        RenderError: the file is no text, or Jinja refuses it.
        OSError: the file cannot be read.
    """
    model = Rendered(path.stem, path)
    try:
        model.text = _environment(model, variables).from_string(path.read_text(encoding="utf-8")).render()
    except UnicodeDecodeError as error:
        msg = f"{path} is not a text in UTF-8 (byte {error.start})."
        raise RenderError(msg) from error
    except TemplateError as error:
        raise RenderError(_explained(path, error)) from error
    return model


def _environment(model: Rendered, variables: Mapping[str, object]) -> Environment:
    def ref(*names: str, v: object = None, version: object = None) -> str:
        wanted = v if v is not None else version
        model.refs.append(names[-1] if wanted is None else f"{names[-1]}_v{wanted}")
        return model.refs[-1]

    def source(source_name: str, table_name: str) -> str:
        return f"{source_name}.{table_name}"

    def var(name: str, default: object = None) -> object:
        if name in variables:
            return variables[name]
        if default is None:
            msg = f"var('{name}') has no value and no default; give one: --var {name}=…"
            raise TemplateError(msg)
        return default

    def config(**options: object) -> str:
        model.config.update(options)
        return ""

    environment = Environment(
        loader=FileSystemLoader(model.path.parent),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # SQL, not HTML
    )
    environment.globals.update(ref=ref, source=source, var=var, config=config, is_incremental=lambda: False)
    return environment


def _explained(path: Path, error: TemplateError) -> str:
    if isinstance(error, TemplateNotFound):
        return f"{path} includes {error.name}, which is not in {path.parent}."
    if isinstance(error, TemplateSyntaxError):
        return f"{error.filename or path}, line {error.lineno}: {error.message}"
    return f"{path}: {error.message}"


def parse_variables(assignments: Iterable[str]) -> dict[str, object]:
    """What ``--var k=v`` says; whole numbers, true and false are values, all else is text.

    Raises:
        RenderError: an assignment without a name or without ``=``.

    >>> parse_variables(["day=2013-07-01", "n=20", "code=007", "dry=true", "empty="])
    {'day': '2013-07-01', 'n': 20, 'code': '007', 'dry': True, 'empty': ''}
    """
    variables: dict[str, object] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip().isidentifier():
            msg = f"--var takes name=value, found `{assignment}`."
            raise RenderError(msg)
        variables[name.strip()] = _value(value)
    return variables


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and str(int(digits)) == digits else text


def in_order(models: Iterable[Rendered]) -> list[Rendered]:
    """Models with each behind the ones that it refers to; otherwise in the order given.

    Raises:
        RenderError: models that refer to each other in a circle, or two of one name.
    """
    given = list(models)
    by_name = {model.name: model for model in given}
    ordered: list[Rendered] = []
    if any(by_name[ref] is not model for model in given for ref in [model.name] if _is_referred(given, ref)):
        msg = "Two files have one name, and another one refers to it: give them names of their own."
        raise RenderError(msg)

    def visit(model: Rendered, path: tuple[str, ...]) -> None:
        if model.name in path:
            msg = (
                f"Models refer to each other in a circle: {' → '.join([*path[path.index(model.name) :], model.name])}."
            )
            raise RenderError(msg)
        if model not in ordered:
            for ref in model.refs:
                if ref in by_name:
                    visit(by_name[ref], (*path, model.name))
            ordered.append(model)

    for model in given:
        visit(model, ())
    return ordered


def _is_referred(models: Iterable[Rendered], name: str) -> bool:
    return any(name in model.refs for model in models)
