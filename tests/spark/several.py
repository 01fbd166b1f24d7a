"""Two topics with different numbers of partitions into one table, and what came out of them, by place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.kafka.topic_reader import read_committed
from fencepost.lab.crash import visits
from spark.drivers import pipeline_process
from spark.flows import SCHEMA, Flow

Place = tuple[str, int, int]


@dataclass
class Flows(Flow):
    """The pipeline and the table have the name of the first topic; `second` has one partition more."""

    second: Flow = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.second = Flow(self.stack, self.folder, self.partitions + 1)

    def source(self, *topics: str, **more: Any) -> dict[str, Any]:
        return {"topics": list(topics or (self.name, self.second.name)), "value": "json", "schema": SCHEMA, **more}

    def declare(self, **parts: Any) -> Path:
        return super().declare(**{"source": self.source(), **parts})

    def sent(self, *topics: str) -> Counter[Place]:
        """The committed records of these topics, or of both."""
        records = [record for name in topics or (self.name, self.second.name) for record in self._read(name)]
        return Counter(records)

    def _read(self, topic: str) -> list[Place]:
        return [(topic, record.partition() or 0, record.offset() or 0) for record in read_committed(self.kafka, topic)]

    def arrived(self) -> Counter[Place]:
        return Counter(self.sql(f"SELECT _topic, _partition, _offset FROM {self.name}"))

    def places(self) -> dict[tuple[str, int], int]:
        """What is stored for the pipeline."""
        rows = self.sql("SELECT topic, partition, position FROM fencepost.positions WHERE pipeline = %s", self.name)
        return {(topic, partition): position for topic, partition, position in rows}

    def killed_half_way(self, witness: Path, **parts: Any) -> None:
        """A run that is killed right after the first commit of partition 1 of the second topic."""
        crash = ["--crash", "delivered", "1", "stop", str(witness)]
        with pipeline_process(self.declare(**parts), "--once", *crash) as driver:
            driver.wait_until(lambda: visits(witness), "a batch of the second topic is committed")
            driver.kill()
        assert self.places()[self.second.name, 1] > 0
        assert 0 < self.arrived().total() < self.sent().total()
