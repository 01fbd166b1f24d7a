"""What calls leave behind in their process: no client's thread and no connection, without the collector's help."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost
from consuming.relays import Relay
from fencepost.admin.plan import plan_pipeline
from fencepost.admin.positions import carry_out, propose
from fencepost.admin.status import pipeline_status
from fencepost.audit.audit import audit
from fencepost.audit.receipt import receipt
from fencepost.audit.request import of_pipeline
from fencepost.errors import FencepostError
from fencepost.kafka.client import wait_until
from fencepost.local import Stack
from fencepost.run.pipeline import Pipeline
from fencepost.spec import PipelineSpec, load

SECONDS = 30  # the driver ends some of a client's threads in the background


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What only the collector would close is not closed: it may not come by for as long as the process lives."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(params=["postgres", pytest.param("kafka", marks=pytest.mark.proof)])
def relay(stack: Stack, tmp_path: Path, request: pytest.FixtureRequest) -> Relay:
    relay = Relay(stack, tmp_path, sink=request.param)
    relay.produce(range(20))
    return relay


def held() -> tuple[int, int]:
    """Threads, those of the drivers too, and open files."""
    return len(list(Path("/proc/self/task").iterdir())), len(list(Path("/proc/self/fd").iterdir()))


def leaves_nothing(call: Callable[[], object]) -> None:
    call()  # what stays after the first time is for ever: modules, pools
    threads, files = held()
    call()
    assert wait_until(lambda: held()[0] <= threads and held()[1] <= files, SECONDS), (
        f"{held()} threads and files, after the first time {(threads, files)}"
    )


def fails(call: Callable[[], object]) -> None:
    with pytest.raises(FencepostError):
        call()


@pytest.mark.usefixtures("no_collector")
def test_a_run_leaves_no_client_behind(relay: Relay) -> None:
    spec = relay.declare()

    leaves_nothing(lambda: Pipeline(spec).run(once=True))


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

    def round_() -> None:
        member = {"topic": relay.name, "group": relay.name, **usual}
        fails(lambda: fencepost.consume(refuse, guarantee="at-least-once", retries=0, **member))
        nothing = {**member, "group": f"{relay.name}-new", "start": "committed"}
        fails(lambda: fencepost.consume(refuse, guarantee="at-least-once", **nothing))
        absent = {**usual, "topic": f"{relay.name}-absent", "group": relay.name}
        fails(lambda: fencepost.consume(refuse, guarantee="at-least-once", **absent))
        into = {**member, "to_topics": [f"{relay.name}-absent"]}
        fails(lambda: fencepost.consume(lambda _: [], guarantee="exactly-once", **into))

    leaves_nothing(round_)
