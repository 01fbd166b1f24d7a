"""The audit's relations for the python engine: records through librdkafka, rows as the sink gives them.

log   topic, part, pos, id, key, intact, payload, tombstone     one row per record
sink  topic, part, pos, id, n, payload, zone         one row per row; zone "in" where it is compared
dead  topic, part, pos, id
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from fencepost.audit.engines.duckdb import DuckEngine
from fencepost.audit.engines.engine import Engine, table
from fencepost.audit.log_to_sink import RANGE
from fencepost.audit.question import Ranges
from fencepost.audit.scope import Doubt
from fencepost.errors import Usage
from fencepost.kafka.topic_reader import read_topic
from fencepost.model import EVENT_CHECKSUM, EVENT_ID, Span, TopicPartition
from fencepost.sinks.auditing import Relation
from fencepost.spec import PipelineSpec

LOG = pa.schema(
    [
        ("topic", pa.string()),
        ("part", pa.int32()),
        ("pos", pa.int64()),
        ("id", pa.string()),
        ("key", pa.binary()),
        ("intact", pa.bool_()),  # does the value have the checksum in its header? null without such a header
        ("payload", pa.string()),
        ("tombstone", pa.bool_()),  # it has no value
    ]
)
ORIGIN = pa.field("origin", pa.string())  # where a header says what a record was made of: topic/partition/offset/n
AT_ONCE = 50_000
# by ids: a row without one is not compared
NAMED = "CASE WHEN id IS NULL THEN 'nameless' ELSE 'in' END AS zone"


class PythonLoader:
    """Fills the relations from Kafka and the sink into DuckDB."""

    def __init__(self, engine: DuckEngine, kafka: Mapping[str, str], payload: bool = True) -> None:
        self.engine = engine
        self._kafka = kafka
        self._payload = payload  # is it compared? else it need not be hashed

    def topics(
        self,
        name: str,
        topics: Sequence[str],
        ranges: Ranges | None,
        *,
        committed: bool = True,
        id_: str = "",
        origin: str = "",
    ) -> None:
        """Topics' records as a relation. `id_`: take the value or the key for the event's id; `origin`: a header."""
        schema = LOG.append(ORIGIN) if origin else LOG
        each = (read_topic(self._kafka, topic, ranges, committed=committed) for topic in topics)
        messages = chain.from_iterable(each)
        batches = []
        while rows := [_row(message, id_, self._payload, origin) for message in islice(messages, AT_ONCE)]:
            columns = list(zip(*rows, strict=True))
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        self.engine.put(name, pa.Table.from_batches(batches, schema=schema))

    def rows(self, name: str, relation: Relation) -> None:
        """A sink's rows as a relation."""
        self.engine.put(name, relation.arrow())

    def outputs(self, spec: PipelineSpec, ranges: Ranges, in_doubt: Doubt) -> None:
        """`outputs`: what the pipeline's transform makes of these records, twice. Raises Usage, Refused.

        A bad record whose offset is in doubt, and that has no row, makes none.
        """
        from fencepost.audit.rerun import require_same, rerun, sums_of

        @cache
        def with_rows() -> set[tuple[str, int, int]]:
            return {(row["topic"], row["part"], row["pos"]) for row in self.engine.rows("SELECT * FROM found")}

        def without_row(at: TopicPartition, offset: int) -> bool:
            return in_doubt(at, offset) and (*at, offset) not in with_rows()

        aside = {(row["topic"], row["part"], row["pos"]) for row in self.engine.rows("SELECT * FROM dead")}
        self.engine.put("outputs", rerun(spec, ranges, aside, without_row))
        if spec.transform is not None and spec.sink.options.merge is not None:
            before = sums_of(self.engine, "outputs", spec.sink.options.merge)
            self.engine.put("outputs", rerun(spec, ranges, aside, without_row))
            require_same(before, sums_of(self.engine, "outputs", spec.sink.options.merge))

    def expected(self, _topics: Sequence[str], _ranges: Ranges, _condition: str) -> None:
        raise Usage("--expect is a condition in Spark's SQL", "remove --engine python")


def _row(message: Message, id_: str, payload: bool, origin: str) -> tuple[Any, ...]:
    value: bytes = message.value() or b""
    given: Any = message.headers() or ()
    headers = dict(reversed(list(given)))  # of several of a name the first counts
    checksum = headers.get(EVENT_CHECKSUM)
    said = (_text(headers.get(origin)),) if origin else ()
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        _text(value if id_ == "value" else message.key() if id_ == "key" else headers.get(EVENT_ID)),
        message.key(),
        None if checksum is None else f"{zlib.crc32(value):08x}" == _text(checksum),
        hashlib.md5(value, usedforsecurity=False).hexdigest() if payload else None,
        message.value() is None,
        *said,
    )


def _text(value: bytes | str | None) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def put_ranges(engine: Engine, ranges: Mapping[TopicPartition, Span]) -> None:
    engine.put("ranges", table(RANGE, [(*at, span.start, span.end) for at, span in ranges.items()]))


def put_uncounted(engine: Engine, spans: Iterable[tuple[TopicPartition, Span]]) -> None:
    """Spans of which nobody knows whether their rows were written."""
    engine.put("uncounted", table(RANGE, [(*at, span.start, span.end) for at, span in spans]))


def put_nothing_dead(engine: Engine) -> None:
    kinds = {"topic": pa.string(), "part": pa.int32(), "pos": pa.int64(), "id": pa.string()}
    engine.put("dead", table(kinds, []))


def says_where(engine: Engine, relation: str) -> bool:
    """Does one of the records say what it was made of? Where there is none at all, it would have."""
    some = engine.rows(f"SELECT 1 AS one FROM {relation} WHERE origin IS NOT NULL LIMIT 1")
    return bool(some) or not engine.rows(f"SELECT 1 AS one FROM {relation} LIMIT 1")


def origins(relation: str) -> str:
    """Records as rows of the places that their headers name; what is none leaves the place open."""
    part, pos, n = (
        f"try_cast(split_part(origin, '/', {number}) AS {kind})"
        for number, kind in ((2, "INTEGER"), (3, "BIGINT"), (4, "INTEGER"))
    )
    return (
        f"SELECT split_part(origin, '/', 1) AS topic, {part} AS part, {pos} AS pos, id, {n} AS n, payload "
        f"FROM {relation}"
    )


def zoned(relation: str) -> str:
    """A sink's rows with whether they are compared: not beyond the position, and not older than the log.

    Nor are those that were renamed as a deleted topic's (no topic has an @ in its name), those of other topics, which
    other pipelines may have written, and those that do not say where they came from.
    """
    return (
        "SELECT s.*, CASE WHEN instr(s.topic, '@') > 0 THEN 'earlier' "
        "WHEN s.topic IS NULL OR s.part IS NULL OR s.pos IS NULL OR s.n IS NULL THEN 'unplaced' "
        "WHEN o.topic IS NULL THEN 'others' "
        "WHEN r.topic IS NULL OR (s.pos >= r.first AND s.pos < r.until) THEN 'in' "
        "WHEN s.pos >= r.until THEN 'ahead' ELSE 'older' END AS zone "
        f"FROM {relation} s LEFT JOIN ranges r ON s.topic = r.topic AND s.part = r.part "
        "LEFT JOIN (SELECT DISTINCT topic FROM ranges) o ON s.topic = o.topic"
    )
