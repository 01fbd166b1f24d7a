"""What is open for one run of somebody's own query, and the checks before its first batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic

from pyspark.sql import DataFrame, SparkSession

from fencepost.delivery import Ledger, Observer
from fencepost.engines.spark.authentication import runs_here
from fencepost.engines.spark.batches import BatchCarrier
from fencepost.engines.spark.own_rows import own_rows
from fencepost.engines.spark.ownership import Guard, OwnershipWatch, guard_of
from fencepost.engines.spark.plan import spans_below, wide_node
from fencepost.engines.spark.prepared import prepared
from fencepost.engines.spark.query import Reads, RunningQuery
from fencepost.errors import CheckpointMismatch, Fenced, FencepostError, Unknown, Unreachable, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
from fencepost.model import Tenure, TopicPartition
from fencepost.rules.findings import require
from fencepost.rules.reader import source_findings, stream_findings
from fencepost.sinks.kind import ForgetsPositions, TakesFrames
from fencepost.spec import PipelineSpec

_TO_GET_IN = ("bootstrap.servers", "sasl.", "security.", "ssl.")  # how what we need of Kafka's settings begins
_CONTINUE = (  # where a checkpoint does not fit
    "records would be repeated or skipped: give the stream a new checkpointLocation, and "
    '.option("startingOffsets", fencepost.spark.starting_offsets(...)), which continues at the stored positions'
)

Owned = Callable[[Ledger, Reads, Mapping[str, str]], Tenure]


@dataclass
class OwnTerm:
    """Closed once: at its query's end, or when the next one begins."""

    query: RunningQuery
    carrier: BatchCarrier
    open: ExitStack
    guard: Guard
    until: float = inf  # a ledger that forgets positions must hear of all of them again

    def ended(self, query: RunningQuery, reads: Reads) -> bool:
        """Is this batch another query's, of partitions that were added, or too late?"""
        known = self.carrier.tenure.positions.keys() >= reads.spans.keys()
        return query.run != self.query.run or not known or monotonic() > self.until

    def explained(self, error: BaseException) -> BaseException:
        """Fenced in place of no answer, where another run owns the positions now: taking over ends connections."""
        may_be_lost = self.carrier.guarantee is Guarantee.AT_MOST_ONCE and isinstance(error, Unknown)
        if isinstance(error, Unreachable | Unknown) and not may_be_lost:
            try:
                with self.guard() as ask:
                    ask()
            except Fenced as fenced:
                return fenced
            except FencepostError:
                return error
        return error

    def close(self) -> None:
        self.open.close()


def kafka_of(query: RunningQuery) -> dict[str, str]:
    """How its sources get in. Raises Usage where they read different clusters."""
    named = [_kafka_block(options) for options in query.source_options()]
    if any(other != named[0] for other in named):
        raise Usage("the stream reads several clusters", "use a stream for each")
    return named[0]


def _kafka_block(options: Mapping[str, str]) -> dict[str, str]:
    plain = {name[len("kafka.") :]: value for name, value in options.items() if name.lower().startswith("kafka.")}
    return {name: value for name, value in plain.items() if name.startswith(_TO_GET_IN)}


def require_settings(spec: PipelineSpec, spark: SparkSession, query: RunningQuery) -> None:
    """Refuse what breaks the guarantee, in the live session and in the sources."""
    found = {**spark.conf.getAll, **({"asyncProgressTrackingEnabled": "true"} if query.is_async else {})}
    of_sources = [finding for options in query.source_options() for finding in source_findings(options)]
    require(spec.guarantee, [*stream_findings(found), *of_sources])


def open_term(spec: PipelineSpec, query: RunningQuery, records: DataFrame, owned: Owned, see: Observer) -> OwnTerm:
    """Raises before anything is taken from anybody where something does not fit."""
    reads, kind = query.reads(), spec.sink.kind
    with ExitStack() as stack:
        topic = TopicReader(stack.enter_context(Cluster(spec.kafka)), *spec.source.origins)
        with closing(kind.ledger(spec.job)) as ledger:
            ledger.require_same(spec.name, topic.topic_ids)
            stored = ledger.positions(spec.name)
            require_fit(query, reads, stored)
            require_from_the_start(query, reads, stored, topic)
        rows = own_rows(records, spec)
        below = spans_below(records, reads.records, query.nodes()).below
        node = wide_node(rows.for_partitions(rows.made(records)), below)
        here = runs_here(records.sparkSession.sparkContext.master or "")
        sink = stack.enter_context(prepared(spec, rows, node, here))
        tenure = owned(sink.ledger, reads, topic.topic_ids)
        require_fit(query, reads, tenure.positions)
        require_one_step(query, reads, tenure.positions, node is not None or isinstance(kind, TakesFrames))
        carrier = BatchCarrier(
            records.sparkSession,
            rows,
            spec.guarantee,
            kind,
            sink.target,
            tenure,
            before_batch=topic.require_same,
            require_readable=lambda _: topic.positions(sink.ledger.positions(spec.name), spec.source.start),
            see=see,
            task_target=sink.task_target,
            small=spec.batch.small,
        )
        stack.enter_context(closing(carrier))
        guard = partial(guard_of, kind, sink.target, tenure)
        stack.enter_context(OwnershipWatch(guard))  # standbys see it alive
        until = monotonic() + kind.expires_after(spec.job) / 4 if isinstance(kind, ForgetsPositions) else inf
        return OwnTerm(query, carrier, stack.pop_all(), guard, until)


def require_fit(query: RunningQuery, reads: Reads, stored: Mapping[TopicPartition, int]) -> None:
    """Refuse a batch that begins elsewhere than where its partitions stand; at its end they stand after a replay."""
    wrong = [at for at, span in sorted(reads.spans.items()) if stored.get(at, span.start) not in (span.start, span.end)]
    if wrong:
        raise _mismatch(query, reads, stored, wrong)


def require_from_the_start(
    query: RunningQuery, reads: Reads, stored: Mapping[TopicPartition, int], topic: TopicReader
) -> None:
    """Refuse to begin behind the first record of a partition that was added to a topic that is read already."""
    known = {at.topic for at in stored}
    added = [at for at in sorted(reads.spans) if at not in stored and at.topic in known]
    first, _ = topic.bounds(added) if added else ({}, {})
    if late := [at for at in added if reads.spans[at].start > first[at]]:
        where = "; ".join(f"{at} begins at {first[at]}, and the batch is {reads.spans[at]}" for at in late)
        raise CheckpointMismatch(
            f"the checkpoint {query.checkpoint} does not fit what is stored: {where}, though nothing of it was read",
            _CONTINUE,
        )


def require_one_step(query: RunningQuery, reads: Reads, stored: Mapping[TopicPartition, int], whole: bool) -> None:
    """Refuse a batch that lands as a whole, where an earlier attempt has landed some of its partitions alone."""
    landed = {at for at, span in reads.records.items() if stored[at] == span.end}
    if whole and 0 < len(landed) < len(reads.records):
        raise _mismatch(query, reads, stored, sorted(reads.records))


def _mismatch(
    query: RunningQuery, reads: Reads, stored: Mapping[TopicPartition, int], wrong: Iterable[TopicPartition]
) -> CheckpointMismatch:
    where = "; ".join(f"{at}: the stored position is {stored[at]}, and the batch is {reads.spans[at]}" for at in wrong)
    return CheckpointMismatch(
        f"the checkpoint {query.checkpoint} does not fit what is stored: {where}",
        _CONTINUE,
    )
