"""What became of one event: from the sink's position in constant time, and on request from its row."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from psycopg import sql

from fencepost.audit.readers import read_topic
from fencepost.audit.scope import require_same_topics
from fencepost.cluster.client import Cluster
from fencepost.cluster.positions import TopicReader
from fencepost.errors import Usage
from fencepost.model import EVENT_ID, Span, TopicPartition
from fencepost.sinks.postgres import dead
from fencepost.sinks.postgres.reading import exists, has_columns, reader, stored_positions
from fencepost.sinks.postgres.session import Connection, table_name, translated
from fencepost.spec import PipelineSpec

LOOK_EVERY = 0.1  # seconds, while somebody waits for the answer


class Fate(StrEnum):
    PROCESSED = "processed"  # the position is beyond it
    WAITING = "waiting"  # the position is not there yet
    LANDED = "landed"  # its row is in the sink
    DEAD = "dead"  # it was put aside
    FILTERED = "filtered"  # read, and no row came of it
    GONE = "gone"  # nothing to be read there: aborted, compacted, or a marker


@dataclass(frozen=True)
class Receipt:
    """The answer for one event."""

    fate: Fate
    partition: TopicPartition
    offset: int
    position: int | None  # None: the pipeline has never been there
    rows: int | None = None  # where they were looked up

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
        }


def receipt(
    spec: PipelineSpec, partition: int, offset: int, topic: str | None = None, *, check: bool = False, wait: float = 0
) -> Receipt:
    """The fate of the event at this place, of this topic where there are several.

    `check` looks its row up; `wait` is how long to wait for the position. Raises Usage for a place that does not exist,
    TopicRecreated where the topic is another one now.
    """
    at = TopicPartition(spec.source.one(topic), partition)
    _require_place(spec, at, offset)
    deadline = time.monotonic() + wait
    while (found := _from_position(spec, at, offset)).fate is Fate.WAITING and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)
    return _from_rows(spec, found) if check and found.fate is Fate.PROCESSED else found


def find_event(spec: PipelineSpec, id_: str, topic: str | None = None) -> tuple[TopicPartition, int]:
    """Where the event with this id is. Reads the topic, or all of them: only the place is found without that."""
    topics = [spec.source.one(topic)] if topic else spec.source.origins
    for name in topics:
        for record in read_topic(spec.kafka, name, None, committed=False):
            if dict(record.headers() or ()).get(EVENT_ID) == id_.encode():
                return TopicPartition(name, record.partition() or 0), record.offset() or 0
    raise Usage(f"{', '.join(topics)}: no event there has the id {id_}", "was it sent, and is it still kept?")


def _require_place(spec: PipelineSpec, at: TopicPartition, offset: int) -> None:
    topic = TopicReader(Cluster(spec.kafka), at.topic)
    options = spec.postgres
    with reader(options.dsn or "") as connection:
        require_same_topics(stored_positions(connection, options.ledger_schema, spec.name), topic)
    partitions = topic.require_same()
    if at not in partitions:
        raise Usage(f"topic {at.topic!r} has no partition {at.partition}", f"it has 0 to {len(partitions) - 1}")
    end = topic.ends([at])[at]
    if not 0 <= offset < end:
        raise Usage(f"{at} has no offset {offset}", f"it ends at {end}")


def _from_position(spec: PipelineSpec, at: TopicPartition, offset: int) -> Receipt:
    options = spec.postgres
    with reader(options.dsn or "") as connection:
        stored = stored_positions(connection, options.ledger_schema, spec.name)
    position = {TopicPartition(row.topic, row.partition): row.position for row in stored}.get(at)
    done = position is not None and position > offset
    return Receipt(Fate.PROCESSED if done else Fate.WAITING, at, offset, position)


def _from_rows(spec: PipelineSpec, found: Receipt) -> Receipt:
    options = spec.postgres
    with reader(options.dsn or "") as connection:
        if not has_columns(connection, options.table, "_topic", "_partition", "_offset"):
            raise Usage(
                f"the rows of {options.table!r} do not know where they came from",
                "carry the column _from through the transform, and leave provenance on",
            )
        rows = _count(connection, options.table, ("_topic", "_partition", "_offset"), found)
        if rows:
            return replace(found, fate=Fate.LANDED, rows=rows)
        aside = dead.table_for(options.table)
        if exists(connection, *aside.split(".")) and _count(connection, aside, ("topic", "partition", "offset"), found):
            return replace(found, fate=Fate.DEAD, rows=0)
    there = Span(found.offset, found.offset + 1)
    readable = any(read_topic(spec.kafka, found.partition.topic, {found.partition: there}))
    return replace(found, fate=Fate.FILTERED if readable else Fate.GONE, rows=0)


def _count(connection: Connection, table: str, columns: tuple[str, str, str], found: Receipt) -> int:
    query = sql.SQL("SELECT count(*) FROM {} WHERE {} = %s AND {} = %s AND {} = %s").format(
        table_name(table), *map(sql.Identifier, columns)
    )
    with translated(f"read table {table!r}"):
        (count,) = connection.execute(query, (*found.partition, found.offset)).fetchone() or (0,)
    return int(count)
