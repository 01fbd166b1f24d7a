"""What a run tells while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from fencepost.machine.counting import count
from fencepost.model import Span, TopicPartition


@dataclass(frozen=True)
class Started:
    """The run owns its positions and begins to read, at first and after each trouble."""

    run: UUID
    epoch: int
    positions: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class BatchDone:
    """One batch has landed."""

    number: int
    positions: Mapping[TopicPartition, int]  # where it left them
    records: int  # offsets that it went over
    rows: int
    dead: int
    already: int  # partitions that an earlier attempt had done
    lag: int | None = None  # offsets that are still to be read, in the whole topic; None: not known
    complaint: str = ""  # why the mirrored positions are behind, if they are; nothing depends on them
    staged: str | None = None  # the part of the plan for which its rows went through a stage, if they did


@dataclass(frozen=True)
class Waiting:
    """Something does not answer; the run will try again, or goes on as soon as an answer comes."""

    trouble: str
    seconds: float | None  # until the next try; None: it only waits for an answer


@dataclass(frozen=True)
class Skipped:
    """These offsets were gone before they were read, and the pipeline allows to go on behind them."""

    partition: TopicPartition
    span: Span


@dataclass(frozen=True)
class NotDrained:
    """A run with --once ends, and these offsets are left in partitions of other members."""

    offsets: Mapping[TopicPartition, int]  # how many
    moving: bool = False  # have all of their members been seen to make progress?
    holders: Mapping[TopicPartition, str] = field(default_factory=dict)  # member ids, as far as the group says

    def __str__(self) -> str:
        where = ", ".join(f"{at} (assigned to {self.holders.get(at, 'nobody')})" for at in sorted(self.offsets))
        return f"{count(sum(self.offsets.values()), 'offset')} left in {where}"

    @property
    def remedy(self) -> str:
        if self.moving:
            return "other members are processing them"
        return "no member was seen to process them: check the other members, end those that hang, and run --once again"


News = Started | BatchDone | Waiting | Skipped | NotDrained
Listener = Callable[[News], None]


def unheard(_news: News) -> None:
    """The listener that is used when nobody listens."""


class PartitionsAdded(Exception):
    """The topic has partitions that this run does not own yet."""


class RenewalDue(PartitionsAdded):
    """Positions that did not move for long are to be stored again: the run renews its term, and goes on."""
