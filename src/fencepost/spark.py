"""Streams of one's own: a guarantee for what `writeStream.foreachBatch` writes, in any PySpark job.

orders.writeStream.foreachBatch(fencepost.spark.exactly_once("shop", sink={...})).start()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from fencepost.engines.listener import Listener, unheard
from fencepost.engines.spark import user_session
from fencepost.engines.spark.own_stream import OwnStream
from fencepost.engines.spark.source import offsets_json
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
from fencepost.spec import spec_of

__all__ = ["at_least_once", "at_most_once", "configure", "exactly_once", "starting_offsets"]


def exactly_once(
    name: str, *, sink: Mapping[str, Any], kafka: Mapping[str, str] | None = None, listen: Listener = unheard
) -> OwnStream:
    """For foreachBatch: every record's rows are in the sink once. `sink` is as in a pipeline file.

    `kafka`: how to reach the cluster; by default as the stream's source does. `listen` is told of every batch.
    """
    return OwnStream({"name": name, "guarantee": Guarantee.EXACTLY_ONCE, "sink": dict(sink)}, kafka, listen)


def at_least_once(
    name: str, *, sink: Mapping[str, Any], kafka: Mapping[str, str] | None = None, listen: Listener = unheard
) -> OwnStream:
    """The same: a crash may repeat a batch, and none is lost."""
    return OwnStream({"name": name, "guarantee": Guarantee.AT_LEAST_ONCE, "sink": dict(sink)}, kafka, listen)


def at_most_once(
    name: str, *, sink: Mapping[str, Any], kafka: Mapping[str, str] | None = None, listen: Listener = unheard
) -> OwnStream:
    """The same: a crash may lose a batch, and none is repeated."""
    return OwnStream({"name": name, "guarantee": Guarantee.AT_MOST_ONCE, "sink": dict(sink)}, kafka, listen)


def starting_offsets(
    name: str,
    *,
    sink: Mapping[str, Any],
    kafka: Mapping[str, str],
    topics: str | Sequence[str],
    start: str = "earliest",
) -> str:
    """For the option `startingOffsets`: where each partition stands in the sink, or `start` where nothing is stored.

    Spark looks at it only without a checkpoint. Raises RecordsGone where the topic does not hold a position any more.
    """
    named = [topics] if isinstance(topics, str) else list(topics)
    parts = {"name": name, "guarantee": Guarantee.AT_MOST_ONCE, "sink": dict(sink), "kafka": dict(kafka)}
    spec = spec_of({**parts, "source": {"topics": named, "start": start}})
    with closing(spec.sink.kind.ledger(spec.job)) as ledger, Cluster(spec.kafka) as cluster:
        topic = TopicReader(cluster, *named)
        ledger.require_same(name, topic.topic_ids)
        return offsets_json(topic.positions(ledger.positions(name), spec.source.start))


def configure(builder: Any, *, sink: Mapping[str, Any]) -> Any:
    """The SparkSession.builder with everything that a session needs for this sink: jars, workers, strict casts.

    Before anything else of the process starts Spark: most of it is read once.
    """
    parts = {"name": "session", "guarantee": Guarantee.AT_MOST_ONCE, "source": {"topic": "unknown"}}
    spark = user_session.builder_settings(builder)
    return user_session.configure(builder, spec_of({**parts, "sink": dict(sink), "spark": spark}))
