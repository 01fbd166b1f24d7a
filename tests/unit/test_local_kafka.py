"""The settings of the nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.local import kafka, wire
from fencepost.local.kafka import Tuning, properties

PORTS = {
    "controller": {"CONTROLLER": 100},
    "broker-1": {"CLIENT": 11, "INTERNAL": 12, "DIRECT": 13},
    "broker-2": {"CLIENT": 21, "INTERNAL": 22, "DIRECT": 23},
    "broker-3": {"CLIENT": 31, "INTERNAL": 32, "DIRECT": 33},
    "postgres": {"SQL": 5},
}


def settings(name: str, tuning: Tuning | None = None) -> dict[str, str]:
    lines = properties(name, PORTS, tuning or Tuning()).splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def test_the_controller_is_apart_from_the_brokers() -> None:
    found = settings("controller")
    assert (found["node.id"], found["process.roles"]) == ("100", "controller")
    assert found["listeners"] == "CONTROLLER://127.0.0.1:100"
    assert "advertised.listeners" not in found
    assert settings("broker-2")["process.roles"] == "broker"
    assert settings("broker-2")["controller.quorum.voters"] == "100@127.0.0.1:100"


def test_a_broker_has_three_listeners_on_the_loopback_address() -> None:
    found = settings("broker-2")
    assert found["listeners"] == "CLIENT://127.0.0.1:21,INTERNAL://127.0.0.1:22,DIRECT://127.0.0.1:23"
    assert found["advertised.listeners"] == found["listeners"]
    assert found["inter.broker.listener.name"] == "INTERNAL"


def test_an_address_is_replaced_for_one_listener_of_one_broker() -> None:
    tuning = Tuning(advertise={"broker-2/CLIENT": 999})
    told = settings("broker-2", tuning)["advertised.listeners"]
    assert told == "CLIENT://127.0.0.1:999,INTERNAL://127.0.0.1:22,DIRECT://127.0.0.1:23"
    assert settings("broker-2", tuning)["listeners"] == settings("broker-2")["listeners"]
    assert settings("broker-1", tuning) == settings("broker-1")


def test_a_broker_may_find_the_controller_by_a_way_of_its_own() -> None:
    tuning = Tuning(advertise={"broker-2/CONTROLLER": 999})
    assert settings("broker-2", tuning)["controller.quorum.voters"] == "100@127.0.0.1:999"
    assert settings("broker-2", tuning)["advertised.listeners"] == settings("broker-2")["advertised.listeners"]
    assert [settings(name, tuning) for name in ("broker-1", "controller")] == [
        settings("broker-1"),
        settings("controller"),
    ]


def test_nothing_is_acknowledged_by_one_broker_alone() -> None:
    found = settings("broker-1")
    assert (found["default.replication.factor"], found["min.insync.replicas"]) == ("3", "2")
    assert (found["transaction.state.log.replication.factor"], found["transaction.state.log.min.isr"]) == ("3", "2")
    assert found["offsets.topic.replication.factor"] == "3"
    assert found["auto.create.topics.enable"] == "false"


def test_kafkas_own_timeouts_unless_asked() -> None:
    assert "broker.session.timeout.ms" not in settings("broker-1")
    assert settings("broker-1", Tuning(quick_timeouts=True))["broker.session.timeout.ms"] == "2000"


def test_what_the_user_sets_comes_last() -> None:
    tuning = Tuning(quick_timeouts=True, broker_settings={"min.insync.replicas": "1", "log.segment.bytes": "1048576"})
    found = settings("broker-1", tuning)
    assert (found["min.insync.replicas"], found["log.segment.bytes"]) == ("1", "1048576")


def test_a_broker_is_formatted_once(tmp_path: Path) -> None:
    kafka.format_broker(tmp_path, 1, "cluster")
    first = (tmp_path / "data" / "meta.properties").read_text()
    assert first.startswith("version=1\ncluster.id=cluster\nnode.id=1\ndirectory.id=")
    kafka.format_broker(tmp_path, 1, "another")
    assert (tmp_path / "data" / "meta.properties").read_text() == first


def view(brokers: set[int], *partitions: tuple[int, tuple[int, ...]]) -> wire.Metadata:
    """What one broker says: who is there, and of each partition its leader and its in-sync set."""
    everyone = (1, 2, 3)
    parts = (wire.Partition("t", n, leader, everyone, isr) for n, (leader, isr) in enumerate(partitions))
    return wire.Metadata(frozenset(brokers), tuple(parts))


GOOD = view({1, 2, 3}, (1, (1, 2, 3)), (2, (3, 2, 1)))


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ([GOOD, GOOD, GOOD], True),
        ([GOOD, GOOD, view({1, 2}, (1, (1, 2, 3)))], False),  # one has not heard of a broker yet
        ([GOOD, view({1, 2, 3}, (1, (1, 2, 3)), (2, (2, 3))), GOOD], False),
        ([view({1, 2, 3}, (-1, (1, 2, 3))), GOOD, GOOD], False),
        ([GOOD, GOOD, None], False),
    ],
)
def test_in_sync_is_what_all_brokers_agree_on(
    monkeypatch: pytest.MonkeyPatch, said: list[wire.Metadata | None], whole: bool
) -> None:
    def metadata(port: int) -> wire.Metadata:
        if (answer := said[port]) is None:
            raise wire.NoAnswer
        return answer

    monkeypatch.setattr(wire, "metadata", metadata)
    assert kafka.in_sync({1: 0, 2: 1, 3: 2}) is whole


def test_an_id_is_never_taken_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    import uuid

    drawn = iter([uuid.UUID(bytes=b"\xfb" + b"\0" * 15), uuid.UUID(bytes=b"\0" * 16)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(drawn))
    assert kafka.new_id() == "A" * 22
