"""Headers of batches, as brokers write them."""

from __future__ import annotations

from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.batch_headers import BatchHeader, Marker, parse_headers

COMMIT = bytes([32, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 0, 0])  # a control record, as Kafka 4 writes it
ABORT = COMMIT[:8] + b"\0" + COMMIT[9:]


def batch(base: int, records: int, attributes: int = 0, producer: int = -1, body: bytes = b"x" * 20) -> bytes:
    rest = pack(">iBIhiqqqhii", 0, 2, 0, attributes, records - 1, 1_000, 2_000, producer, 0, 0, records) + body
    return pack(">qi", base, len(rest)) + rest


def test_batches_follow_each_other() -> None:
    one, other = parse_headers(batch(5, 3) + batch(8, 1, 0x10, 77))
    assert (one.first, one.last, one.records, one.producer_id, one.transactional) == (5, 7, 3, -1, False)
    assert (other.first, other.last, other.producer_id, other.transactional, other.marker) == (8, 8, 77, True, None)
    assert (one.first_ms, one.last_ms, one.size) == (1_000, 2_000, 81)


def test_markers_say_how_a_transaction_ended() -> None:
    data = batch(0, 1, 0x30, 7, COMMIT) + batch(1, 1, 0x30, 7, ABORT)
    assert [one.marker for one in parse_headers(data)] == [Marker.COMMIT, Marker.ABORT]


def test_a_batch_that_is_cut_is_there_with_its_header() -> None:
    assert [one.last for one in parse_headers(batch(0, 10)[:65])] == [9]
    assert list(parse_headers(batch(0, 10)[:40])) == []
    assert [one.marker for one in parse_headers(batch(0, 1, 0x30, 7)[:61])] == [Marker.OTHER]


def test_what_was_written_before_kafka_0_11_is_plain() -> None:
    old = pack(">qi", 4, 30) + b"\0\0\0\0" + b"\1" + b"\0" * 25
    assert [(one.first, one.transactional) for one in parse_headers(old + batch(5, 1))] == [(4, False), (5, False)]


@given(st.binary(max_size=400))
def test_no_bytes_upset_it(data: bytes) -> None:
    assert all(isinstance(one, BatchHeader) for one in parse_headers(data))
