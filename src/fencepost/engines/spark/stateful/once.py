"""Rows of a stream that keeps state, made once a batch: who reads them again must not write the state again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from fencepost.engines.spark.failures import SparkFailure
from fencepost.errors import Unreachable


@dataclass(frozen=True)
class MadeOnce:
    """Held by the executors, in memory or on disk. What is lost there is missed, and never made again."""

    frame: DataFrame

    def rows(self, most: int) -> DataFrame | None:
        """In so many parts at most, each of which is a file of a table; None where there is no row."""
        return None if self.frame.isEmpty() else self.frame.coalesce(most)

    def require_whole(self, failure: Exception) -> None:
        """Raises Unreachable where parts are lost: the batch can be run again, by another term."""
        held = [one for one in self._context.getRDDStorageInfo() if one.id() == self._rdd.id()]
        if sum(one.numCachedPartitions() for one in held) < self._rdd.getNumPartitions():
            raise Unreachable("Spark lost rows of the batch with the executor that held them") from failure

    def forget(self) -> None:
        self._context.unpersistRDD(self._rdd.id(), False)

    @property
    def _context(self) -> Any:
        return self.frame.sparkSession.sparkContext._jsc.sc()

    @property
    def _rdd(self) -> Any:
        return self.frame._jdf.queryExecution().analyzed().rdd()


@contextmanager
def made_once(rows: DataFrame) -> Iterator[MadeOnce]:
    """By one job, in which the state is written, too. Raises what Spark raises; lets go of the rows afterwards."""
    made = MadeOnce(rows.localCheckpoint(eager=True))
    try:
        yield made
    except SparkFailure as failure:
        made.require_whole(failure)
        raise
    finally:
        with suppress(Py4JError):  # of a Spark that is gone
            made.forget()
