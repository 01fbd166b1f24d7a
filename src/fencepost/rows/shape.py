"""The shape of the rows between Spark and a sink: the transform's columns, and where each row came from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import FencepostError, Poison, Refused, Usage
from fencepost.model import TopicPartition
from fencepost.rows.bisect import bad_ones
from fencepost.rows.conform import conformed, twice
from fencepost.rows.functions import FunctionName
from fencepost.rows.json_column import TOMBSTONE_NAME, json_field

FROM = "_from"
MOST_POISON = 100  # that are named at once, where the run stops for one
MOST_ASIDE = 50_000  # that are dead-lettered of one batch of a partition
PROVENANCE = pa.schema(
    [
        pa.field("_topic", pa.string()),
        pa.field("_partition", pa.int32()),
        pa.field("_offset", pa.int64()),
        pa.field("_n", pa.int32()),  # which output of that event
    ]
)


@dataclass(frozen=True)
class Preview:
    """What comes of a transform, before any record."""

    columns: pa.Schema  # that the sink gets
    wide_node: str | None  # the part of Spark's plan that mixes Kafka's partitions, if there is one
    provenance: bool
    settings: Mapping[str, str]  # that are not up to the user
    within_batch: str | None = None  # the operator that puts records of one batch together, if there is one
    tried: datetime | None = None  # where it was kept: since then nothing changed that is known to matter


ArrowTransform = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True)
class RowShape:
    """How a task's Arrow batches become the sink's rows. Crosses to the workers; loads the function there."""

    provenance: bool  # keep where each row came from
    arrow: FunctionName | None = None  # a transform of record batches, applied in the task itself
    flat: bool = True  # what is nested becomes JSON text, as tables want it
    tombstones: bool = False  # with provenance: say of each row whether its event has no value
    made: pa.Schema | None = None  # with a transform: what it gave when it was tried, and has to give for each batch
    most_bad: int = MOST_POISON  # records that are named at once

    @cached_property
    def _transform(self) -> ArrowTransform | None:
        return self.arrow.load() if self.arrow else None

    def rows(self, partition: TopicPartition, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows for the sink, batch by batch, in order; Poison where the transform fails."""
        count = OutputCount()
        for batch in batches:
            try:
                made = self._made_or_poison(partition, batch)
            except Poison as poison:
                raise self._with_the_rest(partition, poison, batches) from poison.__cause__
            yield self._with_provenance(partition, made, count) if self.provenance else _without(made, FROM)

    def tried(self, source: pa.Schema) -> RowShape:
        """The same, holding the transform to the columns that it makes of a batch of this schema without rows."""
        return replace(self, made=self.made_schema(source)) if self.arrow else self

    def made_schema(self, source: pa.Schema) -> pa.Schema:
        """What the transform makes of batches of this schema: it is tried on one without rows."""
        try:
            made = self._made(_empty(source)).schema
        except FencepostError:
            raise
        except Exception as error:
            raise Usage(
                f"transform.arrow: {self.arrow} raised {type(error).__name__} for an empty batch: {error}",
                "its columns are found this way: it must accept an empty batch",
            ) from error
        untyped = [field.name for field in made if pa.types.is_null(field.type)]
        if untyped and self.flat and self.arrow is None:
            raise Usage(f"column {untyped[0]!r} has no type", f"give it one: CAST({untyped[0]} AS STRING), for example")
        if untyped and self.flat:
            raise Usage(
                f"transform.arrow: column {untyped[0]!r} has no type when the batch is empty",
                f"give it one: pyarrow.array({untyped[0]}, pyarrow.string()), or whatever it holds",
            )
        return made

    def schema(self, source: pa.Schema) -> pa.Schema:
        """The columns that the sink gets for batches of this schema."""
        made = self.made or self.made_schema(source)
        if (repeated := twice(made.names)) is not None:
            raise Usage(f"the transform gives column {repeated!r} twice", "rename one of them")
        columns = [field for field in made if field.name != FROM]
        return pa.schema([*columns, *PROVENANCE] if self.provenance else columns)

    def _made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._transform is None:
            return batch
        made = self._transform(batch)
        if not isinstance(made, pa.RecordBatch):
            raise Refused(f"{self.arrow} returned {type(made).__name__}, not a pyarrow.RecordBatch")
        made = _nested_as_json(made) if self.flat else made
        return conformed(made, self.made, FROM, self.arrow) if self.made else made

    def _made_or_poison(self, partition: TopicPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
        """What the transform makes of the batch; where it fails, the records on which it does."""

        def why(start: int, end: int) -> str | None:
            try:
                self._made(batch.slice(start, end - start))
            except Exception as error:  # noqa: BLE001 (somebody else's function may raise anything)
                return f"{self.arrow} raised {type(error).__name__}: {error}"
            return None

        if self._transform is None:
            return batch
        try:
            return self._made(batch)
        except Refused:
            raise
        except Exception as error:
            found = bad_ones(0, batch.num_rows, why, self.most_bad)
            if not found:
                raise Refused(f"{self.arrow} raised {type(error).__name__}: {error}", "fix it") from error
            offsets = pc.struct_field(batch.column(FROM), "offset")
            raise Poison(str(partition), [(offsets[row].as_py(), reason) for row, reason in found]) from error

    def _with_the_rest(self, partition: TopicPartition, poison: Poison, batches: Iterator[pa.RecordBatch]) -> Poison:
        """With those of the batches to come, where they are dead-lettered: then one pass finds them all."""
        if self.most_bad <= MOST_POISON:
            return poison
        records = list(poison.records)
        for batch in batches:
            if len(records) >= self.most_bad:
                break
            try:
                self._made_or_poison(partition, batch)
            except Poison as more:
                records += more.records
        return Poison(str(partition), records[: self.most_bad])

    def _with_provenance(self, partition: TopicPartition, batch: pa.RecordBatch, count: OutputCount) -> pa.RecordBatch:
        place = offsets = batch.column(FROM)
        if pa.types.is_struct(place.type):
            offsets = pc.struct_field(place, "offset")
        columns = _without(batch, FROM)
        size = batch.num_rows
        where = [pa.repeat(partition.topic, size), pa.repeat(pa.scalar(partition.partition, pa.int32()), size)]
        arrays = [*columns.columns, *where, offsets, count.of(offsets)]
        made = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*columns.schema, *PROVENANCE]))
        return made.append_column(TOMBSTONE_NAME, pc.struct_field(place, "tombstone")) if self.tombstones else made


