"""Records that cannot be delivered go to a topic, in the transaction that moves the position over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Message

from fencepost.errors import Poison, Refused, Usage
from fencepost.lab.crash import CrashAction, CrashPoint, visits
from fencepost.local import Stack
from fencepost.model import Step
from fencepost.sinks.kafka.letters import REASON
from fencepost.sinks.kafka.outputs import ORIGIN
from spark.flows import RETRIES
from spark.topic_flows import TopicFlow

BAD = {7: b"not json", 12: b'{"id": "x"}', 13: b""}
ARROW = """import pyarrow as pa
import pyarrow.compute as pc
def ids(rows):
    values = pc.cast(rows.column("id"), pa.string())
    return pa.RecordBatch.from_arrays([values, rows.column("_from")], ["value", "_from"])
"""


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> TopicFlow:
    (tmp_path / "mine.py").write_text(ARROW)
    return TopicFlow(stack, tmp_path)


def letters(flow: TopicFlow, topic: str) -> dict[str, dict[str, Any]]:
    """By the place that each names."""
    found = {}
    for message in flow.messages(topic):
        (reason, why), (origin, place), *own = cast(Any, message.headers())
        assert (reason, origin) == (REASON, ORIGIN)
        found[place.decode()] = {"why": why.decode(), "headers": own, **_as_it_was(message)}
    return found


def _as_it_was(message: Message) -> dict[str, Any]:
    return {"key": message.key(), "value": message.value(), "time": message.timestamp()[1]}


@pytest.mark.parametrize("engine", ["spark", pytest.param("python", marks=pytest.mark.proof)])
def test_bad_records_go_to_the_topic_as_they_were_and_say_why(flow: TopicFlow, engine: str) -> None:
    topic = flow.make_more("dead")
    flow.produce(range(40), instead=BAD)
    run = flow.run(
        engine=engine,
        transform={"arrow": "mine.py:ids"},
        on_error="dead_letter",
        dead_letters={"topic": topic},
    )
    good = sorted(set(range(40)) - BAD.keys())
    assert (sorted(flow.landed()), run.rows, run.dead) == (good, 37, 3)
    found = letters(flow, topic)
    sent = {f"{one.topic()}/{one.partition()}/{one.offset()}/0": one for one in flow.messages(flow.name)}
    assert {one["value"] for one in found.values()} == set(BAD.values())
    for place, letter in found.items():
        assert letter.pop("why").startswith(("the value is not JSON", "not JSON of the schema")), place
        assert letter.pop("headers") == sent[place].headers(), place
        assert letter == _as_it_was(sent[place]), place
    assert flow.positions() == {0: 20, 1: 20}


@pytest.mark.proof
def test_a_letter_lands_once_though_its_task_fails_before_and_after_its_commit(flow: TopicFlow, tmp_path: Path) -> None:
    topic = flow.make_more("dead")
    flow.produce(range(40), instead=BAD)
    points = [(Step.WRITTEN, tmp_path / "written"), (Step.DELIVERED, tmp_path / "delivered")]
    for step, witness in points:
        point = CrashPoint(step, flow.partition(1), CrashAction.FAIL, witness)
        flow.run(see=point, on_error="dead_letter", dead_letters={"topic": topic}, spark=RETRIES)
        assert visits(witness)[0].acted
        flow.produce(range(40, 80) if step is Step.WRITTEN else [], instead={41: b"?"})
    assert sorted(one["value"] for one in letters(flow, topic).values()) == sorted([*BAD.values(), b"?"])
    assert sorted(flow.landed()) == sorted(set(range(80)) - {*BAD, 41})


@pytest.mark.proof
def test_an_output_that_is_too_large_is_bad_by_itself(flow: TopicFlow) -> None:
    topic = flow.make_more("dead")
    flow.produce(range(20))
    large = "SELECT IF(id = 6, repeat('x', 2000000), CAST(id AS STRING)) AS value, _from FROM events"
    with pytest.raises(Poison) as poison:
        flow.run(transform={"sql": large})
    assert [offset for offset, _ in poison.value.records] == [3]
    flow.run(transform={"sql": large}, on_error="dead_letter", dead_letters={"topic": topic})
    assert list(letters(flow, topic)) == [f"{flow.partition(0)}/3/0"]
    assert sorted(flow.landed()) == sorted(set(range(20)) - {6})


def test_a_topic_that_is_missing_or_in_use_is_refused(flow: TopicFlow) -> None:
    flow.produce(range(10))
    for topic, complaint in {
        None: "stores dead letters in a topic",
        flow.name: "is read or written by the pipeline already",
        flow.target: "is read or written by the pipeline already",
        f"{flow.name}-nowhere": "nowhere",
    }.items():
        with pytest.raises(Usage, match=complaint):
            flow.run(on_error="dead_letter", dead_letters={"topic": topic} if topic else None)
    assert (flow.landed(), flow.positions()) == ([], {})


@pytest.mark.proof
def test_an_output_with_a_partition_or_a_header_that_cannot_be_is_bad_by_itself(flow: TopicFlow) -> None:
    topic = flow.make_more("dead")
    flow.produce(range(20))
    sql = (
        "SELECT CAST(id AS STRING) AS value, CASE id WHEN 4 THEN 99L WHEN 5 THEN 1099511627776 WHEN 6 THEN -5L END "
        "AS partition, array(named_struct('key', IF(id = 7, NULL, 'name'), 'value', concat('a', char(0), 'b'))) "
        "AS headers, _from FROM events"
    )
    parts: dict[str, Any] = {"transform": {"sql": sql}}
    with pytest.raises(Poison, match=r"no partition|header"):
        flow.run(**parts)
    assert flow.run(**parts, on_error="dead_letter", dead_letters={"topic": topic}).dead == 4
    assert sorted(one["value"] for one in letters(flow, topic).values()) == [
        b'{"id": %d, "s": "%d"}' % (id_, id_) for id_ in (4, 5, 6, 7)
    ]
    assert sorted(flow.landed()) == sorted(set(range(20)) - {4, 5, 6, 7})
    assert {tuple(cast(Any, message.headers())[1]) for message in flow.messages()} == {("name", b"a\0b")}


@pytest.mark.proof
def test_a_time_that_the_topic_does_not_take_stops_the_run_with_what_to_do(flow: TopicFlow) -> None:
    flow.produce(range(4))
    sql = "SELECT CAST(id AS STRING) AS value, TIMESTAMP'9999-12-31 00:00:00Z' AS timestamp, _from FROM events"
    with pytest.raises(Refused, match="further from now") as refused:
        flow.run(transform={"sql": sql})
    assert "message.timestamp.after.max.ms" in refused.value.remedy
    flow.configure(flow.target, "message.timestamp.after.max.ms", str(2**63 - 1))
    assert flow.run(transform={"sql": sql}).rows == 4
    assert {message.timestamp()[1] for message in flow.messages()} == {253402214400000}
