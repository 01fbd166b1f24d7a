"""Chapter one: three replicated brokers lose one of them, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from time import monotonic, sleep

from fencepost.audit.compare import Comparison, compare_log
from fencepost.demo.step_log import StepLog
from fencepost.errors import Unreachable
from fencepost.kafka.client import Cluster
from fencepost.kafka.topic_reader import read_committed
from fencepost.kafka.topics import TopicRequest, create_topic, describe_topic
from fencepost.local import Stack
from fencepost.model import Outcome
from fencepost.producing.sending import Event, send

TOPIC = "first-steps"
EVENTS = 1000
PATIENCE = 60.0


def lose_a_broker(stack: Stack, tell: StepLog) -> Comparison:
    """Send, kill a leader with -9, read everything back, and bring the broker home."""
    tell.chapter("Three brokers, one of them killed")
    kafka = {"bootstrap.servers": stack.bootstrap_servers}
    with Cluster(kafka) as cluster:
        create_topic(cluster, TopicRequest(TOPIC))
    tell.step(f"topic {TOPIC}: 3 partitions, 3 replicas each, 2 of them in sync or no write")
    sent = send(kafka, TOPIC, (Event(json.dumps({"id": number}).encode()) for number in range(EVENTS)))
    if not sent.all_acked:
        raise Unreachable(f"{EVENTS - sent.outcomes[Outcome.ACKED]} events were not acknowledged: {sent.reason}")
    tell.step(f"{EVENTS} events sent, every one acknowledged by the in-sync replicas (acks=all)")

    leader = _leader(kafka)
    broker = next(node for node in stack.brokers.values() if node.node_id == leader)
    broker.kill()
    tell.step(f"{broker.name}, which leads {TOPIC}/0, killed with -9")
    tell.step(f"broker-{_next_leader(kafka, leader)} leads {TOPIC}/0 now")

    ids = [json.loads(record.value() or b"{}")["id"] for record in read_committed(kafka, TOPIC)]
    result = compare_log(dict.fromkeys(range(EVENTS), Outcome.ACKED), ids)
    tell.step(f"{len(ids)} events read back: lost {result.lost}, doubled {result.duplicated}")
    broker.restart()
    stack.wait_in_sync(PATIENCE)
    tell.step(f"{broker.name} started again; every in-sync set is full")
    return result


def _leader(kafka: Mapping[str, str]) -> int | None:
    with Cluster(kafka) as cluster:
        return describe_topic(cluster, TOPIC).partitions[0].leader


def _next_leader(kafka: Mapping[str, str], old: int | None) -> int:
    deadline = monotonic() + PATIENCE
    while monotonic() < deadline:
        leader = _leader(kafka)
        if leader is not None and leader != old:
            return leader
        sleep(0.05)
    raise Unreachable(f"no other broker took {TOPIC}/0 over within {PATIENCE:.0f} s")
