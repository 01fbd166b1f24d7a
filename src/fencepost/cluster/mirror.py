"""Positions shown as a consumer group's offsets, for tools that watch lag. Nobody of ours reads them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.cluster.client import Cluster, wait_until
from fencepost.model import TopicPartition

PATIENCE = 5.0  # for the last answer, when a run ends


class Mirror:
    """One group's offsets. Never holds a run up, and never stops one.

    One request at a time is under way, so that an older one cannot arrive last; what comes meanwhile waits for it.
    """

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._wanted: dict[TopicPartition, int] = {}
        self._under_way: Future[Any] | None = None
        self.complaint = ""  # why the group is behind, if it is

    def show(self, positions: Mapping[TopicPartition, int]) -> None:
        self._wanted.update(positions)
        if self._settled():
            self._send()

    def close(self) -> None:
        """Wait a little for the last positions to be there."""
        wait_until(self._settled, PATIENCE)
        if self._wanted and self._settled():
            self._send()
            wait_until(self._settled, PATIENCE)

    def _settled(self) -> bool:
        """Is the request that was under way answered, one way or the other?"""
        if self._under_way is None:
            return True
        if not self._under_way.done():
            return False
        error = self._under_way.exception()
        self.complaint = str(error.args[0]) if isinstance(error, KafkaException) else ""
        self._under_way = None
        return True

    def _send(self) -> None:
        shown = [DriverPartition(at.topic, at.partition, position) for at, position in self._wanted.items()]
        request = [ConsumerGroupTopicPartitions(self._group, shown)]
        self._wanted.clear()
        self._under_way = self._cluster.admin.alter_consumer_group_offsets(request, request_timeout=PATIENCE)[
            self._group
        ]
