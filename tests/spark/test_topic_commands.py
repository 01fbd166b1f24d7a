"""The commands of a pipeline from Spark into topics."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from fencepost.admin.plan import plan_pipeline
from fencepost.engines.listener import Started
from fencepost.errors import Usage
from fencepost.local import Stack
from fencepost.model import EVENT_ID
from fencepost.run.pipeline import Pipeline
from fencepost.sinks.kafka.kind import KafkaKind
from fencepost.spec import load
from spark.topic_flows import TopicFlow

MIXES = {"sql": "SELECT CAST(count(*) AS STRING) AS value FROM events GROUP BY key"}
SENTENCE = "mixes Kafka's partitions (HashAggregate), but sink 'kafka' takes them one by one"


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> TopicFlow:
    return TopicFlow(stack, tmp_path)


def command(*words: str) -> tuple[int, str, str]:
    argv = [sys.executable, "-m", "fencepost", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("guarantee", ["exactly-once", pytest.param("at-least-once", marks=pytest.mark.proof)])
def test_a_plan_that_mixes_partitions_is_refused(flow: TopicFlow, guarantee: str) -> None:
    flow.produce(range(10))
    spec = flow.declare(transform=MIXES, guarantee=guarantee)
    for refused in (lambda: plan_pipeline(load(spec), offline=False), lambda: Pipeline(spec).run(once=True)):
        with pytest.raises(Usage) as refusal:
            refused()
        assert SENTENCE in refusal.value.message
        assert "choose a sink that takes whole tables" in refusal.value.remedy
    assert (flow.landed(), flow.positions()) == ([], {})


def test_plan_status_positions_peek_and_audit_of_every_target(flow: TopicFlow) -> None:
    other, dead = flow.make_more("other"), flow.make_more("dead")
    producer, now = Producer(flow.kafka), int(time.time() * 1000) - 1_000  # old ones would be deleted soon
    for id_ in range(20):
        value = b"bad" if id_ == 5 else json.dumps({"id": id_, "s": str(id_)}).encode()
        headers: dict[str, Any] = {EVENT_ID: f"e/{id_}"}
        place: dict[str, Any] = {"partition": id_ % 2, "timestamp": now + id_}
        producer.produce(flow.name, value, key=str(id_), headers=headers, **place)
    assert producer.flush(60) == 0
    query = f"SELECT s AS value, headers, timestamp, IF(id % 2 = 0, '{other}', NULL) AS topic, _from FROM events"
    parts: dict[str, Any] = {
        "transform": {"sql": query},
        "options": {"topics": [other]},
        "on_error": "dead_letter",
        "dead_letters": {"topic": dead},
    }
    spec = str(flow.declare(**parts))
    plan = plan_pipeline(load(Path(spec)), offline=False)
    assert (plan.path, plan.waiting, plan.target_exists) == ("direct", 20, True)
    assert f"written to topic {dead}" in next(hop.why for hop in plan.hops if hop.hop == "bad records")
    assert flow.run(**parts).dead == 1

    code, out, err = command("status", "--spec", spec, "--format", "json")
    assert (code, json.loads(out)["lag"]) == (0, 0), err
    code, out, err = command("positions", "show", "--spec", spec, "--format", "json")
    assert code == 0, err
    code, out, err = command("peek", "--spec", spec, "--format", "json", "-n", "4")
    shown = [json.loads(line) for line in out.splitlines()]
    assert (code, [one["value"] for one in shown]) == (0, ["16", "17", "18", "19"]), err
    assert {one["topic"] for one in shown} == {flow.target, other}
    code, out, err = command("audit", "--spec", spec, "--format", "json", "--engine", "python")
    found = json.loads(out)
    assert (code, found["verdict"], found["landed"], found["lost"]) == (0, "holds", 19, 0), (out, err)
    assert found["hops"][-1]["dead"] == 1, found
    code, out, err = command("receipt", "--spec", spec, "--partition", "0", "--offset", "3")
    assert code == 2
    assert "sink 'kafka' cannot" in err


@pytest.mark.proof
def test_several_topics_go_into_one(flow: TopicFlow, tmp_path: Path) -> None:
    flow.produce(range(100))
    second = TopicFlow(flow.stack, tmp_path / "second")
    second.folder.mkdir()
    second.produce(range(100, 200))
    source = {"topics": [flow.name, second.name], "value": "json", "schema": "id long, s string"}
    assert flow.run(source=source).rows == 200
    assert sorted(flow.landed()) == list(range(200))
    assert flow.run(source=source).rows == 0


@pytest.mark.proof
def test_positions_are_stored_again_before_they_expire(flow: TopicFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaKind, "expires_after", lambda _kind, _job: 8.0)
    flow.produce(range(100))
    with flow.running() as running:
        running.wait_until(lambda: len(flow.landed()) == 100, "the records land")
        before = flow.stored()
        running.wait_until(lambda: flow.stored() != before, "an idle run stores its positions again")
        flow.produce(range(100, 200))
        running.wait_until(lambda: len(flow.landed()) == 200, "and goes on")
    flow.assert_exact(200)
    started = [news for news in running.news if isinstance(news, Started)]
    assert len({news.epoch for news in started}) == 1  # the same owner
