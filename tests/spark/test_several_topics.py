"""`source.topics` on Spark: one stream over several topics, one table, and positions of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.request import EngineChoice, of_pipeline
from fencepost.guarantee import Anomaly
from fencepost.local import Stack
from fencepost.spec import load
from spark.several import Flows

SMALL = {"records": 400}  # to a batch, so that there are several


@pytest.fixture
def flows(stack: Stack, tmp_path: Path) -> Flows:
    return Flows(stack, tmp_path)


@pytest.mark.proof
def test_a_topic_comes_later_and_another_goes(flows: Flows) -> None:
    flows.produce(range(20))
    flows.second.produce(range(30))
    flows.run(source=flows.source(flows.name))
    flows.produce(range(20, 30))
    flows.run(source=flows.source(start="latest"))
    assert flows.arrived() == flows.sent(flows.name)
    flows.second.produce(range(30, 60))
    flows.produce(range(30, 40))
    before = flows.arrived()
    flows.run(source=flows.source(flows.second.name))  # the first one waits where it is
    added = flows.arrived() - before
    assert {topic for topic, _, _ in added} == {flows.second.name}
    assert (added.total(), flows.places()[flows.name, 0]) == (30, 15)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_two_topics_land_in_one_table_exactly_once_though_a_run_was_killed(flows: Flows, tmp_path: Path) -> None:
    flows.produce(range(1_000))
    flows.second.produce(range(900))
    flows.killed_half_way(tmp_path / "witness", batch=SMALL)
    flows.run(batch=SMALL)
    assert flows.arrived() == flows.sent()
    request = of_pipeline(load(flows.declare()))
    assert audit(request).verdict is Verdict.HOLDS
    flows.sql(f"DELETE FROM {flows.name} WHERE _topic = %s AND _partition = 2 AND _offset = 250", flows.second.name)
    for engine in EngineChoice.PYTHON, EngineChoice.SPARK:
        found = audit(replace(request, engine=engine))
        assert (found.verdict, found.engine) == (Verdict.BROKEN, engine)
        (finding,) = found.findings
        place = (finding.topic, finding.partition, finding.offset)
        assert (finding.code, place) == (Anomaly.LOST_BEFORE_SINK, (flows.second.name, 2, 250))
