"""The document that a lake table's commits carry."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Refused
from fencepost.fence import StoredPosition
from fencepost.model import Span, StreamBatch, TopicPartition
from fencepost.sinks.lake.commits import Count
from fencepost.sinks.lake.document import Document

PLACES = st.builds(TopicPartition, st.text(max_size=20), st.integers(0, 2**31 - 1))
HELD = st.builds(
    StoredPosition,
    st.integers(0, 2**63 - 1),
    st.uuids(),
    st.integers(1, 2**40),
    st.none() | st.text(max_size=30),
    st.none() | st.datetimes(timezones=st.just(UTC)),
)
STREAMS = st.builds(
    StreamBatch, st.text(), st.integers(-1, 2**62), st.text(), st.integers(0, 2**62), st.integers(0, 2**62), st.text()
)
SPANS = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(lambda two: Span(min(two), max(two)))
DOCUMENTS = st.builds(
    Document,
    st.integers(1, 2**62),
    st.dictionaries(PLACES, HELD, max_size=5),
    st.none() | st.just("exactly-once"),
    st.uuids(),
    st.builds(Count, st.integers(0, 2**62), st.integers(0, 2**62)),
    st.builds(Count, st.integers(0, 2**62), st.integers(0, 2**62)),
    st.none() | STREAMS,
)


@given(DOCUMENTS)
def test_what_is_written_is_read(document: Document) -> None:
    assert Document.from_json(document.to_json()) == document


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "3", "{}", '{"fencepost": 1}', '{"fencepost": 2}', '{"fencepost": 1, "owners": 3}', "{" * 5000],
)
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        Document.from_json(text)


def test_a_format_to_come_is_named() -> None:
    told = json.loads(Document(1, {}).to_json()) | {"fencepost": 2}
    with pytest.raises(Refused, match="its format is 2, not 1"):
        Document.from_json(json.dumps(told))


def test_a_thousand_partitions_stay_small() -> None:
    owner = StoredPosition(123_456_789, Document(1, {}).commit, 3, "x" * 22, datetime(2026, 1, 1, tzinfo=UTC))
    stored = {TopicPartition("orders", number): owner for number in range(1000)}
    assert len(Document(1, stored).to_json()) < 100_000
