"""Exact totals as limbs: whole numbers of 32 bits each, the lowest first, that are carried only when a total is read.

Every double is a whole number of 2 ** -1074. A limb takes 2 ** 31 rows before it overflows, and as many bits as rows go
to it come out again when they are subtracted. Two limbs above the highest one of any value hold what is carried.

Source: R. Neal, Fast exact summation using small and large superaccumulators, 2015.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BITS = 32
MASK = 0xFFFFFFFF
#: Limbs of zeros that a division goes on into: a quotient has more bits than a double then.
MORE = 3
#: The place of the lowest bit of a double.
LOWEST = 1074


def add_bits(bits: int, sign: int, low: int, limbs: NDArray[np.int64]) -> None:
    """Add a finite double, or subtract it.

    Args:
        bits: of the double.
        sign: 1 or -1.
        low: which limb of all that there can be is the first of `limbs`.
        limbs: of the total.
    """
    exponent, mantissa = (bits >> 52) & 0x7FF, bits & 0xFFFFFFFFFFFFF
    if exponent > 0:
        mantissa |= 1 << 52
        exponent -= 1
    if bits < 0:
        sign = -sign
    place, shift = (exponent >> 5) - low, exponent & 31
    limbs[place] += sign * ((mantissa << shift) & MASK)
    limbs[place + 1] += sign * ((mantissa >> (BITS - shift)) & MASK)
    if shift > 0:
        limbs[place + 2] += sign * (mantissa >> (2 * BITS - shift))


def add_long(value: int, sign: int, limbs: NDArray[np.int64]) -> None:
    """Add a number of 64 bits, or subtract it."""
    limbs[0] += sign * (value & MASK)
    limbs[1] += sign * (value >> BITS)


def magnitude(limbs: NDArray[np.int64], into: NDArray[np.int64], start: int) -> bool:
    """Write the limbs of the magnitude of a total, each of 32 bits, from a place on; whether it is negative."""
    carry = 0
    for place in range(len(limbs)):
        value = limbs[place] + carry
        into[start + place] = value & MASK
        carry = value >> BITS
    if carry >= 0:
        return False
    negate(into, start, start + len(limbs))
    return True


def negate(number: NDArray[np.int64], start: int, end: int) -> None:
    """Turn the sign of limbs of 32 bits, in two's complement."""
    carry = 1
    for place in range(start, end):
        value = (MASK - number[place]) + carry
        number[place] = value & MASK
        carry = value >> BITS


def multiply_add(number: NDArray[np.int64], factor: int, more: int) -> None:
    """Multiply limbs of 32 bits, and add a number."""
    carry = more
    for place in range(len(number)):
        value = number[place] * factor + carry
        number[place] = value & MASK
        carry = value >> BITS


def divide(number: NDArray[np.int64], divisor: int) -> int:
    """Divide limbs of 32 bits by a number of less than 31 bits; the remainder."""
    rest = 0
    for place in range(len(number) - 1, -1, -1):
        value = (rest << BITS) | number[place]
        number[place] = value // divisor
        rest = value % divisor
    return rest


def rounded(limbs: NDArray[np.int64], low: int, divisor: int, scratch: NDArray[np.int64]) -> float:
    """A total of doubles, divided, as the double next to it; of two the even one.

    Args:
        limbs: of the total.
        low: which limb of all that there can be is the first of them.
        divisor: less than 2 ** 31.
        scratch: `MORE` limbs more, and three.
    """
    scratch[:] = 0
    is_negative = magnitude(limbs, scratch, MORE)
    rest = divide(scratch, divisor) if divisor > 1 else 0
    top = len(scratch) - 1
    while top >= 0 and scratch[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    highest = BITS * top
    while scratch[top] >> (highest - BITS * top + 1):
        highest += 1
    lowest = max(highest - 52, BITS * (MORE - low))  # of the bits that the double has
    digits = 0
    if lowest <= highest:
        place, shift = lowest >> 5, lowest & 31
        digits = scratch[place] >> shift | scratch[place + 1] << (BITS - shift)
        if shift > 0:
            digits |= scratch[place + 2] << (2 * BITS - shift)
    place, shift = (lowest - 1) >> 5, (lowest - 1) & 31
    if lowest <= highest + 1 and (scratch[place] >> shift) & 1:
        is_more = rest > 0 or (scratch[place] & ((1 << shift) - 1)) != 0
        for below in range(place):
            is_more = is_more or scratch[below] != 0
        if is_more or digits & 1:
            digits += 1
    exponent = lowest - BITS * (MORE - low) - LOWEST
    is_infinite = highest - BITS * (MORE - low) - LOWEST > 1023
    value = math.inf if is_infinite else scaled(digits, exponent)
    return -value if is_negative else value


def scaled(digits: int, exponent: int) -> float:
    """A number of at most 54 bits times a power of two, infinite where it is too great."""
    if digits == 1 << 53 and exponent == 1023 - 52:
        return math.inf
    return math.ldexp(float(digits), exponent)


def quotient(limbs: NDArray[np.int64], factor: int, divisor: int, scratch: NDArray[np.int64]) -> tuple[int, int]:
    """A total of decimals times a factor, divided, half away from zero.

    Args:
        limbs: of the total.
        factor: at most 2 ** 30.
        divisor: less than 2 ** 31.
        scratch: as many limbs.

    Returns:
        the low and the high half of a number of 128 bits.
    """
    is_negative = magnitude(limbs, scratch, 0)
    multiply_add(scratch, factor, 0)
    rest = divide(scratch, divisor) if divisor > 1 else 0
    if 2 * rest >= divisor:
        multiply_add(scratch, 1, 1)
    if is_negative:
        negate(scratch, 0, len(scratch))
    return scratch[0] | scratch[1] << BITS, scratch[2] | scratch[3] << BITS
