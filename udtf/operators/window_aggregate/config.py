"""What an aggregation of a stream needs to know: its windows, its aggregates, and when results go out.

Source: KIP-328, KIP-450 (sliding windows), semantics.md sections 11 to 14, A and B.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

import pyarrow as pa

from udtf.aggregates import Aggregate
from udtf.errors import OperatorError, require
from udtf.operators.window_aggregate import folds, loops
from udtf.operators.window_aggregate.loops import Shape
from udtf.time import Micros

#: Times are 64-bit numbers.
_END_US: Final = 2**63


@dataclass(frozen=True)
class Window:
    """Which windows a row belongs to.

    Attributes:
        kind: 'time' (tumbling and hopping), 'cumulate' (windows of one start that grow by `slide_us` up to `size_us`),
            'session', 'sliding' (KIP-450: both ends inclusive), or 'none': the groups have no windows.
        size_us: length of a window; of a session the gap.
        slide_us: distance of the starts of time windows, step of cumulating ones; else 0.
        offset_us: where windows start, modulo the slide.
    """

    kind: str = "none"
    size_us: Micros = 0
    slide_us: Micros = 0
    offset_us: Micros = 0

    def __post_init__(self) -> None:
        require(self, "kind", self.kind in ("time", "cumulate", "session", "sliding", "none"), "a kind of window")
        require(self, "size_us", self.kind == "none" or self.size_us > 0, "> 0")
        slides = self.kind in ("time", "cumulate")
        require(self, "slide_us", not slides or 0 < self.slide_us <= self.size_us, "> 0 and <= size_us")

    @property
    def is_inclusive(self) -> bool:
        """A window is still open when stream time is exactly its end and the grace (semantics.md B3)."""
        return self.kind in ("session", "sliding")

    def fits(self, first_us: Micros, last_us: Micros) -> bool:
        """Whether the windows of the times between lie within all times: a bound that wraps around loses windows."""
        room_us = 2 * self.size_us
        return -_END_US + room_us <= first_us and last_us < _END_US - room_us

    def check_time(self, time_us: Micros) -> None:
        """Refuse a time whose windows do not fit.

        Raises:
            OperatorError: `OPERATOR.WINDOW_OVERFLOW`; Spark's `window` fails there, too.
        """
        if not self.fits(time_us, time_us):
            raise OperatorError.window_overflow(self.size_us)


@dataclass(frozen=True)
class WindowAggregateConfig:
    """Everything an aggregation needs to know; plain values only, so that it travels as JSON.

    Attributes:
        window: which windows a row belongs to.
        grace_us: how late a row may be for its window.
        emit: 'final' (once per window, when it is closed) or 'changes' (every update of a row).
        n_keys: how many grouping columns there are besides the window.
        aggregates: in the order of the output.
        max_rows, max_bytes: limits of what is open, with emit='final'; None is no limit.
        when_full: what happens at a limit: 'fail' or 'spill'.
        nets_updates: a session that one row deletes and makes again within its bounds is one update (AS CHANGELOG).
        max_future_us: refuse rows further ahead of stream time (B9); None is no limit.
        name: the operator's name in `_operator` and in messages.
    """

    window: Window = field(default_factory=Window)
    grace_us: Micros = 0
    emit: str = "changes"
    n_keys: int = 0
    aggregates: tuple[Aggregate, ...] = ()
    max_rows: int | None = None
    max_bytes: int | None = None
    when_full: str = "fail"
    nets_updates: bool = False
    max_future_us: Micros | None = None
    name: str = "window_aggregate"

    def __post_init__(self) -> None:
        require(self, "grace_us", self.grace_us >= 0, ">= 0")
        require(self, "emit", self.emit in ("final", "changes"), "'final' or 'changes'")
        has_end = self.emit == "changes" or self.window.kind != "none"
        require(self, "emit", has_end, "'changes' without a window: nothing ever closes")
        require(self, "when_full", self.when_full in ("fail", "spill"), "'fail' or 'spill'")
        for name in ("max_rows", "max_bytes", "max_future_us"):
            value = getattr(self, name)
            require(self, name, value is None or value >= 0, "None or >= 0")

    @property
    def is_final(self) -> bool:
        """Only final results go out."""
        return self.emit == "final"

    @property
    def horizon_us(self) -> Micros:
        """How long behind stream time a window closes after its end: the grace, and the gap of a session."""
        return self.grace_us + (self.window.size_us if self.window.kind == "session" else 0)

    @property
    def keeps_us(self) -> Micros:
        """How long a session that has closed may yet become part of a longer one.

        A row that counts by itself joins what lies within its gap, and a later one can lie between the two: sessions
        of twice the gap and less apart become one.
        """
        return 2 * self.window.size_us if self.window.kind == "session" else 0

    @property
    def remembered(self) -> WindowAggregateConfig:
        """What its state depends on: limits are about what is in memory, and what has closed stays closed."""
        return replace(self, grace_us=0, max_rows=None, max_bytes=None, when_full="fail")

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WindowAggregateConfig:
        """From `to_json()`.

        >>> config = WindowAggregateConfig(Window("session", 10), aggregates=(Aggregate("count"),))
        >>> WindowAggregateConfig.from_json(config.to_json()) == config
        True
        """
        options: dict[str, Any] = json.loads(text)
        unknown = sorted(set(options) - {f.name for f in fields(cls)})
        if unknown:
            raise OperatorError.invalid_option("options", unknown, "names of WindowAggregateConfig")
        options["window"] = Window(**options.get("window", {}))
        options["aggregates"] = tuple(Aggregate(**a) for a in options.get("aggregates", ()))
        return cls(**options)


# Which aggregations of live streams run compiled, and as which folds. Imports nothing that costs time: planners ask.
#
# What is not compiled runs record by record, see `row_by_row.py`.


#: Types of the columns of the arguments, aggregate by aggregate.
ArgumentTypes = Sequence[Sequence["pa.DataType"]]

_KINDS: Final = {"none": loops.NONE, "time": loops.TIMES, "cumulate": loops.CUMULATE, "session": loops.SESSION}
#: Longer decimals do not fit 64 bits.
_MOST_DIGITS: Final = 18
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_DAY_TIME: Final = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_FLOATS: Final = ("float", "double")
_OTHERS: Final = ("boolean", "date", "timestamp", "timestamp_ntz")
MOMENTS: Final = ("stddev", "stddev_samp", "std", "stddev_pop", "var_samp", "variance", "var_pop")
OF_POPULATION: Final = ("stddev_pop", "var_pop")
_SYNONYMS: Final = {"mean": "avg", "every": "bool_and", "some": "bool_or", "any": "bool_or"}
_INT_FOLDS: Final = {
    "min": folds.MIN,
    "max": folds.MAX,
    "bool_and": folds.MIN,
    "bool_or": folds.MAX,
    "bit_and": folds.BIT_AND,
    "bit_or": folds.BIT_OR,
    "bit_xor": folds.BIT_XOR,
}


class Fold(NamedTuple):
    """How one aggregate is folded.

    Attributes:
        function: its name, of synonyms the usual one.
        fold: which fold.
        ints, floats: how many numbers its state takes of each kind, the count included.
        width: bytes of its value.
        needs: with fewer arguments its value is NULL.
    """

    function: str
    fold: int
    ints: int
    floats: int
    width: int
    needs: int

    @property
    def takes_floats(self) -> bool:
        """Its argument is folded as a float."""
        return self.fold >= folds.SUM_FLOAT

    @property
    def takes_ints(self) -> bool:
        """Its argument is folded as an integer."""
        return folds.COUNT < self.fold < folds.SUM_FLOAT


def is_compiled(
    config: WindowAggregateConfig, argument_types: ArgumentTypes = (), key_types: Sequence[pa.DataType] = ()
) -> bool:
    """Whether all of an aggregation is compiled, see `reasons`."""
    return not reasons(config, argument_types, key_types)


def reasons(
    config: WindowAggregateConfig, argument_types: ArgumentTypes = (), key_types: Sequence[pa.DataType] = ()
) -> list[str]:
    """What of an aggregation is not compiled; empty where all of it is.

    Args:
        config: the aggregation.
        argument_types: of each aggregate's arguments; () where nothing is known of them: the result's type is trusted.
        key_types: of the grouping columns.
    """
    found = [] if config.window.kind in _KINDS else [f"{config.window.kind} windows"]
    found += [f"key of type {kind}" for kind in key_types if not _is_known_key(kind)]
    return found + uncompiled_aggregates(config.aggregates, argument_types)


def uncompiled_aggregates(aggregates: Sequence[Aggregate], argument_types: ArgumentTypes = ()) -> list[str]:
    """Those that have no fold, in words."""
    found = []
    for number, aggregate in enumerate(aggregates):
        types = argument_types[number] if argument_types else ()
        if fold_of(aggregate) is None or not all(_is_taken(aggregate, kind) for kind in types):
            of = f" of {', '.join(map(str, types))}" if types else ""
            found.append(f"{aggregate.function}{of}{' distinct' if aggregate.distinct else ''} as {aggregate.type}")
    return found


def fold_of(aggregate: Aggregate) -> Fold | None:
    """The fold of an aggregate, None where it has none."""
    function = _SYNONYMS.get(aggregate.function, aggregate.function)
    if aggregate.distinct:
        return None
    if function == "count" or (function == "count_if" and aggregate.arguments == 1):
        return Fold(function, folds.COUNT, 1, 0, 8, 0) if aggregate.type == "bigint" else None
    if aggregate.arguments != 1:
        return None
    if function in ("sum", "avg"):
        return _sum_of(function, aggregate.type)
    if function in MOMENTS:
        needs = 1 if function in OF_POPULATION else 2
        return Fold(function, folds.MOMENTS, 1, 2, 8, needs) if aggregate.type == "double" else None
    return _fold_of_kind(function, aggregate.type)


def _sum_of(function: str, kind: str) -> Fold | None:
    if kind == "double":
        return Fold(function, folds.SUM_FLOAT, 1, 1, 8, 1)
    if kind == "bigint" and function == "sum":
        return Fold(function, folds.SUM, 2, 0, 8, 1)
    digits = decimal_of(kind)
    # Spark: the sum of decimal(p, s) is decimal(p + 10, s), the average decimal(p + 4, s + 4)
    if digits and digits[0] - (10 if function == "sum" else 4) <= _MOST_DIGITS:
        return Fold(function, folds.SUM_WIDE, 3, 0, 16, 1)
    return None


def widened(fold: Fold) -> Fold:
    """The same, a sum of integers in 128 bits."""
    return fold._replace(fold=folds.SUM_WIDE, ints=3) if fold.fold == folds.SUM else fold


def _fold_of_kind(function: str, kind: str) -> Fold | None:
    """What combines two values into one of their type."""
    fold, digits = _INT_FOLDS.get(function), decimal_of(kind)
    if fold is None:
        return None
    if function in ("min", "max"):
        if kind in _FLOATS:
            return Fold(function, folds.MIN_FLOAT if function == "min" else folds.MAX_FLOAT, 1, 1, 8, 1)
        if kind in _INTEGERS or kind in _OTHERS or (digits and digits[0] <= _MOST_DIGITS):
            return Fold(function, fold, 2, 0, 16 if digits else 1 if kind == "boolean" else 8, 1)
        return None
    fits = kind == "boolean" if function.startswith("bool") else kind in _INTEGERS
    return Fold(function, fold, 2, 0, 1 if kind == "boolean" else 8, 1) if fits else None


def shape_of(config: WindowAggregateConfig) -> Shape:
    """A configuration as numbers."""
    window = config.window
    slides = window.kind in ("time", "cumulate")
    most_windows = -(-window.size_us // window.slide_us) if slides else 1
    may_fail = config.is_final and config.when_full == "fail"
    return Shape(
        kind=_KINDS[window.kind],
        size=window.size_us,
        slide=window.slide_us,
        offset=window.offset_us,
        wait=config.horizon_us,
        keeps=config.keeps_us,
        inclusive=int(window.is_inclusive),
        max_future=-1 if config.max_future_us is None else config.max_future_us,
        is_final=config.is_final,
        max_rows=config.max_rows if may_fail and config.max_rows is not None else -1,
        max_bytes=config.max_bytes if may_fail and config.max_bytes is not None else -1,
        most_windows=most_windows,
        most_updates=0 if config.is_final else 3 if window.kind == "session" else most_windows,
    )


def decimal_of(kind: str) -> tuple[int, int] | None:
    """Precision and scale.

    >>> decimal_of("decimal(20,2)"), decimal_of("double")
    ((20, 2), None)
    """
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]), int(found[2])) if found else None


def _is_taken(aggregate: Aggregate, kind: pa.DataType) -> bool:
    """Whether an argument's type goes with the result's."""
    import pyarrow.types as types

    fold = fold_of(aggregate)
    if fold is None or fold.fold == folds.COUNT:
        return True
    if fold.takes_floats:
        return bool(types.is_floating(kind) or (types.is_integer(kind) and kind.bit_width <= 64))
    if types.is_decimal128(kind):
        return bool(kind.precision <= _MOST_DIGITS)
    plain = (types.is_integer, types.is_boolean, types.is_date32, types.is_timestamp)
    return any(test(kind) for test in plain) and decimal_of(aggregate.type) is None


def _is_known_key(kind: pa.DataType) -> bool:
    """Keys of any other type could not be told from NULL."""
    import pyarrow.types as types

    if types.is_nested(kind) or types.is_null(kind) or types.is_temporal(kind):
        return not types.is_interval(kind)
    plain = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_decimal128,
        types.is_string,
        types.is_binary,
        types.is_large_string,
        types.is_large_binary,
    )
    return any(test(kind) for test in plain)


# Arrow's types for Spark's names of types.


_PLAIN: Final = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "variant": pa.struct([pa.field(part, pa.binary(), nullable=False) for part in ("value", "metadata")]),
}


def arrow_type(name: str) -> pa.DataType:
    """Arrow's type for Spark's name of a type.

    >>> arrow_type("array<struct<a:int,b:decimal(5,2)>>")
    ListType(list<item: struct<a: int32, b: decimal128(5, 2)>>)

    Raises:
        OperatorError: `OPERATOR.INVALID_OPTION`, the name is not known.
    """
    name = name.strip()
    if name in _PLAIN:
        return _PLAIN[name]
    if digits := decimal_of(name):
        return pa.decimal128(*digits)
    if name.startswith("array<"):
        return pa.list_(arrow_type(name[6:-1]))
    if name.startswith("map<"):
        key, value = _parts(name[4:-1])
        return pa.map_(arrow_type(key), arrow_type(value))
    if name.startswith("struct<"):
        fields = [part.split(":", 1) for part in _parts(name[7:-1])]
        return pa.struct([pa.field(field.strip(" `"), arrow_type(kind)) for field, kind in fields])
    if name.startswith(("varchar", "char")):
        return pa.string()
    if name.startswith("time("):
        return pa.time64("ns")
    if _DAY_TIME.fullmatch(name):
        return pa.duration("us")
    raise OperatorError.invalid_option("type", name, "Spark's name of a type")


def _parts(text: str) -> Iterator[str]:
    """What is between the commas that are in no brackets."""
    depth = start = 0
    for place, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if text:
        yield text[start:]
