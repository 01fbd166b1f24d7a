"""What a pipeline's own transform makes of the log, as far as upsert and dedupe need it: place, key and order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

import pyarrow as pa
from confluent_kafka import Message

from fencepost.audit.engines.engine import Engine, Row
from fencepost.audit.scope import Doubt
from fencepost.engines.python.columns import EventRows
from fencepost.errors import Poison, Refused
from fencepost.kafka.topic_reader import read_topic
from fencepost.model import Merge, Span, TopicPartition
from fencepost.rows.json_column import TOMBSTONE_NAME
from fencepost.rows.shape import MOST_ASIDE, PROVENANCE
from fencepost.spec import PipelineSpec

AT_ONCE = 10_000
Places = set[tuple[str, int, int]]


def names(merge: Merge) -> dict[str, str]:
    """The relation's columns of the key and the order, and the transform's behind each."""
    order = {"ord": merge.order_by} if merge.order_by else {}
    return {**{f"k{number}": name for number, name in enumerate(merge.key)}, **order}


def sums_of(engine: Engine, relation: str, merge: Merge) -> Row:
    """Of what a transform made: the same where it made the same again, in whatever order."""
    first, second = engine.hashes("topic", "part", "pos", "tombstone", *names(merge))
    (sums,) = engine.rows(f"SELECT count(*) AS rows, sum({first}) AS h1, sum({second}) AS h2 FROM {relation}")
    return sums


def require_same(before: Row, after: Row) -> None:
    """Raises Refused where a transform that was run twice made two things of the same records."""
    if before != after:
        raise Refused(
            "the transform gives different results for the same records: it uses the current time, or random numbers"
        )


def rerun(spec: PipelineSpec, ranges: Mapping[TopicPartition, Span], aside: Places, in_doubt: Doubt) -> pa.Table:
    """One row for each that came of these offsets, but for records that were dead-lettered.

    `in_doubt`: says of an offset that it may not have been processed; a bad record there is one that waits, or went
    with a batch that was lost. Raises Usage where the transform needs Spark, Refused for any other that it does not
    take.
    """
    rows = EventRows.of(spec)
    rows = replace(rows, shape=replace(rows.shape, most_bad=MOST_ASIDE))
    merge = spec.sink.options.merge
    if merge is None or not rows.shape.provenance:
        raise Refused("the rows have no provenance")
    parts = [
        _columns(batch, merge)
        for at, span in sorted(ranges.items())
        for messages in _slices(spec, at, span, aside)
        for batch in _made(rows, at, messages, in_doubt)
    ]
    return pa.Table.from_batches(parts, schema=_columns(_empty(rows.columns), merge).schema)


def _slices(spec: PipelineSpec, at: TopicPartition, span: Span, aside: Places) -> Iterator[list[Message]]:
    if span.end <= span.start:
        return
    found = (one for one in read_topic(spec.kafka, at.topic, {at: span}) if (*at, one.offset()) not in aside)
    while messages := list(islice(found, AT_ONCE)):
        yield messages


def _made(rows: EventRows, at: TopicPartition, messages: list[Message], in_doubt: Doubt) -> list[pa.RecordBatch]:
    while True:
        try:
            return list(rows(at, messages, {}))
        except Poison as bad:
            offsets = {offset for offset, _ in bad.records}
            if not all(in_doubt(at, offset) for offset in offsets):
                raise Refused(
                    f"the transform, run again, does not take a record that was processed: {bad.message}"
                ) from bad
        messages = [one for one in messages if one.offset() not in offsets]


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _columns(batch: pa.RecordBatch, merge: Merge) -> pa.RecordBatch:
    place = dict(zip(("topic", "part", "pos", "n"), PROVENANCE.names, strict=True))
    given = {**place, **names(merge)}
    columns = {name: batch.column(column) for name, column in given.items()}
    none = pa.repeat(pa.scalar(False), batch.num_rows)
    columns["tombstone"] = batch.column(TOMBSTONE_NAME) if TOMBSTONE_NAME in batch.schema.names else none
    return pa.RecordBatch.from_pydict(columns)
