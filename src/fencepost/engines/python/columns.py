"""A partition's messages as the Arrow columns that transforms see, and as the rows that sinks take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, cast

import pyarrow as pa
from confluent_kafka import Message

from fencepost.errors import Poison, Usage
from fencepost.model import EVENT_ID, TopicPartition
from fencepost.rows import dead_letters
from fencepost.rows.functions import FunctionName
from fencepost.rows.json_columns import parse_columns
from fencepost.rows.json_documents import SchemaMismatch
from fencepost.rows.json_fields import Field, parse_fields, parse_value
from fencepost.rows.shape import FROM, MOST_ASIDE, MOST_POISON, RowShape
from fencepost.spec import PipelineSpec, SourceSpec, ValueFormat

SLICE = 10_000  # rows in a record batch

_OFFSET, _TOMBSTONE = pa.field("offset", pa.int64()), pa.field("tombstone", pa.bool_())
_PLACE = [pa.field("topic", pa.string()), pa.field("partition", pa.int32()), _OFFSET]
_HEADERS = dead_letters.HEADERS
_TIME = pa.timestamp("us", tz="UTC")
_LAST_MILLIS = (2**63 - 1) // 1000  # a Kafka timestamp beyond has no microseconds
_SECOND = itemgetter(1)


@dataclass(frozen=True)
class EventRows:
    """Makes a sink's rows of messages: `source` says what a value is, the shape what happens to it."""

    source: SourceSpec
    shape: RowShape
    bare: tuple[str, ...]  # the columns of an event when there is neither a transform nor a schema
    headers: bool = False  # do rows have the headers, and the event's id? Only where somebody asks for them
    fields: list[Field] = field(default_factory=list)

    @classmethod
    def of(cls, spec: PipelineSpec) -> EventRows:
        """Raises Usage where the transform is Spark's, or does not fit the events."""
        transform = spec.transform
        if transform is not None and transform.arrow is None:
            kind = "sql" if transform.sql else "spark"
            raise Usage(f"transform.{kind} needs Spark", "use engine: spark, or write it as transform.arrow")
        arrow = FunctionName(transform.arrow, spec.folder) if transform and transform.arrow else None
        fields = parse_fields(spec.source.fields) if spec.source.fields else []
        clash = sorted({one.name for one in fields} & {*_event_schema(spec.source, headers=True).names, FROM})
        if clash:
            raise Usage(f"source.schema: {', '.join(clash)} is a column of every event already", "rename it")
        options = spec.sink.options
        records = spec.sink.kind.capabilities.records
        bare = ("key", "value", *(["headers"] if records else []), "timestamp")
        deletes = options.merge is not None and options.merge.deletes
        most = MOST_POISON if spec.brake is None else MOST_ASIDE
        shape = RowShape(provenance=True, arrow=arrow, flat=not records, tombstones=deletes, most_bad=most)
        plain = cls(spec.source, shape, bare, records and arrow is None, fields)
        try:
            tried = plain.shape.tried(plain.schema)
        except Usage:  # it may have asked for headers or event_id
            plain = replace(plain, headers=True)
            tried = plain.shape.tried(plain.schema)
        provenance = FROM in (tried.made or plain.schema).names and options.provenance
        return replace(plain, shape=replace(tried, provenance=provenance, tombstones=provenance and deletes))

    @property
    def schema(self) -> pa.Schema:
        """What the transform is given; without one, what there is of the event by itself."""
        fields = [pa.field(one.name, one.type) for one in self.fields]
        always = _event_schema(self.source, self.headers)
        place = pa.field(FROM, self._place_type)
        if self.shape.arrow is None:
            return pa.schema([*(fields or [always.field(name) for name in self.bare]), place])
        return pa.schema([*always, place, *fields])

    @property
    def _place_type(self) -> pa.DataType:
        """Of what says which event a row came of; with a transform in full, as Spark's engine has it."""
        parts = [*(_PLACE if self.shape.arrow else [_OFFSET]), *([_TOMBSTONE] if self.shape.tombstones else [])]
        return pa.struct(parts) if len(parts) > 1 else pa.int64()

    @property
    def columns(self) -> pa.Schema:
        """What the sink gets."""
        return self.shape.schema(self.schema)

    def __call__(
        self, place: TopicPartition, messages: list[Message], aside: Mapping[int, str]
    ) -> Iterator[pa.RecordBatch]:
        """Raises Poison, while it is read, for records that the schema or the transform do not take."""
        if aside:
            bad = [message for message in messages if message.offset() in aside]
            yield letters(bad, aside, self.shape.flat)
            messages = [message for message in messages if message.offset() not in aside]
        slices = (messages[at : at + SLICE] for at in range(0, len(messages), SLICE))
        yield from self.shape.rows(place, (self._batch(place, part) for part in slices))

    def _batch(self, place: TopicPartition, messages: list[Message]) -> pa.RecordBatch:
        made: dict[str, Any] = {}
        for name in self.schema.names:
            if name in _READERS:
                made[name] = _READERS[name](place, messages)
        if "value" in self.schema.names and self.source.value is not ValueFormat.BYTES:
            made["value"] = _as_text(place, messages, made["value"], self.shape.most_bad)
        if self.fields:
            made |= self._parsed(place, messages)
        made[FROM] = self._from(place, messages)
        return pa.RecordBatch.from_arrays([made[name] for name in self.schema.names], schema=self.schema)

    def _from(self, place: TopicPartition, messages: list[Message]) -> pa.Array:
        offsets, kind = _offsets(place, messages), self._place_type
        if not pa.types.is_struct(kind):
            return offsets
        parts = {"topic": _topic(place, messages), "partition": _partition(place, messages), "offset": offsets}
        if self.shape.tombstones:
            parts["tombstone"] = pa.array([message.value() is None for message in messages], pa.bool_())
        return pa.StructArray.from_arrays([parts[one.name] for one in kind], fields=list(kind))

    def _parsed(self, place: TopicPartition, messages: list[Message]) -> dict[str, pa.Array]:
        found = parse_columns(list(map(Message.value, messages)), self.fields)
        return self._one_by_one(place, messages) if found is None else found

    def _one_by_one(self, place: TopicPartition, messages: list[Message]) -> dict[str, pa.Array]:
        rows: list[list[Any]] = []
        bad: list[tuple[int, str]] = []
        for message in messages:
            try:
                rows.append(parse_value(message.value(), self.fields))
            except SchemaMismatch as reason:
                bad.append((message.offset() or 0, f"not JSON of the schema: {reason}"))
                if len(bad) == self.shape.most_bad:
                    break
        if bad:
            raise Poison(str(place), bad)
        columns = zip(*rows, strict=True) if rows else [()] * len(self.fields)
        return {one.name: pa.array(column, one.type) for one, column in zip(self.fields, columns, strict=True)}


