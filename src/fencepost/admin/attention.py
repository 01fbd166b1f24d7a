"""What of a cluster needs somebody first, and why: the worst above. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fencepost.kafka.group_lag import GroupLag
from fencepost.kafka.layout import Layout, TopicLayout
from fencepost.kafka.open_transactions import OpenProducer, TransactionDescription
from fencepost.machine.counting import count

UNEVEN = 1.5  # a broker that leads so many times the mean
UNHEARD_SECONDS = 30.0  # of a controller that votes


class Level(StrEnum):
    BAD = "bad"  # something cannot be read or written, or is lost with the next failure
    WARN = "warn"  # it may come to that


@dataclass(frozen=True)
class Attention:
    """One thing to look at."""

    level: Level
    what: str
    why: str
    about: str = ""  # topic:NAME, group:NAME, transactions, brokers, pipeline:NAME


def of_layout(layout: Layout, now: datetime) -> Iterator[Attention]:
    for broker in layout.brokers:
        if not broker.up:
            why = f"{count(broker.replicas, 'replica')} of it are missing from their in-sync sets"
            yield Attention(Level.BAD, f"broker {broker.id} is down", why, "brokers")
    for voter in layout.quorum:
        silent = (now - voter.last_caught_up).total_seconds() if voter.last_caught_up else 0
        if not voter.leads and silent > UNHEARD_SECONDS:
            yield Attention(Level.BAD, f"controller {voter.id} is behind", f"for {silent:.0f} s", "brokers")
    for topic in layout.topics.values():
        yield from _of_topic(topic)
    for broker in layout.brokers:
        if broker.skew and broker.skew > UNEVEN and broker.leaders > len(layout.brokers):
            why = f"it leads {broker.leaders} partitions, {broker.skew:.1f} times the mean"
            yield Attention(Level.WARN, f"broker {broker.id} has more than its share", why, "brokers")


def _of_topic(topic: TopicLayout) -> Iterator[Attention]:
    about = f"topic:{topic.topic}"
    if topic.offline:
        why = "without a leader it can be neither read nor written"
        yield Attention(Level.BAD, f"{topic.topic}: {count(topic.offline, 'partition')} offline", why, about)
    elif topic.under_min:
        why = f"fewer than {topic.min_in_sync} replicas in sync: what is sent with acks=all is refused"
        yield Attention(
            Level.BAD, f"{topic.topic}: {count(topic.under_min, 'partition')} under the minimum", why, about
        )
    elif topic.under_replicated:
        why = "fewer replicas in sync than it should have"
        said = f"{topic.topic}: {count(topic.under_replicated, 'partition')} under-replicated"
        yield Attention(Level.WARN, said, why, about)


def of_transactions(
    open_: Iterable[TransactionDescription], hanging: Sequence[OpenProducer], now: datetime
) -> Iterator[Attention]:
    for one in hanging:
        why = f"no coordinator knows of it: readers of committed records stop at {one.start_offset} until it is aborted"
        yield Attention(Level.BAD, f"a transaction hangs in {one.partition}", why, "transactions")
    for transaction in open_:
        age = transaction.age(now) or 0
        if transaction.overdue(now):
            why = f"open for {age:.0f} s, its timeout is {transaction.timeout_ms / 1000:.0f} s"
            yield Attention(Level.WARN, f"transaction {transaction.transactional_id} is overdue", why, "transactions")


def of_pipeline(name: str, lag: GroupLag | None, verdict: str | None) -> Iterator[Attention]:
    """`verdict`: of its last audit, where one is kept."""
    about = f"pipeline:{name}"
    if verdict == "broken":
        yield Attention(Level.BAD, f"pipeline {name}: its last audit is broken", "events are lost or doubled", about)
    for one in lag.partitions if lag else ():
        place = f"{one.topic}/{one.partition}"
        if one.gone:
            why = f"{count(one.gone, 'offset')} of {place} are gone before they were read"
            yield Attention(Level.BAD, f"pipeline {name} cannot go on", why, about)
        if one.offsets is not None and one.offsets < 0 and one.position > (one.end or 0):
            why = f"its position is {one.position} and {place} ends at {one.end}: the topic may be another one"
            yield Attention(Level.BAD, f"pipeline {name} is beyond the end", why, about)


def worst_first(found: Iterable[Attention]) -> list[Attention]:
    return sorted(found, key=lambda one: one.level is not Level.BAD)
