"""The batches of a partition's log by their headers: which producer wrote them, in a transaction or not, and markers.

Headers are never compressed. Pure: `log_reader.py` fetches the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from struct import Struct

_PREFIX = Struct(">qiiBIhiqqqhii")  # from the base offset to the number of records: 61 bytes
_OLD = Struct(">qi")  # offset and size of what was written before Kafka 0.11
_MAGIC = 16
_SIZE = 12  # bytes that the length of a batch does not count
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_APPEND_TIME = 0x08
_LATEST_MS = 253_402_300_799_000  # Python has no later year


class Marker(StrEnum):
    """What a control record says."""

    COMMIT = "commit"
    ABORT = "abort"
    OTHER = "other"  # of KRaft, or of a later version


@dataclass(frozen=True)
class BatchHeader:
    """One batch, without its records."""

    first: int
    last: int  # offsets; compaction may have left holes between
    records: int
    producer_id: int  # -1: it was not idempotent
    producer_epoch: int
    sequence: int
    transactional: bool
    marker: Marker | None  # control records take offsets, too
    first_ms: int  # of its first record; compaction keeps it
    last_ms: int  # the newest in it
    size: int  # bytes in the log


def parse_headers(data: bytes) -> Iterator[BatchHeader]:
    """Every whole header; the last batch may be cut, and then it is there where its header is whole."""
    place = 0
    while len(data) - place >= _PREFIX.size:
        header, size = _parsed(data, place)
        yield header
        place += size
    if len(data) - place > _MAGIC and data[place + _MAGIC] < 2:
        yield _old(data, place)[0]


def _parsed(data: bytes, place: int) -> tuple[BatchHeader, int]:
    if data[place + _MAGIC] < 2:
        return _old(data, place)
    base, length, _, _, _, attributes, delta, first, newest, producer, epoch, sequence, count = _PREFIX.unpack_from(
        data, place
    )
    control = bool(attributes & _CONTROL)
    header = BatchHeader(
        base,
        base + delta,
        max(count, 0),
        producer,
        epoch,
        sequence,
        bool(attributes & _TRANSACTIONAL),
        _marker(data, place + _PREFIX.size) if control else None,
        newest if attributes & _APPEND_TIME else first,
        newest,
        length + _SIZE,
    )
    return header, max(length + _SIZE, _PREFIX.size)


def _old(data: bytes, place: int) -> tuple[BatchHeader, int]:
    """Of a wrapper around compressed records the offset is that of the last; how many there are is not said."""
    offset, length = _OLD.unpack_from(data, place)
    size = max(length + _SIZE, _MAGIC + 1)
    return BatchHeader(offset, offset, 1, -1, -1, -1, False, None, -1, -1, size), size


def _marker(data: bytes, place: int) -> Marker:
    """Of its one record: length, attributes, two deltas, the key's length, all but one variable; then version, type."""
    try:
        for skipped in (None, 1, None, None, None):
            place = place + skipped if skipped else _behind_varint(data, place)
        kind = int.from_bytes(data[place + 2 : place + 4], "big")
    except IndexError:
        return Marker.OTHER
    return {0: Marker.ABORT, 1: Marker.COMMIT}.get(kind, Marker.OTHER)


def _behind_varint(data: bytes, place: int) -> int:
    while data[place] & 0x80:
        place += 1
    return place + 1


def moment(ms: int) -> datetime | None:
    """A record's time; None where it has none, or one that no calendar has: producers may write any number."""
    return datetime.fromtimestamp(ms / 1000, UTC) if 0 <= ms <= _LATEST_MS else None
