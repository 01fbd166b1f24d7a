"""Where a pipeline is: what its ledger says against what its topic holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fencepost.cluster.client import Cluster
from fencepost.cluster.positions import TopicReader
from fencepost.model import TopicPartition
from fencepost.sinks.postgres.reading import activity, reader, stored_positions
from fencepost.spec import PipelineSpec


@dataclass(frozen=True)
class PartitionStatus:
    topic: str
    partition: int
    position: int | None  # None: not read yet
    end: int
    lag: int
    owner: str | None
    epoch: int | None


@dataclass(frozen=True)
class PipelineStatus:
    pipeline: str
    guarantee: str
    partitions: list[PartitionStatus]
    lag: int
    rate: float  # rows per second over the last minute
    rows: int
    dead: int
    last_batch: datetime | None


def pipeline_status(spec: PipelineSpec) -> PipelineStatus:
    options = spec.postgres
    topic = TopicReader(Cluster(spec.kafka), spec.source.topic)
    first, end = topic.bounds(topic.require_same())
    with reader(options.dsn or "") as connection:
        stored = {
            TopicPartition(row.topic, row.partition): row
            for row in stored_positions(connection, options.ledger_schema, spec.name)
        }
        did = activity(connection, options.ledger_schema, spec.name)
    partitions = []
    for at in sorted({*end, *stored}):
        row = stored.get(at)
        upto = end.get(at, row.position if row else 0)
        position = row.position if row else first.get(at, 0)
        owner, epoch = (str(row.owner), row.epoch) if row else (None, None)
        lag = max(upto - position, 0)
        partitions.append(PartitionStatus(*at, row.position if row else None, upto, lag, owner, epoch))
    return PipelineStatus(
        spec.name,
        spec.guarantee.value,
        partitions,
        sum(at.lag for at in partitions),
        did.rows_last_minute / 60,
        did.rows,
        did.dead,
        did.last_batch,
    )
