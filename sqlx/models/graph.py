"""Which models run, and in which order: by what they refer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter

from sqlx.errors import did_you_mean
from sqlx.jinja import RenderError
from sqlx.models.project import Model


def ordered(models: Sequence[Model]) -> list[Model]:
    """Models, each behind those that it refers to.

    Raises:
        RenderError: some refer to each other in a circle.
    """
    by_name = {model.name: model for model in models}
    sorter = TopologicalSorter({model.name: model.refs for model in models})
    try:
        return [by_name[name] for name in sorter.static_order()]
    except CycleError as error:
        raise RenderError(_circle(by_name, error.args[1])) from error


def _circle(by_name: Mapping[str, Model], found: Sequence[str]) -> str:
    """The circle as people read it: each model refers to the next one. graphlib has it the other way round."""
    names = list(reversed(found))[:-1]
    first = names.index(min(names))
    names = names[first:] + names[:first]
    files = ", ".join(str(by_name[name].path) for name in names)
    way = " → ".join([*names, names[0]])
    return f"Models refer to each other in a circle: {way}.\nHINT: one of them has to do without the other ({files})."


def selected(models: Sequence[Model], wanted: Iterable[str]) -> list[Model]:
    """The models that ``--select`` names, in the order given.

    Args:
        models: all of them, in order.
        wanted: ``name``, ``+name`` (with all that it needs), ``name+`` (with all that needs it), ``tag:x``; ``*`` in a
            name stands for any letters. Several are separated by spaces or commas. Nothing selects everything.

    Raises:
        RenderError: one of them fits no model.
    """
    parts = [part for text in wanted for part in text.replace(",", " ").split()]
    if not parts:
        return list(models)
    chosen = set[str]().union(*(_chosen(models, part) for part in parts))
    return [model for model in models if model.name in chosen]


def _chosen(models: Sequence[Model], part: str) -> set[str]:
    needs = {model.name: set(model.refs) for model in models}
    needed_by = {name: {other for other in needs if name in needs[other]} for name in needs}
    name = part.removeprefix("+").removesuffix("+")
    found = {model.name for model in models if _fits(model, name)}
    if not found:
        hint = did_you_mean(name, needs) if not name.startswith("tag:") else _tags(models)
        msg = f"--select {part}: there is no such model. {hint}".strip()
        raise RenderError(msg)
    above = reach(found, needs) if part.startswith("+") else set()
    below = reach(found, needed_by) if part.endswith("+") else set()
    return found | above | below


def _fits(model: Model, name: str) -> bool:
    if name.startswith("tag:"):
        return name.removeprefix("tag:") in model.tags
    return fnmatchcase(model.name, name)


def _tags(models: Sequence[Model]) -> str:
    tags = sorted({tag for model in models for tag in model.tags})
    return f"The tags are: {', '.join(tags)}." if tags else "No model has a tag."


def reach(names: Iterable[str], edges: Mapping[str, set[str]]) -> set[str]:
    """All that can be reached from some names along edges, and they themselves.

    >>> sorted(reach({"a"}, {"a": {"b"}, "b": {"c"}, "c": set(), "d": set()}))
    ['a', 'b', 'c']
    """
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(edges[name])
    return found
