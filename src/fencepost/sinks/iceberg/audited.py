"""An Iceberg table as the audit's side of the last hop, and what there is of one record: read by pyiceberg."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fencepost.errors import Usage
from fencepost.rows.shape import PROVENANCE
from fencepost.sinks.auditing import Columns, LandedRows, Relation
from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.schema import PARTITION
from fencepost.sinks.kind import SinkJob
from fencepost.sinks.lake.audited import for_audit, wanted

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
    return LandedRows(Relation(partial(_arrow, job, columns, provenance)), provenance)


def _arrow(job: SinkJob, columns: Columns, provenance: bool) -> pa.Table:
    placed = provenance and not columns.id
    with catalog.answering(job.options):
        rows = table_of(job).scan(selected_fields=tuple(map(_in_table, wanted(columns, placed)))).to_arrow()
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
        tasks.sort(key=lambda task: task.file.file_sequence_number or 0, reverse=True)
        found: list[tuple[Any, ...]] = []
        for task in tasks:
            if len(found) >= most:
                break
            found = [*_last(_rows_of(table, task).select(names), most - len(found)), *found]
    return names, found


def _last(rows: pa.Table, most: int) -> list[tuple[Any, ...]]:
    """A file may hold millions: only these become Python's."""
    return [tuple(row.values()) for row in rows.slice(max(rows.num_rows - most, 0)).to_pylist()]


def _rows_of(table: Table, task: Any) -> pa.Table:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    return ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task])
