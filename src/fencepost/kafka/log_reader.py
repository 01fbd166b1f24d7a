"""Batches as they stand in the log, fetched from the leaders in one request to each: by their headers only.

What is fetched is bounded, and its records are not unpacked: `messages.py` reads those.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.kafka.batch_headers import BatchHeader, parse_headers
from fencepost.kafka.layout import leaders
from fencepost.kafka.visibility import Aborted
from fencepost.kafka.wire import Wire
from fencepost.model import TopicPartition

MOST_BYTES = 8 << 20  # of one broker's answer; one batch that is larger comes whole
_NAMED_TOPICS = {"min_version": 4, "max_version": 12}  # newer versions name topics by their ids


@dataclass(frozen=True)
class Fetched:
    """What one leader gave of one partition."""

    batches: tuple[BatchHeader, ...]
    aborted: tuple[Aborted, ...]  # with `committed` only
    first: int  # offset of the log
    stable: int  # last stable offset
    end: int  # the high watermark: what the in-sync set has

    @property
    def upto(self) -> int:
        """The offset behind what was fetched; -1: nothing was."""
        return self.batches[-1].last + 1 if self.batches else -1


def fetch(
    wire: Wire, starts: Mapping[TopicPartition, int], *, committed: bool, most: int = 1 << 20
) -> dict[TopicPartition, Fetched]:
    """At most so many bytes of each partition from these offsets on; without those that cannot be read now.

    `committed`: up to the last stable offset, with the aborted transactions; else up to the end.
    """
    requests = {leader: _request(led, committed, most) for leader, led in _by_leader(wire, starts).items()}
    found = {
        TopicPartition(topic.topic, part.partition_index): part
        for answer in wire.send(requests, "the log").values()
        for topic in answer.responses
        for part in topic.partitions
    }
    return {at: _fetched(part, starts[at]) for at, part in found.items() if not part.error_code}


def _by_leader(wire: Wire, starts: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
    led: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for at, leader in leaders(wire, starts).items():
        if at in starts:
            led[leader][at] = starts[at]
    return led


def _request(starts: Mapping[TopicPartition, int], committed: bool, most: int) -> Any:
    from kafka.protocol.consumer import FetchRequest

    wanted: dict[str, list[Any]] = defaultdict(list)
    for at, offset in starts.items():
        wanted[at.topic].append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=at.partition,
                fetch_offset=offset,
                partition_max_bytes=most,
                current_leader_epoch=-1,
                last_fetched_epoch=-1,
                log_start_offset=-1,
            )
        )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=MOST_BYTES,
        isolation_level=int(committed),
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=name, partitions=parts) for name, parts in wanted.items()],
        forgotten_topics_data=[],
        rack_id="",
        **_NAMED_TOPICS,
    )


def _fetched(part: Any, start: int) -> Fetched:
    batches = [one for one in parse_headers(bytes(part.records or b"")) if one.last >= start]
    aborted = [Aborted(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
    return Fetched(tuple(batches), tuple(aborted), part.log_start_offset, part.last_stable_offset, part.high_watermark)


def read_on(wire: Wire, at: TopicPartition, start: int, enough: Callable[[Fetched], bool], rounds: int = 4) -> Fetched:
    """One partition up to its end, in several fetches, until there is enough. Raises KeyError without a leader."""
    whole = fetch(wire, {at: start}, committed=False)[at]
    while rounds > 1 and -1 < whole.upto < whole.end and not enough(whole):
        more = fetch(wire, {at: whole.upto}, committed=False)[at]
        whole, rounds = replace(more, batches=(*whole.batches, *more.batches)), rounds - 1
    return whole
