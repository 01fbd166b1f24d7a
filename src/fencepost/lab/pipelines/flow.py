"""One topic, one pipeline and its target, made for one trial: what goes in, what came out, by id."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import TopicPartition as DriverPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from fencepost.audit.compare import Comparison, compare_sink
from fencepost.errors import Unreachable, Usage
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
from fencepost.kafka.topics import TopicRequest, create_topic, delete_topic, describe_topic, end_offsets
from fencepost.lab.pipelines.cut_input import CutOnce
from fencepost.lab.pipelines.ids import ids_in_sink
from fencepost.lab.scenario import Engine, Scenario
from fencepost.lab.scenarios.field import QUICK, Field
from fencepost.lab.scenarios.shown import counted
from fencepost.model import TopicPartition
from fencepost.producing.sending import Event, send
from fencepost.sinks import registry
from fencepost.sinks.demo import CanBeShown
from fencepost.sinks.kind import require_able
from fencepost.spec import PipelineSpec, load

PARTITIONS = 2
LOCAL: Mapping[str, str] = {"spark.master": "local[2,4]"}  # four attempts of a task
TIMEOUT = 60.0
# a member that is gone or stands still is missed soon
_MEMBER = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "300", "max.poll.interval.ms": "300000"}
_JSON = {"value": "json", "schema": "id long"}
ROWS = 50


class Flow:
    """Records are spread over the partitions by their id."""

    def __init__(self, field: Field, folder: Path, scenario: Scenario, rows: int = ROWS) -> None:
        """`rows`: how many the python engine takes at once."""
        self.field = field
        self.folder = folder
        self.scenario = scenario
        self._rows = rows
        self.topic = self.name = f"lab_{uuid4().hex[:10]}"  # of the pipeline; it may get another one
        self.sent: list[int] = []
        self.bad = 0  # records that cannot be read
        self.partitions = PARTITIONS
        self.cut: CutOnce | None = None  # the transform, on Spark, in place of the usual one
        self.spark = LOCAL
        self._direct = {"bootstrap.servers": field.stack.direct_servers}
        self.make_topic()
        if self._to_topic:
            self._create(self.target, PARTITIONS)

    # -- what is declared

    @property
    def target(self) -> str:
        return f"{self.topic}_out" if self._to_topic else self.topic

    @property
    def _to_topic(self) -> bool:
        return self.scenario.sink == "kafka"

    @property
    def _kafka(self) -> dict[str, str]:
        """Through the proxies."""
        servers = {"bootstrap.servers": self.field.stack.bootstrap_servers, "client.id": self.name}
        return {**servers, **QUICK, **_MEMBER} if self.scenario.engine is Engine.PYTHON else servers

    def declare(self, guarantee: Guarantee, *, fail_on_data_loss: bool = True) -> Path:
        """The pipeline's file."""
        path = self.folder / "fencepost.yml"
        path.write_text(json.dumps(self.declared(guarantee, fail_on_data_loss=fail_on_data_loss)))
        path.chmod(0o600)
        return path

    def declared(self, guarantee: Guarantee, *, fail_on_data_loss: bool = True) -> Mapping[str, Any]:
        """What is in it."""
        demo = require_able(registry.kind(self.scenario.sink), CanBeShown, self.scenario.sink, "be played").demo
        spark = self.scenario.engine is Engine.SPARK
        source = {"topic": self.topic, "failOnDataLoss": fail_on_data_loss, **({} if self._to_topic else _JSON)}
        transform = (
            self.cut.in_file(self.folder)
            if self.cut
            else {"sql": " ".join(["SELECT", ", ".join(self.columns), "FROM events"])}
        )
        return {
            "name": self.name,
            "guarantee": guarantee.value,
            "engine": self.scenario.engine.value,
            "kafka": self._kafka,
            "source": source,
            "sink": {
                "format": self.scenario.sink,
                "options": demo.options(self.target, self.field.dsn, self.folder),
            },
            "batch": {"small": 0} if spark else {"records": self._rows},
            **({"transform": transform, "spark": dict(self.spark)} if spark else {}),
            **({"on_error": "dead_letter"} if self.scenario.dead_letters else {}),
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """What goes to the sink."""
        return ("key", "value", "headers", "_from") if self._to_topic else ("id", "_from")

    def rename(self) -> None:
        """The same pipeline under another name, from the next `declare` on."""
        self.name = f"{self.name}_again"

    def spec(self) -> PipelineSpec:
        return load(self.folder / "fencepost.yml")

    # -- the topic

    def make_topic(self) -> None:
        self._create(self.topic, self.partitions)

    def _create(self, name: str, partitions: int) -> None:
        with Cluster(self._direct) as cluster:
            create_topic(cluster, TopicRequest(name, partitions))

    def recreate_topic(self) -> None:
        with Cluster(self._direct) as cluster:
            delete_topic(cluster, self.topic)
        self.make_topic()

    def add_partitions(self, partitions: int) -> None:
        self.partitions = partitions
        with Cluster(self._direct) as cluster:
            cluster.admin.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result(TIMEOUT)
            self.field.await_true(
                lambda: len(describe_topic(cluster, self.topic).partitions) == partitions, "no leader"
            )

    def delete_before(self, partition: int, offset: int) -> None:
        """Records that are gone on return."""
        at = TopicPartition(self.topic, partition)
        with Cluster(self._direct) as cluster:
            cluster.admin.delete_records([DriverPartition(*at, offset)])[DriverPartition(*at)].result(TIMEOUT)
            reader = TopicReader(cluster, self.topic)
            self.field.await_true(lambda: reader.bounds([at])[0][at] == offset, f"{at} does not begin at {offset}")

    def ends(self) -> dict[int, int]:
        with Cluster(self._direct) as cluster:
            return {at.partition: end for at, end in end_offsets(cluster, [self.topic]).items()}

    def produce(self, ids: Iterable[int], bad: int = 0) -> None:
        """One record for each id, and so many that cannot be read; all of them are in the log on return."""
        wanted = list(ids)
        events = [self.event(id_) for id_ in wanted]
        events += [self.event(number)._replace(value=b'{"id": "no number"}') for number in range(bad)]
        totals = send(self._direct, self.topic, events)
        if not totals.all_acked:
            raise Unreachable(f"not every record was acknowledged: {totals.reason}")
        self.sent += wanted
        self.bad += bad

    def event(self, id_: int) -> Event:
        return Event(json.dumps({"id": id_}).encode(), str(id_).encode(), partition=id_ % self.partitions)

    # -- what came out

    def positions(self) -> dict[int, int]:
        """Of the pipeline, by partition; none where nothing is stored yet."""
        spec = self.spec()
        try:
            with closing(spec.sink.kind.ledger(spec.job)) as store:
                return {at.partition: position for at, position in store.positions(self.name).items()}
        except Usage:
            return {}

    def landed(self) -> list[int]:
        """Every id, read by a client that no writer uses, where there is one."""
        return ids_in_sink(self.spec())

    def counted(self, before: list[int], *, stopped: str) -> tuple[Comparison, Counter[Anomaly]]:
        """Every id that was sent is looked for. Of a run that stopped: all from before, and what it went on with."""
        landed, expected = self.landed(), self.sent
        if stopped:
            expected = [*before, *(set(landed) & set(self.sent) - set(before))]
        result = compare_sink(expected, landed)
        return result, counted(result)
