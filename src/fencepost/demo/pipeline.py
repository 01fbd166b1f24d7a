"""Chapter two: a pipeline that is killed again and again, and a table that holds every event once."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fencepost.audit.audit import audit
from fencepost.audit.compare import Comparison, compare_sink
from fencepost.audit.findings import Audit
from fencepost.audit.request import of_pipeline
from fencepost.demo.step_log import StepLog
from fencepost.demo.target import PARTITIONS, TOPIC, Progress
from fencepost.errors import Unreachable
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.lab.pipelines.ids import ids_in_sink, ids_in_topic
from fencepost.lab.programs import Program, program
from fencepost.local import Stack
from fencepost.machine.progress import Advance
from fencepost.model import Outcome
from fencepost.producing.sending import send
from fencepost.producing.sources.source import orders
from fencepost.spec import load

KILLED_AT = (0.15, 0.4, 0.65)  # of all events


@dataclass(frozen=True)
class Killed:
    """What came of it."""

    kills: int
    result: Comparison
    audit: Audit


def produce(stack: Stack, events: int, tell: StepLog) -> None:
    kafka = {"bootstrap.servers": stack.bootstrap_servers}
    with Cluster(kafka) as cluster:
        create_topic(cluster, TopicRequest(TOPIC, PARTITIONS))
    sent = send(kafka, TOPIC, orders(events))
    if not sent.all_acked:
        raise Unreachable(f"{events - sent.outcomes[Outcome.ACKED]} events were not acknowledged: {sent.reason}")
    tell.step(f"{events:,} orders in topic {TOPIC}, {PARTITIONS} partitions")


def kill_and_resume(file: Path, stack: Stack, events: int, tell: StepLog, show: Advance) -> Killed:
    """Run the pipeline; kill its whole process tree three times, a broker once; resume; compare every id."""
    spec, scratch = load(file), file.parent / "scratch"
    done = Progress(spec, show)
    for share in KILLED_AT:
        with _run(file, scratch, []) as running:
            if share == KILLED_AT[1]:
                _lose_a_broker(stack, running, done, tell)
            running.wait_for(partial(done.reached, events * share))
            killed = running.kill_tree()
        shutil.rmtree(scratch)
        tell.step(
            f"at {done():,} of {events:,}: driver, JVM and workers ({killed} processes) killed with -9, "
            "their checkpoint removed"
        )
    with _run(file, scratch, ["--once"]) as running:
        running.wait_for(partial(done.reached, events))
        running.finish()
    tell.step("started once more, and drained")
    result = compare_sink(ids_in_topic(spec.kafka, TOPIC), ids_in_sink(spec))
    return Killed(len(KILLED_AT), result, audit(of_pipeline(spec)))


def _lose_a_broker(stack: Stack, running: Program, done: Progress, tell: StepLog) -> None:
    before = done()
    running.wait_for(lambda: done() > before)
    broker = stack.brokers["broker-2"]
    broker.kill()
    tell.step(f"at {done():,}: {broker.name} killed with -9; the pipeline goes on")


def _run(spec: Path, scratch: Path, options: list[str]) -> AbstractContextManager[Program]:
    arguments = ["run", "--spec", str(spec), *options]
    return program("fencepost", arguments, spec.parent / "pipeline.log", {"TMPDIR": str(scratch)})
