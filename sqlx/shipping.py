"""What travels to Python and back: a column that is a key or the time as well travels once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from udtf.operators.as_of_join import AsOfJoinConfig
from udtf.operators.deduplicate import DeduplicateConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMED = ("__as_of", "__time", "__seq")
_SEPARATOR = "\x01"
_COLUMN = re.compile(r"(?P<source>\S+#\d+)L? AS (?P<name>\w+)#\d+L?")


def without_copies(config: AsOfJoinConfig, left: DataFrame) -> tuple[AsOfJoinConfig, DataFrame, dict[str, str]]:
    """Leave payload columns out that are nothing but a key or the AS OF time.

    Args:
        config: the join.
        left: its left input, a projection.

    Returns:
        The join whose left payload names the key in their place, the narrower input, and what to call the columns of
        the result again.
    """
    columns, renamed = _without_copies(config.left_columns, _sources(left._jdf.queryExecution().analyzed()))
    return replace(config, left_columns=columns), left.drop(*renamed.values()), renamed


def without_own_copies(
    config: DeduplicateConfig, rows: DataFrame
) -> tuple[DeduplicateConfig, DataFrame, dict[str, str]]:
    """The same of a deduplication: its payload names keys, time and sequence where it is nothing but these.

    The optimised projection is read, since the time of a stream is computed in a subquery.
    """
    columns, renamed = _without_copies(config.columns, _sources(rows._jdf.queryExecution().optimizedPlan()))
    return replace(config, columns=columns), rows.drop(*renamed.values()), renamed


def repeated_columns(rows: DataFrame, last: Sequence[str] = ()) -> dict[str, str]:
    """Arguments of aggregates and columns of late rows that are nothing but another column of the input, and that one.

    Args:
        rows: an input, a projection.
        last: columns that no other one is to be a copy of, if possible.
    """
    plan = rows._jdf.queryExecution().analyzed()
    sources = _sources(plan.plan() if plan.getClass().getSimpleName() == "WithCTE" else plan)
    names = sorted(rows.columns, key=lambda name: name in last)
    return _same(names, sources, lambda name: name.startswith(("__a", "_l")))


def live_copies(rows: DataFrame, needed: Sequence[str]) -> dict[str, str]:
    """Columns of a live input that are nothing but another one of it, and that one.

    Args:
        rows: an input, a projection.
        needed: beginnings of the names that must travel whatever they are.
    """
    state = rows.sparkSession._jsparkSession.sessionState()
    # Spark optimises a streaming frame only when it runs; projections over projections become one here.
    sources = _sources(state.optimizer().execute(rows._jdf.queryExecution().analyzed()))
    names = sorted(rows.columns, key=lambda name: not name.startswith(tuple(needed)))
    return _same(names, sources, lambda name: not name.startswith(tuple(needed)))


def _same(names: Sequence[str], sources: dict[str, str], may_go: Callable[[str], bool]) -> dict[str, str]:
    """Of columns with one source the first stays; the others, where they may go, and the one that stays."""
    kept: dict[str, str] = {}
    copies: dict[str, str] = {}
    for name in names:
        source = sources.get(name)
        if source is not None and kept.setdefault(source, name) != name and may_go(name):
            copies[name] = kept[source]
    return copies


def _without_copies(payload: tuple[str, ...], sources: dict[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The payload with the columns that stand for a part of it, and what to call those again."""
    keys = {source: name for name, source in sources.items() if name in _NAMED or name.startswith("__k")}
    renamed: dict[str, str] = {}
    columns = []
    for name in payload:
        key = keys.get(sources.get(name, ""))
        travels = key is not None and key not in renamed
        if travels and key is not None:
            renamed[key] = name
        columns.append(key if travels and key is not None else name)
    return tuple(columns), renamed


def _sources(plan: Any) -> dict[str, str]:
    """Output column to the column that it is, for those that are plain columns, from a projection."""
    if plan.getClass().getSimpleName() != "Project":
        return {}
    found = {}
    for text in str(plan.projectList().mkString(_SEPARATOR)).split(_SEPARATOR):
        column = _COLUMN.fullmatch(text)
        if column is not None:
            found[column["name"]] = column["source"]
    return found
