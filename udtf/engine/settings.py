"""Settings of a session that are ours: those that are numbers, read in one way and refused in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udtf.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def whole_number(spark: SparkSession, name: str, usual: int, least: int = 0) -> int:
    """The value of a setting.

    Args:
        spark: the session.
        name: of the setting.
        usual: where nothing, or the empty text, is set.
        least: what it is at least.

    Raises:
        SettingError: `SETTING.NUMBER`: it is no whole number, or too small a one.
    """
    found = str(spark.conf.get(name, None) or "").strip()
    if not found:
        return usual
    if not found.removeprefix("-").isdecimal() or int(found) < least:
        raise SettingError(name, found, least)
    return int(found)
