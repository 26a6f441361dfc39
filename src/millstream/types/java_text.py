"""Numbers and times as Java writes them, which is how Flink prints values of a declared type.

=============  ===============================  ==========================
value          Python                           Java
=============  ===============================  ==========================
1e7            ``10000000.0``                   ``1.0E7``
1e-4           ``0.0001``                       ``1.0E-4``
5e-324         ``5e-324``                       ``4.9E-324``
infinity       ``inf``                          ``Infinity``
a timestamp    ``2024-02-29 12:30:01.250000``   ``2024-02-29 12:30:01.25``
=============  ===============================  ==========================

Digits are those of Java from version 19 on: as few as tell the number from its neighbours. Older ones write more in
rare cases.
"""

from __future__ import annotations

import datetime
import math
from array import array
from decimal import ROUND_UP, Context, Decimal

__all__ = ["double_text", "float_text", "time_text", "timestamp_text"]

_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
_SINGLE_DIGITS = 9


def double_text(value: float) -> str:
    """Return a float of 64 bits as `java.lang.Double.toString` does.

    >>> [double_text(value) for value in (0.1, 1e7, 1.5e-300, -float("inf"))]
    ['0.1', '1.0E7', '1.5E-300', '-Infinity']
    """
    value = float(value)
    if _PLAIN_FROM <= abs(value) < _PLAIN_TO or value == 0:
        return repr(value)
    if not math.isfinite(value):
        return _not_finite(value)
    two_digits = f"{value:.1e}"  # never fewer: 4.9E-324 is nearer to the number than 5E-324
    return _scientific(two_digits if float(two_digits) == value else repr(value))


def float_text(value: float) -> str:
    """Return a float of 32 bits as `java.lang.Float.toString` does: with the digits of single precision.

    Args:
        value: Rounded to single precision if it is not.

    >>> [float_text(value) for value in (0.10000000149011612, 16777216.0, 1e10)]
    ['0.1', '1.6777216E7', '1.0E10']
    """
    value = _single(value)
    if not math.isfinite(value):
        return _not_finite(value)
    if value == 0:
        return repr(value)
    digits = _shortest_single(value)
    plain = _PLAIN_FROM <= abs(value) < _PLAIN_TO
    return repr(float(digits)) if plain else _scientific(digits)


def timestamp_text(value: datetime.datetime) -> str:
    """Return a time as `java.sql.Timestamp.toString` does: with a fraction of at least one digit.

    Of the fraction only milliseconds are written: PyFlink hands no more to Java.

    >>> timestamp_text(datetime.datetime(1999, 12, 31, 23, 0))
    '1999-12-31 23:00:00.0'
    """
    fraction = f"{value.microsecond // 1000:03}".rstrip("0") or "0"
    return f"{value.replace(microsecond=0, tzinfo=None)}.{fraction}"


def time_text(value: datetime.time) -> str:
    """Return a time of day as `java.sql.Time.toString` does: without a fraction.

    >>> time_text(datetime.time(1, 2, 3, 500_000))
    '01:02:03'
    """
    return f"{value.replace(microsecond=0, tzinfo=None)}"


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _single(value: float) -> float:
    """Return the nearest float of 32 bits, infinity if it is out of their range."""
    rounded: float = array("f", (value,))[0]
    return rounded


def _shortest_single(value: float) -> str:
    """Return the fewest decimal digits, at least two, that give this float of 32 bits back; the nearest such."""
    for digits in range(2, _SINGLE_DIGITS):
        text = f"{value:.{digits - 1}e}"
        if _single(float(text)) == value:
            return text
        # Below a power of two floats lie closer together than above it: the nearest decimal may be nearer to a
        # neighbour, and the one on the other side not.
        if abs(math.frexp(value)[0]) == 0.5:
            text = str(Context(prec=digits, rounding=ROUND_UP).create_decimal(Decimal(value)))
            if _single(float(text)) == value:
                return text
    return f"{value:.{_SINGLE_DIGITS - 1}e}"


def _scientific(text: str) -> str:
    """Return a decimal number as one digit, a point, at least one digit, `E` and the exponent."""
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int), text
    first, rest = digits[0], "".join(map(str, digits[1:])).rstrip("0") or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"
