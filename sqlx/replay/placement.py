"""Which task a key belongs to, as Spark places it: ``pmod(xxhash64(keys), tasks)`` over the common type.

Source: Spark's ``XxHash64`` expression (seed 42) and its ``XXH64``; xxHash specification, "XXH64 algorithm".
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlx.replay.types import INTEGRAL, SparkType, to_micros

_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SEED = 42
_LONG_DIGITS = 18


def task_of(key: Sequence[Any], kinds: Sequence[SparkType], tasks: int) -> int:
    """The task of a key among ``tasks``."""
    return xxhash64(key, kinds) % tasks if tasks > 1 else 0


def xxhash64(values: Sequence[Any], kinds: Sequence[SparkType]) -> int:
    """Spark's ``xxhash64(values)``: the hash of a column is the seed of the next; NULL leaves it as it is.

    >>> kinds = [SparkType("string"), SparkType("array", fields=(("", SparkType("int")),)), SparkType("int")]
    >>> xxhash64(["Spark", [123], 2], kinds)
    5602566077635097486
    """
    state = _SEED
    for value, kind in zip(values, kinds, strict=True):
        state = _hash(value, kind, state)
    return state - 2**64 if state >= 2**63 else state


def _hash(value: Any, kind: SparkType, seed: int) -> int:
    if value is None or kind.name == "void":
        return seed
    if kind.name in ("string", "binary"):
        return _hash_bytes(value.encode() if isinstance(value, str) else bytes(value), seed)
    if kind.name in ("bigint", "timestamp", "timestamp_ntz"):
        return _hash_long(to_micros(value) or 0, seed)
    if kind.name in INTEGRAL or kind.name == "boolean":
        return _hash_int(int(value), seed)
    if kind.name == "date":
        return _hash_int((value - dt.date(1970, 1, 1)).days, seed)
    if kind.name == "decimal":
        return _hash_decimal(value, kind, seed)
    return _hash_float(value, kind, seed) if not kind.fields else _hash_nested(value, kind, seed)


def _hash_nested(value: Any, kind: SparkType, seed: int) -> int:
    if kind.name == "array":
        items = [(item, kind.fields[0][1]) for item in value]
    else:
        items = [(value[name], field) for name, field in kind.fields]
    for item, field in items:
        seed = _hash(item, field, seed)
    return seed


def _hash_float(value: float, kind: SparkType, seed: int) -> int:
    value = math.nan if math.isnan(value) else value + 0.0  # one NaN; -0.0 becomes 0.0
    if kind.name == "float":
        return _hash_int(struct.unpack("<i", struct.pack("<f", value))[0], seed)
    return _hash_long(struct.unpack("<q", struct.pack("<d", value))[0], seed)


def _hash_decimal(value: Decimal, kind: SparkType, seed: int) -> int:
    unscaled = int(value.scaleb(kind.scale))
    if kind.precision <= _LONG_DIGITS:
        return _hash_long(unscaled, seed)
    bits = unscaled if unscaled >= 0 else ~unscaled
    return _hash_bytes(unscaled.to_bytes(bits.bit_length() // 8 + 1, "big", signed=True), seed)


def _rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


def _mix(state: int) -> int:
    state = ((state ^ (state >> 33)) * _P2) & _MASK
    state = ((state ^ (state >> 29)) * _P3) & _MASK
    return state ^ (state >> 32)


def _round(accumulator: int, lane: int) -> int:
    return (_rotate((accumulator + lane * _P2) & _MASK, 31) * _P1) & _MASK


def _hash_int(value: int, seed: int) -> int:
    return _mix(_step_4((seed + _P5 + 4) & _MASK, value & 0xFFFFFFFF))


def _hash_long(value: int, seed: int) -> int:
    return _mix(_step_8((seed + _P5 + 8) & _MASK, value & _MASK))


def _step_4(state: int, word: int) -> int:
    return (_rotate(state ^ (word * _P1) & _MASK, 23) * _P2 + _P3) & _MASK


def _step_8(state: int, word: int) -> int:
    return (_rotate(state ^ _round(0, word), 27) * _P1 + _P4) & _MASK


def _hash_bytes(data: bytes, seed: int) -> int:
    at, state = 0, (seed + _P5) & _MASK
    if len(data) >= 32:
        at, state = _stripes(data, seed)
    state = (state + len(data)) & _MASK
    while at + 8 <= len(data):
        state = _step_8(state, int.from_bytes(data[at : at + 8], "little"))
        at += 8
    if at + 4 <= len(data):
        state = _step_4(state, int.from_bytes(data[at : at + 4], "little"))
        at += 4
    for byte in data[at:]:
        state = (_rotate(state ^ (byte * _P5) & _MASK, 11) * _P1) & _MASK
    return _mix(state)


def _stripes(data: bytes, seed: int) -> tuple[int, int]:
    """The four lanes over stripes of 32 bytes: where they end, and their merged state."""
    lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
    end = len(data) - len(data) % 32
    for words in struct.iter_unpack("<4Q", data[:end]):
        lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
    state = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in lanes:
        state = ((state ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return end, state
