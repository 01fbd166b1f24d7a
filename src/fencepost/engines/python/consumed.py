"""What a member of a group did."""

from __future__ import annotations

from dataclasses import dataclass, field

from fencepost.engines.listener import NotDrained
from fencepost.model import TopicPartition


@dataclass
class Consumed:
    """What a member did."""

    events: int = 0
    batches: int = 0
    given_up: int = 0  # batches whose partitions went away before they were done
    positions: dict[TopicPartition, int] = field(default_factory=dict)  # behind what was taken; the store knows more
    left: NotDrained | None = None  # waits in partitions of other members, when it was to end

    def __add__(self, other: Consumed) -> Consumed:
        return Consumed(
            self.events + other.events,
            self.batches + other.batches,
            self.given_up + other.given_up,
            {**self.positions, **other.positions},
            other.left,
        )
