"""What travels to Python and back: a column that is a key or the time as well travels once."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from udtf.operators.as_of_join import AsOfJoinConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    sources = _sources(left)
    keys = {source: name for name, source in sources.items() if name == "__as_of" or name.startswith("__k")}
    renamed: dict[str, str] = {}
    columns = []
    for name in config.left_columns:
        key = keys.get(sources.get(name, ""))
        travels = key is not None and key not in renamed
        if travels and key is not None:
            renamed[key] = name
        columns.append(key if travels and key is not None else name)
    return replace(config, left_columns=tuple(columns)), left.drop(*renamed.values()), renamed


def _sources(frame: DataFrame) -> dict[str, str]:
    """Output column to the column that it is, for those that are plain columns, from the analysed projection."""
    plan = frame._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "Project":
        return {}
    found = {}
    for text in str(plan.projectList().mkString(_SEPARATOR)).split(_SEPARATOR):
        column = _COLUMN.fullmatch(text)
        if column is not None:
            found[column["name"]] = column["source"]
    return found
