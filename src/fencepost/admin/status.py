"""Where a pipeline is: what its ledger says against what its topics hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from fencepost.admin.stored import stored_state
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
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
    rate: float | None  # rows per second over the last minute; None, as what follows: the sink does not tell
    rows: int | None
    dead: int | None
    last_batch: datetime | None
    taken_out: list[str] = field(default_factory=list)  # topics that were read once, and are not read any more
    uncounted: int = 0  # offsets whose rows and dead letters are in none of these numbers


def pipeline_status(spec: PipelineSpec) -> PipelineStatus:
    with Cluster(spec.kafka) as cluster:
        topic = TopicReader(cluster, *spec.source.origins)
        first, end = topic.bounds(topic.require_same())
    found = stored_state(spec)
    stored = found.stored
    did = found.activity
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
        did.rows_last_minute / 60 if did else None,
        did.rows if did else None,
        did.dead if did else None,
        did.last_batch if did else None,
        found.taken_out(spec),
        did.uncounted if did else 0,
    )
