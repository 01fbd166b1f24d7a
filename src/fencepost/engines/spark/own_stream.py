"""Somebody's own stream: what its `foreachBatch` calls, so that its batches land under a guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from threading import Lock, Thread
from typing import Any, NoReturn
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from fencepost.delivery import Ledger, Observer, nobody
from fencepost.engines.listener import BatchDone, Listener, unheard
from fencepost.engines.renewal import renewed
from fencepost.engines.spark import plan
from fencepost.engines.spark.failures import SparkFailure, translated
from fencepost.engines.spark.own_term import OwnTerm, kafka_of, open_term, require_settings
from fencepost.engines.spark.query import Reads, RunningQuery, query_of
from fencepost.engines.spark.user_session import require_session, user_settings
from fencepost.errors import Fenced, Poison, Rewound, Usage
from fencepost.model import Tenure
from fencepost.spec import PipelineSpec, spec_of

_landed: dict[str, tuple[str, int]] = {}  # by pipeline: run of a query, and number of its batch that landed last


class OwnStream:
    """One run of the pipeline: it takes the positions over with its first batch, and nobody takes them back for it.

    `error` is what ended the query, as it was raised: Spark has only its text.
    """

    def __init__(
        self,
        parts: Mapping[str, Any],
        kafka: Mapping[str, str] | None = None,
        listen: Listener = unheard,
        see: Observer = nobody,
    ) -> None:
        """`parts`: name, guarantee and sink, as in a pipeline file."""
        self._parts = dict(parts)
        self._kafka, self._listen, self._see = kafka, listen, see
        self._one_at_a_time = Lock()
        self._term: OwnTerm | None = None
        self._tenure: Tenure | None = None
        self._token = uuid4()  # of the next term; known before it is asked for, so that asking can be repeated
        self._runs: set[str] = set()  # of the query, those that are over too
        self._last: tuple[str, int] | None = None  # run and number of the last batch
        self.error: BaseException | None = None
        self.declared(("unknown",))  # what is wrong with it is said at once

    def declared(
        self, topics: tuple[str, ...], kafka: Mapping[str, str] | None = None, spark: Mapping[str, str] | None = None
    ) -> PipelineSpec:
        """The pipeline that a file would declare."""
        source = {"topics": list(topics)}
        return spec_of({**self._parts, "source": source, "kafka": dict(kafka or {}), "spark": dict(spark or {})})

    def __getstate__(self) -> NoReturn:
        raise Usage(
            "Spark Connect runs foreachBatch elsewhere, where the plan of a batch is out of reach",
            "start the stream in a session of its own: spark-submit in client mode, a script, a notebook",
        )

    def __call__(self, records: DataFrame, number: int) -> None:
        """Deliver the batch. What it raises ends the query."""
        with self._one_at_a_time:
            if isinstance(self.error, Fenced) and not isinstance(self.error, Rewound):
                raise self.error
            try:
                self._carry(records, number)
            except SparkFailure as failure:
                self._failed(translated(failure))
            except BaseException as error:  # noqa: BLE001 (kept whole on our side: what crosses to Spark is text)
                self._failed(error)

    def _failed(self, error: BaseException) -> NoReturn:
        if self._term is not None:
            error = self._term.explained(error)
        if isinstance(error, Poison):
            error.remedy = "fix the stream, or the table: dead letters are for pipelines"
        self.error = error
        self._close()
        raise error from None

    def _carry(self, records: DataFrame, number: int) -> None:
        query = query_of(records)
        self._require_next(query, number)
        if query.run not in self._runs:
            query.require_kafka()  # before anybody looks at what it reads
        reads = query.reads()
        term = self._term
        if term is None or term.ended(query, reads):
            term = self._begun(query, records, reads)
        term.carrier.begin()
        spans = plan.spans_below(records, reads.records, query.nodes())
        done = term.carrier.carry(records, number, spans)
        self._require_alone(done, query)
        self._listen(done)

    def _require_next(self, query: RunningQuery, number: int) -> None:
        """Refuse what would be taken for a replay, or for a batch whose turn it is."""
        name, last = self._parts["name"], self._last
        self._last = (query.run, number)
        if last == self._last and self.error is not None:  # whoever tries again hears why once more
            raise self.error
        if last == self._last:
            raise Usage(
                f"pipeline {name!r}: batch {number} is written twice, and the second part would say already",
                "give it all rows in one call, or each part a name and a sink of its own",
            )
        if last is not None and last[0] == query.run and self.error is None and number > last[1] + 1:
            raise Usage(
                f"pipeline {name!r}: batch {number} comes after batch {last[1]}: what lies between was not given to it",
                "call it for each batch, for those without rows too (no isEmpty() before it): their positions move",
            )
        if self._term is not None and self._term.query.run == query.run:
            return
        if query.run not in self._runs:
            return
        if self.error is not None:  # whoever swallowed it would go on without the batch
            raise self.error
        raise Usage(f"pipeline {name!r}: two queries write through one object", "make one for each, with its own name")

    def _require_alone(self, done: BatchDone, query: RunningQuery) -> None:
        """Refuse what says already only because another object of this name has just landed it, maybe elsewhere."""
        name, batch = str(self._parts["name"]), (query.run, done.number)
        if done.already and _landed.get(name) == batch:
            raise Usage(
                f"pipeline {name!r}: two objects of this name write batch {done.number}, and the second says already",
                "give each part a name and a sink of its own",
            )
        if done.already < len(done.positions):
            _landed[name] = batch

    def _begun(self, query: RunningQuery, records: DataFrame, reads: Reads) -> OwnTerm:
        """The first batch of a query's run, or one that reads what was added to the topic: all is checked again."""
        self._runs.add(query.run)
        self._close()
        spec = self.declared(reads.topics, self._kafka or kafka_of(query), user_settings(records.sparkSession))
        require_settings(spec, records.sparkSession, query)
        require_session(records.sparkSession, spec)
        self._term = open_term(spec, query, records, self._owned, self._see)
        Thread(target=self._tidy, args=(self._term,), name="fencepost-end", daemon=True).start()
        return self._term

    def _owned(self, ledger: Ledger, reads: Reads, topic_ids: Mapping[str, str]) -> Tenure:
        """Only the first term takes over; each further one renews the token of this very run."""
        if self._tenure is None:
            name, token = str(self._parts["name"]), self._token
            self._tenure = ledger.take_over(name, token, reads.starts, topic_ids)
        else:
            self._tenure = renewed(ledger, self._tenure, self._token, lambda _: reads.starts, topic_ids)
        self._token = uuid4()
        return self._tenure

    def _tidy(self, term: OwnTerm) -> None:
        """Nobody tells of the end of a query, so somebody waits for it."""
        with suppress(PySparkException, Py4JError, OSError):  # its author is told
            term.query.wait()
        with self._one_at_a_time, closing(term):
            if self._term is term:
                self._term = None

    def _close(self) -> None:
        if self._term is not None:
            self._term.close()
        self._term = None
