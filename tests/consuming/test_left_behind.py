"""What calls leave behind in their process: no client, none of its threads and no connection, however they ended, while
their errors are kept, and without the collector's help."""

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
from fencepost.kafka.client import Cluster, wait_until
from fencepost.local import Stack
from fencepost.model import Batch, Step
from fencepost.producing.sending import Event, send
from fencepost.run.pipeline import Pipeline
from fencepost.spec import PipelineSpec, load
from support.clients import living, without_the_collector

SECONDS = 30  # the driver ends some of a client's threads in the background


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What only the collector would close is not closed: it may not come by for as long as the process lives."""
    with without_the_collector():
        yield


@pytest.fixture(params=["postgres", pytest.param("kafka", marks=pytest.mark.proof)])
def relay(stack: Stack, tmp_path: Path, request: pytest.FixtureRequest) -> Relay:
    relay = Relay(stack, tmp_path, sink=request.param)
    relay.produce(range(20))
    return relay


def held() -> tuple[int, int]:
    """Threads, those of the drivers too, and open files."""
    return len(list(Path("/proc/self/task").iterdir())), len(list(Path("/proc/self/fd").iterdir()))


def leaves_nothing(call: Callable[[], object]) -> None:
    """`call` returns what it wants to be kept meanwhile."""
    kept = [call()]  # what stays after the first time is for ever: modules, pools
    (threads, files), clients = held(), living()
    kept.append(call())
    assert living() == clients, kept
    assert wait_until(lambda: held()[0] <= threads and held()[1] <= files, SECONDS), (
        f"{held()} threads and files, after the first time {(threads, files)}"
    )


def fails(call: Callable[[], object], error: type[BaseException] = FencepostError) -> BaseException:
    """Its error, with all that the traceback leads to."""
    with pytest.raises(error) as caught:
        call()
    return caught.value


@pytest.mark.usefixtures("no_collector")
def test_a_run_leaves_no_client_behind(relay: Relay) -> None:
    spec = relay.declare()

    leaves_nothing(lambda: Pipeline(spec).run(once=True))


def dies(step: Step, _batch: Batch[Any]) -> None:
    raise KeyError(step)


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once", "exactly-once"])
@pytest.mark.usefixtures("no_collector")
def test_a_run_that_fails_leaves_no_client_behind(stack: Stack, tmp_path: Path, guarantee: str) -> None:
    good, bad = Relay(stack, tmp_path, 1), Relay(stack, tmp_path, 1)
    good.produce(range(9))
    bad.produce(range(9), {1: b"no JSON"})

    def round_() -> list[BaseException]:
        unforeseen = fails(lambda: good.run(see=dies, guarantee=guarantee, batch={"records": 1}), KeyError)
        return [unforeseen, fails(lambda: bad.run(guarantee=guarantee))]

    leaves_nothing(round_)


@pytest.mark.proof
@pytest.mark.usefixtures("no_collector")
def test_looking_at_a_pipeline_leaves_no_client_behind(relay: Relay) -> None:
    spec = load(relay.declare())
    Pipeline(spec).run(once=True)

    leaves_nothing(lambda: look(spec, relay))


def look(spec: PipelineSpec, relay: Relay) -> None:
    pipeline_status(spec)
    plan_pipeline(spec, offline=False)
    carry_out(spec, propose(spec, "latest"))
    if relay.sink == "postgres":
        assert receipt(spec, 0, 0, check=True).rows == 1
        audit(of_pipeline(spec))


@pytest.mark.proof
@pytest.mark.usefixtures("no_collector")
def test_members_and_producers_leave_no_client_behind(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    usual: dict[str, Any] = {"topic": relay.name, "kafka": relay.kafka, "once": True}

    def round_() -> None:
        atomic = fencepost.Producer(relay.name, "exactly-once", relay.kafka, transactional_id=relay.name)
        with atomic as producer, producer.transaction():
            producer.send(b"{}")
        fencepost.consume(lambda _: None, group=relay.name, guarantee="at-least-once", **usual)
        in_table: dict[str, Any] = {"group": f"{relay.name}-table", "guarantee": "exactly-once", "dsn": stack.dsn}
        fencepost.consume(lambda _events, _tx: None, **in_table, **usual)

    leaves_nothing(round_)


def refuse(_events: object) -> None:
    raise ValueError("not this one")


@pytest.mark.usefixtures("no_collector")
def test_what_fails_leaves_no_client_behind(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    relay.produce(range(20))
    usual: dict[str, Any] = {"kafka": relay.kafka, "once": True}

    def round_() -> list[BaseException]:
        member = {"topic": relay.name, "group": relay.name, **usual}
        nothing = {**member, "group": f"{relay.name}-new", "start": "committed"}
        absent = {**usual, "topic": f"{relay.name}-absent", "group": relay.name}
        into = {**member, "to_topics": [f"{relay.name}-absent"]}
        return [
            fails(lambda: fencepost.consume(refuse, guarantee="at-least-once", retries=0, **member)),
            fails(lambda: fencepost.consume(refuse, guarantee="at-least-once", **nothing)),
            fails(lambda: fencepost.consume(refuse, guarantee="at-least-once", **absent)),
            fails(lambda: fencepost.consume(lambda _: [], guarantee="exactly-once", **into)),
        ]

    leaves_nothing(round_)


@pytest.mark.usefixtures("no_collector")
def test_a_producer_that_fails_leaves_no_client_behind(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    no_bytes = Event(cast(bytes, 1))

    def too_large() -> None:
        atomic = fencepost.Producer(relay.name, "exactly-once", relay.kafka, transactional_id=relay.name)
        with atomic as producer, producer.transaction():
            producer.send(b"1" * 2_000_000)

    def round_() -> list[BaseException]:
        absent = f"{relay.name}-absent"
        return [
            fails(too_large),
            fails(lambda: send(relay.kafka, relay.name, [no_bytes]), TypeError),
            fails(lambda: fencepost.Producer(absent, "exactly-once", relay.kafka)),
        ]

    leaves_nothing(round_)


@pytest.mark.usefixtures("no_collector")
def test_who_finds_nobody_leaves_no_client_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONTACT_SECONDS", 0.0)

    leaves_nothing(lambda: fails(lambda: Cluster({"bootstrap.servers": "127.0.0.1:1"}), Unreachable))
