"""docs/state.md is true: its examples run as they stand, and the way out that it names leads out."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from confluent_kafka import Producer
from typer.testing import CliRunner

from fencepost.cli.app import app
from fencepost.errors import CheckpointMismatch, PositionLost
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.run.pipeline import Pipeline
from spark.flows import SPARK, Flow
from spark.streams import StateFlow, source_part, spread

PAGE = (Path(__file__).parents[2] / "docs" / "state.md").read_text()
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Example:
    """One of the page's files, with names of topics and table that are drawn."""

    stack: Stack
    folder: Path
    name: str

    def __post_init__(self) -> None:
        (functions,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        found = next(
            text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if f"name: {self.name}\n" in text
        )
        self.declared = yaml.safe_load(found.replace("${KAFKA}", self.stack.bootstrap_servers))
        self.mark = uuid4().hex[:8]
        source = self.declared["source"]
        self.topics = {topic: f"{topic}_{self.mark}" for topic in source.get("topics", [source.get("topic")])}
        for topic, drawn in self.topics.items():
            functions = functions.replace(f"'{topic}'", f"'{drawn}'")
            create_topic(Cluster(self.declared["kafka"]), TopicRequest(drawn, 2))
        (self.folder / "transforms.py").write_text(functions)
        self.table = f"{self.name}_{self.mark}"
        source |= {"topics": [*self.topics.values()]} if "topics" in source else {"topic": self.topics[source["topic"]]}
        self.declared["sink"]["options"] |= {"dsn": self.stack.dsn, "table": self.table}
        self.declared |= {"name": self.table, "spark": SPARK}

    def send(self, topic: str, *events: dict[str, Any]) -> None:
        """`at`: minutes after noon."""
        producer = Producer(self.declared["kafka"])
        for number, event in enumerate(events):
            at = (NOON + timedelta(minutes=event["at"])).isoformat()
            producer.produce(self.topics[topic], json.dumps({**event, "at": at}), partition=number % 2)
        assert producer.flush(60) == 0

    def run(self) -> list[tuple[Any, ...]]:
        path = self.folder / f"{self.name}.yml"
        path.write_text(yaml.safe_dump(self.declared))
        Pipeline(path).run(once=True)
        found = Flow.sql(self, f"SELECT * FROM {self.table}")  # type: ignore[arg-type]
        return sorted(tuple(map(_minutes, row)) for row in found)


def _minutes(value: Any) -> Any:
    return (value - NOON).total_seconds() / 60 if isinstance(value, datetime) else value


def test_revenue_per_minute(stack: Stack, tmp_path: Path) -> None:
    revenue = Example(stack, tmp_path, "revenue")
    revenue.send("orders", *({"id": id_, "amount": id_, "at": id_ / 2} for id_ in range(10)))
    minutes = {minute: 4 * minute + 1 for minute in range(5)}
    assert revenue.run() == sorted(minutes.items())
    late, too_late = {"id": 10, "amount": 100, "at": 4.2}, {"id": 11, "amount": 1000, "at": -7}
    revenue.send("orders", late, too_late)
    assert revenue.run() == sorted((minutes | {4: minutes[4] + 100}).items())


@pytest.mark.proof
def test_the_first_sign_in_of_a_day(stack: Stack, tmp_path: Path) -> None:
    first = Example(stack, tmp_path, "sign_ins")
    first.send("sign_ins", {"user": "ann", "at": 0}, {"user": "bob", "at": 3})
    assert first.run() == [("ann", 0), ("bob", 3)]
    day = 24 * 60
    first.send("sign_ins", {"user": "ann", "at": 60}, {"user": "cid", "at": 2 * day + 5})
    assert first.run() == [("ann", 0), ("bob", 3), ("cid", 2 * day + 5)]
    first.send("sign_ins", {"user": "ann", "at": 2 * day})
    assert first.run() == [("ann", 0), ("ann", 2 * day), ("bob", 3), ("cid", 2 * day + 5)]


@pytest.mark.proof
def test_orders_with_the_payment_of_an_hour(stack: Stack, tmp_path: Path) -> None:
    paid = Example(stack, tmp_path, "paid_orders")
    paid.send("orders", *({"id": id_, "amount": 10 * id_, "at": id_} for id_ in range(1, 5)))
    paid.send("payments", {"id": 1, "at": 1}, {"id": 2, "at": 63})
    assert paid.run() == [(1, 10, 1, 1)]
    paid.send("payments", {"id": 3, "at": 60}, {"id": 4, "at": 64}, {"id": 5, "at": 65})
    assert paid.run() == [(1, 10, 1, 1), (3, 30, 3, 60), (4, 40, 4, 64)]


@pytest.mark.proof
def test_who_lost_the_state_builds_it_anew_in_the_emptied_table(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = StateFlow(stack, tmp_path)
    flow.send(spread(range(100)))
    flow.run()
    old = flow.rows()
    damaged = next(flow.root.rglob("offsets/3"))
    damaged.write_text("")
    with pytest.raises(CheckpointMismatch, match="fencepost state rebuild --to earliest"):
        flow.run()
    monkeypatch.chdir(tmp_path)
    command = ["state", "rebuild", "--to", "earliest", "--yes", "--spec", str(flow.declare())]
    full = CliRunner().invoke(app, command)
    assert isinstance(full.exception, PositionLost)
    assert "holds rows" in full.exception.message
    flow.sql(f"TRUNCATE {flow.name}")
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert "100 read again" in told.output
    assert f"{flow.root}.before-1" in told.output
    flow.run()
    assert flow.rows() == old
    flow.send(spread(range(100, 150)))
    flow.run()
    flow.assert_modelled()


@pytest.mark.proof
def test_who_lost_the_state_begins_anew_as_the_page_says(stack: Stack, tmp_path: Path) -> None:
    flow = StateFlow(stack, tmp_path)
    flow.send(spread(range(100)))
    flow.run()
    old = flow.rows()
    shutil.rmtree(flow.root)
    with pytest.raises(CheckpointMismatch, match=r"docs/state\.md"):
        flow.run()
    topic, flow.name = flow.name, f"{flow.name}_anew"
    flow.run(source=source_part(topic))
    assert flow.rows() == old
