"""Whatever was called, and however it ended: its clients of Kafka are gone, even while its error is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import fencepost
from consuming.relays import Relay
from fencepost.admin.plan import plan_pipeline
from fencepost.admin.positions import carry_out, propose
from fencepost.admin.status import pipeline_status
from fencepost.audit.audit import audit
from fencepost.audit.receipt import receipt
from fencepost.audit.request import of_pipeline
from fencepost.errors import FencepostError, Unreachable
from fencepost.kafka import client
from fencepost.kafka.client import Cluster
from fencepost.local import Stack
from fencepost.model import Batch, Step
from fencepost.producing import sending
from fencepost.spec import load
from support.clients import living, without_the_collector

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
GUARANTEES = ["at-most-once", "at-least-once", "exactly-once"]
Calls = Callable[[Relay], Iterator[object]]


@pytest.fixture(autouse=True)
def _without_the_collector() -> Iterator[None]:
    with without_the_collector():
        yield


def fails(call: Callable[[], object], error: type[BaseException] = FencepostError) -> BaseException:
    """Its error, with all that the traceback leads to."""
    with pytest.raises(error) as caught:
        call()
    return caught.value


def dies(step: Step, batch: Batch[Any]) -> None:
    raise KeyError(step)


def breaks(*_given: object) -> None:
    raise ArithmeticError


def into_a_table(relay: Relay, guarantee: str) -> Iterator[object]:
    yield from into_a_topic(relay, guarantee)
    relay.produce(range(4), {1: b"no JSON"})
    yield fails(lambda: relay.run(guarantee=guarantee))
    yield relay.run(guarantee=guarantee, on_error="dead_letter")


def into_a_topic(relay: Relay, guarantee: str) -> Iterator[object]:
    relay.produce(range(10))
    yield relay.run(guarantee=guarantee)
    relay.produce(range(10))
    yield fails(lambda: relay.run(see=dies, guarantee=guarantee), KeyError)


def handlers(relay: Relay) -> Iterator[object]:
    def consume(handler: Callable[..., None], **own: Any) -> object:
        plain: dict[str, Any] = {"topic": relay.name, "group": relay.name, "kafka": relay.kafka, "once": True}
        return fencepost.consume(handler, retries=0, **plain | own)

    relay.produce(range(10))
    for own in ({"guarantee": "at-least-once"}, {"guarantee": "exactly-once", "dsn": relay.stack.dsn}):
        yield fails(lambda: consume(breaks, **own))  # noqa: B023 (called at once)
        yield consume(lambda *_: None, **own)
    yield fails(lambda: consume(breaks, topic="missing", guarantee="at-most-once"))


def questions(relay: Relay) -> Iterator[object]:
    relay.produce(range(10))
    relay.run()
    spec = load(relay.declare())
    yield plan_pipeline(spec, offline=False)
    yield pipeline_status(spec)
    yield audit(of_pipeline(spec))
    yield receipt(spec, 0, 1, relay.name, check=True)
    carry_out(spec, propose(spec, "earliest"))
    yield None
    missing = load(relay.declare(source={"topic": "missing", "value": "json", "schema": "id long"}))
    yield fails(lambda: pipeline_status(missing))


def producers(relay: Relay) -> Iterator[object]:
    def send(value: bytes, id_: str | None = None) -> None:
        with fencepost.Producer(relay.name, "exactly-once", relay.kafka, transactional_id=id_) as producer:
            if id_ is None:
                producer.send(value)
            else:
                with producer.transaction():
                    producer.send(value)

    send(b"1")
    yield None
    send(b"1", relay.name)
    yield None
    yield fails(lambda: send(b"1" * 2_000_000, relay.name))
    no_bytes = sending.Event(cast(bytes, 1))
    yield fails(lambda: sending.send(relay.kafka, relay.name, [no_bytes]), TypeError)
    yield fails(lambda: fencepost.Producer("missing", "exactly-once", relay.kafka))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_no_run_leaves_a_client_behind(stack: Stack, tmp_path: Path, guarantee: str) -> None:
    _nobody_is_left(into_a_table(Relay(stack, tmp_path), guarantee))


def test_nor_one_into_a_topic(stack: Stack, tmp_path: Path) -> None:
    _nobody_is_left(into_a_topic(Relay(stack, tmp_path, sink="kafka"), "exactly-once"))


@pytest.mark.parametrize("calls", [handlers, questions, producers])
def test_nor_any_other_call(stack: Stack, tmp_path: Path, calls: Calls) -> None:
    _nobody_is_left(calls(Relay(stack, tmp_path)))


def test_nor_who_finds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONTACT_SECONDS", 0.0)
    _nobody_is_left(fails(lambda: Cluster(NOBODY), Unreachable) for _ in range(1))


def _nobody_is_left(calls: Iterator[object]) -> None:
    """Each is done between two looks, and what came of it is kept."""
    kept: list[object] = []
    before = living()
    for came in calls:
        kept.append(came)
        assert living() == before, f"after {kept}"
