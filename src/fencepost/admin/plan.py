"""What a run would do, said without moving anything: the guarantee hop by hop, the settings, the path, the start."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace

import pyarrow as pa

from fencepost.admin.stored import StoredState, stored_state
from fencepost.engines.spark.stateful.takeover import judge_of, not_by_hand
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
from fencepost.kafka.topics import topic_facts
from fencepost.model import Merge, Mode, TopicPartition
from fencepost.rows.shape import Preview
from fencepost.rules.findings import Finding, require
from fencepost.rules.reader import reader_findings
from fencepost.rules.sinks import WritePath, choose_path, merge_findings, require_key, require_letters, sink_findings
from fencepost.rules.topics import loop_findings, topic_findings
from fencepost.sinks.kind import KeepsDeadLetters, MakesFiles, require_able, require_streams
from fencepost.spec import EngineName, PipelineSpec

READER_WHY = {
    Guarantee.AT_MOST_ONCE: "each partition's position moves first, then its rows are written; a retry finds it "
    "moved and skips",
    Guarantee.AT_LEAST_ONCE: "each partition's rows are written first, then its position moves; a crash between "
    "repeats the span",
    Guarantee.EXACTLY_ONCE: "each partition's rows and its position are committed in one transaction, by "
    "compare-and-set under its owner's token",
}
DIRECT_WHY = {
    EngineName.SPARK: "every node of the plan keeps Kafka's partitions apart: one task is one partition and one "
    "transaction",
    EngineName.PYTHON: "a batch is of one partition and one transaction; further runs of the same file share the "
    "partitions",
}
STAGED_WHY = {
    Guarantee.AT_MOST_ONCE: "a batch's rows are staged; all its positions move first, then the rows; after a crash "
    "between the batch is skipped",
    Guarantee.AT_LEAST_ONCE: "a batch's rows are staged and moved first, then all its positions; a crash between "
    "repeats the batch",
    Guarantee.EXACTLY_ONCE: "a batch's rows are staged; then the driver moves them and all its positions in one "
    "transaction, by compare-and-set under its owner's token",
}
WHOLE_WHY = {
    Guarantee.AT_MOST_ONCE: "a batch's positions move first, then its rows are written in one commit; after a crash "
    "between the batch is skipped",
    Guarantee.AT_LEAST_ONCE: "a batch's rows are written in one commit, then its positions move; a crash between "
    "repeats the batch",
    Guarantee.EXACTLY_ONCE: "a batch's rows and all its positions are one commit, on exactly the state that was "
    "compared, under its owner's token",
}
WHYS = {WritePath.DIRECT: READER_WHY, WritePath.STAGED: STAGED_WHY, WritePath.WHOLE: WHOLE_WHY}
STATE_WHY = (
    "its rows are staged, and the driver moves them into the table with all positions and the number of the batch; who "
    "takes over goes on from the state of the last one that landed"
)
OWN_EFFECTS = (
    "your function runs again after a crash or an error: what it returns is covered, what it does elsewhere (a call, "
    "a file, another database) is not"
)

NO_PROVENANCE = (
    "the rows have no provenance (the transform drops _from, or provenance is off): the audit can check spans and "
    "rows per span, but not which record is missing"
)


ANY_OF_A_KEY = (
    "the rows of a batch have no order and no provenance: of several rows of one key any may win; keep _from, or "
    "max(_from), or give order_by"
)
PARTITIONS_ADDED = (
    "a topic has more partitions than when it was read last: a key may go to another one now, and across partitions "
    "the later commit wins; give order_by where that matters"
)


@dataclass(frozen=True)
class HopPlan:
    """One part of the way."""

    hop: str
    why: str  # the guarantee holds there


@dataclass(frozen=True)
class Plan:
    """Everything that `fencepost plan` says."""

    pipeline: str
    guarantee: str
    engine: str
    hops: list[HopPlan]
    settings: Mapping[str, str]
    path: str
    path_why: str
    columns: Mapping[str, str]
    target: str
    target_exists: bool | None = None  # None: not checked
    resume: Mapping[str, int] | None = None
    waiting: int | None = None
    warnings: list[str] = field(default_factory=list)
    transform_tried: str | None = None  # when, where that was for an earlier plan of the same file


def plan_pipeline(spec: PipelineSpec, offline: bool, again: bool = False) -> Plan:
    """Raises what a run would raise before its first batch. Offline it looks at the file and the transform only.

    `again`: the transform is tried though nothing changed since it was.
    """
    require(spec.guarantee, [*reader_findings(spec.reader_settings), *_loops(spec)])
    seen = trial(spec) if again else _kept(spec) or trial(spec)
    merge = spec.sink.options.merge
    capabilities = spec.sink.kind.capabilities
    require_key(merge, seen.columns.names, seen.provenance)
    require(spec.guarantee, [*sink_findings(capabilities), *merge_findings(merge, seen.provenance)])
    if spec.brake is not None:
        require_letters(capabilities, seen.provenance, spec.dead_letters.topic)
    if spec.checkpoint is not None:
        require_streams(spec.sink.kind)
    path = choose_path(capabilities, seen.wide_node)
    plan = Plan(
        pipeline=spec.name,
        guarantee=spec.guarantee.value,
        engine=spec.engine.value,
        hops=_hops(spec, merge, path),
        settings={**seen.settings, **spec.sink.kind.settings(spec.job)},
        path=path.value,
        path_why=_path_why(spec, path, seen.wide_node),
        columns=spec.sink.kind.columns(spec.job, seen.columns),
        target=spec.sink.options.name,
        warnings=_warnings(seen, merge, path),
        transform_tried=seen.tried.isoformat() if seen.tried else None,
    )
    return plan if offline else _against_the_world(spec, plan, seen.columns)


def _path_why(spec: PipelineSpec, path: WritePath, node: str | None) -> str:
    if spec.checkpoint is not None:
        return f"{node} keeps state from batch to batch, in {spec.checkpoint}: {STATE_WHY}"
    match path:
        case WritePath.DIRECT:
            return DIRECT_WHY[spec.engine]
        case WritePath.STAGED:
            return staged_why(node)
        case WritePath.WHOLE:
            return "the driver hands each batch to Spark's own writer, which commits all of it or nothing"


def staged_why(node: str | None) -> str:
    return (
        f"{node} mixes Kafka's partitions or may stop early: tasks copy rows into a stage, and the driver moves them "
        "into the table, all of the batch or nothing"
    )


def _warnings(seen: Preview, merge: Merge | None, path: WritePath) -> list[str]:
    warnings = [] if seen.provenance else [NO_PROVENANCE]
    if seen.within_batch:
        warnings.append(
            f"{seen.within_batch} sees the records of one batch only, and batch boundaries are arbitrary: rows of "
            "two batches are not combined"
        )
    upsert = merge is not None and merge.mode is Mode.UPSERT and not merge.order_by
    if upsert and path is WritePath.STAGED and not seen.provenance:
        warnings.append(ANY_OF_A_KEY)
    return warnings


def _kept(spec: PipelineSpec) -> Preview | None:
    """Of an earlier trial, where trying it takes long."""
    if spec.engine is EngineName.PYTHON:
        return None
    from fencepost.engines.spark import preview_cache

    return preview_cache.found(spec)


def trial(spec: PipelineSpec) -> Preview:
    """What the engine makes of the transform. Raises Usage where it does not fit the source."""
    if spec.engine is EngineName.PYTHON:
        from fencepost.engines.python.preview import preview as in_python

        return in_python(spec)
    from fencepost.engines.spark.preview import preview as on_spark

    return on_spark(spec)


def _hops(spec: PipelineSpec, merge: Merge | None, path: WritePath) -> list[HopPlan]:
    function = spec.transform is not None and spec.transform.sql is None
    gone = "stop the run" if spec.source.fail_on_data_loss else "are skipped and counted"
    return [
        HopPlan("topic to reader", f"only committed records are read; records that were deleted unread {gone}"),
        *([HopPlan("transform", OWN_EFFECTS)] if function else []),
        HopPlan("reader to sink", WHYS[path][spec.guarantee]),
        *([HopPlan("rows of one key", merge_why(merge, spec.guarantee))] if merge else []),
        HopPlan("bad records", _bad_records(spec)),
    ]


def _bad_records(spec: PipelineSpec) -> str:
    if spec.brake is None:
        return "one that cannot be decoded, cast or stored stops the run, with its offset; its batch does not land"
    kind = require_able(spec.sink.kind, KeepsDeadLetters, spec.sink.format, "keep dead letters")
    return f"written to {kind.dead_letters(spec.job)}, with their batch; {spec.brake.rule}"


def merge_why(merge: Merge, guarantee: Guarantee) -> str:
    """Which row a key ends with, and which duplicates are covered by that."""
    key = ", ".join(merge.key)
    covered = "this covers events that a producer sent twice under one key" + (
        ", and what the pipeline itself repeats after a crash" if guarantee is Guarantee.AT_LEAST_ONCE else ""
    )
    if merge.mode is Mode.DEDUPE:
        return (
            f"the first event of a ({key}) to land keeps the row; {covered}; the same event under another key is "
            "not covered"
        )
    newest = f"highest {merge.order_by}, then the highest offset," if merge.order_by else "highest offset"
    across = "" if merge.order_by else ", across partitions the later commit"
    deletes = "; an event without a value deletes the row of its key" if merge.deletes else ""
    return f"the {newest} of a ({key}) has the row{across}{deletes}; {covered}; triggers still see every write"


def _files(spec: PipelineSpec, partitions: int) -> list[str]:
    """A batch leaves a file of each partition that had records."""
    if not isinstance(spec.sink.kind, MakesFiles):
        return []
    batches = 3600 / max(spec.batch.every.total_seconds(), 1.0)  # a batch takes its time, whatever the setting
    return [spec.sink.kind.files(spec.job, math.ceil(batches * partitions))]


def _moved(spec: PipelineSpec, stored: Collection[TopicPartition], now: Iterable[TopicPartition]) -> list[str]:
    merge, topics = spec.sink.options.merge, {at.topic for at in stored}
    added = any(at.topic in topics and at not in stored for at in now)
    return [PARTITIONS_ADDED] if added and merge and merge.mode is Mode.UPSERT and not merge.order_by else []


def _other_topics(spec: PipelineSpec, stored: StoredState) -> Iterator[str]:
    read = {at.topic for at in stored.stored}
    for topic in stored.taken_out(spec):
        yield f"topic {topic} was read before and is no longer in the file: its positions are kept"
    for topic in spec.source.origins if read else ():
        if topic not in read:
            yield f"topic {topic} is new: it starts at source.start"


FLAWS = {
    Guarantee.AT_MOST_ONCE: "may lack records",
    Guarantee.AT_LEAST_ONCE: "may hold records twice",
    Guarantee.EXACTLY_ONCE: "are each record once",
}


def _changed(now: Guarantee, before: Guarantee | None) -> list[str]:
    if before in (None, now):
        return []
    there = f"the rows that are there {FLAWS[before]}, and changing the guarantee does not fix them"
    return [f"it ran under {before} until now: the position is kept, {there}; new ones {FLAWS[now]}"]


def _against_the_world(spec: PipelineSpec, plan: Plan, columns: pa.Schema) -> Plan:
    """Where it would resume and how much waits there, and whether the target fits."""
    with Cluster(spec.kafka) as cluster, not_by_hand() if spec.checkpoint is not None else nullcontext():
        topic = TopicReader(cluster, *spec.source.origins)
        fit = spec.sink.kind.fit(spec.job, columns)
        stored = stored_state(spec)
        stored.require_same(spec.name, topic.topic_ids)
        resume = topic.positions(stored.positions, spec.source.start, skip_gone=not spec.source.fail_on_data_loss)
        ends = topic.ends(resume)
        facts = [facts for name in _topics(spec) if (facts := topic_facts(cluster, name))]
        if spec.checkpoint is not None:
            with closing(spec.sink.kind.ledger(spec.job)) as ledger:
                judge_of(spec, ledger).judged(resume)
    limits = [finding for each in facts for finding in topic_findings(each)]
    plan = replace(plan, columns=fit.columns, target_exists=fit.exists)
    return replace(
        plan,
        resume={str(partition): position for partition, position in sorted(resume.items())},
        waiting=sum(max(end - resume[at], 0) for at, end in ends.items()),
        warnings=[
            *plan.warnings,
            *fit.warnings,
            *_files(spec, len(resume)),
            *_moved(spec, stored.positions, resume),
            *_other_topics(spec, stored),
            *_changed(spec.guarantee, stored.guarantee),
            *(f"{finding.reason}: {finding.remedy}" for finding in limits),
        ],
    )


def _loops(spec: PipelineSpec) -> Iterator[Finding]:
    return loop_findings(spec.source.origins, spec.sink.options.topics_written)


def _topics(spec: PipelineSpec) -> list[str]:
    """Those on which it depends that nothing is lost: what it reads, and what it writes."""
    letters = [spec.dead_letters.topic] if spec.dead_letters.topic else []
    return [*spec.source.origins, *spec.sink.options.topics_written, *letters]
