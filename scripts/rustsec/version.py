"""Versions of crates and the requirements that advisories have of them.

All is plain order, as in the database's own export: 2.0.0-alpha is past 1.9 and before 2.0.0. (Cargo leaves pre-releases out of
ranges that do not name them; an advisory means them.)
"""

from __future__ import annotations

import re
from typing import TypeAlias

Version: TypeAlias = tuple[int, int, int, tuple[object, ...]]

WHOLE = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
COMPARATOR = re.compile(r"(>=|<=|>|<|=|\^|~)?\s*(\d+)(?:\.(\d+|[*xX]))?(?:\.(\d+|[*xX]))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")

RELEASE = (1,)
FIRST_PRE_RELEASE = (0, (0, 0, ""))


def version(text: str) -> Version:
    """A value that compares as the version does."""
    whole = WHOLE.fullmatch(text)
    if not whole:
        raise ValueError(f"{text!r} is no version")
    return int(whole[1]), int(whole[2]), int(whole[3]), _pre_release(whole[4])


def _pre_release(text: str | None) -> tuple[object, ...]:
    """Numbers before words, and less before more: `alpha` < `alpha.1` < `alpha.beta`; a release is past all of them."""
    if text is None:
        return RELEASE
    return (0, *((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in text.split(".")))


def meets(version: Version, requirement: str) -> bool:
    """Whether a version is one of `>= 1.2.3`, `^0.3.1`, `>= 1, < 2`, `= 0.4.10`, `1.2.*`, `*`; what has no operator has `^`."""
    # Each is read, so that what cannot be read is noticed whatever the version.
    return all([_holds(version, comparator.strip()) for comparator in requirement.split(",")])


def _holds(version: Version, comparator: str) -> bool:
    if comparator in ("*", "x", "X"):
        return True
    parts = COMPARATOR.fullmatch(comparator)
    if not parts:
        raise ValueError(f"{comparator!r} is no requirement")
    numbers = [int(part) for part in parts.group(2, 3, 4) if part and part.isdecimal()]
    wild = any(part and not part.isdecimal() for part in parts.group(3, 4))
    if (len(numbers) < 3 and parts[5]) or (wild and parts[4] and parts[4].isdecimal()):
        raise ValueError(f"{comparator!r} is no requirement")
    operator = parts[1] or ("=" if wild else "^")
    major, minor, patch = numbers + [0] * (3 - len(numbers))
    low = (major, minor, patch, _pre_release(parts[5]))

    if operator == ">=":
        return version >= low
    if operator == "<":
        return version < low
    if operator == "^":
        # The first number that is not 0 stays, or all that are given.
        kept = next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)
        return low <= version < _past(numbers, kept)
    if operator == "~":
        return low <= version < _past(numbers, min(1, len(numbers) - 1))
    if len(numbers) == 3:
        return {">": version > low, "<=": version <= low, "=": version == low}[operator]
    past = _past(numbers, len(numbers) - 1)
    return {">": version >= past, "<=": version < past, "=": low <= version < past}[operator]


def _past(numbers: list[int], kept: int) -> Version:
    """The first version that differs at this number, pre-releases included."""
    major, minor, patch = [*numbers[:kept], numbers[kept] + 1, 0, 0][:3]
    return major, minor, patch, FIRST_PRE_RELEASE
