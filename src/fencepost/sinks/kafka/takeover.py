"""Becoming the owner of several source partitions, each behind a transactional.id of its own.

First every id is taken, then every position is stored under the new owner; who loses an id in between starts again.
So of two that claim the same partitions at once, one ends up with all of them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from fencepost.errors import PositionLost, Rewound, Unknown, Unreachable
from fencepost.fence import StoredPosition, newest_epoch
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import set_command
from fencepost.kafka.topics import end_offsets, topic_id_and_partitions
from fencepost.model import Tenure, TopicPartition
from fencepost.sinks.kafka.fenced_producer import FencedProducer, telling
from fencepost.sinks.kafka.ledger import Group, Held, offset_of

TIMEOUT_SECONDS = 60.0  # for others that claim the same
_LONGEST_WAIT = 0.5
_AT_ONCE = 8  # partitions
T = TypeVar("T")
Change = Callable[[Held], Held]  # what stands there to what is to stand there


def claim(
    group: Group,
    producers: Mapping[TopicPartition, FencedProducer],
    change: Change,
    forgotten: Collection[TopicPartition] = (),
) -> Held:
    """Store the change of what stands there, fencing the previous owners of the producers. Raises Unreachable."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return _claim_once(group, producers, change, forgotten)
        except (Rewound, Unknown) as displaced:  # unknown: taking the producers again decides it
            if time.monotonic() > deadline:
                raise Unreachable(f"group {group.name}: the takeover failed: {displaced.message}") from displaced
        time.sleep(random.uniform(0, _LONGEST_WAIT))  # noqa: S311 (so that two do not displace each other for ever)


def _claim_once(
    group: Group,
    producers: Mapping[TopicPartition, FencedProducer],
    change: Change,
    forgotten: Collection[TopicPartition],
) -> Held:
    _each(lambda producer: producer.take(), producers.values())
    held = group.settled(producers)
    for partition, producer in producers.items():
        producer.learn(held.get(partition))
    wanted = change(held)
    metadata = group.metadata

    def store(partition: TopicPartition) -> None:
        producer, stored = producers[partition], wanted[partition]
        with producer.transaction() as client, telling():
            client.send_offsets([offset_of(partition, stored, forgotten=partition in forgotten)], metadata)
        producer.learn(None if partition in forgotten else stored)

    _each(store, wanted)
    return wanted


def _each(act: Callable[[T], object], things: Iterable[T]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(act, things))


def owned(stored: StoredPosition | None, first: int, run: UUID, epoch: int, topic_id: str | None) -> StoredPosition:
    """Where it stands, or where it is to begin, under its new owner."""
    if stored is None:
        return StoredPosition(first, run, epoch, topic_id, begun=first)
    return replace(stored, owner=run, epoch=epoch, topic_id=topic_id or stored.topic_id)


def begun(before: StoredPosition | None, put: StoredPosition) -> int | None:
    """Where a pipeline began whose position is put elsewhere by hand: nothing below that was ever read."""
    if before is None or before.owner is None or (put.topic_id and before.topic_id != put.topic_id):
        return put.position
    return None if before.begun is None else min(before.begun, put.position)


def tenure(pipeline: str, run: UUID, stored: Held) -> Tenure:
    return Tenure(pipeline, run, newest_epoch(stored), {at: held.position for at, held in stored.items()})


def require_ours(group: str, held: Held) -> None:
    """Raises PositionLost for offsets that somebody else committed to the group."""
    if others := {at: stored.position for at, stored in held.items() if stored.owner is None}:
        where = ", ".join(map(str, sorted(others)))
        raise PositionLost(
            f"group {group} has offsets on {where} that no pipeline stored",
            "give the pipeline another name; or, if nobody else uses the group, continue from them: "
            f"{set_command(others)}",
        )


def require_empty_targets(kafka: Mapping[str, str], pipeline: str, topics: Iterable[str]) -> None:
    """Without a position, starting from scratch may duplicate what is there. Raises Usage where a target is missing."""
    for topic in topics:
        if _holds_records(kafka, topic):
            raise PositionLost(
                f"no position is stored for pipeline {pipeline!r}, but topic {topic!r} is not empty: "
                "starting from scratch could duplicate what is there",
                "choose where to continue: `fencepost positions set --to earliest` (everything again), `--to "
                "latest` (only new records), or `--to 0:120,1:7` (an offset per partition); or use an empty topic",
            )


def _holds_records(kafka: Mapping[str, str], topic: str) -> bool:
    with Cluster(kafka) as cluster:
        topic_id_and_partitions(cluster, topic)
        return any(end_offsets(cluster, [topic]).values())
