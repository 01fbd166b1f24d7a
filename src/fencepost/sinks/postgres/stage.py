"""The stage: tables of our own into which the tasks of one batch copy rows, for the driver to move from there.

A task attempt adds its rows and a row that says "done" in one transaction. The tables are unlogged: after a crash of
PostgreSQL they are there and empty, which only the counts tell. A name is never used twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg
import pyarrow as pa
from psycopg import pq, sql

from fencepost.errors import Refused, Unreachable, Usage
from fencepost.model import Merge, TopicPartition
from fencepost.sinks.postgres.binary_copy import Copier
from fencepost.sinks.postgres.columns import TOMBSTONE, Column
from fencepost.sinks.postgres.connection import Connection, short_hash, table_name, transaction, translated
from fencepost.sinks.postgres.merging import require_keys
from fencepost.sinks.postgres.poison import MOST, find_poison

ATTEMPT = Column("_fencepost_attempt", "bigint")
Counts = Counter[TopicPartition | None]  # rows by where they came from; None where they do not know


@dataclass(frozen=True)
class Attempt:
    """A task attempt whose rows are in the stage: what it tells the driver, and leaves in its done row."""

    task: int
    number: int  # of all attempts in one Spark application
    rows: int
    origins: tuple[tuple[str | None, int | None, int], ...] = ()  # topic, partition, rows
    in_order: bool = False  # the rows came by offset, so those of one event were numbered right

    def counts(self) -> Counts:
        known: Counts = Counter()
        for topic, partition, rows in self.origins:
            known[None if topic is None or partition is None else TopicPartition(topic, partition)] += rows
        known[None] += self.rows - known.total()
        return known


@dataclass(frozen=True)
class Stage:
    """One try of one batch. It crosses to Spark's workers."""

    schema: str
    name: str
    table: str  # the target
    columns: tuple[Column, ...]  # the target's, as far as they are given
    provenance: bool  # the rows know where they came from
    merge: Merge | None = None
    most_bad: int = MOST  # records that are named at once

    @property
    def carried(self) -> tuple[Column, ...]:
        """What the tasks give: the target's columns, and whether the event has no value."""
        return (*self.columns, TOMBSTONE) if self.merge and self.merge.deletes else self.columns

    @property
    def rows(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    @property
    def done(self) -> sql.Identifier:
        return sql.Identifier(self.schema, f"{self.name}_done")

    def make(self, connection: Connection) -> None:
        """With the target's own types and collations, so that equal here is equal there."""
        names = [sql.Identifier(column.name) for column in self.carried if column != TOMBSTONE]
        marks = [(sql.SQL("0::bigint"), ATTEMPT)]
        if TOMBSTONE in self.carried:
            marks.append((sql.SQL("false"), TOMBSTONE))
        made = [sql.SQL("{} AS {}").format(value, sql.Identifier(column.name)) for value, column in marks]
        rows = sql.SQL(
            "CREATE UNLOGGED TABLE {} WITH (autovacuum_enabled = false) AS SELECT {} FROM {} WITH NO DATA"
        ).format(self.rows, sql.SQL(", ").join([*names, *made]), table_name(self.table))
        done = sql.SQL("CREATE UNLOGGED TABLE {} (task integer, attempt bigint, rows bigint)").format(self.done)
        with transaction(connection), translated("make a stage"):
            connection.execute(rows)
            connection.execute(done)

    def fill(self, connection: Connection, task: int, attempt: int, rows: Iterable[pa.RecordBatch]) -> Attempt:
        """Everything of one attempt, in one transaction. `rows` raises where its end is not the end of the input."""
        counts: Counter[tuple[str | None, int | None]] = Counter()
        with transaction(connection), self.being_there():
            self._copy(connection, attempt, _counted(rows, counts, self.provenance))
            origins = tuple((topic, partition, size) for (topic, partition), size in counts.items())
            filled = Attempt(task, attempt, counts.total(), origins)
            with translated("say that a task is done"):
                insert = sql.SQL("INSERT INTO {} VALUES (%s, %s, %s)").format(self.done)
                connection.execute(insert, (task, attempt, filled.rows))
        return filled

    def _copy(self, connection: Connection, attempt: int, rows: Iterable[pa.RecordBatch]) -> None:
        copier = Copier(connection, f"{self.schema}.{self.name}", (*self.carried, ATTEMPT))
        try:
            for part in rows:
                if part.num_rows:
                    if self.merge:
                        require_keys(self.merge, part, None)
                    mark = pa.repeat(pa.scalar(attempt, pa.int64()), part.num_rows)
                    copier.send(part.append_column(ATTEMPT.name, mark))
            copier.settle()
        except Refused as refusal:
            raise find_poison(connection, copier, None, refusal, self.most_bad) from refusal.__cause__

    @contextmanager
    def being_there(self) -> Iterator[None]:
        """A stage that is gone was dropped by whoever took over: the ledger will tell."""
        try:
            yield
        except Refused as refusal:
            if _is_gone(refusal):
                raise Unreachable("the stage of this batch is gone: another run may have taken over") from refusal
            raise


def _is_gone(refusal: Refused) -> bool:
    return isinstance(refusal.__cause__, psycopg.errors.UndefinedTable)


def _counted(
    rows: Iterable[pa.RecordBatch], counts: Counter[tuple[str | None, int | None]], provenance: bool
) -> Iterator[pa.RecordBatch]:
    """The same rows, counted by where they came from."""
    for part in rows:
        if provenance:
            groups = pa.table(part.select(["_topic", "_partition"]).columns, names=["topic", "partition"])
            for group in groups.group_by(["topic", "partition"]).aggregate([([], "count_all")]).to_pylist():
                counts[group["topic"], group["partition"]] += group["count_all"]
        else:
            counts[None, None] += part.num_rows
        yield part


# -- names, by which stages are found again


def _of_pipeline(pipeline: str) -> str:
    return f"stage_{short_hash(pipeline)}_"


def _of_run(pipeline: str, run: UUID) -> str:
    return f"{_of_pipeline(pipeline)}{run.hex[:12]}_"


def name_for(pipeline: str, run: UUID, number: int) -> str:
    """PostgreSQL cuts names at 63 bytes; this is far below."""
    return f"{_of_run(pipeline, run)}{number}"


_FIND = """
SELECT relname FROM pg_catalog.pg_class
WHERE relnamespace = pg_catalog.to_regnamespace(%s)::pg_catalog.oid AND relkind = 'r' AND relpersistence = 'u'
  AND pg_catalog.starts_with(relname::pg_catalog.text, %s) AND pg_catalog.starts_with(relname::pg_catalog.text, %s) = %s
  AND pg_catalog.pg_has_role(relowner, 'USAGE')
ORDER BY oid DESC
"""


DROP_WAIT = "100ms"  # for each: a backup may hold it for hours
MOST_HELD = 5  # then the rest is left too


def drop_stages(connection: Connection, schema: str, pipeline: str, run: UUID, others: bool) -> None:
    """Those of this run, or those of all other runs of the pipeline; a role drops only its own.

    Inside the caller's transaction, as the last thing in it. What somebody holds, or depends on, is left for the next
    one who comes by: nothing depends on it, and a name is never used again.
    """
    with translated("look for the stages of earlier batches"):
        where = sql.Identifier(schema).as_string(connection)
        found = connection.execute(_FIND, (where, _of_pipeline(pipeline), _of_run(pipeline, run), not others))
        names = [name for (name,) in found.fetchall()]
        held = 0
        for name in names:
            held += not _dropped(connection, sql.Identifier(schema, name))
            if held == MOST_HELD:
                return


def _dropped(connection: Connection, stage: sql.Identifier) -> bool:
    connection.execute("SAVEPOINT stage")
    try:
        connection.execute("SELECT pg_catalog.set_config('lock_timeout', %s, true)", (DROP_WAIT,))
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(stage))
    except psycopg.Error:
        if connection.pgconn.transaction_status != pq.TransactionStatus.INERROR:
            raise  # the connection is gone
        connection.execute("ROLLBACK TO stage")
        return False
    return True


_MAY = """
SELECT pg_catalog.has_schema_privilege(oid, 'CREATE'), current_user::pg_catalog.text
FROM pg_catalog.pg_namespace WHERE nspname = %s
"""


def require_right(connection: Connection, schema: str, node: str) -> None:
    """Refuse a role that may not make a stage; where the schema is not there yet, making it will tell."""
    with translated("look for the right to make a stage"):
        found = connection.execute(_MAY, (schema,)).fetchone()
    if found and not found[0]:
        names = (sql.Identifier(name).as_string(connection) for name in (schema, found[1]))
        raise Usage(
            f"the transform mixes Kafka's partitions ({node}), so its rows go through a table in schema {schema!r}, "
            "where this role may make none",
            "GRANT CREATE ON SCHEMA {} TO {}".format(*names),
        )