class OutputCount:
    """Numbers the outputs of each event: its rows follow each other, across batches too, or stand in one batch."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._seen = 0

    def of(self, offsets: pa.Array) -> pa.Array:
        if not len(offsets):
            return pa.array([], pa.int32())
        if offsets[0].as_py() != self._offset and _rises(offsets):
            self._offset, self._seen = offsets[-1].as_py(), 1
            return pa.repeat(pa.scalar(0, pa.int32()), len(offsets))
        return pa.array(self._numbers(offsets.to_pylist()), pa.int32())

    def _numbers(self, offsets: list[int]) -> Iterator[int]:
        seen = {self._offset: self._seen}
        for offset in offsets:
            yield seen.setdefault(offset, 0)
            seen[offset] += 1
        self._offset, self._seen = offsets[-1], seen[offsets[-1]]


def _rises(offsets: pa.Array) -> bool:
    """Is each of another event, and behind the one before?"""
    return bool(pc.all(pc.greater(offsets[1:], offsets[:-1])).as_py())


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _without(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    return batch.drop_columns([name]) if name in batch.schema.names else batch


def _nested_as_json(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Lists, structs and maps as JSON text, but for where the row came from."""
    for index, field in enumerate(batch.schema):
        if pa.types.is_nested(field.type) and field.name != FROM:
            texts = [
                None if value is None else json.dumps(value, default=str) for value in batch.column(index).to_pylist()
            ]
            batch = batch.set_column(index, json_field(field.name), pa.array(texts, pa.string()))
    return batch