def _event_schema(source: SourceSpec, headers: bool) -> pa.Schema:
    """The columns of every event, in the order that Spark's engine has too."""
    value = pa.binary() if source.value is ValueFormat.BYTES else pa.string()
    more = [("headers", _HEADERS), ("event_id", pa.string())] if headers else []
    columns = [("key", pa.binary()), ("value", value), *more, ("timestamp", _TIME), ("topic", pa.string())]
    return pa.schema([*columns, ("partition", pa.int32()), ("offset", pa.int64())])


def _offsets(_place: TopicPartition, messages: list[Message]) -> pa.Array:
    return pa.array(list(map(Message.offset, messages)), pa.int64())


def _topic(place: TopicPartition, messages: list[Message]) -> pa.Array:
    return pa.repeat(place.topic, len(messages))


def _partition(place: TopicPartition, messages: list[Message]) -> pa.Array:
    return pa.repeat(pa.scalar(place.partition, pa.int32()), len(messages))


def _timestamps(place: TopicPartition, messages: list[Message]) -> pa.Array:
    """Raises Poison for times that no timestamp holds."""
    millis = _millis(messages)
    if max(millis, default=0) > _LAST_MILLIS:
        raise Poison(
            str(place),
            [
                (message.offset() or 0, f"its Kafka timestamp {at} is out of range")
                for message, at in zip(messages, millis, strict=True)
                if at > _LAST_MILLIS
            ],
        )
    return _times(millis)


def _millis(messages: list[Message]) -> list[int]:
    return list(map(_SECOND, map(Message.timestamp, messages)))


def _times(millis: list[int]) -> pa.Array:
    """Null where there is none, or none that can be held."""
    if millis and min(millis) >= 0 and max(millis) <= _LAST_MILLIS:
        return pa.array(millis, pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(_TIME)
    known = [at if 0 <= at <= _LAST_MILLIS else None for at in millis]
    return pa.array(known, pa.timestamp("ms", tz="UTC")).cast(_TIME)


def _headers(_place: TopicPartition, messages: list[Message]) -> pa.Array:
    if not any(map(Message.headers, messages)):
        return pa.nulls(len(messages), _HEADERS)
    pairs = [[{"key": key, "value": value} for key, value in _pairs(message)] for message in messages]
    return pa.array(pairs, _HEADERS)


def _event_ids(_place: TopicPartition, messages: list[Message]) -> pa.Array:
    ids = [next((value for key, value in _pairs(message) if key == EVENT_ID), None) for message in messages]
    return pa.array([None if found is None else found.decode(errors="replace") for found in ids], pa.string())


def _pairs(message: Message) -> list[tuple[str, bytes | None]]:
    return cast(Any, message.headers()) or []


_READERS = {
    "key": lambda _place, messages: pa.array(list(map(Message.key, messages)), pa.binary()),
    "value": lambda _place, messages: pa.array(list(map(Message.value, messages)), pa.binary()),
    "headers": _headers,
    "event_id": _event_ids,
    "timestamp": _timestamps,
    "topic": _topic,
    "partition": _partition,
    "offset": _offsets,
}


def _as_text(place: TopicPartition, messages: list[Message], values: pa.Array, most: int) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        bad = [message.offset() or 0 for message in messages if not _is_text(message.value())]
        raise Poison(str(place), [(offset, "the value is not UTF-8") for offset in bad[:most]]) from None


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def letters(messages: list[Message], reasons: Mapping[int, str], flat: bool) -> pa.RecordBatch:
    """Records that cannot be delivered, whole, each with the reason. `flat`: headers are JSON, as tables want them."""
    found = [_letter(message, reasons, flat) for message in messages]
    schema = dead_letters.SCHEMA if flat else dead_letters.RECORD_SCHEMA
    columns = {name: [letter[name] for letter in found] for name in schema.names if name != "timestamp"}
    times = _times(_millis(messages))  # not by way of Python's times, which end with the year 9999
    return pa.RecordBatch.from_arrays(
        [times if one.name == "timestamp" else pa.array(columns[one.name], one.type) for one in schema],
        schema=schema,
    )


def _letter(message: Message, reasons: Mapping[int, str], flat: bool) -> dict[str, Any]:
    pairs = _pairs(message)
    headers = [[_plain(name), _plain((value or b"").decode(errors="replace"))] for name, value in pairs]
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "key": message.key(),
        "value": message.value(),
        "headers": json.dumps(headers) if flat else [{"key": name, "value": value} for name, value in pairs],
        "_dead": _plain(reasons[message.offset() or 0]),
    }


def _plain(text: str) -> str:
    """A text that PostgreSQL takes, whatever it was: a record must not be too bad to be dead-lettered."""
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
