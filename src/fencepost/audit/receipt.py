"""What became of one event: from the sink's position and the spans beside it, and on request from its row."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from psycopg import sql

from fencepost.audit.fates import Carried, Fate, Look, Record, by_position, by_rows
from fencepost.audit.scope import require_same_topics
from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
from fencepost.kafka.topic_reader import read_topic
from fencepost.model import EVENT_ID, Mode, Span, TopicPartition
from fencepost.sinks.postgres import dead_letters, ledger
from fencepost.sinks.postgres.connection import Connection, table_name, translated
from fencepost.sinks.postgres.kind import options_of
from fencepost.sinks.postgres.reading import (
    StoredSpan,
    exists,
    has_columns,
    reader,
    spans_before,
    spans_over,
)
from fencepost.sinks.postgres.table import located
from fencepost.spec import Declared, PipelineSpec, spec_of

__all__ = ["Fate", "Receipt", "find_event", "receipt"]
LOOK_EVERY = 0.1  # seconds, while somebody waits for the answer


@dataclass(frozen=True)
class Receipt:
    """The answer for one event."""

    fate: Fate
    partition: TopicPartition
    offset: int
    position: int | None  # None: the pipeline has never been there
    rows: int | None = None  # where they were looked up
    note: str = ""

    @property
    def behind(self) -> int:
        """Offsets that the pipeline has yet to read up to and with this one."""
        return max(self.offset + 1 - (self.position or 0), 0)

    def as_json(self) -> dict[str, Any]:
        return {
            "receipt": self.fate.value,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "offset": self.offset,
            "position": self.position,
            "behind": self.behind,
            **({} if self.rows is None else {"rows": self.rows}),
            **({"note": self.note} if self.note else {}),
        }


def receipt(
    pipeline: Declared, partition: int, offset: int, topic: str | None = None, *, check: bool = False, wait: float = 0
) -> Receipt:
    """What became of the event at this place; `topic` is needed where the pipeline reads several.

    `check` looks its row up; `wait` is how long to wait for the position. Raises Usage for a place that does not exist,
    TopicRecreated where the topic is another one now.
    """
    spec = spec_of(pipeline)
    at = TopicPartition(spec.source.one(topic), partition)
    with Cluster(spec.kafka) as cluster:
        log = _Log(spec, cluster, at, offset)
        deadline = time.monotonic() + wait
        while by_position(record := log.record())[0] is Fate.WAITING and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
        look = _look(spec, at, record, log) if check else None
    fate, note = by_rows(record, look) if look else by_position(record)
    return Receipt(fate, at, offset, record.position, look.rows if look else None, note)


def find_event(spec: PipelineSpec, id_: str, topic: str | None = None) -> tuple[TopicPartition, int]:
    """Where the event with this id is. Reads the topic, or all of them: only the place is found without that.

    An event whose transaction was aborted may have been sent again under its id: the committed one is meant.
    """
    topics = [spec.source.one(topic)] if topic else spec.source.origins
    for committed in (True, False):
        for name in topics:
            for record in read_topic(spec.kafka, name, None, committed=committed):
                if dict(record.headers() or ()).get(EVENT_ID) == id_.encode():
                    return TopicPartition(name, record.partition() or 0), record.offset() or 0
    raise Usage(f"{', '.join(topics)}: no event there has the id {id_}", "was it sent, and is it still kept?")


class _Log:
    """One place of a topic, and what the ledger holds about it."""

    def __init__(self, spec: PipelineSpec, cluster: Cluster, at: TopicPartition, offset: int) -> None:
        """Raises Usage where there is no such place."""
        self._spec = spec
        self._at = at
        self._offset = offset
        self._topic = TopicReader(cluster, at.topic)
        self._positions()  # is it the topic that the pipeline has read?
        partitions = self._topic.require_same()
        if at not in partitions:
            raise Usage(f"topic {at.topic!r} has no partition {at.partition}", f"it has 0 to {len(partitions) - 1}")
        first, ends = self._topic.bounds([at])
        if not 0 <= offset < ends[at]:
            raise Usage(f"{at} has no offset {offset}", f"it ends at {ends[at]}")
        self.deleted = offset < first[at]

    def record(self) -> Record:
        """As it stands at one moment."""
        options = options_of(self._spec.sink.format, self._spec.sink.options)
        with reader(options.dsn or "") as connection:
            positions = self._stored(connection)
            where = (connection, options.ledger_schema, self._spec.name, self._at)
            spans = [_carried(one) for one in spans_over(*where, self._offset)]
            around = spans[0].span if len(spans) == 1 else Span(self._offset, self._offset + 1)
            others = [_carried(one) for one in spans_before(*where, around)]
        position = positions.get(self._at)
        begins = True if position is not None else self._begins(positions)
        return Record(self._offset, position, spans, begins, others)

    def readable(self) -> tuple[bool, bool]:
        """Is there a committed record, and is it a tombstone?"""
        if self.deleted:
            return False, False
        there = Span(self._offset, self._offset + 1)
        record = next(iter(read_topic(self._spec.kafka, self._at.topic, {self._at: there})), None)
        return record is not None, record is not None and record.value() is None

    def _positions(self) -> dict[TopicPartition, int]:
        with reader(options_of(self._spec.sink.format, self._spec.sink.options).dsn or "") as connection:
            return self._stored(connection)

    def _stored(self, connection: Connection) -> dict[TopicPartition, int]:
        stored = ledger.read(
            connection, options_of(self._spec.sink.format, self._spec.sink.options).ledger_schema, self._spec.name
        )
        require_same_topics(stored, self._topic)
        return {at: held.position for at, held in stored.items()}

    def _begins(self, positions: dict[TopicPartition, int]) -> bool | None:
        """Will a first run read it? A partition that is added to a topic begins with its first record."""
        start = self._spec.source.start
        if start == "earliest" or any(at.topic == self._at.topic for at in positions):
            return True
        if start == "latest" or self._at not in (begins := self._topic.positions({}, start)):
            return None
        return True if self._offset >= begins[self._at] else None


def _carried(one: StoredSpan) -> Carried:
    return Carried(Span(one.start_offset, one.end_offset), one.rows, one.dead)


def _look(spec: PipelineSpec, at: TopicPartition, record: Record, log: _Log) -> Look:
    options, place = options_of(spec.sink.format, spec.sink.options), Span(record.offset, record.offset + 1)
    with reader(options.dsn or "") as connection:
        if not has_columns(connection, options.table, *_PLACE):
            raise Usage(
                f"the rows of {options.table!r} do not know where they came from",
                "carry the column _from through the transform, and leave provenance on",
            )
        table = located(connection, options.table)
        rows = _count(connection, table, _PLACE, at, place)
        once = spec.guarantee is not Guarantee.AT_LEAST_ONCE and has_columns(connection, table, "_n")
        firsts = _count(connection, table, _PLACE, at, place, "_n") if once and record.before else None
        aside = dead_letters.table_for(table)
        letters = not rows and exists(connection, *aside.split("."))
        put_aside = letters and _count(connection, aside, ("topic", "partition", "offset"), at, place) > 0
        in_span = None
        if not rows and not put_aside and options.mode is Mode.APPEND and len(record.carried) == 1:
            in_span = _count(connection, table, _PLACE, at, record.carried[0].span)
    readable, tombstone = (False, False) if rows or put_aside else log.readable()
    return Look(rows, put_aside, readable, tombstone, options.mode, in_span, firsts)


_PLACE = ("_topic", "_partition", "_offset")


def _count(
    connection: Connection, table: str, columns: Sequence[str], at: TopicPartition, span: Span, first: str | None = None
) -> int:
    """Rows of these offsets; only those that are 0 in column `first`, where it is given.

    Values as literals: with parameters the driver would look for them in the table's name.
    """
    compared = zip([*columns, columns[-1]], ("=", "=", ">=", "<"), (*at, span.start, span.end), strict=True)
    places = sql.SQL(" AND ").join(
        sql.SQL("{} OPERATOR(pg_catalog.{}) {}").format(sql.Identifier(column), sql.SQL(operator), sql.Literal(value))
        for column, operator, value in chain(compared, [(first, "=", 0)] if first else [])
    )
    query = sql.SQL("SELECT pg_catalog.count(*) FROM {} WHERE {}").format(table_name(table), places)
    with translated(f"read table {table!r}"):
        (count,) = connection.execute(query).fetchone() or (0,)
    return int(count)
