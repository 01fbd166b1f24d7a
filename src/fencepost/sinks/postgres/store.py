"""The store: one connection's view of the sink and its ledger, and the transaction that moves both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pyarrow as pa
from psycopg.conninfo import make_conninfo
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from fencepost import fence
from fencepost.errors import FencepostError, PositionLost, Refused, Rewound, Unreachable
from fencepost.fence import Stored
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Merge, Span, StreamBatch, Tenure, TopicPartition
from fencepost.rows.dead_letters import are_dead
from fencepost.sinks.postgres import dead_letters, ledger, streams, writers
from fencepost.sinks.postgres.binary_copy import Copier
from fencepost.sinks.postgres.columns import Column
from fencepost.sinks.postgres.connection import Connection, connect, mark_as_writer, transaction, without_secrets
from fencepost.sinks.postgres.earlier_topic import require_renamed
from fencepost.sinks.postgres.folding import RETENTION, SpanFolder
from fencepost.sinks.postgres.merging import Merging
from fencepost.sinks.postgres.moving import Staged
from fencepost.sinks.postgres.poison import MOST, begin_again, find_poison
from fencepost.sinks.postgres.repeated import find_repeated, is_unique, knows_place, with_dedupe_remedy
from fencepost.sinks.postgres.stage import drop_stages

T = TypeVar("T")

Rows = Iterator[pa.RecordBatch]
Write = Callable[[Connection, Batch[Any]], Landed]


@dataclass(frozen=True)
class PostgresSettings:
    """What a writer must know; it crosses to Spark's workers."""

    dsn: str
    pipeline: str
    table: str  # `orders` or `shop.orders`
    columns: tuple[Column, ...]  # in the order of the rows' own
    schema: str = "fencepost"  # where our own tables are
    members: bool = False  # several processes own parts of the pipeline at once, as a consumer group's members do
    merge: Merge | None = None  # rows of one key become one; None: every row is added
    guarantee: str | None = None  # under which it runs: kept for whoever asks later
    retention: timedelta = RETENTION  # for how long each commit has a span of its own
    most_bad: int = MOST  # records that are named at once: as many as may be dead-lettered
    streams: bool = False  # the pipeline keeps state: its last batch is kept beside the positions

    def __repr__(self) -> str:
        return f"PostgresSettings({self.pipeline!r} into {self.table!r})"  # the DSN may hold a password

    def open(self) -> PostgresStore:
        return PostgresStore(self)

    def without_secrets(self) -> tuple[PostgresSettings, Mapping[str, str]]:
        """As everybody may see it, and what was taken out of the connection string."""
        dsn, secrets = without_secrets(self.dsn)
        return replace(self, dsn=dsn), secrets

    def with_secrets(self, secrets: Mapping[str, str]) -> PostgresSettings:
        return replace(self, dsn=make_conninfo(self.dsn, **secrets))


