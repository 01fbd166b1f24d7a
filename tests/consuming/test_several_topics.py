"""`source.topics` under `engine: python`: one table for several topics, each with positions of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Event as Flag
from threading import Timer
from typing import Any

import pytest

from consuming.relays import QUICK, Relay
from fencepost.admin.plan import plan_pipeline
from fencepost.admin.positions import carry_out, propose
from fencepost.admin.status import pipeline_status
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.findings import Finding
from fencepost.audit.receipt import Fate, receipt
from fencepost.audit.request import of_pipeline
from fencepost.errors import PositionLost, TopicRecreated, Usage
from fencepost.guarantee import Anomaly
from fencepost.kafka.topics import delete_topic
from fencepost.local import Stack
from fencepost.run.pipeline import Pipeline
from fencepost.spec import load
from spark.flows import Flow
from spark.several import Flows

PYTHON: dict[str, Any] = {"engine": "python", "transform": None, "batch": {"records": 100}}


@pytest.fixture
def flows(stack: Stack, tmp_path: Path) -> Flows:
    flows = Flows(stack, tmp_path)
    flows.kafka |= QUICK
    return flows


def test_two_topics_land_in_one_table_exactly_once_though_a_run_was_killed(flows: Flows, tmp_path: Path) -> None:
    flows.produce(range(1_000))
    flows.second.produce(range(900))
    flows.killed_half_way(tmp_path / "witness", **PYTHON)
    flows.run(**PYTHON)
    assert flows.arrived() == flows.sent()
    ends = {(flow.name, at): end for flow in (flows, flows.second) for at, end in flow.ends().items()}
    assert flows.places() == ends
    status = pipeline_status(load(flows.declare(**PYTHON)))
    assert {(at.topic, at.partition): at.position for at in status.partitions} == ends
    assert (status.lag, status.taken_out) == (0, [])


def test_the_audit_names_a_row_that_is_missing_by_its_topic(flows: Flows) -> None:
    flows.produce(range(40))
    flows.second.produce(range(60))
    flows.run(**PYTHON)
    request = of_pipeline(load(flows.declare(**PYTHON)))
    found = audit(request)
    assert (found.verdict, found.hops[-1].landed) == (Verdict.HOLDS, 100)
    flows.sql(f"DELETE FROM {flows.name} WHERE _topic = %s AND _partition = 1 AND _offset = 7", flows.second.name)
    found = audit(request)
    assert found.verdict is Verdict.BROKEN
    assert _places(found.findings) == {(Anomaly.LOST_BEFORE_SINK, flows.second.name, 1, 7)}


def _places(findings: list[Finding]) -> set[tuple[Anomaly, str | None, int | None, int | None]]:
    return {(one.code, one.topic, one.partition, one.offset) for one in findings}


def test_a_topic_that_is_added_begins_as_the_file_says_and_the_others_go_on(flows: Flows) -> None:
    flows.produce(range(20))
    flows.second.produce(range(30))
    flows.run(**PYTHON, source=flows.source(flows.name))
    flows.produce(range(20, 30))
    both = {**PYTHON, "source": flows.source(start="latest")}
    plan = plan_pipeline(load(flows.declare(**both)), offline=False)
    assert plan.waiting == 10
    (warning,) = plan.warnings
    assert warning == f"topic {flows.second.name} is new: it starts at source.start"
    flows.run(**both)
    assert flows.arrived() == flows.sent(flows.name)  # the new one has nothing after its end
    flows.second.add_partitions(4)
    flows.second.produce(range(40, 80))
    flows.run(**both)
    late = {place: 1 for place in flows.sent(flows.second.name) if place[1] == 3 or place[2] >= 10}
    assert flows.arrived() == {**flows.sent(flows.name), **late}  # a new partition begins with its first record


def test_a_topic_that_is_taken_out_keeps_its_position_and_is_not_read(flows: Flows) -> None:
    flows.produce(range(20))
    flows.second.produce(range(30))
    flows.run(**PYTHON)
    before = flows.arrived()
    flows.second.produce(range(30, 60))
    one = {**PYTHON, "source": flows.source(flows.name)}
    flows.run(**one)
    assert flows.arrived() == before
    spec = load(flows.declare(**one))
    assert pipeline_status(spec).taken_out == [flows.second.name]
    assert pipeline_status(spec).lag == 0
    (warning,) = plan_pipeline(spec, offline=False).warnings
    assert f"{flows.second.name} was read before and is no longer in the file" in warning
    assert audit(of_pipeline(spec)).verdict is Verdict.HOLDS  # its rows are nobody's fault
    carry_out(spec, propose(spec, "latest"))
    assert flows.places()[flows.second.name, 0] == 10
    flows.run(**PYTHON)
    assert flows.arrived() == flows.sent()


def test_positions_and_receipts_are_asked_for_by_topic(flows: Flows) -> None:
    flows.produce(range(20))
    flows.second.produce(range(30))
    flows.run(**PYTHON)
    spec = load(flows.declare(**PYTHON))
    with pytest.raises(Usage, match=r"which topic\?"):
        receipt(spec, 2, 3)
    assert receipt(spec, 2, 3, flows.second.name, check=True).fate is Fate.LANDED
    with pytest.raises(Usage, match="which topic"):
        propose(spec, {0: 4})
    carry_out(spec, propose(spec, {0: 4, 1: 10, 2: 10}, flows.second.name))
    status = pipeline_status(spec)
    assert [(at.topic, at.partition) for at in status.partitions if at.lag] == [(flows.second.name, 0)]
    again = receipt(spec, 0, 3, flows.name), receipt(spec, 0, 4, flows.second.name)
    assert [one.fate for one in again] == [Fate.PROCESSED, Fate.WAITING]


def test_what_is_wrong_with_one_of_the_topics_is_named(flows: Flows) -> None:
    flows.produce(range(20))
    flows.second.produce(range(30))
    flows.run(**PYTHON)
    delete_topic(flows.cluster, flows.second.name)
    with pytest.raises(Usage, match=flows.second.name):
        flows.run(**PYTHON)
    flows.second.make_topic()
    with pytest.raises((TopicRecreated, PositionLost), match=flows.second.name):
        flows.run(**PYTHON)
    spec = load(flows.declare(**PYTHON))
    carry_out(spec, propose(spec, "earliest", flows.second.name))
    flows.second.produce(range(3))
    assert flows.run(**PYTHON).rows == 3


def test_of_one_key_in_two_topics_the_later_commit_has_the_row_and_the_audit_knows(flows: Flows) -> None:
    parts = {**PYTHON, "options": {"mode": "upsert", "key": ["id"]}}
    flows.produce(range(10))
    flows.run(**parts)
    flows.second.produce([4, 11], {4: b'{"id": 4, "s": "refunded"}'})
    flows.run(**parts)
    assert flows.sql(f"SELECT s, _topic FROM {flows.name} WHERE id = 4") == [("refunded", flows.second.name)]
    assert sorted(flows.landed()) == [*range(10), 11]
    request = of_pipeline(load(flows.declare(**parts)))
    assert audit(request).verdict is Verdict.HOLDS
    flows.sql(f"DELETE FROM {flows.name} WHERE id IN (4, 7)")
    found = audit(request)
    assert (found.verdict, found.totals[Anomaly.LOST_BEFORE_SINK]) == (Verdict.BROKEN, 2)


@pytest.mark.proof
def test_two_topics_go_into_a_third_one_exactly_once(stack: Stack, tmp_path: Path) -> None:
    relay, second = Relay(stack, tmp_path, sink="kafka"), Flow(stack, tmp_path, 3)
    source = {"topics": [relay.name, second.name]}
    relay.produce(range(50))
    relay.run(source={"topic": relay.name})
    second.produce(range(50, 110))
    relay.produce(range(110, 120))
    relay.run(source=source)
    assert (relay.lost(120), relay.doubled()) == (0, 0)
    assert pipeline_status(load(relay.declare(source=source))).lag == 0
    second.produce(range(120, 130))
    relay.run(source={"topic": relay.name})
    assert relay.lost(130) == 10
    spec = load(relay.declare(source={"topic": relay.name}))
    assert pipeline_status(spec).taken_out == [second.name]
    carry_out(spec, propose(spec, "latest"))  # of its own topic only
    relay.run(source=source)
    assert (relay.lost(130), relay.doubled()) == (0, 0)


def test_a_topic_is_added_while_another_has_a_gap_that_may_be_skipped(flows: Flows) -> None:
    lenient: dict[str, Any] = {**PYTHON, "guarantee": "at-most-once"}
    flows.produce(range(20))
    flows.run(**lenient, source=flows.source(flows.name, failOnDataLoss=False))
    flows.produce(range(20, 40))
    flows.second.produce(range(30))
    flows.delete_before(0, 15)
    stop = Flag()
    watch = Timer(60, stop.set)
    watch.start()
    try:
        path = flows.declare(**lenient, source=flows.source(failOnDataLoss=False))
        summary = Pipeline(path, stop=stop).run(once=True)
    finally:
        watch.cancel()
    assert not stop.is_set(), f"it went round without end: {summary.restarts} times"
    assert (summary.restarts, summary.skipped) == (0, 5)
    gone = {(flows.name, 0, offset) for offset in range(15)}
    assert flows.arrived() == Counter(flows.sent() | {at: 1 for at in gone if at[2] < 10})
