"""Task attempts into a topic that fail, stall, lose answers or their brokers; and what its readers see meanwhile."""

from __future__ import annotations

import signal
from pathlib import Path
from threading import Event, Thread

import pytest

from fencepost.kafka.topic_reader import read_committed
from fencepost.kafka.topics import describe_topic
from fencepost.lab.crash import CrashAction, CrashPoint, standing, visits
from fencepost.lab.pipelines.executors import executor_of, spark_home
from fencepost.lab.proxy import Action, Api, Direction, Rule
from fencepost.lab.scenarios.field import Field
from fencepost.local import Stack
from fencepost.local.stack import Node
from fencepost.machine import process
from fencepost.model import Step
from spark.drivers import go_on, pipeline_process, wait_for
from spark.faults import Several
from spark.flows import RETRIES
from spark.topic_faults import StopOnValue
from spark.topic_flows import TopicFlow

PROOF = pytest.mark.proof


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> TopicFlow:
    return TopicFlow(stack, tmp_path)


@pytest.mark.proof
def test_attempts_that_fail_before_and_after_their_commit_land_once(flow: TopicFlow, tmp_path: Path) -> None:
    flow.produce(range(200))
    before, after = tmp_path / "before", tmp_path / "after"
    points = (
        CrashPoint(Step.WRITTEN, flow.partition(0), CrashAction.FAIL, before),
        CrashPoint(Step.DELIVERED, flow.partition(1), CrashAction.FAIL, after),
    )
    run = flow.run(see=Several(points), spark=RETRIES)
    flow.assert_exact(200)
    (batch,) = run.batches()
    assert [visit.acted for visit in visits(before)] == [True, False]  # written twice, committed once
    assert [visit.acted for visit in visits(after)] == [True]  # the second attempt had nothing to deliver
    assert (batch.rows, batch.already) == (100, 1)


@PROOF
@pytest.mark.timeout(600)
def test_a_task_that_stalls_for_longer_than_its_transaction_may_take_is_done_again(
    flow: TopicFlow, tmp_path: Path
) -> None:
    flow.produce(range(200))
    witness = tmp_path / "written"
    point = CrashPoint(Step.WRITTEN, flow.partition(0), CrashAction.STOP, witness)
    with flow.running(see=point, kafka={**flow.kafka, "transaction.timeout.ms": "5000"}) as running:
        running.wait_until(lambda: standing(witness), "the task stands still, with everything in the log")

        def aborted() -> bool:
            """Readers get to the end again, and find nothing of it there."""
            found = describe_topic(flow.cluster, flow.target).partitions
            return all(at.last_stable_offset == at.end_offset for at in found)

        wait_for(aborted, "the brokers abort its transaction")
        assert flow.landed_in(0) == 0
        go_on(visits(witness)[0].pid)
        running.wait_until(lambda: flow.positions() == {0: 100, 1: 100}, "it is done again")
    flow.assert_exact(200)


@PROOF
@pytest.mark.timeout(900)
def test_an_executor_killed_among_its_rows_is_replaced_and_everything_lands_once(
    flow: TopicFlow, tmp_path: Path
) -> None:
    flow.produce(range(8_000))
    witness, home = tmp_path / "in-rows", spark_home(tmp_path)
    settings = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "600m"}
    spec = flow.declare(transform=StopOnValue(6_001, witness).in_file(tmp_path), spark=settings)
    with pipeline_process(spec, "--once", env=home) as driver:
        driver.wait_until(lambda: visits(witness) and flow.positions()[0] == 4_000, "partition 0 is done")
        worker = process.identify(visits(witness)[0].pid)
        assert worker is not None
        assert process.send(executor_of(worker.pid), signal.SIGKILL)
        driver.wait_until(lambda: flow.positions() == {0: 4_000, 1: 4_000}, "another executor does the span")
        process.send(worker, signal.SIGCONT)  # the killed executor's task may go on, if it still can
        assert driver.ended() == 0, driver.told()
    flow.assert_exact(8_000)


@PROOF
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", ["lost request", "lost answer", "late"])
def test_a_commit_in_trouble_lands_once(field: Field, tmp_path: Path, fault: str) -> None:
    flow = TopicFlow(field.stack, tmp_path)
    flow.kafka = field.direct
    flow.produce(range(200))
    kafka = field.kafka
    flow.run(kafka=kafka)  # what comes first is the takeover's
    rules = {
        "lost request": Rule(action=Action.RESET, request=Api.END_TXN, client=kafka["client.id"], count=1),
        "lost answer": Rule(
            action=Action.RESET, request=Api.END_TXN, client=kafka["client.id"], count=1, direction=Direction.RESPONSE
        ),
        "late": Rule(action=Action.HOLD_DETACH, request=Api.END_TXN, client=kafka["client.id"], count=1),
    }
    flow.produce(range(200, 400))
    with flow.running(kafka=kafka, batch={"records": 100}) as running:
        running.wait_until(running.batches, "the first batch lands")
        rule = field.proxy.add(rules[fault])
        flow.produce(range(400, 600))
        field.proxy.wait_hits(rule, timeout=60)
        if fault == "late":
            flow.produce(range(600, 800))
            running.wait_until(lambda: sum(flow.positions().values()) >= 700, "the next batches land")
            field.proxy.release(rule)
            field.proxy.wait_done(rule)
        else:
            flow.produce(range(600, 800))
        running.wait_until(lambda: sum(flow.positions().values()) == 800, "everything lands")
    field.proxy.clear()
    flow.assert_exact(800)


@PROOF
@pytest.mark.timeout(900)
def test_the_broker_that_coordinates_a_transaction_is_killed(flow: TopicFlow, tmp_path: Path) -> None:
    flow.produce(range(200))
    witness = tmp_path / "written"
    point = CrashPoint(Step.WRITTEN, flow.partition(0), CrashAction.STOP, witness)
    with flow.running(see=point) as running:
        running.wait_until(lambda: standing(witness), "the task stands in its transaction")
        node = _coordinator(flow, f"{flow.name}:{flow.name}:0")
        node.kill()
        try:
            go_on(visits(witness)[0].pid)
            flow.produce(range(200, 300))
            running.wait_until(lambda: len(set(flow.landed())) == 300, "everything lands through another coordinator")
        finally:
            node.restart()
            flow.stack.wait_in_sync(120)
    flow.assert_exact(300)


def _coordinator(flow: TopicFlow, transactional_id: str) -> Node:
    """The broker that keeps this id's transactions: Java's hash of it tells which partition they are in."""
    partitions = describe_topic(flow.cluster, "__transaction_state").partitions
    hashed = 0
    for character in transactional_id:
        hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
    leader = partitions[(hashed & 0x7FFFFFFF) % len(partitions)].leader
    return next(node for node in flow.stack.brokers.values() if node.node_id == leader)


@PROOF
@pytest.mark.timeout(600)
def test_a_reader_never_sees_half_a_batch(stack: Stack, tmp_path: Path) -> None:
    """One transaction at a time: where several are interleaved, Kafka's readers stop at the first that is open."""
    flow = TopicFlow(stack, tmp_path, partitions=1)
    target = flow.make_more("one")
    over, seen = Event(), set[int]()

    def look() -> None:
        while not over.is_set():
            seen.add(sum(1 for _ in read_committed(flow.kafka, target)))

    reader = Thread(target=look)
    reader.start()
    try:
        flow.produce(range(5_000))
        flow.run(options={"topic": target}, batch={"records": 500})
    finally:
        over.set()
        reader.join()
    assert {count % 500 for count in seen} == {0}
    assert len(seen) > 2, seen  # it looked while they landed
