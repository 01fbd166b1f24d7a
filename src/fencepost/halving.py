"""Finding the bad ones among many, where a try tells only whether a whole range is good."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Try = Callable[[int, int], str | None]


def bad_ones(start: int, end: int, why: Try, most: int) -> list[tuple[int, str]]:
    """The bad ones in [start, end), each with its reason, at most so many.

    `why(start, end)` tries a range: None when all of it is good, else the reason of one that is not.
    """
    found: list[tuple[int, str]] = []
    for bad in _halve(start, end, why):
        found.append(bad)
        if len(found) == most:
            break
    return found


def _halve(start: int, end: int, why: Try) -> Iterator[tuple[int, str]]:
    reason = why(start, end) if start < end else None
    if reason is None:
        return
    if end - start == 1:
        yield start, reason
        return
    middle = (start + end) // 2
    yield from _halve(start, middle, why)
    yield from _halve(middle, end, why)
