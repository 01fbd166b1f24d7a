"""Remedies about how a topic is kept, followed: the same producer is taken, and the plan warns no more."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from consuming.relays import Relay
from fencepost.admin.plan import PARTITIONS_ADDED, plan_pipeline
from fencepost.errors import UnsupportedGuarantee
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import wait_until
from fencepost.kafka.config.producer import Declaration
from fencepost.kafka.topics import TopicRequest, create_topic, delete_topic
from fencepost.local import Stack
from fencepost.spec import load
from remedies.tools import kafka_tool


def _set(relay: Relay, name: str, value: str) -> None:
    """As `kafka-configs.sh --alter` does."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, relay.name, incremental_configs=[entry])
    relay.cluster.admin.incremental_alter_configs([resource])[resource].result(30)


def _refused(relay: Relay) -> UnsupportedGuarantee:
    """By a producer, which writes nothing; the plan of a pipeline only warns of what others wrote."""
    with pytest.raises(UnsupportedGuarantee) as refused:
        _declare(relay, Guarantee.EXACTLY_ONCE)
    assert any(refused.value.reason in warning for warning in _warnings(relay))
    if refused.value.nearest:
        _declare(relay, refused.value.nearest)
    return refused.value


def _declare(relay: Relay, word: Guarantee) -> None:
    Declaration.of(word, None, None, True).require_topic(relay.cluster, relay.name)


def _warnings(relay: Relay) -> list[str]:
    return plan_pipeline(load(relay.declare()), offline=False).warnings


def _assert_taken(relay: Relay) -> None:
    def taken() -> bool:
        try:
            _declare(relay, Guarantee.EXACTLY_ONCE)
        except UnsupportedGuarantee:
            return False
        return True

    assert wait_until(taken, 30)
    assert _warnings(relay) == []


@pytest.mark.parametrize(
    ("wrong", "remedy", "right"),
    [
        ("min.insync.replicas=1", "min.insync.replicas 2", "min.insync.replicas=2"),
        pytest.param(
            "min.insync.replicas=4", "lower min.insync.replicas", "min.insync.replicas=2", marks=pytest.mark.proof
        ),
        ("unclean.leader.election.enable=true", "", ""),  # the remedy is the setting itself
    ],
)
def test_a_setting_of_the_topic_is_fixed_as_the_remedy_says(
    stack: Stack, tmp_path: Path, wrong: str, remedy: str, right: str
) -> None:
    relay = Relay(stack, tmp_path, 1)
    _set(relay, *wrong.split("="))
    assert wait_until(lambda: _warnings(relay) != [], 30)
    refused = _refused(relay)
    assert remedy in refused.remedy
    _set(relay, *(right or refused.remedy.partition("set ")[2]).split("="))
    _assert_taken(relay)


def test_a_warning_of_partitions_goes_with_order_by(stack: Stack, tmp_path: Path) -> None:
    """And then the highest value has the row, wherever its key goes."""
    relay = Relay(stack, tmp_path, 1)
    relay.produce([0], instead={0: b'{"id": 7, "s": "2"}'})
    upsert: dict[str, Any] = {"options": {"mode": "upsert", "key": ["id"]}}
    relay.run(**upsert)
    relay.add_partitions(2)
    relay.produce([1], instead={1: b'{"id": 7, "s": "1"}'})
    assert plan_pipeline(load(relay.declare(**upsert)), offline=False).warnings == [PARTITIONS_ADDED]
    upsert["options"]["order_by"] = "s"
    assert plan_pipeline(load(relay.declare(**upsert)), offline=False).warnings == []
    relay.run(**upsert)
    assert relay.landed("s") == ["2"]


@pytest.mark.proof
def test_a_topic_gets_its_replicas_by_kafkas_own_tool(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path, 1)
    delete_topic(relay.cluster, relay.name)
    create_topic(relay.cluster, TopicRequest(relay.name, 1, 1))
    relay.produce(range(20))
    assert "give it replication factor 3 and min.insync.replicas 2" in _refused(relay).remedy
    brokers = relay.cluster.brokers()[:3]
    wanted = {"topic": relay.name, "partition": 0, "replicas": brokers}
    plan = tmp_path / "reassign.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    tool = kafka_tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand")
    words = ["--bootstrap-server", stack.bootstrap_servers, "--reassignment-json-file", str(plan), "--execute"]
    done = subprocess.run([*tool, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    _set(relay, "min.insync.replicas", "2")
    _assert_taken(relay)
    relay.run()
    relay.assert_exact(20)
