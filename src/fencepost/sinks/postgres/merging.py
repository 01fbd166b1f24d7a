"""Upsert and dedupe: rows are staged where nobody else sees them, then merged in one short transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from fencepost.errors import Refused, Unreachable
from fencepost.model import Batch, Landed, Merge, Span, TopicPartition
from fencepost.rows.dead_letters import are_dead
from fencepost.sinks.postgres import dead_letters
from fencepost.sinks.postgres.binary_copy import Copier
from fencepost.sinks.postgres.columns import TOMBSTONE, Column
from fencepost.sinks.postgres.connection import Connection, table_name, transaction, translated
from fencepost.sinks.postgres.constraints import check_deferred
from fencepost.sinks.postgres.merge_statement import STAGE, MergeStatement
from fencepost.sinks.postgres.new_keys import BY_INDEX, NewKeys
from fencepost.sinks.postgres.own_session import begin
from fencepost.sinks.postgres.poison import MOST, begin_again, find_poison, find_staged_poison, poison_of

# Somebody else was in the way: another partition with the same new key, or with the same keys in another order.
CONFLICTS = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)
TRIES = 3  # each waits for others as long as a third of `lock_timeout`

HELD = 32 << 20  # bytes: a span of more is staged whole, so that no more than this is kept

# The first try goes beside those of other partitions, the later ones alone.
_PREPARE = """
SELECT pg_catalog.pg_advisory_xact_lock{kind}(pg_catalog.hashtext('fencepost.merge'),
                                              pg_catalog.to_regclass({table})::pg_catalog.oid::integer),
       pg_catalog.set_config('lock_timeout', '10s', true)
