"""What is to be compared, by what, and what is known about it before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.audit.engines.engine import BUCKET_BITS, Engine, bucket
from fencepost.audit.spans import LandedSpan
from fencepost.guarantee import Anomaly
from fencepost.model import Span, TopicPartition

Ranges = Mapping[TopicPartition, Span]

ID_BUCKETS = 1024


@dataclass(frozen=True)
class Keying:
    """By what the rows of both sides are matched, and into which buckets they fall."""

    checked: str
    columns: tuple[str, ...]
    bucket: tuple[str, str, str]  # the three columns of a Bucket
    total: str  # a number per row whose sum is compared beside the hashes


PLACES = Keying(
    "provenance: topic, partition and offset of each row",
    ("topic", "part", "pos"),
    ("topic", "part", bucket("pos")),
    f"pos - ({bucket('pos')} << {BUCKET_BITS})",
)


def by_id(engine: Engine) -> Keying:
    share = engine.remainder(engine.hashes("id")[0], ID_BUCKETS)
    return Keying("ids", ("id",), ("''", "0", share), "length(id)")


@dataclass(frozen=True)
class Question:
    """What is to be compared, and what is known about it."""

    keying: Keying
    read_raw: Callable[[Ranges | None], None]  # makes `raw`: these parts of the log with aborted records, or all of it
    spans: Sequence[LandedSpan] = ()
    ranges: Ranges = field(default_factory=dict)  # what of the log is compared
    nothing_is_filtered: bool = False  # every record of `expected` must have its row
    unexpected: Anomaly | None = None  # what a row of a record is that is in `log` and not in `expected`
    compacted: bool = False  # records that had a row may be gone from the log
    payload: bool = False  # both sides have a column `payload`, which must agree
    missing: Anomaly = Anomaly.LOST_BEFORE_SINK  # what a record without a row is
    nowhere: Anomaly = Anomaly.PHANTOM  # what a row without a record is
    earlier: Sequence[tuple[TopicPartition, Span]] = ()  # where a deleted topic of the same name may have left a row
    most: int = 100
