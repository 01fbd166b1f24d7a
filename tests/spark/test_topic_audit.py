"""The audit of a pipeline into topics: without ids, records are compared by the header that says what they came of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.findings import Audit
from fencepost.audit.request import EngineChoice, of_pipeline
from fencepost.guarantee import Anomaly
from fencepost.local import Stack
from fencepost.spec import load
from spark.topic_flows import TopicFlow
from support.commands import here

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> TopicFlow:
    return TopicFlow(stack, tmp_path)


def audited(flow: TopicFlow, on: EngineChoice = EngineChoice.PYTHON, **parts: Any) -> Audit:
    return audit(replace(of_pipeline(load(flow.declare(**parts))), engine=on))


def as_they_came(flow: TopicFlow, **source: Any) -> dict[str, Any]:
    return {"source": {"topic": flow.name, **source}, "transform": None, "engine": "python"}


@pytest.mark.proof
def test_every_record_is_found_by_where_it_came_from(flow: TopicFlow) -> None:
    flow.produce(range(20))
    parts = as_they_came(flow)
    flow.run(**parts)
    found = audited(flow, **parts)
    assert (found.verdict, found.hops[-1].landed, found.hops[-1].checked[:10]) == (Verdict.HOLDS, 20, "provenance")

    producer = Producer(flow.kafka)
    producer.produce(flow.target, b"of nobody", partition=0)
    producer.produce(flow.target, b"of another", partition=0, headers={"fencepost.from": b"other/0/3/0"})
    copy: dict[str, Any] = {"fencepost.from": f"{flow.partition(1)}/4/0".encode()}
    producer.produce(flow.target, b"a copy", partition=0, headers=copy)
    assert producer.flush(60) == 0
    found = audited(flow, **parts)
    assert found.verdict is Verdict.BROKEN
    assert [(one.code, one.partition, one.offset) for one in found.findings] == [(Anomaly.DOUBLED_IN_SINK, 1, 4)]
    assert (found.hops[-1].facts["others"], found.hops[-1].facts["unplaced"]) == (1, 1)
    assert [one.code for one in audited(flow, EngineChoice.SPARK, **parts).findings] == [Anomaly.DOUBLED_IN_SINK]

    spec = flow.declare(**parts)
    assert here("positions", "set", "--spec", spec, "--to", "0:8,1:10", "--yes").code == 0
    flow.run(**parts)
    doubled = audited(flow, **parts).findings
    assert {(one.partition, one.offset, one.events) for one in doubled} == {(1, 4, 1), (0, 8, 2)}


@pytest.mark.proof
def test_what_lies_before_the_start_is_not_lost(flow: TopicFlow) -> None:
    flow.produce(range(20))
    parts = as_they_came(flow, start="latest")
    flow.run(**parts)
    flow.produce(range(20, 30))
    flow.run(**parts)
    found = audited(flow, **parts)
    assert (found.verdict, found.hops[-1].landed, found.hops[-1].expected) == (Verdict.HOLDS, 10, 10), found
    assert here("positions", "set", "--spec", flow.declare(**parts), "--to", "earliest", "--yes").code == 0
    flow.run(**parts)
    assert audited(flow, **parts).total(Anomaly.DOUBLED_IN_SINK) == 10


@pytest.mark.proof
def test_filtered_and_dead_records_of_a_transform(flow: TopicFlow) -> None:
    dead = flow.make_more("dead")
    flow.produce(range(20), instead={5: b"bad"})
    sql = "SELECT CAST(id AS STRING) AS value, _from FROM events"
    parts: dict[str, Any] = {"transform": {"sql": sql}, "on_error": "dead_letter", "dead_letters": {"topic": dead}}
    flow.run(**parts)
    found = audited(flow, **parts)
    assert (found.verdict, found.hops[-1].facts["dead"], found.hops[-1].landed) == (Verdict.HOLDS, 1, 19), found
    flow.produce(range(20, 24))
    few = {**parts, "transform": {"sql": f"{sql} WHERE id < 20"}}
    flow.run(**few)
    found = audited(flow, **few)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.total(Anomaly.UNDECIDED) == 4
