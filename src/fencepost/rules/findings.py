"""What a hop cannot promise, and the refusal that follows: everything that refuses a combination asks here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee, nearest


class Hop(StrEnum):
    """The parts of the way on which a guarantee can break."""

    PRODUCER = "producer"
    TOPIC = "topic"
    READER = "reader"
    SINK = "sink"


@dataclass(frozen=True)
class Finding:
    """A promise that a hop cannot keep."""

    hop: Hop
    reason: str
    remedy: str
    possible: frozenset[Guarantee]  # what this hop can still promise


ALL = frozenset(Guarantee)


MAY_REPEAT = frozenset({Guarantee.AT_MOST_ONCE, Guarantee.AT_LEAST_ONCE})


MAY_LOSE = frozenset({Guarantee.AT_MOST_ONCE})


IN_ORDER = frozenset({Guarantee.EXACTLY_ONCE})  # nothing comes late or twice


def require_fixed(given: Mapping[str, str], fixed: Mapping[str, str], where: str) -> None:
    """Refuse a setting that the guarantee requires and that was set otherwise."""
    for name, value in fixed.items():
        if given.get(name, value) != value:
            raise Usage(f"{where}: {name} is {given[name]!r}, but the guarantee requires {value!r}", "remove it")


def broken(guarantee: Guarantee, findings: Iterable[Finding]) -> list[Finding]:
    """The findings that the guarantee does not survive."""
    return [finding for finding in findings if guarantee not in finding.possible]


def require(guarantee: Guarantee, findings: Iterable[Finding]) -> None:
    """Refuse the combination unless every hop can keep the word; names the worst hop, and what can be had."""
    seen = list(findings)
    against = broken(guarantee, seen)
    if not against:
        return
    worst = min(against, key=lambda finding: len(finding.possible))
    possible = ALL.intersection(*(finding.possible for finding in seen))
    raise UnsupportedGuarantee(guarantee, worst.reason, nearest(guarantee, possible), worst.remedy)
