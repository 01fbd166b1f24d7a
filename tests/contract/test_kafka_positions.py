"""Positions in a consumer group: set by hand, lost, of another topic, and those of other members."""

from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as DriverPartition

from contract.kafka_flow import Flow
from fencepost.errors import Fenced, PositionLost, TopicRecreated, Usage
from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.topics import delete_topic, topic_id_and_partitions
from fencepost.model import Batch, Span, TopicPartition
from fencepost.sinks.kafka import KafkaSettings, KafkaStore


def topic_id(flow: Flow) -> dict[str, str]:
    return {flow.source: topic_id_and_partitions(Cluster(flow.topics.kafka), flow.source)[0]}


def test_a_run_that_is_under_way_is_fenced_and_the_next_one_goes_on_from_there(flow: Flow) -> None:
    store, source, pipeline = flow.open(), flow.plan.source, flow.plan.settings.pipeline
    tenure = flow.plan.take_over(store)
    flow.plan.carry(store, tenure, 0, 10)
    flow.open().set_positions(pipeline, {source: 4}, {})
    with pytest.raises(Fenced):
        flow.plan.carry(store, tenure, 10, 20)
    with pytest.raises(Fenced):
        flow.open().renew(tenure, uuid4())
    after = flow.plan.take_over(flow.open())
    assert after.positions == {source: 4}
    assert after.epoch > tenure.epoch
    assert flow.landed() == list(range(10))


def test_they_replace_whatever_was_stored_of_their_topic_a_vanished_partition_too(flow: Flow) -> None:
    store, pipeline, (first, second) = flow.open(), flow.plan.settings.pipeline, partitions(flow, 2)
    store.take_over(pipeline, uuid4(), {first: 5, second: 7}, {flow.source: "id-1"})
    store.set_positions(pipeline, {first: 0}, {flow.source: "id-2"})
    assert dict(store.positions(pipeline)) == {first: 0}
    store.take_over(pipeline, uuid4(), {first: 9}, {flow.source: "id-2"})
    with pytest.raises(TopicRecreated):
        store.take_over(pipeline, uuid4(), {first: 9}, {flow.source: "id-1"})


def test_a_position_that_is_lost_is_not_begun_from_scratch(flow: Flow) -> None:
    store, pipeline = flow.open(), flow.plan.settings.pipeline
    flow.plan.carry(store, flow.plan.take_over(store), 0, 10)
    cluster = Cluster(flow.topics.kafka)
    group = flow.plan.settings.group(pipeline)
    cluster.ask(lambda: cluster.admin.delete_consumer_groups([group])[group], group)  # as if it had expired
    with pytest.raises(PositionLost, match="positions set"):
        flow.plan.take_over(flow.open())
    assert dict(flow.open().positions(pipeline)) == {}
    flow.open().set_positions(pipeline, {flow.plan.source: 10}, {})
    assert flow.plan.take_over(flow.open()).positions == {flow.plan.source: 10}


def test_a_topic_that_was_created_again_is_refused(flow: Flow) -> None:
    store, pipeline, source = flow.open(), flow.plan.settings.pipeline, flow.plan.source
    tenure = store.take_over(pipeline, uuid4(), {source: 0}, topic_id(flow))
    flow.plan.carry(store, tenure, 0, 10)
    delete_topic(Cluster(flow.topics.kafka), flow.source)
    flow.topics.make(3, flow.source)
    gone = flow.open()
    assert wait_until(lambda: not gone.positions(pipeline), 20)  # Kafka forgets offsets with their topic
    with pytest.raises(PositionLost):
        flow.open().take_over(pipeline, uuid4(), {source: 0}, topic_id(flow))
    flow.plan.carry(store, tenure, 10, 20)  # a writer that did not look: its position is of the old topic
    with pytest.raises(TopicRecreated, match="created again"):
        flow.open().take_over(pipeline, uuid4(), {source: 0}, topic_id(flow))


def test_an_offset_that_somebody_else_committed_is_no_position(flow: Flow) -> None:
    pipeline, source = flow.plan.settings.pipeline, flow.plan.source
    consumer = Consumer({**flow.topics.kafka, "group.id": flow.plan.settings.group(pipeline)})
    consumer.commit(offsets=[DriverPartition(source.topic, source.partition, 5)], asynchronous=False)
    consumer.close()
    with pytest.raises(PositionLost, match="no pipeline stored"):
        flow.plan.take_over(flow.open())
    flow.open().set_positions(pipeline, {source: 5}, {})
    assert flow.plan.take_over(flow.open()).positions == {source: 5}


def test_a_target_that_does_not_exist_is_refused(flow: Flow) -> None:
    store = KafkaStore(KafkaSettings(flow.topics.kafka, "nowhere", ("no-such-topic",)))
    with pytest.raises(Usage, match="no-such-topic"):
        flow.plan.take_over(store)
    store.close()


def test_members_own_parts_of_the_pipeline_and_do_not_disturb_each_other(flow: Flow) -> None:
    pipeline, (mine, theirs, _) = flow.plan.settings.pipeline, partitions(flow, 3)
    me, other = flow.open(), flow.open()
    tenure = me.take_over(pipeline, uuid4(), {mine: 0}, {})
    elsewhere = other.take_over(pipeline, uuid4(), {theirs: 0}, {})
    flow.plan.carry(me, tenure, 0, 10)
    other.advance(Batch({theirs: Span(0, 3)}, (), elsewhere))
    other.renew(elsewhere, uuid4())
    client = me._producer_of(pipeline, mine)._producer.client
    flow.plan.carry(me, tenure, 10, 20)
    assert me._producer_of(pipeline, mine)._producer.client is client is not None
    assert dict(me.positions(pipeline)) == {mine: 20, theirs: 3}


def test_partitions_that_are_given_back_are_let_go(flow: Flow) -> None:
    store = flow.open()
    tenure = flow.plan.take_over(store)
    flow.plan.carry(store, tenure, 0, 10)
    store.release([flow.plan.source])
    assert store._producers == {}
    assert store.done(Batch({flow.plan.source: Span(0, 10)}, (), tenure))  # asked of the group


def partitions(flow: Flow, count: int) -> list[TopicPartition]:
    return [TopicPartition(flow.source, number) for number in range(count)]


def test_who_begins_beside_a_member_that_is_at_work_takes_nothing_from_it(flow: Flow) -> None:
    store, pipeline, (first, second) = flow.open(), flow.plan.settings.pipeline, partitions(flow, 2)
    tenure = flow.plan.take_over(store)
    flow.open().begin(pipeline, uuid4(), {first: 0, second: 7}, {})
    flow.plan.carry(store, tenure, 0, 10)
    assert dict(store.positions(pipeline)) == {first: 10, second: 7}
