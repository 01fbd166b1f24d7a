"""Where the demo's events go: a pipeline file for each target, and what is there, all through the sink's own kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.errors import Unreachable, Usage
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic, end_offsets
from fencepost.lab.pipelines.ids import ids_in_sink
from fencepost.local import Stack
from fencepost.machine.progress import Advance
from fencepost.sinks import registry
from fencepost.sinks.demo import CanBeShown, Demo
from fencepost.sinks.kind import require_able
from fencepost.spec import PipelineSpec, load

TOPIC = "orders"
PARTITIONS = 4
SOURCE = {
    "topic": TOPIC,
    "value": "json",
    "schema": "id long, customer string, amount decimal(10,2), placed_at timestamp",
}


@dataclass(frozen=True)
class Shown:
    """A kind of sink that can be shown."""

    format: str
    demo: Demo


def sink_called(name: str | None) -> Shown:
    """The kind of this name, or the first that can be shown. Raises Usage."""
    if name is None:
        first, found = registry.able(CanBeShown)
        return Shown(first, found.demo)
    return Shown(name, require_able(registry.kind(name), CanBeShown, name, "be shown in the demo").demo)


def declare(sink: Shown, stack: Stack, folder: Path, name: str, target: str, batch: int) -> Path:
    """A pipeline's file. Topics among its targets are made; everything else its first run makes."""
    options = sink.demo.options(target, stack.dsn, folder)
    declared: Mapping[str, Any] = {
        "name": name,
        "guarantee": "exactly-once",
        "kafka": {"bootstrap.servers": stack.bootstrap_servers},
        "source": SOURCE,
        "transform": {"sql": sink.demo.transform},
        "sink": {"format": sink.format, "options": options},
        "batch": {"records": batch, "every": "100ms"},
    }
    file = folder / f"{name}.yml"
    file.write_text(json.dumps(declared))
    spec = load(file)
    with Cluster(spec.kafka) as cluster:
        for topic in spec.sink.options.topics_written:
            create_topic(cluster, TopicRequest(topic, PARTITIONS))
    return file


class Progress:
    """How far the pipeline is, read from its own ledger; shown as it moves."""

    def __init__(self, spec: PipelineSpec, show: Advance) -> None:
        self._spec = spec
        self._show = show
        self._last = 0

    def __call__(self) -> int:
        try:
            with closing(self._spec.sink.kind.ledger(self._spec.job)) as store:
                self._last = sum(store.positions(self._spec.name).values())
        except (Unreachable, Usage):
            pass  # a broker is being killed, or the first run has not made its table yet
        self._show(self._last)
        return self._last

    def reached(self, wanted: float) -> bool:
        return self() >= wanted


def count_in_sink(spec: PipelineSpec) -> int:
    """How many rows or records are there, 0 where nothing is yet."""
    if topics := spec.sink.options.topics_written:
        with Cluster(spec.kafka) as cluster:
            return sum(end_offsets(cluster, topics).values())
    try:
        return len(ids_in_sink(spec))
    except Usage:
        return 0
