"""Records of a batch that cannot be carried: left out of it, and kept whole for the dead letters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from fencepost.errors import Poison, Refused
from fencepost.model import Span, TopicPartition
from fencepost.sinks.postgres.dead import SCHEMA
from fencepost.spark.source import KafkaSource

MOST = 10_000  # in one batch: more than that is not bad records but a bad transform
Letters = Mapping[TopicPartition, pa.RecordBatch]


@dataclass
class Aside:
    """What was put aside of one batch so far."""

    source: KafkaSource
    reasons: dict[TopicPartition, dict[int, str]] = field(default_factory=dict)
    _letters: dict[TopicPartition, list[dict[str, object]]] = field(default_factory=dict)

    def offsets(self) -> dict[TopicPartition, set[int]]:
        return {partition: set(reasons) for partition, reasons in self.reasons.items()}

    def letters(self) -> Letters:
        return {at: pa.RecordBatch.from_pylist(letters, schema=SCHEMA) for at, letters in self._letters.items()}

    def without(self, records: DataFrame) -> DataFrame:
        """The batch without them."""
        bad = [
            (f.col("topic") == at.topic) & (f.col("partition") == at.partition) & f.col("offset").isin(sorted(offsets))
            for at, offsets in self.offsets().items()
        ]
        return records.where(~reduce(lambda one, other: one | other, bad)) if bad else records

    def add(self, spark: SparkSession, poisons: list[Poison]) -> None:
        """Put these aside too, each with its raw record."""
        for poison in poisons:
            topic, _, number = poison.partition.rpartition("/")
            partition = TopicPartition(topic, int(number))
            known = self.reasons.setdefault(partition, {})
            new = {offset: reason for offset, reason in poison.records if offset not in known}
            if not new or len(known) + len(new) > MOST:
                raise Refused(f"{poison.message}: more records than can be put aside", "mend the transform")
            known.update(new)
            self._letters.setdefault(partition, []).extend(self._raw(spark, partition, new))

    def _raw(self, spark: SparkSession, partition: TopicPartition, bad: Mapping[int, str]) -> list[dict[str, object]]:
        span = Span(min(bad), max(bad) + 1)
        records = replace(self.source, headers=True).batch(spark, partition, span)
        micros = f.unix_micros("timestamp").alias("timestamp")  # collected as a time it would lose its zone
        wanted = records.where(f.col("offset").isin(sorted(bad)))
        found = wanted.select("topic", "partition", "offset", "key", "value", "headers", micros).collect()
        return [_letter(row, bad[row.offset]) for row in found]


def _letter(row: Row, reason: str) -> dict[str, object]:
    headers = [
        [_text(header.key), _text((header.value or b"").decode(errors="replace"))] for header in row.headers or []
    ]
    return {
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "key": row.key,
        "value": row.value,
        "headers": json.dumps(headers),
        "timestamp": row.timestamp,
        "_dead": _text(reason),
    }


def _text(text: str) -> str:
    """PostgreSQL's texts hold every character but one, and a record must not be too bad to be put aside."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
