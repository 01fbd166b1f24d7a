"""Positions shown as a consumer group's offsets, for tools that watch lag. Nobody of ours reads them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.cluster.client import librdkafka_log, wait_until
from fencepost.cluster.settings import outsider_settings
from fencepost.model import TopicPartition

PATIENCE = 5.0  # for the last answer, when a run ends


class Mirror:
    """One group's offsets. Never holds a run up, and never stops one.

    One request at a time is under way, so that an older one cannot arrive last; what comes meanwhile waits for it.
    A consumer that never joins its group sends them: the admin client's way aborts the process when the broker that
    coordinates the group dies, and a synchronous commit hangs until there is another.
    """

    def __init__(self, settings: Mapping[str, str], group: str) -> None:
        self._consumer = Consumer(
            {
                **outsider_settings(settings),
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "on_commit": self._answered,
            },
            logger=librdkafka_log,
        )
        self._wanted: dict[TopicPartition, int] = {}
        self._under_way = False
        self.complaint = ""  # why the group is behind, if it is

    def show(self, positions: Mapping[TopicPartition, int]) -> None:
        self._wanted.update(positions)
        if self._wanted and self._settled():
            self._send()

    def close(self) -> None:
        """Wait a little for the last positions to be there."""
        if wait_until(self._settled, PATIENCE) and self._wanted:
            self._send()
            wait_until(self._settled, PATIENCE)
        self._consumer.close()

    def _settled(self) -> bool:
        """Is the request that was under way answered, one way or the other?"""
        self._consumer.poll(0)  # hands an answer over, if one came
        return not self._under_way

    def _send(self) -> None:
        shown = [DriverPartition(at.topic, at.partition, position) for at, position in self._wanted.items()]
        self._wanted.clear()
        self._under_way = True
        self._consumer.commit(offsets=shown, asynchronous=True)

    def _answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        self._under_way = False
        wrong = error or next((one.error for one in partitions if one.error), None)
        self.complaint = wrong.str() if wrong else ""
