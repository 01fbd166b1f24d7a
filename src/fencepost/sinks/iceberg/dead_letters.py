"""Dead letters in an Iceberg table of their own, beside the table.

Two tables are two commits. The letters are written first, and each place once: the commit is made against the very
metadata in which the place was looked for. So a letter may be there before the position has passed its record.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError

from fencepost.errors import Unreachable, Usage
from fencepost.rows.dead_letters import SCHEMA
from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.library import Library, is_a, said
from fencepost.sinks.iceberg.options import IcebergOptions
from fencepost.sinks.iceberg.writing import staged
from fencepost.sinks.lake.store import Letters

if TYPE_CHECKING:
    from pyiceberg.table import Table

TRIES = 50  # while others write letters there too
PLAIN = pa.schema([pa.field(field.name, field.type) for field in SCHEMA])
# a record of a topic that was created again may have the place of another, but hardly its time
Place = tuple[str, int, int, datetime | None]
PLACE = ("topic", "partition", "offset", "timestamp")


def options_for(options: IcebergOptions) -> IcebergOptions:
    """Of the table beside the table."""
    return options.model_copy(update={"table": f"{options.table}_dead", "partition_by": ()})


def add(library: Library, reader: catalog.Reader, options: IcebergOptions, letters: Letters) -> None:
    """Those that are not there yet; durable on return. Raises Unreachable."""
    from pyspark.errors import PySparkException

    rows = pa.Table.from_batches(letters.values(), SCHEMA).cast(PLAIN)
    beside = options_for(options)
    for _ in range(TRIES):
        try:
            if _added(library, reader, beside, rows):
                return
        except Usage as error:  # the first batch had one, and somebody dropped it since
            raise Unreachable(f"table {beside.name!r}: {error.message}", error.remedy) from error
        except (PySparkException, Py4JError, OSError) as error:
            raise Unreachable(f"dead letters cannot be written to {beside.name!r}: {said(error)}") from error
    raise Unreachable(f"table {beside.name!r}: others commit to it all the time")


def _added(library: Library, reader: catalog.Reader, beside: IcebergOptions, rows: pa.Table) -> bool:
    """One attempt. False: the table is not what it was, and is to be looked at again."""
    table = library.table(beside.table)
    base = table.operations().current()
    head = base.currentSnapshot()
    there = _places(reader.table(beside.table), int(head.snapshotId()), rows) if head else set()
    new = rows.filter(pa.array([place not in there for place in _each(rows)], pa.bool_()))
    if not new.num_rows:
        return True
    transaction = table.newTransaction()
    start = transaction.startMetadata()
    if _head(start) != _head(base):
        return False
    append = transaction.newFastAppend()
    for file in staged(library, table, library.session.createDataFrame(new)).files:
        append.appendFile(file)
    append.commit()
    try:
        table.operations().commit(start, transaction.currentMetadata())
    except Py4JJavaError as error:
        if is_a(error, "CommitFailedException"):
            return False
        raise
    return True


def _head(metadata: Any) -> int | None:
    head = metadata.currentSnapshot()
    return int(head.snapshotId()) if head else None


def _places(table: Table | None, snapshot: int, letters: pa.Table) -> set[Place]:
    """Of the letters that are there, among the same offsets."""
    from pyiceberg.expressions import And, GreaterThanOrEqual, In, LessThanOrEqual

    if table is None or table.snapshot_by_id(snapshot) is None:
        raise Unreachable("the table for dead letters is not what it was a moment ago")
    offsets = letters.column("offset").to_pylist()
    between = And(GreaterThanOrEqual("offset", min(offsets)), LessThanOrEqual("offset", max(offsets)))
    among = And(between, In("topic", set(letters.column("topic").to_pylist())))
    return set(_each(table.scan(among, selected_fields=PLACE, snapshot_id=snapshot).to_arrow()))


def _each(rows: pa.Table) -> list[Place]:
    return [tuple(row[name] for name in PLACE) for row in rows.select(list(PLACE)).to_pylist()]
