"""What a check has found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "problem"]
_ORDER: tuple[Status, ...] = ("ok", "warning", "problem")


@dataclass(frozen=True)
class Finding:
    """The answer of one check.

    Attributes:
        check: what was looked at: "Java", "port 10000".
        status: "ok"; "warning" where something that not everybody needs will not work; "problem" where sqlx will not.
        found: what is there.
        remedy: what to do; "" where it is ok.
    """

    check: str
    status: Status
    found: str
    remedy: str = ""


def worst(findings: Iterable[Finding]) -> Status:
    """The gravest status of all.

    >>> worst([Finding("a", "ok", ""), Finding("b", "warning", "", "")]), worst([])
    ('warning', 'ok')
    """
    return max((finding.status for finding in findings), key=_ORDER.index, default="ok")
