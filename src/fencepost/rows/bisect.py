"""Finding the bad ones among many, where a try tells only whether a whole range is good."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Try = Callable[[int, int], str | None]


def bad_ones(start: int, end: int, why: Try, most: int) -> list[tuple[int, str]]:
    """The bad ones in [start, end), each with its reason, at most so many.

    `why(start, end)` tries a range: None when all of it is good, else the reason of one that is not. It is asked from
    the left to the right, and never again for one that it found good.
    """
    found: list[tuple[int, str]] = []
    for bad in _search(start, end, why):
        found.append(bad)
        if len(found) == most:
            break
    return found


def _search(start: int, end: int, why: Try) -> Iterator[tuple[int, str]]:
    """All at once, then fewer than lay between two bad ones so far: one by one where every other is bad."""
    at, alarms, size = start, 0, end - start
    while at < end:
        upto = min(end, at + size)
        reason = why(at, upto)
        if reason is None:
            at = upto
        else:
            at, reason = _first(at, upto, reason, why)
            alarms += 1
            if reason is not None:
                yield at - 1, reason
        size = max(1, (at - start) * 7 // (alarms * 10)) if alarms else end - at  # ln 2 costs the fewest tries


def _first(start: int, end: int, reason: str, why: Try) -> tuple[int, str | None]:
    """The end of what is known of a range that was refused, by halves; and why the last one of that is bad, if it is:
    a range may be refused none of whose members is."""
    alone: str | None = reason
    while end - start > 1:
        middle = (start + end) // 2
        alone = why(start, middle)
        if alone is None:
            start = middle
        else:
            end = middle
    return end, alone if alone is not None else why(start, end)
