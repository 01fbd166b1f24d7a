"""The settings that a producer's guarantee requires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fencepost.errors import Usage
from fencepost.guarantee import Guarantee


class Acks(StrEnum):
    """Who must have a record before it counts as written; only at-least-once leaves the choice."""

    NOBODY = "nobody"
    LEADER = "leader"  # the leader alone: lost when it dies before anybody copied it
    QUORUM = "quorum"  # every replica that is in sync, and at least min.insync.replicas of them


@dataclass(frozen=True)
class RequiredSetting:
    """A producer's setting that its guarantee requires."""

    name: str
    allowed: frozenset[str]  # empty: nobody may set it
    value: str  # what it is when nobody sets it; empty: whatever the client has
    reason: str  # what would happen otherwise


_ACKS = {Acks.NOBODY: "0", Acks.LEADER: "1", Acks.QUORUM: "all"}


_ALIASES = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
}


_SAME = {"acks": {"-1": "all"}}


_KEYED = frozenset({"murmur2", "murmur2_random"})


def required_producer_settings(guarantee: Guarantee, acks: Acks) -> list[RequiredSetting]:
    """The settings that the word fixes, each with what would happen otherwise."""
    ours = "Fencepost needs these itself to report each event's outcome"
    required = [
        _fixed("acks", _ACKS[acks], f"{guarantee} with acks={acks} requires it"),
        _fixed("delivery.report.only.error", "", ours),
        _fixed("transactional.id", "", "it is the producer's own parameter"),
    ]
    match guarantee:
        case Guarantee.AT_MOST_ONCE:
            required.append(_fixed("retries", "0", "a retry may write an event twice"))
            required.append(
                _fixed("enable.idempotence", "false", "it needs acknowledgements; at-most-once requests none")
            )
        case Guarantee.AT_LEAST_ONCE if acks is Acks.LEADER:
            required.append(
                _fixed("enable.idempotence", "false", "it needs the acknowledgement of all in-sync replicas")
            )
        case Guarantee.EXACTLY_ONCE:
            required += [
                _fixed("enable.idempotence", "true", "without it a lost acknowledgement duplicates the batch"),
                _fixed("queuing.strategy", "fifo", "another order than that of the sends"),
                _fixed("statistics.interval.ms", "", ours),
                RequiredSetting(
                    "max.in.flight.requests.per.connection",
                    frozenset("12345"),
                    "5",
                    "brokers remember the last five batches of a producer, no more",
                ),
                RequiredSetting("partitioner", _KEYED, "murmur2_random", "events of one key would not stay in order"),
            ]
        case _:
            pass
    return required


def _fixed(name: str, value: str, reason: str) -> RequiredSetting:
    return RequiredSetting(name, frozenset({value}) if value else frozenset(), value, reason)


def require_settings(given: Mapping[str, str], required: Iterable[RequiredSetting]) -> None:
    """Refuse a producer's setting that would break the declaration."""
    said = {_ALIASES.get(name, name): (name, str(value).strip().lower()) for name, value in given.items()}
    for one in required:
        name, value = said.get(one.name, (one.name, one.value))
        if _SAME.get(one.name, {}).get(value, value) not in one.allowed and one.name in said:
            wanted = f"remove it, or set it to {' or '.join(sorted(one.allowed))}" if one.allowed else "remove it"
            raise Usage(f"{name}={given[name]} would break the guarantee: {one.reason}", wanted)
