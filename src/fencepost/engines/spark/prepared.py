"""A sink that is ready for a term's batches: everything that limits it was compared with the rows before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from fencepost.engines.spark.batch_rows import BatchRows
from fencepost.engines.spark.secrets import TaskTarget, for_tasks
from fencepost.rules.findings import require
from fencepost.rules.sinks import WritePath, choose_path, merge_findings, require_key, require_letters, sink_findings
from fencepost.rules.topics import loop_findings
from fencepost.sinks.kind import Store, TakesTables, Target
from fencepost.spec import OnError, PipelineSpec


@dataclass(frozen=True)
class PreparedSink:
    """Open until the block ends."""

    target: Target
    task_target: TaskTarget  # the same, for the tasks
    ledger: Store


@contextmanager
def prepared(spec: PipelineSpec, rows: BatchRows, node: str | None, here: bool) -> Iterator[PreparedSink]:
    """`node`: the part of the plan that mixes partitions, if there is one. `here`: tasks run on this machine.

    Raises Usage where the sink cannot take these rows, UnsupportedGuarantee where it cannot keep the word.
    """
    require_sink(spec, rows, node)
    target = spec.sink.kind.prepare(replace(spec.job, most_bad=rows.shape.most_bad), rows.columns)
    with closing(target.open()) as ledger, for_tasks(target, here) as task_target:
        yield PreparedSink(target, task_target, ledger)


def require_sink(spec: PipelineSpec, rows: BatchRows, node: str | None) -> None:
    kind, merge, provenance = spec.sink.kind, spec.sink.options.merge, rows.shape.provenance
    if node and choose_path(kind.capabilities, node) is WritePath.STAGED and isinstance(kind, TakesTables):
        kind.require_stage(spec.job, node)
    require_key(merge, rows.columns.names, provenance)
    findings = [*sink_findings(kind.capabilities), *merge_findings(merge, provenance)]
    require(spec.guarantee, [*findings, *loop_findings(spec.source.origins, spec.sink.options.topics_written)])
    if spec.on_error is OnError.DEAD_LETTER:
        require_letters(kind.capabilities, provenance, spec.dead_letters.topic)
