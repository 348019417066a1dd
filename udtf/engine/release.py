"""Which Spark it is: what differs between the releases that we run on is asked here."""

from __future__ import annotations

import re


def release_of(version: str) -> tuple[int, int]:
    """The release of a version of Spark or PySpark.

    >>> release_of("4.0.5"), release_of("4.2.0.dev0"), release_of("4.1.0-amzn-0")
    ((4, 0), (4, 2), (4, 1))
    """
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)
