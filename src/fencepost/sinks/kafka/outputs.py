"""What goes to Kafka: one record each, from the columns of Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, overload

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import Refused, Usage
from fencepost.sinks.handlers import Output

ORIGIN = "fencepost.from"  # the header that says of what an output was made: topic/partition/offset/n
PROVENANCE = ("_topic", "_partition", "_offset", "_n")
COLUMNS = ("value", "key", "topic", "headers", "partition", "timestamp")
_PART = 10_000  # rows that are Python objects at one time
_FEW = 1_000  # outputs of somebody's function

# As the fields of `Output`, and the time in milliseconds, 0 for now
Record = tuple[bytes | None, bytes | None, str | None, list[Any] | None, int | None, int]
Rows = Iterator[pa.RecordBatch]


class Records(NamedTuple):
    """Some records, field by field: no object for each is made on the way to the driver."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    topics: Sequence[str | None]
    headers: Sequence[list[Any] | None]
    partitions: Sequence[int | None]
    times: Sequence[int]

    def part(self, start: int, end: int) -> Records:
        fields: list[Any] = [field[start:end] for field in self]
        return Records(*fields)


Outputs = Callable[[Any], Iterable[Output]]
Make = Callable[[Any], Iterable[Records]]


def from_arrow(rows: Rows) -> Iterator[Output]:
    """`value`, and where they are there `key`, `topic`, `headers`, `partition` and `timestamp`.

    The columns `_topic`, `_partition`, `_offset` and `_n` become the header `fencepost.from`. Others are Refused.
    """
    for part in arrow_records(rows):
        for value, key, topic, headers, partition, timestamp in zip(*part, strict=True):
            yield Output(value, key, topic, headers or (), partition, timestamp or None)


def one_by_one(outputs: Outputs) -> Make:
    """The records of a function that makes outputs."""
    return lambda rows: by_field(
        (one.value, one.key, one.topic, [_pair(*pair) for pair in one.headers], one.partition, kept_time(one.timestamp))
        for one in outputs(rows)
    )


def by_field(records: Iterable[Record]) -> Iterator[Records]:
    left = iter(records)
    while part := list(islice(left, _FEW)):
        fields: list[Any] = list(zip(*part, strict=True))
        yield Records(*fields)


def kept_time(millis: int | None) -> int:
    """As the driver takes it, to which 0 means now: the first millisecond of all is told as the second."""
    return 0 if millis is None or millis < 0 else max(millis, 1)


def arrow_records(rows: Rows) -> Iterator[Records]:
    for batch in rows:
        require_columns(batch.schema.names)
        for start in range(0, batch.num_rows, _PART):
            yield _records(batch.slice(start, _PART))


def require_columns(names: Collection[str]) -> None:
    if "value" not in names:
        raise Refused(
            f"the rows have no column `value`, the record's value (they have {', '.join(names) or 'none'})",
            "name a column `value`: bytes, or a text such as `to_json(struct(*)) AS value`",
        )
    unknown = [name for name in names if name not in COLUMNS + PROVENANCE]
    if unknown:
        raise Refused(
            f"a Kafka record cannot hold {', '.join(unknown)}",
            f"put them into `value`; beside it a record has {', '.join(COLUMNS[1:])}",
        )


def require_types(rows: pa.Schema) -> None:
    """Raises Usage for columns that can be no part of a record, before there is one."""
    try:
        require_columns(rows.names)
    except Refused as refused:
        raise Usage(refused.message, refused.remedy) from refused
    for name, fits, what, remedy in _TYPES:
        if name in rows.names and not (pa.types.is_null(kind := rows.field(name).type) or fits(kind)):
            raise Usage(f"column {name!r} is of type {kind}, but {what}", remedy)


