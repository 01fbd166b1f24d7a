"""Stories of time-outs and elections: what an application believes when no answer came, or the wrong one."""

from __future__ import annotations

from contextlib import ExitStack, suppress

from fencepost.errors import FencepostError
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import describe_topic
from fencepost.lab.proxy import Action, Api, Direction, Rule
from fencepost.lab.scenarios.field import Field
from fencepost.lab.scenarios.sending import EVENTS, Sender, values
from fencepost.lab.scenarios.shown import Shown, shown
from fencepost.model import Outcome
from fencepost.producing.producer import Producer

_ACKED = dict.fromkeys(values(), Outcome.ACKED)  # what the application goes on with


def timed_out_send(field: Field) -> tuple[Shown, Shown]:
    """The brokers' answer is held past the time-out; the application sends the same events again."""

    def tell(setting: str, transactional: bool) -> Shown:
        topic, kafka = field.topic(), field.kafka | {"delivery.timeout.ms": "2000", "socket.timeout.ms": "60000"}
        id_ = topic if transactional else None
        held = Rule(action=Action.HOLD, direction=Direction.RESPONSE, request=Api.PRODUCE, client=kafka["client.id"])
        rule = field.proxy.add(held)
        with Producer(topic, "exactly-once", kafka, transactional_id=id_) as producer:
            _send(producer, transactional)
            hits = field.proxy.witness(rule).hits
            field.proxy.release(rule)
        with Producer(topic, "exactly-once", field.kafka, transactional_id=id_) as again:
            _send(again, transactional)
        return shown(setting, _ACKED, field.read(topic)).hit(hits, EVENTS)

    return tell("idempotent, sent again", transactional=False), tell("aborted, and sent again", transactional=True)


def _send(producer: Producer, transactional: bool) -> None:
    with suppress(FencepostError), ExitStack() as block:
        if transactional:
            block.enter_context(producer.transaction())
        for value in values():
            producer.send(value)
        if not transactional:
            producer.flush()


def transaction_timeout(field: Field) -> tuple[Shown, Shown]:
    """A producer stands still for longer than its transaction may take, and then commits it."""

    def tell(setting: str, again: bool) -> Shown:
        topic, kafka = field.topic(), field.kafka | {"transaction.timeout.ms": "2000"}
        refused = 0
        with Producer(topic, "exactly-once", kafka, transactional_id=topic) as producer:
            try:
                with producer.transaction():
                    for value in values():
                        producer.send(value)
                    producer._ready().drain()
                    field.await_true(lambda: _aborted(field, topic), "the brokers did not end the transaction")
            except FencepostError:
                refused = 1
        if again:
            with Producer(topic, "exactly-once", kafka, transactional_id=topic) as successor:
                _send(successor, transactional=True)
        return shown(setting, _ACKED, field.read(topic)).hit(refused, EVENTS)

    return tell("the refused commit is ignored", again=False), tell("the refused commit is sent again", again=True)


def _aborted(field: Field, topic: str) -> bool:
    """Are all records there, and is no transaction open any more?"""
    with Cluster(field.direct) as cluster:
        (partition,) = describe_topic(cluster, topic).partitions
    return (partition.end_offset or 0) > EVENTS and partition.last_stable_offset == partition.end_offset


def unclean_election(field: Field) -> tuple[Shown, Shown]:
    """Both replicas in sync die; the third, which lacks their last records, comes back before them."""
    weak = Sender(field, field.topic([1, 2, 3]), "at-least-once", message_timeout_ms="60000")
    strong = Sender(field, field.topic([1, 2, 3]), "at-least-once", message_timeout_ms="60000")
    field.configure(weak.topic, "unclean.leader.election.enable", "true")  # a producer would refuse such a topic
    first, second, stale = (field.stack.brokers[name] for name in ("broker-1", "broker-2", "broker-3"))
    stale.kill()
    for sender in (weak, strong):
        field.await_true(lambda topic=sender.topic: field.in_sync(topic) == [{1, 2}], "broker-3 is still in sync")  # type: ignore[misc]
        sender.send(values())
        sender.flush()
    for broker in (first, second):
        broker.kill()
    stale.restart()
    field.await_true(lambda: field.leader(weak.topic) == 3, "no unclean election")
    waited = int(field.leader(strong.topic) != 3)
    for broker in (first, second):
        broker.restart()
    field.stack.wait_in_sync()
    told = []
    for sender, setting in ((weak, "unclean.leader.election.enable=true"), (strong, "it waits for a replica in sync")):
        sender.close()
        told.append(shown(setting, sender.outcomes(), field.read(sender.topic)).hit(waited, EVENTS))
    return told[0], told[1]
