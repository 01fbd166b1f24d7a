"""`fencepost topic` against real brokers."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.errors import Missing
from fencepost.kafka.topics import (
    TopicRequest,
    create_topic,
    delete_topic,
    describe_topic,
    is_known,
    topic_id_and_partitions,
)
from fencepost.local import Stack

Command = Callable[..., Any]


def test_a_new_topic_is_replicated_and_complete_when_the_command_ends(fencepost: Command, name: str) -> None:
    made = fencepost("topic", "create", name, "--format", "json").json
    assert made["created"] is True
    assert made["topic"] == name
    assert made["config"] == {"min.insync.replicas": "2"}
    assert [one["partition"] for one in made["partitions"]] == [0, 1, 2]
    for one in made["partitions"]:
        assert one["leader"] in one["replicas"]
        assert sorted(one["in_sync"]) == sorted(one["replicas"]) == [1, 2, 3]


def test_a_topic_can_be_made_otherwise(cluster: Cluster, fencepost: Command, name: str) -> None:
    words = ("--partitions", "1", "--replication-factor", "1", "--config", "retention.ms=60000")
    assert fencepost("topic", "create", name, *words).code == 0
    made = describe_topic(cluster, name)
    assert [len(one.replicas) for one in made.partitions] == [1]
    assert made.config == {"min.insync.replicas": "1", "retention.ms": "60000"}


def test_a_topic_that_exists_is_left_alone(fencepost: Command, cluster: Cluster, topic: str) -> None:
    before = describe_topic(cluster, topic)
    refused = fencepost("topic", "create", topic, "--partitions", "7")
    assert refused.code == 2
    assert f"topic {topic} exists already" in refused.complaint
    assert fencepost("topic", "create", topic, "--if-not-exists", "--format", "json").json["created"] is False
    assert describe_topic(cluster, topic) == before


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--replication-factor", "4"), "there are 3: give --replication-factor 3"),
        (("--config", "retention.mss=1"), "retention.mss"),
        (("--config", "retention.ms=soon"), "retention.ms"),
        (("--config", "min.insync.replicas=4"), "nothing could ever be written: give at most 3"),
        (("--config", "retention.ms"), "write --config key=value"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused(
    fencepost: Command, cluster: Cluster, name: str, words: tuple[str, ...], complaint: str
) -> None:
    refused = fencepost("topic", "create", name, *words)
    assert refused.code == 2
    assert complaint in refused.complaint
    assert name not in cluster.topic_names()


def test_a_name_that_is_none_is_refused(fencepost: Command) -> None:
    refused = fencepost("topic", "create", "orders/2026")
    assert refused.code == 2
    assert "'.', '_' and '-'" in refused.complaint


def test_an_open_transaction_holds_the_last_stable_offset(
    fencepost: Command, cluster: Cluster, topic: str, produce: Callable[[int], None], open_transaction: Command
) -> None:
    produce(3)
    with open_transaction(2):
        first, second = fencepost("topic", "describe", topic, "--format", "json").json["partitions"]
        assert (first["first_offset"], first["last_stable_offset"], first["end_offset"]) == (0, 3, 5)
        assert (second["first_offset"], second["last_stable_offset"], second["end_offset"]) == (0, 0, 0)
    # The commit is answered before its marker, which takes an offset too, is in the partition.
    assert wait_until(lambda: describe_topic(cluster, topic).partitions[0].last_stable_offset == 6, 20)
    assert describe_topic(cluster, topic).partitions[0].end_offset == 6


def test_the_first_offset_moves_when_old_records_go(
    cluster: Cluster, topic: str, produce: Callable[[int], None]
) -> None:
    produce(5)
    for future in cluster.admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        future.result()
    assert describe_topic(cluster, topic).partitions[0].first_offset == 2


def test_a_leader_that_does_not_answer_hides_only_its_own_offsets(
    stack: Stack, cluster: Cluster, topic: str, produce: Callable[[int], None]
) -> None:
    produce(3)
    before = describe_topic(cluster, topic)
    asked = cluster.admin.describe_cluster().result().controller.id  # the broker that this client asks about topics
    silent = next(one for one in before.partitions if one.leader != asked)
    (node,) = [node for node in stack.brokers.values() if node.node_id == silent.leader]
    node.stop()
    try:
        after = describe_topic(cluster, topic)
    finally:
        node.cont()
        stack.wait_in_sync()
    hidden = replace(silent, first_offset=None, end_offset=None, last_stable_offset=None)
    assert after.partitions == tuple(hidden if one is silent else one for one in before.partitions)


def test_people_get_a_table(fencepost: Command, topic: str, produce: Callable[[int], None]) -> None:
    produce(4)
    shown = fencepost("topic", "describe", topic).out.splitlines()
    assert shown[0].startswith(f"topic {topic} (2 partitions, 3 replicas, min.insync.replicas=2, id ")
    assert shown[1].split() == ["PARTITION", "LEADER", "REPLICAS", "IN", "SYNC", "FIRST", "END", "STABLE"]
    assert [line.split()[0] for line in shown[2:]] == ["0", "1"]
    assert shown[2].split()[-3:] == ["0", "4", "4"]


def test_an_unknown_topic_is_answered_with_the_nearest(fencepost: Command, topic: str, stack: Stack) -> None:
    for command in (["describe"], ["delete", "--yes"]):
        refused = fencepost("topic", *command, topic[:-1])
        assert refused.code == 2
        assert refused.complaint == (
            f"fencepost: there is no topic {topic[:-1]} at {stack.bootstrap_servers}: did you mean {topic}?"
        )


def test_the_list_has_every_topic(fencepost: Command, topic: str) -> None:
    listed = {one["topic"]: one for one in fencepost("topic", "list", "--format", "json").json["topics"]}
    mine = listed[topic]
    assert (mine["partitions"], mine["replication_factor"], mine["under_replicated"]) == (2, 3, 0)
    assert mine["internal"] is False
    ours = fencepost("topic", "list", "--exclude-internal").out
    assert topic in ours
    assert not [line for line in ours.splitlines() if line.startswith("__")]


def test_a_deleted_topic_is_gone_and_its_successor_is_another(fencepost: Command, cluster: Cluster, topic: str) -> None:
    before = describe_topic(cluster, topic).topic_id
    gone = fencepost("topic", "delete", topic, "--yes", "--format", "json").json
    assert gone == {"deleted": True, "topic": topic, "topic_id": before}
    with pytest.raises(Missing):
        describe_topic(cluster, topic)
    create_topic(cluster, TopicRequest(topic))
    assert describe_topic(cluster, topic).topic_id != before


def test_deleting_without_a_yes_is_refused_where_nobody_can_answer(
    fencepost: Command, cluster: Cluster, topic: str
) -> None:
    refused = fencepost("topic", "delete", topic)
    assert refused.code == 2
    assert "add --yes" in refused.complaint
    assert topic in cluster.topic_names()


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_deleting_asks_a_person(stack: Stack, cluster: Cluster, topic: str, answer: bytes, code: int) -> None:
    terminal, end_of_it = pty.openpty()
    argv = [sys.executable, "-m", "fencepost", "topic", "delete", topic, "--bootstrap-server", stack.bootstrap_servers]
    with subprocess.Popen(argv, stdin=end_of_it, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        os.write(terminal, answer)
        _out, question = asking.communicate(timeout=60)
    os.close(terminal)
    os.close(end_of_it)
    assert f"Delete topic {topic}".encode() in question
    assert asking.returncode == code
    assert (topic in cluster.topic_names()) is (code == 1)


def test_a_topic_cannot_be_deleted_twice(cluster: Cluster, topic: str) -> None:
    delete_topic(cluster, topic)
    with pytest.raises(Missing):
        delete_topic(cluster, topic)


@pytest.mark.proof
def test_asking_about_a_topic_never_makes_it(name: str) -> None:
    eager = {"auto.create.topics.enable": "true"}
    with Stack.temporary(broker_settings=eager) as stack, Cluster({"bootstrap.servers": stack.bootstrap_servers}) as it:
        with it.views() as views:
            assert views.partitions(name) == [0, 0, 0]
        assert not is_known(it, name)
        with pytest.raises(Missing):
            topic_id_and_partitions(it, name)
        assert name not in it.topic_names()
