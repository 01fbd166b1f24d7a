"""Stories of brokers that do not hear of each other: a leader that is cut off, a follower that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fencepost.lab.proxy import Action, Api, Direction, Rule
from fencepost.lab.scenarios.field import CONTROLLER_WAY, Field, door_name
from fencepost.lab.scenarios.sending import EVENTS, Sender, values
from fencepost.lab.scenarios.shown import Shown, shown

_LAST = b"last"


def leader_cut_off(field: Field, *, one_way: bool = False) -> tuple[Shown, Shown]:
    """The others elect another leader; clients that are on the old one's side write to that one."""
    patient = {
        "message_timeout_ms": "60000",
        "socket_timeout_ms": "60000",
    }  # a connection that is given up is not had again
    weak, strong = (Sender(field, field.topic(), "at-least-once", acks, **patient) for acks in ("leader", "quorum"))
    majority = replace(field, unasked=("broker-1",))  # the old leader goes on believing
    with cut_off(field, "broker-1", one_way=one_way):
        for sender in (weak, strong):
            field.await_true(lambda topic=sender.topic: majority.leader(topic) not in (None, 1), "no other leader")  # type: ignore[misc]
        rules = [field.proxy.add(_written_to("broker-1", sender)) for sender in (weak, strong)]
        weak.send(values())
        weak.flush()
        strong.send(values())
        strong.poll()
        hits = [field.proxy.wait_hits(rule).hits for rule in rules]
        alone = strong.acked() - 1
    field.stack.wait_in_sync()
    for sender in (weak, strong):
        sender.flush()
        sender.send([_LAST])
        sender.flush()
        sender.close()
    told = f"acked by the old leader {alone}"
    return (
        shown("at-least-once, acks=leader", weak.outcomes(), field.read(weak.topic)).hit(hits[0], EVENTS),
        shown("at-least-once, acks=quorum", strong.outcomes(), field.read(strong.topic), told).hit(hits[1], EVENTS),
    )


def _written_to(broker: str, sender: Sender) -> Rule:
    """Only counts."""
    return Rule(action=Action.FORWARD, request=Api.PRODUCE, client=sender.client, listener=door_name(broker, "CLIENT"))


@contextmanager
def cut_off(field: Field, broker: str, *, one_way: bool) -> Iterator[None]:
    """From the controller and the other brokers, and its clients with it. Connections stay.

    One way: what they say to it arrives, and what it says does not.
    """
    proxy, number = field.proxy, field.stack.brokers[broker].node_id
    others = [door_name(other, "CLIENT") for other in field.stack.brokers if other != broker]
    asks = [door_name(broker, CONTROLLER_WAY), *others]
    ways = [*((way, Direction.REQUEST) for way in asks), (door_name(broker, "INTERNAL"), Direction.RESPONSE)]
    fetches = proxy.add(Rule(action=Action.HOLD, client=f"broker-{number}-fetcher-0"))  # its own, of the others
    try:
        for way, out in ways:
            proxy.block(way, direction=out if one_way else None)
        yield
    finally:
        for way, _ in ways:
            proxy.unblock(way)
        proxy.release(fetches)


def follower_stopped(field: Field) -> tuple[Shown, Shown]:
    """It stands still until it is in sync no more; then the leader dies, and it comes back."""
    weak = Sender(field, field.topic([1, 3]), "at-least-once", message_timeout_ms="60000")
    strong = Sender(field, field.topic([1, 2, 3]), "at-least-once", message_timeout_ms="60000")
    for sender in (weak, strong):
        field.configure(sender.topic, "unclean.leader.election.enable", "true")
    field.configure(weak.topic, "min.insync.replicas", "1")  # behind its back: a producer would refuse such a topic
    leader, follower = (field.stack.brokers[name] for name in ("broker-1", "broker-3"))
    others = replace(field, unasked=("broker-3",))
    follower.stop()
    try:
        for sender, left in ((weak, {1}), (strong, {1, 2})):
            field.await_true(lambda s=sender, left=left: others.in_sync(s.topic) == [left], "broker-3 is in sync")  # type: ignore[misc]
            sender.send(values())
            sender.flush()
        before = strong.acked() - 1
        leader.kill()
    finally:
        follower.cont()
    back = replace(field, unasked=("broker-1",))
    field.await_true(lambda: back.leader(weak.topic) == 3, "broker-3 does not lead")
    leader.restart()
    field.stack.wait_in_sync()
    for sender in (weak, strong):
        sender.close()
    told = f"acked without broker-3 {before}"
    return (
        shown("min.insync.replicas=1", weak.outcomes(), field.read(weak.topic)).hit(1, EVENTS),
        shown("min.insync.replicas=2 of 3", strong.outcomes(), field.read(strong.topic), told).hit(1, EVENTS),
    )
