"""Dates and times as Spark reads them from JSON texts, of any year that it has: days and microseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SIGN_AND_DAY = r"(?P<sign>[+-]?)(?P<year>\d{4,%d})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
_DATE = re.compile(_SIGN_AND_DAY % 7 + r"(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIME = re.compile(
    _SIGN_AND_DAY
    % 6
    + r"(?:[ T](?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<part>\d*))?)?)?"
    r" ?(?P<zone>Z|[+-][\d:]+|(?:UTC|GMT|UT)(?P<offset>[+-][\d:]+)?)?)?)?)?",
    re.ASCII,
)
_USUAL = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZONE = re.compile(r"(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{1,2})(?::?(?P<seconds>\d{2}))?)?", re.ASCII)
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_WIDEST_ZONE = 18 * 3600
_SPACES = "".join(map(chr, range(33)))  # Spark takes control characters at either end for such


def days_of(text: str) -> int:
    """Raises ValueError."""
    match = _DATE.fullmatch(text.strip(_SPACES))
    if match is None:
        raise ValueError(text[:40])
    return _days(match)


def micros_of(text: str) -> int:
    """In UTC where it names no zone. Raises ValueError."""
    if _USUAL.fullmatch(text) and not text.startswith("0000"):
        since = (
            datetime.fromisoformat(text if text[-1] == "Z" else f"{text}Z") - _EPOCH
        )  # reads these in a fifth of the time
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return _micros(text)


def _micros(text: str) -> int:
    match = _TIME.fullmatch(text.strip(_SPACES))
    if match is None:
        raise ValueError(text[:40])
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("no such time")
    seconds = _days(match) * 86_400 + hour * 3600 + minute * 60 + second - _east(match["offset"] or match["zone"])
    return seconds * 1_000_000 + int((match["part"] or "").ljust(6, "0")[:6])


def _days(match: re.Match[str]) -> int:
    """By the calendar of today, in all times."""
    year = int(match["sign"] + match["year"])
    month, day = int(match["month"] or 1), int(match["day"] or 1)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1]:
        raise ValueError("no such day")
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if (month, day) == (2, 29) and not leap:
        raise ValueError("no such day")
    shifted, years = (month + 9) % 12, year - (month < 3)
    era, of_era = divmod(years, 400)
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + (153 * shifted + 2) // 5 + day - 1 - 719_468


def _east(zone: str | None) -> int:
    """Seconds east of Greenwich."""
    match = _ZONE.fullmatch(zone) if zone and zone[0] in "+-" else None
    if match is None:
        if zone and zone[0] in "+-":
            raise ValueError("no such zone")
        return 0
    hours, minutes, seconds = (int(match[name] or 0) for name in ("hours", "minutes", "seconds"))
    east = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or east > _WIDEST_ZONE:
        raise ValueError("no such zone")
    return -east if match["sign"] == "-" else east
