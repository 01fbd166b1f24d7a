"""Remedies about bad records, followed: those are dead-lettered or fixed, and every other one lands once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from consuming.relays import Relay
from fencepost.engines.python.target import TO_A_TOPIC
from fencepost.errors import FencepostError, Poison, Refused
from fencepost.kafka.topic_reader import read_committed
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.model import Batch, Step
from remedies.following import follow
from spark.flows import Flow

ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
PARSES = """
import json, pyarrow as pa

def parsed(batch):
    def document(value):
        try:
            return json.loads(value)
        except ValueError:
            return {"id": -1}
    values = [json.dumps(document(one)).encode() for one in batch.column("value").to_pylist()]
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), "_from": batch.column("_from")})

def passed(batch):
    return batch.select(["value", "_from"])
"""


def _setting(error: FencepostError) -> dict[str, Any]:
    """What the remedy says to set, as the pipeline file has it."""
    found = re.search(r"\bset ([a-z_]+: (?:\{.*?\}|\w+))", error.remedy)
    assert found, error.remedy
    return dict(yaml.safe_load(found[1]))


def test_a_bad_record_is_dead_lettered_by_the_setting(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    relay.produce(range(40), instead={7: b"no JSON"})
    with pytest.raises(Poison) as refused:
        relay.run()
    run = relay.run(**_setting(refused.value))
    assert run.dead == 1
    assert Counter(relay.landed()) == Counter(set(range(40)) - {7})
    assert relay.sql(f"SELECT count(*) FROM {relay.name}_dead") == [(1,)]


def test_after_the_brake_all_of_them_are_dead_lettered_by_the_setting(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    relay.produce(range(40), instead=dict.fromkeys(range(0, 40, 2), b"no JSON"))
    with pytest.raises(Refused, match="20 of the 20") as refused:
        relay.run(on_error="dead_letter")
    run = relay.run(on_error="dead_letter", **_setting(refused.value))
    assert run.dead == 20
    assert Counter(relay.landed()) == Counter(range(1, 40, 2))
    assert relay.sql(f"SELECT count(*) FROM {relay.name}_dead") == [(20,)]


def test_before_a_topic_a_bad_record_is_fixed_in_the_transform(stack: Stack, tmp_path: Path) -> None:
    """Dead letters before a topic need one of their own: a remedy that does not name it would be refused."""
    (tmp_path / "mine.py").write_text(PARSES)
    relay = Relay(stack, tmp_path, sink="kafka")
    relay.produce(range(40), instead={7: b"no JSON"})
    parsed = {"topic": relay.name, "value": "json", "schema": "id long"}
    with pytest.raises(Poison) as refused:
        relay.run(source=parsed, transform={"arrow": "mine.py:passed"})
    assert refused.value.remedy == TO_A_TOPIC
    relay.run(transform={"arrow": "mine.py:parsed"})
    assert relay.arrived() == Counter({**dict.fromkeys(set(range(40)) - {7}, 1), -1: 1})
    relay.produce(range(40, 60), instead={41: b"no JSON"})
    create_topic(relay.cluster, TopicRequest(f"{relay.name}-dead", 1))
    letters: dict[str, Any] = {"on_error": "dead_letter", "dead_letters": {"topic": f"{relay.name}-dead"}}
    assert relay.run(source=parsed, transform={"arrow": "mine.py:passed"}, **letters).dead == 1
    assert [one.value() for one in read_committed(relay.kafka, f"{relay.name}-dead")] == [b"no JSON"]


class AnyTime(Flow):
    """Its topic takes every timestamp."""

    def make_topic(self) -> None:
        create_topic(self.cluster, TopicRequest(self.name, self.partitions, config=ANY_TIME))


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("setting", ["stop", "dead_letter"])
def test_a_time_that_spark_cannot_read_is_skipped_and_nothing_else_is(
    stack: Stack, tmp_path: Path, setting: str
) -> None:
    flow = AnyTime(stack, tmp_path)
    flow.produce(range(8), {1: b"no JSON"} if setting == "dead_letter" else None)
    producer = Producer(flow.kafka)
    producer.produce(flow.name, b'{"id": 8}', partition=0, timestamp=2**63 // 1000 + 1)  # offset 4
    assert producer.flush(60) == 0
    flow.produce(range(9, 12))
    with pytest.raises(
        Refused, match=f"{flow.name}/0 offset 4: its timestamp, beyond the year 294246, cannot be read by Spark"
    ) as found:
        flow.run(on_error=setting)
    with pytest.raises(
        Refused, match=f"{flow.name}/0 offset 4: its timestamp, beyond the year 294246, cannot be read by Spark"
    ) as alone:
        flow.run(on_error=setting, **_setting(found.value))
    assert flow.positions()[0] == 4
    follow(alone.value, flow.folder / f"{flow.name}.yml")
    flow.run(on_error=setting)
    assert Counter(flow.landed()) == Counter(set(range(12)) - {8} - ({1} if setting == "dead_letter" else set()))


def test_rows_that_may_be_there_already_go_on_with_dedupe(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path, partitions=1)
    relay.sql(f"CREATE TABLE {relay.name} (id bigint PRIMARY KEY, s text)")
    relay.produce(range(20))

    def crash(step: Step, _batch: Batch[Any]) -> None:
        if step is Step.WRITTEN:
            raise FencepostError("killed between the two steps")

    plain: dict[str, Any] = {"guarantee": "at-least-once", "options": {"provenance": False}}
    with pytest.raises(FencepostError, match="killed"):
        relay.run(crash, **plain)
    with pytest.raises(Refused, match="duplicate key") as refused:
        relay.run(**plain)
    key = re.findall(r"Key \((\w+)\)", refused.value.message)
    relay.produce(range(20, 30))
    relay.run(**{**plain, "options": {**plain["options"], **_setting(refused.value), "key": key}})
    assert Counter(relay.landed()) == Counter(range(30))


@pytest.mark.proof
def test_where_too_many_records_fail_to_be_found_one_by_one_try_cast_gives_null(stack: Stack, tmp_path: Path) -> None:
    """Inside a generator no expression can be tried by itself."""
    flow = Flow(stack, tmp_path, partitions=1)
    flow.produce(range(450), {id_: b'{"id": %d, "s": "x"}' % id_ for id_ in range(0, 450, 2)})
    sql = "SELECT id, explode(array(cast(s AS int))) AS number, _from FROM events"
    with pytest.raises(Refused, match="too many to find one by one") as refused:
        flow.run(transform={"sql": sql}, on_error="dead_letter")
    assert "give null where it fails (try_cast)" in refused.value.remedy
    assert flow.positions() == {0: 0}
    assert flow.run(transform={"sql": sql.replace("cast(", "try_cast(")}, on_error="dead_letter").dead == 0
    flow.assert_exact(450)
    assert flow.landed("number").count(None) == 225
