"""Numbers in a readable form: 2.1 GB, 173 million rows, 38 ms. Estimates get few digits, since more would be noise."""

from __future__ import annotations

from math import isfinite

_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")


def count(number: float) -> str:
    """A number of rows."""
    if not isfinite(number):
        return "many"
    for size, word in _LARGE:
        if number >= size * 0.9995:
            return f"{_digits(number / size)} {word}"
    return f"{round(number):,}" if number < 100_000 else f"{round(number / 1000)},000"


def rough(number: float) -> str:
    """A number of rows with two digits, which hides small changes of an estimate."""
    if not isfinite(number) or number < 100:
        return count(number)
    return count(round(number, 2 - len(str(int(number)))))


def rows(number: float) -> str:
    shown = count(number)
    return f"{shown} row" if shown == "1" else f"{shown} rows"


def size(bytes: float) -> str:
    amount = float(bytes)
    for unit in _BYTES:
        if amount < 999.5 or unit == _BYTES[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{_digits(amount)} {unit}"
        amount /= 1000
    raise AssertionError("the last unit takes everything")


def seconds(time: float) -> str:
    if time <= 0:
        return "0 s"
    if time < 0.000_95:
        return f"{max(1, round(time * 1e6))} µs"
    if time < 0.95:
        return f"{_digits(time * 1e3)} ms"
    return f"{_digits(time)} s"


def _digits(number: float) -> str:
    """No decimals from 100 on, at most one below."""
    if number >= 99.5:
        return f"{number:,.0f}"
    return f"{number:.1f}".removesuffix(".0")


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number or 'no'} {word}s"
