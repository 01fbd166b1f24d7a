"""Stories of single sends: what each number of acknowledgements is worth, and what idempotence adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from fencepost.guarantee import Anomaly
from fencepost.lab.proxy import Action, Api, Direction, Rule
from fencepost.lab.scenarios.field import Field, door_name
from fencepost.lab.scenarios.shown import Shown, shown
from fencepost.model import Outcome
from fencepost.producing.producer import Producer
from fencepost.producing.sender import Handle

EVENTS = 100
WARM = b"warm"


class Sender:
    """A producer that is connected already, so that a fault hits its records and nothing else."""

    def __init__(self, field: Field, topic: str, guarantee: str, acks: str | None = None, **settings: str) -> None:
        kafka = field.kafka | {"linger.ms": "100"} | {name.replace("_", "."): value for name, value in settings.items()}
        self.client = kafka["client.id"]
        self.topic = topic
        self._producer = Producer(topic, guarantee, kafka, acks=acks)
        self._handles: dict[bytes, Handle] = {}
        self.send([WARM])
        self._producer.flush()
        field.await_true(lambda: WARM in field.read(topic), f"{topic} does not hold its first record")

    def send(self, values: Iterable[bytes], partition_key: bytes = b"k") -> None:
        for value in values:
            self._handles[value] = self._producer.send(value, partition_key)

    def poll(self) -> None:
        """Hand over what waits, and take the answers that came."""
        self._producer._ready().poll(0.05)

    def flush(self) -> None:
        self._producer.flush()

    def outcomes(self) -> dict[bytes, Outcome]:
        return {value: handle.outcome for value, handle in self._handles.items()}

    def acked(self) -> int:
        return sum(outcome is Outcome.ACKED for outcome in self.outcomes().values())

    def close(self) -> None:
        self._producer.close()


def values(first: int = 0, count: int = EVENTS) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]


def fire_and_forget(field: Field) -> tuple[Shown, Shown]:
    def tell(setting: str, guarantee: str) -> Shown:
        sender = Sender(field, field.topic(), guarantee)
        rule = field.proxy.add(Rule(action=Action.DROP, request=Api.PRODUCE, client=sender.client, count=1))
        sender.send(values())
        sender.flush()
        done = field.proxy.wait_done(rule).done
        sender.send([b"last"])
        sender.flush()
        field.await_true(lambda: b"last" in field.read(sender.topic), "the last record is not there")
        missing = len(set(sender.outcomes()) - set(field.read(sender.topic)))
        sender.close()
        told = shown(setting, sender.outcomes(), field.read(sender.topic), f"never arrived {missing}")
        return told.also(Anomaly.LOST_BEFORE_LOG, missing).hit(done, EVENTS)

    return tell("at-most-once, acks=0", "at-most-once"), tell("at-least-once, acks=quorum", "at-least-once")


def leader_dies_before_replication(field: Field) -> tuple[Shown, Shown]:
    weak = Sender(field, field.topic(), "at-least-once", "leader", message_timeout_ms="30000")
    strong = Sender(field, field.topic(), "at-least-once", "quorum", message_timeout_ms="30000")
    rule = field.proxy.add(_fetches("broker-1"))
    held = field.proxy.wait_hits(rule, 2).hits  # both followers are
    weak.send(values())
    weak.flush()
    strong.send(values())
    strong.poll()
    before = strong.acked() - 1
    leader = field.stack.brokers["broker-1"]
    leader.kill()
    field.proxy.release(rule)
    for sender in (weak, strong):
        sender.flush()
        field.await_true(lambda topic=sender.topic: field.leader(topic) not in (None, 1), "no other leader")  # type: ignore[misc]
        sender.send([b"last"])
        sender.flush()
        sender.close()
    leader.restart()
    field.stack.wait_in_sync()
    told = f"acked while its leader lived {before}"
    return (
        shown("at-least-once, acks=leader", weak.outcomes(), field.read(weak.topic)).hit(held, EVENTS),
        shown("at-least-once, acks=quorum", strong.outcomes(), field.read(strong.topic), told).hit(held, EVENTS),
    )


def below_min_in_sync(field: Field) -> tuple[Shown, Shown]:
    weak = Sender(field, field.topic([1, 2]), "at-least-once", "leader", retries="0")
    strong = Sender(field, field.topic([1, 2]), "at-least-once", "quorum", retries="0")
    follower = field.stack.brokers["broker-2"]
    follower.kill()
    for sender in (weak, strong):
        field.await_true(lambda topic=sender.topic: field.in_sync(topic) == [{1}], "broker-2 is still in sync")  # type: ignore[misc]
        sender.send(values())
        sender.flush()
        sender.close()
    follower.restart()
    field.stack.wait_in_sync()
    return _told(weak, "at-least-once, acks=leader", field), _told(strong, "at-least-once, acks=quorum", field)


def _told(sender: Sender, setting: str, field: Field) -> Shown:
    outcomes = sender.outcomes()
    refused = sum(outcome is Outcome.REFUSED for outcome in outcomes.values())
    alone = sum(outcome is Outcome.ACKED for outcome in outcomes.values()) - 1
    notes = (f"refused {refused}", f"acked while one broker alone had it {alone}")
    return shown(setting, outcomes, field.read(sender.topic), *notes)


def invisible_until_replicated(field: Field) -> tuple[Shown, Shown]:
    sender = Sender(field, field.topic(), "at-least-once", "leader")
    rule = field.proxy.add(_fetches("broker-1"))
    field.proxy.wait_hits(rule, 2)
    sender.send(values())
    sender.flush()
    before = field.read(sender.topic)
    field.proxy.release(rule)
    field.await_read(sender.topic, dict.fromkeys([WARM, *values()], 1))
    sender.close()
    outcomes = sender.outcomes()
    return (
        shown("acks=leader, before the followers fetched", outcomes, before),
        shown("acks=leader, after they did", outcomes, field.read(sender.topic)),
    )


def lost_acknowledgement(field: Field) -> tuple[Shown, Shown]:
    lost = {"action": Action.RESET, "direction": Direction.RESPONSE, "request": Api.PRODUCE, "count": 1}

    def tell(setting: str, guarantee: str) -> Shown:
        sender = Sender(field, field.topic(), guarantee)
        rule = field.proxy.add(_rule(lost, sender.client))
        sender.send(values())
        sender.flush()
        done = field.proxy.wait_done(rule).done
        sender.close()
        return shown(setting, sender.outcomes(), field.read(sender.topic)).hit(done, EVENTS)

    return tell("at-least-once, not idempotent", "at-least-once"), tell("exactly-once, idempotent", "exactly-once")


def first_of_two_is_retried(field: Field) -> tuple[Shown, Shown]:
    lost = {"action": Action.DROP, "request": Api.PRODUCE, "count": 1}

    def tell(setting: str, guarantee: str) -> Shown:
        sender = Sender(field, field.topic(), guarantee)
        rule = field.proxy.add(_rule(lost, sender.client))
        sender.send(values())
        hits = field.proxy.wait_hits(rule).hits
        sender.send(values(EVENTS))
        sender.flush()
        sender.close()
        numbers = [int(value) for value in field.read(sender.topic) if value != WARM]
        back = sum(later < earlier for earlier, later in pairwise(numbers))
        told = shown(setting, sender.outcomes(), field.read(sender.topic), "not in order" if back else "in order")
        return told.also(Anomaly.REORDERED_IN_LOG, back).hit(hits, 2 * EVENTS)

    return tell("at-least-once, not idempotent", "at-least-once"), tell("exactly-once, idempotent", "exactly-once")


def _fetches(leader: str) -> Rule:
    """Replication from this broker stands still: what its followers ask for is held."""
    return Rule(action=Action.HOLD, request=Api.FETCH, listener=door_name(leader, "INTERNAL"))


def _rule(given: Mapping[str, Any], client: str) -> Rule:
    return Rule(**given, client=client)
