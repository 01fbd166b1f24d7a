"""Which two things are broken next, for how long, and how long nothing is: drawn from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

PRODUCERS = 2
BROKERS = ("broker-1", "broker-2", "broker-3")
DATABASE = "postgres"


class Blow(StrEnum):
    """What is done; each is undone after a while."""

    KILL = "kill"  # -9, its whole tree
    STOP = "stop"  # it stands still
    CUT = "cut"  # every connection of its clients is reset


@dataclass(frozen=True)
class Strike:
    """One blow against one target."""

    blow: Blow
    target: str  # driver, producer-0, broker-1, postgres
    seconds: float  # until it is undone

    def __str__(self) -> str:
        return f"{self.blow} {self.target}"


@dataclass(frozen=True)
class Round:
    """Two strikes at the same moment, after a pause."""

    pause: float
    strikes: tuple[Strike, Strike]


def rounds(seed: int) -> Iterator[Round]:
    """Without end. The two are of different kinds, so that a majority of the brokers always lives."""
    draw = random.Random(seed)  # noqa: S311 (to be drawn again, not to be secret)
    while True:
        first, second = draw.sample(["driver", "producer", "broker", DATABASE], 2)
        yield Round(draw.uniform(0.2, 2.0), (_strike(draw, first), _strike(draw, second)))


def _strike(draw: random.Random, kind: str) -> Strike:
    target = {
        "producer": f"producer-{draw.randrange(PRODUCERS)}",
        "broker": draw.choice(BROKERS),
    }.get(kind, kind)
    blows = list(Blow) if kind in ("broker", DATABASE) else [Blow.KILL, Blow.STOP]
    return Strike(draw.choice(blows), target, draw.uniform(0.2, 3.0))