"""


def require_keys(merge: Merge, rows: pa.RecordBatch, partition: TopicPartition | None) -> None:
    """Refuse rows whose key is null. `partition`: None where they came from several."""
    for name in merge.key:
        missing = pc.is_null(rows.column(name))
        if not pc.any(missing).as_py():
            continue
        reason = f"its key {name!r} is null"
        if merge.deletes:
            reason += ": an event without a value has no fields, so take the key from Kafka's key"
        if "_offset" not in rows.schema.names:
            where = partition or "the batch"
            raise Refused(f"{where}: there is a record, and {reason}", "filter such records out")
        bad = rows.filter(missing)
        raise poison_of(bad, [(row, reason) for row in range(bad.num_rows)], partition)


def _up_to(most: int, rows: Iterator[pa.RecordBatch]) -> tuple[Sequence[pa.RecordBatch], bool]:
    """The first parts, of about so many bytes, and whether these are all."""
    held, size = [], 0
    for part in rows:
        held.append(part)
        size += part.nbytes
        if size > most:
            return held, False
    return held, True


class Merging:
    """A session's stage, and the way from there into the table."""

    def __init__(
        self,
        table: str,
        columns: Sequence[Column],
        merge: Merge,
        source: sql.Composable | None = None,
        most_bad: int = MOST,
    ) -> None:
        """`source`: where the rows are instead, staged already. `most_bad`: records that are named at once."""
        self._table, self._most_bad = table, most_bad
        self._target, self._merge = tuple(columns), merge
        self._columns = (*columns, TOMBSTONE) if merge.deletes else tuple(columns)
        self._statement = MergeStatement(table, columns, merge, source)
        self._new_keys = NewKeys(table, columns, merge)
        self._reset()

    def _reset(self) -> None:
        self._rows = 0
        self._staged = False  # there is something in the stage
        self._fresh: pa.RecordBatch | None = None  # rows that are not staged: their keys are new, as it seems
        self._letters: list[pa.RecordBatch] = []  # for the dead letters' table

    def stage(self, connection: Connection, batch: Batch[Iterator[pa.RecordBatch]]) -> None:
        """Read the rows, once, in transactions of their own that hold no lock which anybody else could want."""
        self._reset()
        with translated("make a temporary table"):
            connection.execute(self._statement.make_stage())
        partition, _ = batch.only_span()
        rows = self._checked(batch.rows, partition)
        held, whole = _up_to(HELD, rows)
        if held and whole:
            sifted = self._new_keys.sift(connection, held)
            self._fresh, held = sifted.fresh, sifted.others
        if held:
            self._copy(connection, chain(held, rows), partition)

    def _checked(self, rows: Iterator[pa.RecordBatch], partition: TopicPartition) -> Iterator[pa.RecordBatch]:
        for part in rows:
            if are_dead(part):
                self._letters.append(part)
            elif part.num_rows:
                require_keys(self._merge, part, partition)
                self._rows += part.num_rows
                yield part

    def _copy(
        self, connection: Connection, rows: Iterable[pa.RecordBatch], partition: TopicPartition, more: bool = False
    ) -> None:
        """Into the stage; `more`: beside what is there."""
        with transaction(connection):
            with translated("empty the temporary table"):
                connection.execute("SET LOCAL synchronous_commit TO off")  # nothing here outlives the session
                if not more:
                    connection.execute(sql.SQL("TRUNCATE {}").format(table_name(STAGE)))
            copier = Copier(connection, STAGE, self._columns)
            try:
                for part in rows:
                    copier.send(part)
                copier.settle()
            except Refused as refusal:
                raise find_poison(connection, copier, partition, refusal, self._most_bad) from refusal.__cause__
        self._staged = True

    def take(self, connection: Connection, batch: Batch[Any]) -> Landed:
        """Into the table, as the first thing in the caller's transaction.

        That is begun again where somebody was in the way, because the rows cannot be read again. Raises Unreachable
        when somebody always is; Refused or Poison for rows that the table does not take.
        """
        tries = TRIES if self._staged else 0
        if self._fresh is not None:
            tries = 0 if self._take_fresh(connection, self._fresh, batch) else TRIES - 1
        try:
            if tries:
                with translated(f"merge rows into {self._table!r}"):
                    self.merge(connection, tries)
        except Refused as refusal:
            raise self._named(connection, batch, refusal) from refusal.__cause__
        for letters in self._letters:
            Copier(connection, dead_letters.table_for(self._table), dead_letters.COLUMNS).copy(letters)
        return Landed(self._rows, sum(letters.num_rows for letters in self._letters))

    def _take_fresh(self, connection: Connection, fresh: pa.RecordBatch, batch: Batch[Any]) -> bool:
        """Merge what is staged, and copy fresh rows straight into the table: one try.

        False where anything was in the way: then all rows are staged, and the transaction is begun again.
        """
        landing = fresh.drop_columns([TOMBSTONE.name]) if self._merge.deletes else fresh
        try:
            with translated(f"merge rows into {self._table!r}"):
                self._prepare(connection, alone=False)
                if self._staged:
                    connection.execute(self._statement.text())
                Copier(connection, self._table, self._target).copy(landing)
            return True
        except (Refused, Unreachable) as trouble:
            if isinstance(trouble, Unreachable) and not isinstance(trouble.__cause__, CONFLICTS):
                raise
        self._new_keys.distrust()
        self._fresh = None
        with translated("begin the transaction again"):
            connection.execute("ROLLBACK")
            self._copy(connection, [fresh], batch.only_span()[0], more=self._staged)
            begin(connection)
        return False

    def merge(self, connection: Connection, tries: int = TRIES) -> None:
        """The statement, as often as it takes; in the end it raises what the driver raises."""
        for turn in range(1, tries):
            try:
                self._once(connection, alone=turn > 1)
                return
            except CONFLICTS:
                connection.execute("ROLLBACK")
                begin(connection)
        self._once(connection, alone=True)

    def _once(self, connection: Connection, alone: bool) -> None:
        self._prepare(connection, alone)
        connection.execute(self._statement.text())
        check_deferred(connection)

    def _prepare(self, connection: Connection, alone: bool) -> None:
        """Staged rows are looked up one by one in their order, whatever the planner thinks: so are locks taken."""
        kind, table = sql.SQL("" if alone else "_shared"), table_name(self._table).as_string(connection)
        connection.execute(sql.SQL(_PREPARE).format(kind=kind, table=sql.Literal(table)))
        connection.execute(BY_INDEX)

    def _named(self, connection: Connection, batch: Batch[Any], refusal: Refused) -> Refused:
        """The refusal with the offsets of the records that caused it, where the rows know where they came from."""
        if not refusal.about_values or "_offset" not in {column.name for column in self._columns}:
            return refusal
        with translated("look for the records that were refused"):
            begin_again(connection)
            self._prepare(connection, alone=True)
            connection.execute(self._statement.keep_winners())

        def attempt(offsets: Span) -> None:
            with translated(f"merge rows into {self._table!r}"):
                connection.execute(self._statement.text(offsets))
                check_deferred(connection, trying=True)

        return find_staged_poison(connection, *batch.only_span(), attempt, refusal, self._most_bad)
