"""A Delta table as the audit's side of the last hop, and what there is of one record: read by deltalake."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import Usage
from fencepost.model import Span, TopicPartition
from fencepost.rows.shape import PROVENANCE
from fencepost.sinks.auditing import Columns, LandedRows, Relation, RowsAt
from fencepost.sinks.delta.log import Log, translated
from fencepost.sinks.lake.audited import REASON, dead_for_audit, for_audit, no_provenance, wanted, why_dead

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

MAPPING = "delta.columnMapping.mode"


def table_of(log: Log, path: str) -> DeltaTable:
    table = log.table()
    if table is None:
        raise Usage(f"there is no Delta table at {path!r}", "has the pipeline run?")
    return table


def what_landed(log: Log, letters: Log, path: str, columns: Columns) -> LandedRows:
    names = [field.name for field in table_of(log, path).schema().fields]
    for column in filter(None, (columns.id, columns.payload)):
        if column not in names:
            raise Usage(f"table {path!r} has no column {column!r}")
    provenance = set(PROVENANCE.names) <= set(names)
    dead = Relation(partial(_dead, letters)) if letters.table() is not None else None
    return LandedRows(Relation(partial(_arrow, log, path, columns, provenance)), provenance, dead)


def _dead(letters: Log) -> pa.Table:
    table = letters.table()
    if table is None:
        return dead_for_audit(None)
    with translated("read the dead letters"):
        return dead_for_audit(dataset(table).to_table(columns=["topic", "partition", "offset"]))


def letter_at(letters: Log, at: TopicPartition, offset: int) -> str | None:
    """Why the record there is a dead letter; None: it is none."""
    table = letters.table()
    if table is None:
        return None
    place = (pc.field("topic") == at.topic) & (pc.field("partition") == at.partition) & (pc.field("offset") == offset)
    with translated("read the dead letters"):
        return why_dead(dataset(table).to_table(columns=[REASON], filter=place))


def _arrow(log: Log, path: str, columns: Columns, provenance: bool) -> pa.Table:
    placed = provenance and not columns.id
    with translated(f"read {path}"):
        rows = dataset(table_of(log, path)).to_table(columns=list(wanted(columns, placed)))
    return for_audit(rows, columns, placed)


def dataset(table: DeltaTable) -> ds.Dataset:
    """Raises Usage for a table whose columns have other names in its files: they would be read as nothing at all."""
    import pyarrow.dataset as ds

    if table.metadata().configuration.get(MAPPING, "none") != "none":
        raise Usage(f"deltalake cannot read a table with {MAPPING}", "look at it with Spark")
    # Spark's own timestamps, of any year: as nanoseconds those far from ours would be others
    return table.to_pyarrow_dataset(parquet_read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))


def last_rows(table: DeltaTable, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Of the files that were added last."""
    with translated("read the table"):
        rows = dataset(table)
        added = pa.table(table.get_add_actions(flatten=True)).select(["path", "modification_time"])
        times = dict(zip(added.column("path").to_pylist(), added.column("modification_time").to_pylist(), strict=True))
        found: list[tuple[Any, ...]] = []
        fragments = sorted(rows.get_fragments(), key=lambda one: times.get(one.path, 0) or 0, reverse=True)
        for fragment in fragments:
            if len(found) >= most:
                break
            part = fragment.to_table(schema=rows.schema)
            newest = part.slice(max(0, part.num_rows - most)).to_pylist()
            found = [*(tuple(row.values()) for row in newest), *found]
    return list(rows.schema.names), found[-most:]


def rows_at(table: DeltaTable, path: str, at: TopicPartition, offset: int, firsts: bool, span: Span | None) -> RowsAt:
    if not set(PROVENANCE.names) <= {field.name for field in table.schema().fields}:
        raise no_provenance(path)
    rows = _count(table, at, Span(offset, offset + 1))
    first = _count(table, at, Span(offset, offset + 1), first=True) if firsts else None
    in_span = _count(table, at, span) if span is not None and not rows else None
    return RowsAt(rows, None, first, in_span)


def _count(table: DeltaTable, at: TopicPartition, span: Span, first: bool = False) -> int:
    where = (pc.field("_topic") == at.topic) & (pc.field("_partition") == at.partition)
    where = where & (pc.field("_offset") >= span.start) & (pc.field("_offset") < span.end)
    if first:
        where = where & (pc.field("_n") == 0)
    with translated("read the table"):
        return int(dataset(table).count_rows(filter=where))
