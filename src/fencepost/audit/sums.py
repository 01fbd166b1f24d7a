"""Two sides of a hop as sums per bucket: where the sums agree, the rows agree. Pure.

Counts alone would miss a hole beside a copy; a XOR would miss two copies. Compared are the count, the sum of the
offsets and two independent hash sums; only buckets that differ are looked at row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Bucket(NamedTuple):
    """A range of a partition's offsets; or, where events are known by id, a share of all ids."""

    topic: str
    part: int
    bucket: int


class Sums(NamedTuple):
    """What stands in one bucket on one side."""

    rows: int
    total: int  # of the offsets
    first_hash: int
    second_hash: int
    more: int = 0  # rows that are a further output of an event: they have no partner on the other side


NOTHING = Sums(0, 0, 0, 0)


def suspects(expected: Mapping[Bucket, Sums], found: Mapping[Bucket, Sums]) -> list[Bucket]:
    """The buckets that must be looked at row by row."""
    return sorted(at for at in {*expected, *found} if expected.get(at, NOTHING) != found.get(at, NOTHING))


def rows_of(sums: Iterable[Sums]) -> int:
    return sum(one.rows + one.more for one in sums)