class PostgresStore:
    """An atomic sink on one connection, which is opened when it is first needed."""

    def __init__(self, settings: PostgresSettings, write: Write | None = None) -> None:
        """`write` takes a batch into the transaction in another way than by COPY into the table."""
        self._settings = self.settings = settings
        self._merging = _merging(settings)
        self._take = write or (self._merging.take if self._merging else self._copy)
        self._open: Connection | None = None
        self._written: tuple[Mapping[TopicPartition, Span], Landed | None] = ({}, None)  # by the last `write`
        self._writes = False  # is the open connection marked as a writer's?
        self._folder = SpanFolder(settings.schema, settings.pipeline, settings.retention)

    # -- the sink

    def write(self, batch: Batch[Rows]) -> Landed:
        """Rows in a transaction of their own: for the two guarantees that take two steps."""
        self._stage(batch)
        with transaction(self.writer()) as connection:
            landed = self._take(connection, batch)
        self._written = (batch.spans, landed)
        return landed

    @contextmanager
    def transaction(self, batch: Batch[Rows]) -> Iterator[PostgresTransaction]:
        self._stage(batch)
        with transaction(self.writer()) as connection:
            yield PostgresTransaction(self, connection)
        self.fold(batch.spans)

    def _stage(self, batch: Batch[Rows]) -> None:
        """Where rows are merged they are read before the transaction: it is short, and may be begun again."""
        if self._merging:
            self._merging.stage(self.writer(), batch)

    # -- the ledger

    def install(self) -> None:
        """Make our own tables, where they are not there yet."""
        ledger.install(self.connection(), self._settings.schema, self._settings.streams)

    def positions(self, pipeline: str) -> Mapping[TopicPartition, int]:
        return {at: held.position for at, held in self.stored(pipeline).items()}

    def stored(self, pipeline: str) -> Stored:
        """The same with their owners."""
        return ledger.read(self.connection(), self._settings.schema, pipeline)

    def done(self, batch: Batch[Any]) -> bool:
        stored = ledger.stored_of(self.connection(), self._settings.schema, batch)
        held = self.stream(batch.tenure.pipeline) if batch.step else None
        return fence.batch_landed(stored, held, batch)

    def begin_stream(self, tenure: Tenure, first: StreamBatch) -> None:
        """Before its first batch; may be repeated until one has landed."""
        with transaction(self.writer()) as connection:
            streams.begin(connection, self._settings.schema, tenure, first)

    def stream(self, pipeline: str) -> StreamBatch | None:
        """Of a stream that keeps state the last batch that landed."""
        return streams.read(self.connection(), self._settings.schema, pipeline)

    def advance(self, batch: Batch[Any]) -> None:
        spans, landed = self._written
        self._written = ({}, None)
        with transaction(self.writer()) as connection:
            shares = _shares(batch, landed) if landed and spans == batch.spans else None
            ledger.advance(connection, self._settings.schema, batch, shares)
        self.fold(batch.spans)

    def fold(self, partitions: Iterable[TopicPartition]) -> None:
        """Now and then, a bounded part of what is old. Whatever becomes of that, what landed has landed."""
        for partition in filter(self._folder.due, partitions):
            with suppress(FencepostError):
                self._folder.step(self.connection(), partition)

    def retreat(self, batch: Batch[Any]) -> None:
        with transaction(self.writer()) as connection:
            ledger.retreat(connection, self._settings.schema, batch)

    def require_same(self, pipeline: str, topic_ids: Mapping[str, str]) -> None:
        fence.require_same_topics(pipeline, self.stored(pipeline), topic_ids)

    def take_over(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> Tenure:
        self.install()
        return self._insist(self._take_over, Tenure(pipeline, run, 0, first), topic_ids)

    def begin(
        self, pipeline: str, run: UUID, first: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> None:
        """Positions for partitions that have none; the owners of the others keep them."""
        self.install()
        self._insist(self._begin, Tenure(pipeline, run, 0, first), topic_ids)

    def _insist(self, act: Callable[[Tenure, Mapping[str, str]], T], wanted: Tenure, ids: Mapping[str, str]) -> T:
        tries = stop_after_attempt(ledger.TRIES if self._settings.members else 1)
        return Retrying(stop=tries, retry=retry_if_exception_type(Unreachable), reraise=True)(act, wanted, ids)

    def _begin(self, wanted: Tenure, topic_ids: Mapping[str, str]) -> None:
        with transaction(self.connection()) as connection:
            ledger.begin(connection, self._settings.schema, wanted, topic_ids, self._settings.table or None)

    def _take_over(self, wanted: Tenure, topic_ids: Mapping[str, str]) -> Tenure:
        own = self._settings
        self._end_writers(wanted.pipeline)
        with self._freed(wanted), transaction(self.connection()) as connection:
            tenure = ledger.take_over(connection, own.schema, wanted, topic_ids, own.table or None, own.members)
            if own.guarantee:
                ledger.note_guarantee(connection, own.schema, wanted.pipeline, own.guarantee)
            self._drop_stages(connection, tenure)
            return tenure

    def renew(self, tenure: Tenure, run: UUID) -> Tenure:
        # first: a run that was replaced must not end its successor's writers
        with suppress(Rewound):
            ledger.require_own(self.connection(), self._settings.schema, tenure, run)
        self._end_writers(tenure.pipeline)
        with self._freed(tenure), transaction(self.connection()) as connection:
            renewed = ledger.renew(connection, self._settings.schema, tenure, run)
            self._drop_stages(connection, renewed)
            return renewed

    def _drop_stages(self, connection: Connection, tenure: Tenure) -> None:
        """Those of earlier runs, under the locks of the takeover: nobody can be at work on a newer one meanwhile."""
        if not self._settings.members:
            drop_stages(connection, self._settings.schema, tenure.pipeline, tenure.token, others=True)

    def _end_writers(self, pipeline: str) -> None:
        if self._settings.members:
            merged = self._settings.table if self._settings.merge else None
            writers.end_stuck_writers(self.connection(), self._settings.schema, pipeline, merged)
        else:
            writers.end_writers(self.connection(), self._settings.schema, pipeline)

    @contextmanager
    def _freed(self, wanted: Tenure) -> Iterator[None]:
        """Refused where somebody of another role holds what is wanted."""
        writers.require_free(self.connection(), self._settings.schema, wanted)
        with writers.naming_holders(self.connection(), self._settings.schema, wanted):
            yield

    def set_positions(
        self,
        pipeline: str,
        positions: Mapping[TopicPartition, int],
        topic_ids: Mapping[str, str],
        kept: Mapping[TopicPartition, int] | None = None,
        anew: bool = False,
    ) -> None:
        """Put the positions of these topics elsewhere by hand; a run that is under way ends as fenced.

        `kept`: partitions that stay where they are, each with where to begin if nothing is stored of it. `anew`: a
        stream that keeps state begins there, with an empty one. Raises Usage where upsert would take rows of an earlier
        topic of the same name for newer, PositionLost where a stream would begin over rows.
        """
        self.install()
        writers.end_writers(self.connection(), self._settings.schema, pipeline)
        stay = kept or {}
        concerned = Tenure(pipeline, uuid4(), 0, {**stay, **positions})
        with self._freed(concerned), transaction(self.connection()) as connection:
            moved = Tenure(pipeline, concerned.token, 0, positions)
            own = self._settings
            before = ledger.stored(connection, own.schema, pipeline)
            require_renamed(connection, own.table, own.merge, before, topic_ids)
            ledger.set_positions(connection, self._settings.schema, moved, topic_ids, stay)
            if anew:
                _require_empty(connection, own.table)
                streams.forget(connection, own.schema, pipeline)

    # -- the connection

    def connection(self) -> Connection:
        if self._open is None or self._open.closed or self._open.broken:
            self._open = connect(self._settings.dsn)
            self._writes = False
        return self._open

    def writer(self) -> Connection:
        """The connection under the name by which a takeover finds those that write."""
        connection = self.connection()
        if not self._writes:
            mark_as_writer(connection, self._settings.pipeline, self._settings.schema)
            self._writes = True
        return connection

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _copy(self, connection: Connection, batch: Batch[Rows]) -> Landed:
        copier = Copier(connection, self._settings.table, self._settings.columns, marked=True)
        rows = aside = 0
        try:
            for part in batch.rows:
                if are_dead(part):
                    copier.settle()
                    Copier(connection, dead_letters.table_for(self._settings.table), dead_letters.COLUMNS).copy(part)
                    aside += part.num_rows
                elif part.num_rows:
                    copier.send(part)
                    rows += part.num_rows
            copier.settle()
        except Refused as refusal:
            place, _ = batch.only_span()
            raise self._named(connection, copier, place, refusal) from refusal.__cause__
        return Landed(rows=rows, dead=aside)

    def _named(self, connection: Connection, copier: Copier, place: TopicPartition, refusal: Refused) -> Refused:
        """The refusal with the records that caused it, where they can be told."""
        own = self._settings
        repeats = own.guarantee == Guarantee.AT_LEAST_ONCE
        if repeats and is_unique(refusal):
            if not knows_place(own.columns):
                return with_dedupe_remedy(refusal)
            begin_again(connection)
            if repeated := find_repeated(connection, own.table, own.columns, copier.refused, place, refusal):
                return repeated
            repeats = False
        return find_poison(connection, copier, place, refusal, own.most_bad, repeats)


class PostgresTransaction:
    """Rows and position in one transaction; the compare-and-set comes last, so a stalled writer blocks nobody."""

    def __init__(self, store: PostgresStore, connection: Connection) -> None:
        self._store = store
        self._connection = connection
        self._landed = Landed(rows=0)

    def write(self, batch: Batch[Rows]) -> Landed:
        self._landed = self._store._take(self._connection, batch)
        return self._landed

    def advance(self, batch: Batch[Any]) -> None:
        ledger.advance(self._connection, self._store._settings.schema, batch, _shares(batch, self._landed))


def _require_empty(connection: Connection, table: str) -> None:
    if ledger.holds_rows(connection, table):
        raise PositionLost(
            f"table {table!r} holds rows: those of records that are read again would come twice",
            "empty it, or name another table in the pipeline file",
        )


def _merging(own: PostgresSettings) -> Merging | None:
    return Merging(own.table, own.columns, own.merge, most_bad=own.most_bad) if own.merge else None


def _shares(batch: Batch[Any], landed: Landed) -> Mapping[TopicPartition, Landed]:
    """What landed, by span. Whoever took several at once knows which rows came of which."""
    return batch.rows.shares(batch.noted) if isinstance(batch.rows, Staged) else dict.fromkeys(batch.spans, landed)
