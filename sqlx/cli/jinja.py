"""dbt-style files: SQL with ``ref``, ``source``, ``var`` and ``config``, rendered through Jinja."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, TemplateNotFound, TemplateSyntaxError

from sqlx.failures import CommandError

_WRONG_CALLS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""What a template can raise beside Jinja's own: a call with wrong arguments, a division by zero."""

_QUOTED = re.compile(r"'([^']+)'")
_TAGS = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{-?\s*config\s*\(.*?\)\s*-?\}\}", re.DOTALL)


class RenderError(CommandError):
    """A file that Jinja cannot turn into SQL; the message says where and why."""


@dataclass
class Rendered:
    """One file as SQL, and what it said about itself on the way.

    Attributes:
        name: the model's name, which is the file's stem.
        path: the file.
        text: the SQL; its lines are those of the file, unless a loop or an include adds some.
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
    model, text = Rendered(path.stem, path), ""
    try:
        text = path.read_text(encoding="utf-8")
        environment = _environment(model, variables)
        model.text = environment.from_string(_TAGS.sub(_with_its_lines, text)).render()
    except UnicodeDecodeError as error:
        msg = f"{path} is not a text in UTF-8 (byte {error.start})."
        raise RenderError(msg) from error
    except (TemplateError, *_WRONG_CALLS) as error:
        raise RenderError(_explained(path, text, error)) from error
    return model


def _with_its_lines(tag: re.Match[str]) -> str:
    """A tag that leaves no text, and the line breaks in it after it: what follows stays on its line of the file."""
    return tag[0] + "\n" * tag[0].count("\n")


def _environment(model: Rendered, variables: Mapping[str, object]) -> Environment:
    def ref(*names: str, v: object = None, version: object = None) -> str:
        wanted = v if v is not None else version
        name = names[-1] if wanted is None else f"{names[-1]}_v{wanted}"
        model.refs.append(name)
        return name

    def config(**options: object) -> str:
        model.config.update(options)
        return ""

    environment = Environment(
        loader=FileSystemLoader(model.path.parent),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # SQL, not HTML
        extensions=["jinja2.ext.do"],
    )
    environment.globals.update(
        ref=ref,
        source="{}.{}".format,
        var=_var(variables),
        env_var=_env_var,
        config=config,
        tojson=json.dumps,
        none=None,
    )
    return environment


def _var(variables: Mapping[str, object]) -> Callable[..., object]:
    def var(name: str, default: object = None) -> object:
        if name in variables:
            return variables[name]
        if default is None:
            msg = f"var('{name}') has no value and no default; give one: --var {name}=…"
            raise TemplateError(msg)
        return default

    return var


def _env_var(name: str, default: str | None = None) -> str:
    found = os.environ.get(name, default)
    if found is None:
        msg = f"env_var('{name}') is not set, and has no default."
        raise TemplateError(msg)
    return found


def _explained(path: Path, text: str, error: Exception) -> str:
    if isinstance(error, TemplateNotFound):
        return f"{path} includes {error.name}, which is not in {path.parent}." + _pointed(text, None, str(error.name))
    if isinstance(error, TemplateSyntaxError):
        own = _pointed(text, error.lineno, "") if error.filename is None else ""
        return f"{error.filename or path}, line {error.lineno}: {error.message}{own}"
    line = _line_of(error)
    quoted = _QUOTED.search(str(error))
    place = str(path) if line is None else f"{path}, line {line}"
    return f"{place}: {error}{_pointed(text, line, quoted[1] if quoted else '')}"


def _line_of(error: Exception) -> int | None:
    """The line of the template that an error came from: Jinja puts its lines into the traceback."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def _pointed(text: str, line: int | None, word: str) -> str:
    """The line with carets under a word, or under all of it; "" where there is no such line."""
    from sqlx.errors import caret_lines  # it brings PySpark, which the command line starts without

    lines = text.splitlines(keepends=True)
    if line is not None and not 1 <= line <= len(lines):
        return ""
    start = 0 if line is None else sum(map(len, lines[: line - 1]))
    whole = text if line is None else lines[line - 1].rstrip()
    at = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", whole) if word else re.search(r"\S.*", whole)
    at = at or re.search(r"\S.*", whole)
    return "" if at is None else "\n" + caret_lines(text, start + at.start(), start + at.end())


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
    """Models with each after the ones that it refers to; otherwise in the order given.

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
