"""Streams that keep state, on the real stack; and what must come of them, in plain Python, from the topic's records.

The model is told which records came in which batch, because late ones are told by that; watermarks it finds itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from fencepost.engines.spark.stateful.checkpoint import Checkpoint, ends_of
from fencepost.kafka.topic_reader import read_committed
from spark.flows import Flow

SCHEMA = "id long, user string, at timestamp, v long"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DELAY, WINDOW = 5, 10  # seconds

# of a module that has a function `summed` for what comes before
SUMS = f"""
from pyspark.sql import functions as f


def made(events):
    late = summed(events).withWatermark("at", "{DELAY} seconds")
    grouped = late.groupBy(f.window("at", "{WINDOW} seconds"), "user")
    sums = grouped.agg(f.count("*").alias("n"), f.sum("v").alias("v"))
    return sums.select(f.col("window.start").alias("start"), "user", "n", "v")
"""
WINDOWS = f"def summed(events):\n    return events\n{SUMS}"

FIRSTS = f"""
def made(events):
    return events.withWatermark("at", "{DELAY} seconds").dropDuplicatesWithinWatermark(["user"]).select("id", "user")
"""
PAIRS = f"""
from pyspark.sql import functions as f


def made(events):
    late = events.withWatermark("at", "{DELAY} seconds")
    orders = late.where("v > 0").select(f.col("id").alias("order"), f.col("at").alias("ordered"))
    paid = late.where("v < 0").withColumn("of", -f.col("v"))
    payments = paid.select("of", f.col("id").alias("payment"), f.col("at").alias("paid"))
    soon = f.expr("of = order AND paid >= ordered AND paid <= ordered + interval {WINDOW} seconds")
    return orders.join(payments, soon, "leftOuter").select("order", "payment")
"""


@dataclass(frozen=True)
class Event:
    """`at`: seconds since the beginning."""

    id: int
    user: str
    at: float
    v: int = 1

    def value(self) -> bytes:
        at = (BEGIN + timedelta(seconds=self.at)).isoformat()
        return json.dumps({"id": self.id, "user": self.user, "at": at, "v": self.v}).encode()

    @classmethod
    def read(cls, value: bytes) -> Event:
        told = json.loads(value)
        return cls(told["id"], told["user"], (datetime.fromisoformat(told["at"]) - BEGIN).total_seconds(), told["v"])


def spread(ids: Iterable[int], users: int = 3) -> list[Event]:
    """Two a second, out of order within the delay; now and then one that is much too late."""
    return [Event(id_, f"u{id_ % users}", _time(id_), id_) for id_ in ids]


def _time(id_: int) -> float:
    late = 40 if id_ % 25 == 24 else (id_ * 7 % 4)
    return max(id_ / 2 - late, 0.0)


def windows(batches: Iterable[list[Event]], update: bool = False) -> list[tuple[Any, ...]]:
    """Rows by window and user: once, when the watermark has passed the window; or the newest of each."""
    open_: dict[tuple[float, str], tuple[int, int]] = {}
    rows: list[tuple[Any, ...]] = []
    latest = reached = before = -inf  # the highest time of all, the watermark of this batch and that of the last one
    for batch in batches:
        before, reached = reached, max(reached, latest - DELAY)
        for event in batch:
            start = event.at // WINDOW * WINDOW
            latest = max(latest, event.at)
            if start + WINDOW > before:
                n, v = open_.get((start, event.user), (0, 0))
                open_[start, event.user] = (n + 1, v + event.v)
        closed = [key for key in open_ if key[0] + WINDOW <= reached]
        rows += [(*key, *open_[key]) for key in ([*open_] if update else closed)]
        for key in closed:
            del open_[key]
    return sorted({row[:2]: row for row in rows}.values())


def firsts(batches: Iterable[list[Event]], landed: set[int]) -> list[tuple[int, str]]:
    """The first event of each user, and the next first one when that is forgotten.

    Of several in one batch any may be the first: the one that has landed is, and is forgotten by its own time.
    """
    known: dict[str, float] = {}
    rows: list[tuple[int, str]] = []
    latest = reached = before = -inf
    for batch in batches:
        before, reached = reached, max(reached, latest - DELAY)
        new: dict[str, list[Event]] = {}
        for event in batch:
            latest = max(latest, event.at)
            if event.at > before and event.user not in known:
                new.setdefault(event.user, []).append(event)
        for user, events in new.items():
            chosen = next((event for event in events if event.id in landed), events[0])
            rows.append((chosen.id, user))
            known[user] = chosen.at + DELAY
        known = {user: until for user, until in known.items() if until > reached}
    return sorted(rows)


def pairs(batches: Iterable[list[Event]]) -> list[tuple[int, int | None]]:
    """Each order with its payments within the time; one without any when the watermark says that none will come."""
    every = list(batches)
    latest = [max((event.at for batch in every[:n] for event in batch), default=0.0) for n in range(len(every) + 1)]
    reached = max(latest[-2] - DELAY, 0.0)  # of the last batch
    events = [event for batch in every for event in batch]
    rows: list[tuple[int, int | None]] = []
    for order in (event for event in events if event.v > 0):
        paid = [one.id for one in events if one.v == -order.id and order.at <= one.at <= order.at + WINDOW]
        rows += [(order.id, one) for one in paid]
        if not paid and order.at + WINDOW < reached:
            rows.append((order.id, None))
    return sorted(rows, key=lambda row: (row[0], row[1] or 0))


def orders(ids: Iterable[int]) -> list[Event]:
    """An order a second, never in time with a window's end; most are paid, some of them too late to be joined."""
    found = []
    for id_ in ids:
        found.append(Event(id_, "order", id_ + 0.25, v=1))
        if id_ % 4:
            found.append(Event(1_000_000 + id_, "payment", id_ + 0.5 + id_ % 3, v=-id_))
        elif id_ % 8 == 4 and id_ > 20:
            found.append(Event(1_000_000 + id_, "payment", id_ + 0.5, v=-(id_ - 20)))
    return found


