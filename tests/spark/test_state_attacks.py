"""Streams that keep state, as people come to use them: folders of any name, topics that come and go, and ways out that
are followed to the letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as DriverPartition
from typer.testing import CliRunner

from fencepost.admin.plan import plan_pipeline
from fencepost.cli.app import app
from fencepost.errors import CheckpointMismatch, PositionLost, RecordsGone, Refused, TopicRecreated, Usage
from fencepost.kafka.topics import TopicRequest, create_topic, delete_topic
from fencepost.lab.crash import Crash, CrashAction, CrashPoint
from fencepost.local import Stack
from fencepost.model import Step
from fencepost.spec import load
from spark.streams import SCHEMA, Event, StateFlow, spread

# each user's sum as it grows, over all topics
BY_USER = """
from pyspark.sql import functions as f


def made(events):
    return events.groupBy("user").agg(f.count("*").alias("n"), f.sum("v").alias("v"))
"""


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> StateFlow:
    return StateFlow(stack, tmp_path)


@pytest.mark.proof
def test_a_checkpoint_may_be_in_a_folder_of_any_name(flow: StateFlow) -> None:
    flow.folder /= "100% a b#?{c}*\N{LATIN SMALL LETTER U WITH DIAERESIS}"
    flow.folder.mkdir()
    before = {path.name for path in flow.folder.parent.iterdir()}
    for begin in (0, 60):
        flow.send(spread(range(begin, begin + 60)))
        flow.run()
    assert flow.assert_modelled() > 10
    assert {path.name for path in flow.folder.parent.iterdir()} == before


# -- topics that come and go


class SumsFlow(StateFlow):
    """Of two topics, the second of which was not read at first."""

    code, columns = BY_USER, '"user", n, v'

    def __post_init__(self) -> None:
        super().__post_init__()
        self.second = f"{self.name}_2"
        create_topic(self.cluster, TopicRequest(self.second, 1))

    def send_second(self, ids: range) -> None:
        producer = Producer(self.kafka)
        for id_ in ids:
            producer.produce(self.second, Event(id_, "second", id_).value(), partition=0)
        assert producer.flush(60) == 0

    def declare(self, **parts: Any) -> Path:
        topics, start = parts.pop("topics", [self.name]), parts.pop("start", "earliest")
        source = {"topics": topics, "start": start, "value": "json", "schema": SCHEMA}
        update = {"more": {"output_mode": "update"}, "options": {"mode": "upsert", "key": ["user"]}}
        return super().declare(**{"source": source, **update, **parts})

    @property
    def both(self) -> list[str]:
        return [self.name, self.second]


@pytest.fixture
def sums(stack: Stack, tmp_path: Path) -> SumsFlow:
    flow = SumsFlow(stack, tmp_path)
    flow.send_second(range(10))
    flow.send(spread(range(60), users=1))
    flow.run()
    assert flow.rows() == [("u0", 60, sum(range(60)))]
    return flow


@pytest.mark.proof
@pytest.mark.parametrize("start", ["earliest", "latest", "offset"])
def test_a_topic_that_is_added_begins_where_the_file_says(sums: SumsFlow, start: str) -> None:
    """Spark alone would read it from its first record."""
    begins: Any = {sums.second: {0: 4}} if start == "offset" else start
    sums.run(topics=sums.both, start=begins)
    sums.send_second(range(10, 20))
    sums.send(spread(range(60, 100), users=1))
    sums.run(topics=sums.both, start=begins)
    expected = {"earliest": 20, "latest": 10, "offset": 16}[start]
    assert {user: n for user, n, _ in sums.rows()} == {"u0": 100, "second": expected}


def test_a_topic_that_is_added_may_have_lost_its_first_records(sums: SumsFlow) -> None:
    at = DriverPartition(sums.second, 0, 5)
    sums.cluster.admin.delete_records([at])[DriverPartition(sums.second, 0)].result(60)
    for _ in range(2):
        sums.run(topics=sums.both)
        assert {user: n for user, n, _ in sums.rows()} == {"u0": 60, "second": 5}


@pytest.mark.proof
def test_a_topic_that_the_state_was_made_from_is_read_on_or_the_state_built_anew(sums: SumsFlow) -> None:
    sums.run(topics=sums.both)
    before = sums.stored_batches()
    with pytest.raises(CheckpointMismatch, match=f"made from {sums.second}, too") as refused:
        sums.run()
    assert f"name it again under source; or {ANEW}" == refused.value.remedy
    assert sums.stored_batches() == before
    rebuilt(sums)
    sums.run()
    assert sums.rows() == [("u0", 60, sum(range(60)))]


# -- ways out

ANEW = "build the state anew, into an empty table: fencepost state rebuild --to earliest (docs/state.md)"


def rebuilt(flow: StateFlow, to: str = "earliest", **parts: Any) -> None:
    flow.sql(f"TRUNCATE {flow.name}")
    told = CliRunner().invoke(app, ["state", "rebuild", "--to", to, "--yes", "--spec", str(flow.declare(**parts))])
    assert told.exit_code == 0, (told.output, told.exception)


@pytest.mark.proof
def test_partitions_that_a_rebuilding_does_not_name_stay_where_they_are(sums: SumsFlow) -> None:
    rebuilt(sums, "0:20")
    sums.run()
    assert sums.rows() == [("u0", 10, sum(range(40, 60, 2)))]


def recreated(flow: StateFlow) -> None:
    delete_topic(flow.cluster, flow.name)
    flow.make_topic()
    flow.send(spread(range(60, 120)))


def deleted(flow: StateFlow) -> None:
    flow.send(spread(range(60, 120)))
    flow.delete_before(0, 40)


def unknown(flow: StateFlow) -> None:
    flow.sql("DELETE FROM fencepost.positions WHERE pipeline = %s", flow.name)
    flow.sql("DELETE FROM fencepost.streams WHERE pipeline = %s", flow.name)
    flow.root.rename(flow.folder / "elsewhere")


LOST: dict[str, tuple[Callable[[StateFlow], None], type[PositionLost]]] = {
    "the topic was created again": (recreated, TopicRecreated),
    "records are gone": (deleted, RecordsGone),
    "nobody knows the positions": (unknown, PositionLost),
}


@pytest.mark.proof
@pytest.mark.parametrize("what", LOST)
def test_where_positions_are_lost_the_state_is_built_anew_as_is_said(flow: StateFlow, what: str) -> None:
    """They cannot be set by hand."""
    lose, kind = LOST[what]
    flow.send(spread(range(60)))
    flow.run()
    lose(flow)
    for look in (flow.run, lambda: plan_pipeline(load(flow.declare()), offline=False)):
        with pytest.raises(kind) as lost:
            look()
        assert lost.value.remedy == ANEW
    rebuilt(flow)
    assert flow.run().rows == len(flow.rows()) > 3


# -- what the system does not give


def loop(folder: Path) -> str:
    (folder / "loop").symlink_to("loop")
    return "loop"


REFUSED: dict[str, Callable[[Path], str]] = {
    "a name that is too long": lambda _: "x" * 300,
    "a link to itself": loop,
    "a file": lambda _: "made.py",
    "a place where nobody may write": lambda _: "/proc/state",
}


@pytest.mark.proof
@pytest.mark.parametrize("what", REFUSED)
def test_a_folder_that_cannot_be_had_is_refused_with_what_to_see_to(flow: StateFlow, what: str) -> None:
    flow.send(spread(range(10)))
    with pytest.raises(Refused, match=r"the checkpoint .* cannot be used: ") as refused:
        flow.run(checkpoint=REFUSED[what](flow.folder))
    assert refused.value.remedy == "see that its folder can be written to, and run again"
    flow.run()


@pytest.mark.proof
def test_spark_keeps_the_batch_before_the_last_one(flow: StateFlow) -> None:
    """It clears older ones away as soon as it has planned the next."""
    name = "spark.sql.streaming.minBatchesToRetain"
    flow.send(spread(range(200)))
    with pytest.raises(Usage, match=f"{name} is 1"):
        flow.run(spark={name: "1"})
    crash = CrashPoint(Step.WRITTEN, flow.partition(1), CrashAction.FAIL, flow.folder / "witness", time=4)
    with pytest.raises(Crash):
        flow.run(see=crash, spark={name: "2"})
    flow.run(spark={name: "2"})
    assert {path.name for path in (flow.root / flow.last()[1] / "commits").glob("[0-9]*")} != set()
    assert flow.rows()
