"""Positions shown as a consumer group's offsets, for tools that watch lag. Nobody of ours reads them.

Each carries our mark in its metadata. Offsets that somebody else committed have none, and are never written over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from threading import Condition, Thread

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.kafka.client import librdkafka_log
from fencepost.kafka.config.settings import outsider_settings
from fencepost.model import TopicPartition

MARK = "shown by fencepost"
PATIENCE = 5.0  # for the last answer, when a run ends
LOOK_SECONDS = 5.0
PAUSE_SECONDS = 0.5  # after trouble
POLL_SECONDS = 0.05


def foreign(found: Iterable[DriverPartition]) -> set[TopicPartition]:
    """Which of a group's offsets are somebody else's."""
    return {TopicPartition(at.topic, at.partition) for at in found if at.offset >= 0 and at.metadata != MARK}


class Mirror:
    """One group's offsets. Never holds a run up, and never stops one: a thread of its own does the work.

    One request at a time is under way, so that an older one cannot arrive last; what comes meanwhile waits for it.
    A consumer that never joins its group sends them: the admin client's way aborts the process when the broker that
    coordinates the group dies, and a synchronous commit hangs until there is another. While somebody else is a member
    of the group, the brokers refuse them.
    """

    def __init__(self, settings: Mapping[str, str], group: str) -> None:
        self._group = group
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
        self._changed = Condition()
        self._busy = False
        self._ending = False
        self._under_way = False
        self.complaint = ""  # why the group is behind, if it is
        self._thread = Thread(target=self._work, name="mirror", daemon=True)
        self._thread.start()

    def show(self, positions: Mapping[TopicPartition, int]) -> None:
        with self._changed:
            self._wanted.update(positions)
            self._changed.notify_all()

    def close(self) -> None:
        """Wait a little for the last positions to be there."""
        with self._changed:
            self._changed.wait_for(lambda: not self._wanted and not self._busy, PATIENCE)
            self._ending = True
            self._changed.notify_all()
        self._thread.join(2 * LOOK_SECONDS)

    def _work(self) -> None:
        with closing(self._consumer):
            while (wanted := self._next()) is not None:
                try:
                    self._send(wanted)
                except KafkaException as error:
                    self.complaint = error.args[0].str()
                    self._again(wanted)
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _next(self) -> dict[TopicPartition, int] | None:
        """What is to be shown; None when the run has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._ending)
            if self._ending:
                return None
            wanted, self._wanted, self._busy = self._wanted, {}, True
            return wanted

    def _again(self, wanted: dict[TopicPartition, int]) -> None:
        with self._changed:
            self._wanted = {**wanted, **self._wanted}
            self._changed.wait_for(lambda: self._ending, PAUSE_SECONDS)

    def _send(self, wanted: Mapping[TopicPartition, int]) -> None:
        """Looks each time: somebody may have come and gone since."""
        asked = [DriverPartition(at.topic, at.partition) for at in wanted]
        others = foreign(self._consumer.committed(asked, timeout=LOOK_SECONDS))
        shown = [
            DriverPartition(at.topic, at.partition, position, MARK)
            for at, position in wanted.items()
            if at not in others
        ]
        if shown:
            self._under_way = True
            self._consumer.commit(offsets=shown, asynchronous=True)
            while self._under_way and not self._ending:
                self._consumer.poll(POLL_SECONDS)  # hands the answer over, when it comes
        if others:
            where = ", ".join(map(str, sorted(others)))
            self.complaint = f"group {self._group} has offsets that are not ours, on {where}"

    def _answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        self._under_way = False
        wrong = error or next((one.error for one in partitions if one.error), None)
        self.complaint = wrong.str() if wrong else ""