def source_part(topic: str) -> dict[str, str]:
    return {"topic": topic, "value": "json", "schema": SCHEMA}


class StateFlow(Flow):
    """Of one stream; the table has the rows of its transform."""

    code, columns = WINDOWS, 'start, "user", n, v'
    bad: Collection[tuple[int, int]] = ()  # partition and offset of records that are none

    def send(self, events: Iterable[Event]) -> None:
        producer = Producer(self.kafka | {"linger.ms": 5})
        for event in events:
            producer.produce(self.name, event.value(), key=str(event.id), partition=event.id % self.partitions)
        assert producer.flush(60) == 0

    def declare(self, **parts: Any) -> Path:
        (self.folder / "made.py").write_text(parts.pop("code", self.code))
        stream = {
            "source": source_part(self.name),
            "transform": {"spark": "made.py:made", **parts.pop("more", {})},
            "checkpoint": str(self.folder / "state"),
            "batch": {"records": 40},
        }
        return super().declare(**{**stream, **parts})

    # -- what came out

    def rows(self) -> list[tuple[Any, ...]]:
        """Times as seconds since the beginning."""
        found = self.sql(f"SELECT {self.columns} FROM {self.name}")
        return sorted((tuple(map(_plain, row)) for row in found), key=lambda row: (row[0], row[1] or 0))

    def last(self) -> tuple[int, str]:
        """The number of the last batch that landed, and its checkpoint."""
        ((number, folder),) = self.sql(
            "SELECT number, checkpoint FROM fencepost.streams WHERE pipeline = %s", self.name
        )
        return number, folder

    def stored_batches(self) -> list[tuple[Any, ...]]:
        """Everything that is stored of it: to see that nothing was touched."""
        batches = self.sql("SELECT * FROM fencepost.streams WHERE pipeline = %s", self.name)
        owners = self.sql("SELECT partition, position, owner FROM fencepost.positions WHERE pipeline = %s", self.name)
        return [*batches, *sorted(owners)]

    @property
    def root(self) -> Path:
        return self.folder / "state" / self.name

    def batches(self) -> Iterator[list[Event]]:
        """The records of each batch that landed."""
        number, folder = self.last()
        checkpoint, done = Checkpoint(self.root / folder), dict.fromkeys(range(self.partitions), 0)
        records = {(one.partition(), one.offset()): one.value() for one in read_committed(self.kafka, self.name)}
        for each in range(number + 1):
            planned = checkpoint.planned(each)
            assert planned is not None, each
            ends = {at.partition: end for at, end in ends_of(planned.offsets).items()}
            places = [(at, offset) for at, end in ends.items() for offset in range(done[at], end)]
            yield [Event.read(records[place] or b"") for place in places if place in records and place not in self.bad]
            done |= ends

    def expected(self) -> list[tuple[Any, ...]]:
        """What the model makes of the batches that landed."""
        return windows(self.batches())

    def assert_modelled(self) -> int:
        """The table holds the rows of the model, and no other; how many."""
        expected, found = self.expected(), self.rows()
        assert found == expected, (set(found) ^ set(expected), len(found), len(expected))
        return len(found)


class UpdatedFlow(StateFlow):
    """Windows as they grow, each the one row of its key."""

    def declare(self, **parts: Any) -> Path:
        mode = {"output_mode": "update"}
        return super().declare(**{"more": mode, "options": {"mode": "upsert", "key": ["start", "user"]}, **parts})

    def expected(self) -> list[tuple[Any, ...]]:
        return windows(self.batches(), update=True)


class FirstsFlow(StateFlow):
    """Each user once, until he is forgotten."""

    code, columns = FIRSTS, 'id, "user"'

    def expected(self) -> list[tuple[Any, ...]]:
        return firsts(self.batches(), {id_ for id_, _ in self.rows()})


class PairsFlow(StateFlow):
    """Orders with their payments."""

    code, columns = PAIRS, '"order", payment'

    def expected(self) -> list[tuple[Any, ...]]:
        return pairs(self.batches())


def _plain(value: Any) -> Any:
    return (value - BEGIN).total_seconds() if isinstance(value, datetime) else value
