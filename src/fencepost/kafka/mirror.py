"""Positions shown as a consumer group's offsets, for tools that watch lag. Nobody of ours reads them.

Each carries our mark in its metadata. Offsets that somebody else committed have none, and are never written over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from threading import Condition, Thread

from confluent_kafka import TopicPartition as DriverPartition

from fencepost.errors import FencepostError
from fencepost.kafka.standalone_consumer import StandaloneConsumer
from fencepost.model import TopicPartition

MARK = "shown by fencepost"
PATIENCE = 5.0  # for the last answer, when a run ends
LOOK_SECONDS = 5.0
PAUSE_SECONDS = 0.5  # after trouble


def foreign(found: Iterable[DriverPartition]) -> set[TopicPartition]:
    """Which of a group's offsets are somebody else's."""
    return {TopicPartition(at.topic, at.partition) for at in found if at.offset >= 0 and at.metadata != MARK}


class Mirror:
    """One group's offsets. Never holds a run up, and never stops one: a thread of its own does the work.

    One commit at a time is under way; what comes meanwhile waits for it. While somebody else is a member of the group,
    the brokers refuse them.
    """

    def __init__(self, settings: Mapping[str, str], group: str) -> None:
        self._group = group
        self._consumer = StandaloneConsumer(settings, group)
        self._wanted: dict[TopicPartition, int] = {}
        self._changed = Condition()
        self._busy = False
        self._ending = False
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
                except FencepostError as error:
                    self.complaint = error.message
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
        others = foreign(self._consumer.stored(wanted, LOOK_SECONDS).values())
        shown = [
            DriverPartition(at.topic, at.partition, position, MARK)
            for at, position in wanted.items()
            if at not in others
        ]
        if shown:
            self._commit(shown)
        if others:
            where = ", ".join(map(str, sorted(others)))
            self.complaint = f"group {self._group} has offsets that are not ours, on {where}"

    def _commit(self, shown: list[DriverPartition]) -> None:
        """What is refused is not tried again: the next positions are newer."""
        try:
            self._consumer.store(shown, lambda: self._ending)
            self.complaint = ""
        except FencepostError as error:
            self.complaint = error.message