def _is_bytes(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    plain = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(is_one(kind) for is_one in (*texts, *plain))


def _is_zoned(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _is_pairs(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not pa.types.is_struct(kind.value_type):
        return False
    pair = {one.name: one.type for one in kind.value_type}
    return {"key", "value"} <= pair.keys() and _is_bytes(pair["key"]) and _is_bytes(pair["value"])


_TEXT = "make it a text: CAST({} AS STRING)"
_TYPES: list[tuple[str, Callable[[pa.DataType], bool], str, str]] = [
    ("value", _is_bytes, "a record holds bytes", _TEXT.format("value")),
    ("key", _is_bytes, "a record holds bytes", _TEXT.format("key")),
    ("topic", pa.types.is_string, "a topic's name is a text", _TEXT.format("topic")),
    ("headers", _is_pairs, "a record has a list of structs with `key` and `value`", "remove it, or fix it"),
    ("partition", pa.types.is_integer, "a partition is an integer", "make it one: CAST(partition AS INT)"),
    ("timestamp", _is_zoned, "a record has a time with a zone", "make it one: CAST(timestamp AS TIMESTAMP)"),
]


def _records(part: pa.RecordBatch) -> Records:
    columns = dict(zip(part.schema.names, part.columns, strict=True))
    nothing = [None] * part.num_rows
    return Records(
        _bytes("value", columns["value"]),
        _bytes("key", columns["key"]) if "key" in columns else nothing,
        columns["topic"].to_pylist() if "topic" in columns else nothing,
        _headers(columns) or nothing,
        columns["partition"].to_pylist() if "partition" in columns else nothing,
        _times(columns["timestamp"]) if "timestamp" in columns else [0] * part.num_rows,
    )


def _bytes(name: str, column: pa.Array) -> list[bytes | None]:
    if pa.types.is_null(column.type):
        return [None] * len(column)
    try:
        found: list[bytes | None] = column.cast(pa.large_binary()).to_numpy(zero_copy_only=False).tolist()
    except pa.ArrowException as error:
        raise Refused(
            f"column {name!r} is of type {column.type}, but a record holds bytes",
            f"make it a text: CAST({name} AS STRING)",
        ) from error
    return found


def _times(column: pa.Array) -> list[int]:
    if pa.types.is_null(column.type):
        return [0] * len(column)
    try:
        micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).fill_null(-1)
    except pa.ArrowException as error:
        raise Refused(f"column 'timestamp' holds what is no time of a record: {error}", "fix the transform") from error
    kept = pc.if_else(pc.less(micros, 0), 0, pc.max_element_wise(pc.divide(micros, 1000), 1))  # as `kept_time`
    times: list[int] = kept.to_numpy(zero_copy_only=False).tolist()
    return times


class Headers(Sequence[list[Any]]):
    """Made when they are asked for: as many lists at one time would keep Python's garbage collector busy.

    Raises Refused, for the record that it is about, where one is none.
    """

    def __init__(self, origins: list[bytes] | None, own: list[Any] | None) -> None:
        self._origins = origins  # None: the rows do not say where they came from
        self._own = own  # of the rows; None: they have none

    def __len__(self) -> int:
        return len(self._origins or self._own or ())

    @overload
    def __getitem__(self, at: int) -> list[Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Headers: ...
    def __getitem__(self, at: int | slice) -> list[Any] | Headers:
        if isinstance(at, slice):
            return Headers(self._origins and self._origins[at], self._own and self._own[at])
        return [*self.origin(at), *(_pairs(self._own[at]) if self._own else ())]

    def __iter__(self) -> Iterator[list[Any]]:
        if self._own is None:
            return ([(ORIGIN, origin)] for origin in self._origins or ())
        if self._origins is None:
            return map(_pairs, self._own)
        return ([(ORIGIN, origin), *_pairs(theirs)] for origin, theirs in zip(self._origins, self._own, strict=True))

    def origin(self, at: int) -> list[Any]:
        """Only what says where the record came from."""
        return [(ORIGIN, self._origins[at])] if self._origins else []


def _headers(columns: dict[str, pa.Array]) -> Headers | None:
    """None: no record has any."""
    given = columns.get("headers")
    own = given.to_pylist() if given is not None and _holds_any(given) else None
    origins = _origins(columns)
    return None if origins is None and own is None else Headers(origins, own)


def _holds_any(column: pa.Array) -> bool:
    return bool(column.null_count < len(column))


def _pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    try:
        return [_pair(one["key"], one["value"]) if one is not None else _pair(None, None) for one in headers or ()]
    except (KeyError, TypeError) as error:
        raise Refused(
            "column 'headers' is not a list of structs with `key` and `value`", "remove it, or fix it"
        ) from error


def _pair(name: str | bytes | None, value: str | bytes | None) -> tuple[str, bytes | None]:
    """As the driver takes it unchanged: it would cut a text at its first NUL, and make a name of anything."""
    if isinstance(name, bytes):
        name = name.decode(errors="replace")
    if name is None or "\0" in name:
        said = "has no name" if name is None else "has a name with a NUL character"
        raise Refused(f"a header {said}", "fix the transform")
    return name, value.encode() if isinstance(value, str) else value


def _origins(columns: dict[str, pa.Array]) -> list[bytes] | None:
    """topic/partition/offset/n of each row; None where the rows do not say."""
    there = [columns[name].cast(pa.string()) for name in PROVENANCE if name in columns]
    if len(there) < len(PROVENANCE):
        return None
    joined = pc.binary_join_element_wise(*there, "/")
    found: list[bytes] = joined.cast(pa.large_binary()).to_numpy(zero_copy_only=False).tolist()
    return found
