"""Numbers with their noun: one event, 1,000 events."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
