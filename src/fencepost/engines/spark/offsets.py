"""Records by their offsets, however many: a plan with a literal for each would take Spark minutes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as f

from fencepost.model import TopicPartition

HERE = b"\x01"
PLACE = ("topic", "partition", "offset")


def among(offsets: Mapping[TopicPartition, Collection[int]], place: Sequence[str] = PLACE) -> Column | None:
    """True for Kafka's records that are at one of these places, false for the others; None where there is no place.

    `place`: the columns that say where a record is.
    """
    places = [_among(at, wanted, place) for at, wanted in offsets.items() if wanted]
    return reduce(lambda one, other: one | other, places) if places else None


def _among(at: TopicPartition, offsets: Collection[int], names: Sequence[str]) -> Column:
    """One byte for each offset from the first one to the last, so no more than a batch has."""
    first, last = min(offsets), max(offsets)
    topic, partition, column = map(f.col, names)
    place = (topic == at.topic) & (partition == at.partition) & column.between(first, last)
    # Spark may look at it for a record that is elsewhere too: there it must not overflow
    number = (column - f.lit(first)).try_cast("int") + f.lit(1)
    found = f.substring(f.lit(mask(offsets)), number, f.lit(1)) == f.lit(bytearray(HERE))
    return place & f.coalesce(found, f.lit(False))


def mask(offsets: Collection[int]) -> bytearray:
    """A byte for each offset from the first one to the last: is it one of them?"""
    first = min(offsets)
    made = bytearray(max(offsets) - first + 1)
    for offset in offsets:
        made[offset - first] = HERE[0]
    return made
