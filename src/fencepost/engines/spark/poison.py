"""Which records a batch fails on: found in one job, or else by reading smaller and smaller ranges of Kafka again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from fencepost.engines.spark.failures import SparkFailure, of_a_time, translated, unreadable
from fencepost.engines.spark.offsets import among
from fencepost.engines.spark.plan import TaskSpans
from fencepost.engines.spark.shaping import shaped
from fencepost.engines.spark.transform import Transform
from fencepost.engines.spark.try_eval import failing
from fencepost.errors import FencepostError, Poison, Refused, Unreachable
from fencepost.model import Span, TopicPartition
from fencepost.rows.bisect import bad_ones
from fencepost.rows.shape import MOST_POISON

MOST_BY_HALVES = 200  # each takes several jobs
FEW = 5  # where the run stops for one; of those found in one job so many are tried alone


@dataclass(frozen=True)
class PoisonSearch:
    """Tries the transform on ranges of one batch, into nothing."""

    transform: Transform
    records: DataFrame  # the batch, for its session
    spans: TaskSpans
    most: int  # that are named at once, of a partition
    whole: bool = False  # a function of record batches is part of Spark's plan, not of a writer's work

    def find(self, failure: FencepostError, known: Mapping[TopicPartition, set[int]]) -> list[Poison]:
        """The records that fail, by partition; raises the failure itself where none of them fails alone."""
        bad = (poison for partition, span in self.spans if (poison := self._in(partition, span, known)))
        found = list(islice(bad, 1) if self._stops else bad)
        if not found:
            raise failure
        return found

    @property
    def _stops(self) -> bool:
        """Does the run stop for the first one that is named?"""
        return self.most <= MOST_POISON

    def unreadable(self) -> Refused | None:
        """The first record whose timestamp Spark cannot read; None where it reads them all."""
        for partition, span in self.spans:

            def why(start: int, end: int, at: TopicPartition = partition) -> str | None:
                return self._not_read(at, Span(start, end))

            if found := bad_ones(span.start, span.end, why, 1):
                return unreadable(partition, found[0][0], span.start)
        return None

    def _not_read(self, partition: TopicPartition, span: Span) -> str | None:
        try:
            self._read(partition, span, set()).write.format("noop").mode("overwrite").save()
        except SparkFailure as error:
            if not of_a_time(error):
                raise
            return "its timestamp"
        return None

    def _in(self, partition: TopicPartition, span: Span, known: Mapping[TopicPartition, set[int]]) -> Poison | None:
        malformed = list(self._malformed(partition, span, known.get(partition, set())))
        skip = known.get(partition, set()) | {offset for offset, _ in malformed}

        def why(start: int, end: int) -> str | None:
            return self._fails(partition, Span(start, end), skip)

        if malformed:  # the rest may be good: the next attempt tells
            return Poison(str(partition), sorted(malformed))
        if found := self._failing(partition, span, skip):
            return Poison(str(partition), found)
        found = bad_ones(span.start, span.end, why, FEW if self._stops else MOST_BY_HALVES)
        if len(found) == MOST_BY_HALVES:
            raise Refused(
                f"{Poison(str(partition), found).message}: too many to find one by one",
                "have the transform give null where it fails (try_cast), or filter such records out",
            )
        return Poison(str(partition), found) if found else None

    def _failing(self, partition: TopicPartition, span: Span, skip: set[int]) -> list[tuple[int, str]]:
        """Those that the transform's own expressions fail on, in one job; none where something else fails too.

        A few of them are tried alone: each has to fail so as well, and says why.
        """
        try:
            offsets = failing(self.transform, self._read(partition, span, skip), FEW if self._stops else self.most)
        except SparkFailure as error:
            if isinstance(failure := translated(error), Unreachable):
                raise failure from None
            return []
        reasons = [self._fails(partition, Span(offset, offset + 1), skip) for offset in offsets[:FEW]]
        known = [(offset, reason) for offset, reason in zip(offsets, reasons, strict=False) if reason]
        if len(known) < len(reasons):
            return []
        first, reason = known[0] if known else (0, "")
        same = f"the transform fails on it as on offset {first}: {reason}"
        return known + [(offset, same) for offset in offsets[FEW:]]

    def _malformed(self, partition: TopicPartition, span: Span, known: set[int]) -> Iterator[tuple[int, str]]:
        """Values that are not JSON of the schema: all of them at once, in one reading."""
        bad = self.transform.source.malformed(self._read(partition, span, known))
        if bad is not None:
            text = f.substring("text", 1, 200).alias("text")
            for row in bad.select("offset", text).limit(self.most).collect():
                yield row.offset, f"the value is not JSON of the schema: {row.text}"

    def _fails(self, partition: TopicPartition, span: Span, skip: set[int]) -> str | None:
        rows = self.transform.apply(self._read(partition, span, skip))
        if self.whole and self.transform.shape.arrow:
            rows = shaped(self.transform, rows, [(partition, span)])
        try:
            rows.write.format("noop").mode("overwrite").save()
        except SparkFailure as error:
            failure = translated(error)
            if isinstance(failure, Unreachable):
                raise failure from None
            if of_a_time(error):
                raise  # it is not the transform's, and no attempt can go without the record
            return failure.message
        return None

    def _read(self, partition: TopicPartition, span: Span, skip: set[int]) -> DataFrame:
        records = self.transform.source.batch(self.records.sparkSession, partition, span)
        skipped = among({partition: skip})
        return records if skipped is None else records.where(~skipped)
