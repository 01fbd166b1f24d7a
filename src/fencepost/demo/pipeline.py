"""Chapter two: a pipeline that is killed again and again, and a table that holds every event once."""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg

from fencepost.audit.audit import audit
from fencepost.audit.compare import Comparison, compare_sink
from fencepost.audit.findings import Audit
from fencepost.audit.request import of_pipeline
from fencepost.demo.processes import Program, program
from fencepost.demo.step_log import StepLog
from fencepost.errors import Unreachable
from fencepost.kafka.client import Cluster
from fencepost.kafka.topic_reader import read_committed
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.machine.progress import Advance
from fencepost.model import Outcome
from fencepost.producing.sending import send
from fencepost.producing.sources.source import orders
from fencepost.spec import load

TOPIC = "orders"
PARTITIONS = 4
KILLED_AT = (0.15, 0.4, 0.65)  # of all events
SPEC = """
name: demo
guarantee: exactly-once
kafka: {{bootstrap.servers: "{servers}"}}
source: {{topic: {topic}, value: json, schema: "id long, customer string, amount decimal(10,2), placed_at timestamp"}}
transform: {{sql: "SELECT id, customer, amount, placed_at, _from FROM events"}}
sink: {{format: postgres, options: {{table: orders, dsn: "{dsn}"}}}}
batch: {{records: {batch}, every: 100ms}}
"""


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


def kill_and_resume(stack: Stack, events: int, folder: Path, tell: StepLog, show: Advance) -> Killed:
    """Run the pipeline; kill its whole process tree three times, a broker once; resume; compare every id."""
    spec = folder / "fencepost.yml"
    dsn = stack.dsn.replace('"', '\\"')
    spec.write_text(SPEC.format(servers=stack.bootstrap_servers, topic=TOPIC, dsn=dsn, batch=events // 20))
    scratch = folder / "scratch"
    with closing(psycopg.connect(stack.dsn, autocommit=True)) as database:
        done = Progress(database, show)
        for share in KILLED_AT:
            with _run(spec, scratch, []) as running:
                if share == KILLED_AT[1]:
                    _lose_a_broker(stack, running, done, tell)
                running.wait_for(partial(done.reached, events * share))
                killed = running.kill_tree()
            shutil.rmtree(scratch)
            tell.step(
                f"at {done():,} of {events:,}: driver, JVM and workers ({killed} processes) killed with -9, "
                "their checkpoint removed"
            )
        with _run(spec, scratch, ["--once"]) as running:
            running.wait_for(partial(done.reached, events))
            running.finish()
        tell.step("started once more, and drained")
    result = compare_sink(ids_in_topic(stack), ids_in_table(stack, "orders"))
    return Killed(len(KILLED_AT), result, audit(of_pipeline(load(spec))))


def _lose_a_broker(stack: Stack, running: Program, done: Progress, tell: StepLog) -> None:
    before = done()
    running.wait_for(lambda: done() > before)
    broker = stack.brokers["broker-2"]
    broker.kill()
    tell.step(f"at {done():,}: {broker.name} killed with -9; the pipeline goes on")


class Progress:
    """How far the pipeline is, read from its own ledger; shown as it moves."""

    def __init__(self, database: psycopg.Connection[tuple[int]], show: Advance) -> None:
        self._database = database
        self._show = show

    def __call__(self) -> int:
        there = self._database.execute("SELECT pg_catalog.to_regclass('fencepost.positions') IS NOT NULL").fetchone()
        if not there or not there[0]:
            return 0
        query = "SELECT coalesce(pg_catalog.sum(position), 0)::bigint FROM fencepost.positions"
        (total,) = self._database.execute(query).fetchone() or (0,)
        self._show(total)
        return int(total)

    def reached(self, wanted: float) -> bool:
        return self() >= wanted


def _run(spec: Path, scratch: Path, options: list[str]) -> AbstractContextManager[Program]:
    arguments = ["run", "--spec", str(spec), *options]
    return program("fencepost", arguments, spec.parent / "pipeline.log", {"TMPDIR": str(scratch)})


def ids_in_topic(stack: Stack) -> list[int]:
    kafka = {"bootstrap.servers": stack.bootstrap_servers}
    return [json.loads(record.value() or b"{}")["id"] for record in read_committed(kafka, TOPIC)]


def ids_in_table(stack: Stack, table: str) -> list[int]:
    with closing(psycopg.connect(stack.dsn)) as database:
        query = psycopg.sql.SQL("SELECT id FROM {}").format(psycopg.sql.Identifier(table))
        return [id_ for (id_,) in database.execute(query)]
