"""An Iceberg table as the audit's side of the last hop, and what there is of one record: read by pyiceberg."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.model import Span, TopicPartition
from fencepost.rows.shape import PROVENANCE
from fencepost.sinks.auditing import Columns, LandedRows, Relation, RowsAt
from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.dead_letters import options_for
from fencepost.sinks.iceberg.schema import PARTITION
from fencepost.sinks.kind import SinkJob
from fencepost.sinks.lake.audited import REASON, dead_for_audit, for_audit, no_provenance, wanted, why_dead

if TYPE_CHECKING:
    from pyiceberg.table import Table


def table_of(job: SinkJob) -> Table:
    table = catalog.load(job.options, job.spark)
    if table is None:
        raise Usage(f"there is no table {job.options.name!r}", "has the pipeline run?")
    return table


def what_landed(job: SinkJob, columns: Columns) -> LandedRows:
    names = table_of(job).schema().column_names
    for column in filter(None, (columns.id, columns.payload)):
        if column not in names:
            raise Usage(f"table {job.options.name!r} has no column {column!r}")
    provenance = _has_places(names)
    dead = Relation(partial(_dead, job)) if letters_of(job) is not None else None
    return LandedRows(Relation(partial(_arrow, job, columns, provenance)), provenance, dead)


def letters_of(job: SinkJob) -> Table | None:
    return catalog.load(job.options, job.spark, options_for(job.options).table)


def _dead(job: SinkJob) -> pa.Table:
    table = letters_of(job)
    if table is None:
        return dead_for_audit(None)
    with catalog.answering(job.options):
        return dead_for_audit(table.scan(selected_fields=("topic", "partition", "offset")).to_arrow())


def letter_at(job: SinkJob, at: TopicPartition, offset: int) -> str | None:
    """Why the record there is a dead letter; None: it is none."""
    from pyiceberg.expressions import And, EqualTo

    table = letters_of(job)
    if table is None:
        return None
    place = And(EqualTo("topic", at.topic), EqualTo("partition", at.partition), EqualTo("offset", offset))
    with catalog.answering(job.options):
        return why_dead(table.scan(place, selected_fields=(REASON,)).to_arrow())


def rows_at(job: SinkJob, at: TopicPartition, offset: int, firsts: bool, span: Span | None) -> RowsAt:
    table = table_of(job)
    if not _has_places(table.schema().column_names):
        raise no_provenance(job.options.name)
    count = partial(_count, job, table, at)
    rows = count(Span(offset, offset + 1))
    first = count(Span(offset, offset + 1), first=True) if firsts else None
    in_span = count(span) if span is not None and not rows else None
    return RowsAt(rows, None if rows else letter_at(job, at, offset), first, in_span)


def _count(job: SinkJob, table: Table, at: TopicPartition, span: Span, first: bool = False) -> int:
    from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, LessThan

    where = And(EqualTo("_topic", at.topic), EqualTo(PARTITION, at.partition))
    where = And(where, GreaterThanOrEqual("_offset", span.start), LessThan("_offset", span.end))
    with catalog.answering(job.options):
        return int(table.scan(And(where, EqualTo("_n", 0) if first else AlwaysTrue())).count())


def _arrow(job: SinkJob, columns: Columns, provenance: bool) -> pa.Table:
    placed, table = provenance and not columns.id, table_of(job)
    names = tuple(map(_in_table, wanted(columns, placed))) or tuple(table.schema().column_names[:1])
    with catalog.answering(job.options):
        rows = table.scan(selected_fields=names).to_arrow()  # of no column it would have no row
    ours = ["_partition" if name == PARTITION else name for name in rows.column_names]
    return for_audit(rows.rename_columns(ours), columns, placed)


def _has_places(names: Iterable[str]) -> bool:
    """Do the rows know where they came from?"""
    return set(map(_in_table, PROVENANCE.names)) <= set(names)


def _in_table(name: str) -> str:
    return PARTITION if name == "_partition" else name


def last_rows(job: SinkJob, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Of the snapshots that were added last: rows have no order of their own."""
    table = table_of(job)
    names = list(table.schema().column_names)
    with catalog.answering(job.options):
        tasks = list(table.scan().plan_files())
        added = _added(table)
        tasks.sort(key=lambda task: added.get(task.file.file_path, 0), reverse=True)
        found: list[tuple[Any, ...]] = []
        for task in tasks:
            if len(found) >= most:
                break
            found = [*_last(_rows_of(table, task).select(names), most - len(found)), *found]
    return names, found


def _added(table: Table) -> dict[str, int]:
    """The files, by the commits that added them."""
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot is not None else []
    entries = (entry for one in manifests for entry in one.fetch_manifest_entry(table.io))
    return {entry.data_file.file_path: entry.sequence_number or 0 for entry in entries}


def _last(rows: pa.Table, most: int) -> list[tuple[Any, ...]]:
    """A file may hold millions: only these become Python's."""
    return [tuple(row.values()) for row in rows.slice(max(rows.num_rows - most, 0)).to_pylist()]


def _rows_of(table: Table, task: Any) -> pa.Table:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    return ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task])
