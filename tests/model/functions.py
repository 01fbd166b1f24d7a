"""The arrow transforms that models draw: `model.functions:filtering`; with `keyed_`, k is Kafka's key."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

OF_EVERY_EVENT = ("key", "value", "headers", "event_id", "timestamp", "topic", "partition", "offset")
Transform = Callable[[pa.RecordBatch], pa.RecordBatch]


def as_is(events: pa.RecordBatch) -> pa.RecordBatch:
    return events.select([name for name in events.schema.names if name not in OF_EVERY_EVENT])


def reordered(events: pa.RecordBatch) -> pa.RecordBatch:
    rows = as_is(events)
    return rows.select(rows.schema.names[::-1])


def wobbling(events: pa.RecordBatch) -> pa.RecordBatch:
    return reordered(events) if events.num_rows % 2 else as_is(events)


def filtering(events: pa.RecordBatch) -> pa.RecordBatch:
    rows = as_is(events)
    thirds = pc.multiply(pc.divide(rows.column("k"), 3), 3)
    return rows.filter(pc.fill_null(pc.not_equal(rows.column("k"), thirds), True))


def doubling(events: pa.RecordBatch) -> pa.RecordBatch:
    return as_is(events).take(pa.array([row for row in range(events.num_rows) for _ in range(2)], pa.int64()))


def raising(events: pa.RecordBatch) -> pa.RecordBatch:
    rows = as_is(events)
    if 13 in rows.column("k").to_pylist():
        raise ValueError("thirteen")
    return rows


def _keyed(then: Transform) -> Transform:
    def transform(events: pa.RecordBatch) -> pa.RecordBatch:
        return then(events.append_column("k", events.column("key").cast("string").cast("int64")))

    return transform


keyed_as_is = _keyed(as_is)
keyed_reordered = _keyed(reordered)
keyed_wobbling = _keyed(wobbling)
keyed_filtering = _keyed(filtering)
keyed_doubling = _keyed(doubling)
keyed_raising = _keyed(raising)
