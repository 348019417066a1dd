"""What a deduplication needs to know."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace

from udtf.errors import OperatorError, require
from udtf.time import Micros


@dataclass(frozen=True)
class DeduplicateConfig:
    """Everything a deduplication needs to know; plain values only, so that it travels as JSON.

    Attributes:
        interval_us: rows of one key that lie at most so far apart are duplicates.
        keep: 'first' forwards a row at once; 'last' gives the last of a group when its interval has passed.
        late: what becomes of a row older than the interval for which no duplicate is known: 'forward', 'drop' or
            'to' (it goes to the late rows). None: forwarded by 'first', dropped by 'last'.
        n_keys: how many BY columns there are.
        columns: the columns of the output.
        has_sequence: rows have an identity, `__seq`: the same one again is the same row, reprocessed (16.3).
        max_future_us: refuse rows further ahead of stream time (B9); None is no limit.
        name: the operator's name in `_operator` and in messages.
    """

    interval_us: Micros
    keep: str = "first"
    late: str | None = None
    n_keys: int = 1
    columns: tuple[str, ...] = ()
    has_sequence: bool = False
    max_future_us: Micros | None = None
    name: str = "deduplicate"

    def __post_init__(self) -> None:
        require(self, "interval_us", self.interval_us >= 0, ">= 0")
        require(self, "keep", self.keep in ("first", "last"), "'first' or 'last'")
        require(self, "late", self.late in (None, "forward", "drop", "to"), "'forward', 'drop' or 'to'")
        # The last of a group that is complete was given out: a late row cannot become the last of it any more.
        require(self, "late", (self.keep, self.late) != ("last", "forward"), "'drop' or 'to' with keep='last'")
        require(self, "max_future_us", self.max_future_us is None or self.max_future_us >= 0, "None or >= 0")

    @property
    def keeps_last(self) -> bool:
        """Rows wait until their group is complete."""
        return self.keep == "last"

    @property
    def forwards_late(self) -> bool:
        """Late rows are part of the output."""
        return (self.late or ("drop" if self.keeps_last else "forward")) == "forward"

    @property
    def remembered(self) -> DeduplicateConfig:
        """What its state depends on: of a late row nothing is kept, and of others what is handed on may change."""
        return replace(self, late=None, columns=())

    def to_json(self) -> str:
        """As the options of the table function."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DeduplicateConfig:
        """From `to_json()`, or from a part of it; the rest has its default.

        >>> DeduplicateConfig.from_json('{"interval_us": 10, "columns": ["id"]}').columns
        ('id',)
        """
        options = json.loads(text)
        unknown = sorted(set(options) - {field.name for field in fields(cls)})
        if unknown:
            raise OperatorError.invalid_option("options", unknown, "names of DeduplicateConfig")
        options["columns"] = tuple(options.get("columns", ()))
        return cls(**options)
