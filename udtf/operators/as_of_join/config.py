"""The configuration of the AS OF join, the same for every way to run it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

from udtf.errors import OperatorError, require
from udtf.operators.as_of_join import rules as kernel
from udtf.rules import limit
from udtf.time import Micros

DIRECTIONS: Final = {"backward": kernel.BACKWARD, "forward": kernel.FORWARD, "nearest": kernel.NEAREST}


@dataclass(frozen=True)
class AsOfJoinConfig:
    """Everything an AS OF join needs to know; plain values only, so that it travels as JSON.

    Attributes:
        join: 'inner' or 'left'.
        direction: 'backward', 'forward' or 'nearest' (C1).
        exclusive: a version at exactly the AS OF time does not count.
        tolerance_us: greatest distance of a match; None is no limit (C2).
        has_known: the join has KNOWN AS OF (C4).
        ties: per TIES BY column ('asc' | 'desc', nulls 'first' | 'last'); empty is arrival (C3, B8).
        with_reason: the output ends in the reason column (C5).
        n_keys: how many key columns both inputs have.
        left_columns: names of the left payload in the output.
        right_columns: names of the right payload in the output.
        grace_us: record by record: how long rows wait for the table; None joins at once (section 7).
        retention_us: record by record: history retention of the table; None is for ever (2.1).
        left_max_future_us: record by record: refuse rows further ahead of stream time (B9); None is no limit.
        right_max_future_us: the same for the table.
        name: the operator's name in `_operator` and in messages.
    """

    join: str = "inner"
    direction: str = "backward"
    exclusive: bool = False
    tolerance_us: Micros | None = None
    has_known: bool = False
    ties: tuple[tuple[str, str], ...] = ()
    with_reason: bool = False
    n_keys: int = 1
    left_columns: tuple[str, ...] = ()
    right_columns: tuple[str, ...] = ()
    grace_us: Micros | None = None
    retention_us: Micros | None = None
    left_max_future_us: Micros | None = None
    right_max_future_us: Micros | None = None
    name: str = "as_of_join"

    def __post_init__(self) -> None:
        require(self, "join", self.join in ("inner", "left"), "'inner' or 'left'")
        require(self, "direction", self.direction in DIRECTIONS, "'backward', 'forward' or 'nearest'")
        for name in ("tolerance_us", "grace_us", "retention_us", "left_max_future_us", "right_max_future_us"):
            value = getattr(self, name)
            require(self, name, value is None or value >= 0, "None or >= 0")

    @property
    def is_left(self) -> bool:
        """Every left row has an answer."""
        return self.join == "left"

    @property
    def wait_us(self) -> Micros | None:
        """How far stream time must be past a row before it is answered (C6); None answers at once."""
        if self.grace_us is None or self.direction == "backward":
            return self.grace_us
        return self.grace_us + (self.tolerance_us or 0)

    @property
    def remembered(self) -> AsOfJoinConfig:
        """What its state depends on: how a row is answered, when, and with which columns is asked when it leaves."""
        waits = None if self.grace_us is None else 0
        asked_then = replace(self, join="inner", exclusive=False, tolerance_us=None, with_reason=False, grace_us=waits)
        return replace(asked_then, left_columns=(), right_columns=())

    def to_json(self) -> str:
        """As the options of the table function."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> AsOfJoinConfig:
        """From `to_json()`, or from a part of it; the rest has its default.

        >>> AsOfJoinConfig.from_json('{"join": "left", "ties": [["desc", "last"]]}').ties
        (('desc', 'last'),)
        """
        options = json.loads(text)
        unknown = sorted(set(options) - {field.name for field in fields(cls)})
        if unknown:
            raise OperatorError.invalid_option("options", unknown, "names of AsOfJoinConfig")
        for name in ("left_columns", "right_columns"):
            options[name] = tuple(options.get(name, ()))
        options["ties"] = tuple((direction, nulls) for direction, nulls in options.get("ties", ()))
        return cls(**options)

    @property
    def left_limits(self) -> tuple[int, int]:
        """Greatest future and wait of stream rows as the kernel takes them."""
        return limit(self.left_max_future_us), limit(self.wait_us)

    @property
    def right_limits(self) -> tuple[int, int]:
        """Greatest future and retention of table rows as the kernel takes them."""
        return limit(self.right_max_future_us), limit(self.retention_us)
