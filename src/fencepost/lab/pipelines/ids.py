"""Which events are in a topic, and in a sink: by the id in their values."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fencepost.kafka.topic_reader import read_committed
from fencepost.sinks.auditing import CanBeAudited, Columns, LandedRecords
from fencepost.sinks.kind import require_able
from fencepost.spec import PipelineSpec


def ids_in_topic(kafka: Mapping[str, str], topic: str) -> list[int]:
    return [json.loads(record.value() or b"{}")["id"] for record in read_committed(kafka, topic)]


def ids_in_sink(spec: PipelineSpec) -> list[int]:
    """Read by a client that no writer uses, where there is one; nothing where there is no target yet."""
    kind = require_able(spec.sink.kind, CanBeAudited, spec.sink.format, "be read")
    landed = kind.what_landed(spec.job, Columns("id"))
    if isinstance(landed, LandedRecords):
        return [id_ for topic in landed.topics for id_ in ids_in_topic(spec.kafka, topic)]
    return [int(id_) for id_ in landed.rows.arrow().column("id").to_pylist()]
