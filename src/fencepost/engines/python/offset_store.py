"""Where a member's positions are kept, and the order in which they and the work are done.

In the group, for a handler whose effects are its own: at most once and at least once. In the sink itself, where each
member owns the positions of its own partitions: all three, exactly once among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event as Flag
from typing import Protocol

from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.delivery import Observer
from fencepost.engines.python.handler import Patiently
from fencepost.engines.python.settings import COMMITTED, ConsumerSettings
from fencepost.errors import PositionLost, RecordsGone
from fencepost.kafka.offsets import Command, TopicReader, before_the_start, beyond_the_end
from fencepost.model import Batch, Landed, TopicPartition

Messages = list[Message]


class OffsetStore(Protocol):
    """The positions of the partitions that a member owns."""

    @property
    def processed_though_fenced(self) -> bool:
        """When `deliver` says Fenced, was the batch processed all the same, and only its position not moved?"""

    def take(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """They are ours now: where to read on. Raises RecordsGone where the topic does not hold that any more."""

    def deliver(self, batch: Batch[Messages]) -> Landed:
        """Process the batch and move the position, in the order of the guarantee. Raises Fenced when it is not ours."""

    def catch_up(self) -> Landed:
        """Process what was taken by `deliver` and could not be yet. Raises as that does."""

    def waiting(self) -> set[TopicPartition]:
        """The partitions of which something was taken and is not processed yet."""

    def position(self, partition: TopicPartition) -> int:
        """Where it stands now: what to read again after trouble."""

    def set_command(self, positions: Mapping[TopicPartition, int]) -> str:
        """What a person types to put them there."""

    def stands(self) -> Mapping[TopicPartition, int]:
        """The stored positions of all partitions, whoever owns them."""

    def give_back(self, partitions: set[TopicPartition], finished: Batch[Messages] | None, seconds: float) -> None:
        """They are asked back: everything that is done is durable on return, the current batch if it was finished.

        `seconds`: how long what is under way may still take.
        """

    def lose(self, partitions: set[TopicPartition]) -> None:
        """Somebody else has them already."""

    def answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        """An asynchronous commit was answered."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class MemberHooks:
    """What a offset_store needs of its member."""

    stop: Flag
    patiently: Patiently
    see: Observer
    hear: Callable[[], None]  # lets answers come in, for a moment


def resolve(
    topic: TopicReader,
    settings: ConsumerSettings,
    partitions: list[TopicPartition],
    known: Mapping[TopicPartition, int],
    command: Command,
) -> dict[TopicPartition, int]:
    """The stored positions, and for the other partitions where to start. Out of range is an error, never a jump."""
    first, ends = topic.bounds(partitions)
    if lost := {place: position for place, position in known.items() if position > ends[place]}:
        raise PositionLost(*beyond_the_end(lost, ends, command))
    gone = {place: position for place, position in known.items() if position < first[place]}
    if gone and not settings.skip_gone:
        raise RecordsGone(*before_the_start(gone, first, command))
    if len(known) == len(partitions):
        return dict(known)
    if settings.start == COMMITTED:
        raise PositionLost(
            f"group {settings.group!r} has no position in {settings.topic!r}", "start at earliest, latest or a time"
        )
    # all partitions that there were got a position when the group began: these came later, and nobody has read them
    return {place: known.get(place, first[place]) for place in partitions}
