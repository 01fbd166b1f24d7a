"""The ledger: positions with their owners, moved by compare-and-set. The statements are in ledger.sql, by name.

Every function is one round trip unless it says that it works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any
from uuid import UUID

from psycopg import sql

from fencepost import fence
from fencepost.errors import Fenced, PositionLost, Rewound
from fencepost.fence import Stored, StoredPosition
from fencepost.model import Batch, Landed, StreamStep, Tenure, TopicPartition
from fencepost.sinks.postgres import streams as stream_batches
from fencepost.sinks.postgres.connection import Connection, table_name, translated
from fencepost.sinks.postgres.reading import exists, has_columns
from fencepost.sinks.postgres.statements import query

# A member that stood still a moment ago, between compare-and-set and COMMIT, is ended when the next try finds it so.
TRIES, TRY_SECONDS = 5, 3
_IMPATIENT = "SELECT pg_catalog.set_config('lock_timeout', %s, true)"

# Who stalls in a takeover holds the pipeline's row and is no writer yet, that the next one could end.
_STALL = "SET LOCAL idle_in_transaction_session_timeout = '5s'"


def install(connection: Connection, schema: str, streams: bool = False) -> None:
    """Make our own schema and tables, where they are not there yet. `streams`: one for streams that keep state, too."""
    known = has_columns(connection, f"{schema}.pipelines", "guarantee", "seen_at")
    there = not streams or exists(connection, schema, "streams")  # a ledger may be older than this table
    if known and there and has_columns(connection, f"{schema}.spans", "since"):
        return
    text = files("fencepost.sinks.postgres").joinpath("schema.sql").read_text()
    with translated(f"make the schema {schema!r}"):
        # CREATE IF NOT EXISTS races
        connection.execute("SELECT pg_catalog.pg_advisory_lock(pg_catalog.hashtext(%s))", (schema,))
        try:
            connection.execute(sql.SQL(text).format(schema=sql.Identifier(schema)))
        finally:
            connection.execute("SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext(%s))", (schema,))


def read(connection: Connection, schema: str, pipeline: str) -> Stored:
    """Everything stored for the pipeline; nothing where our tables do not exist."""
    return stored(connection, schema, pipeline) if exists(connection, schema, "positions") else {}


def stored(connection: Connection, schema: str, pipeline: str) -> Stored:
    """The same where our tables exist."""
    return _read(connection, query("stored", schema), {"pipeline": pipeline})


def stored_of(connection: Connection, schema: str, batch: Batch[Any]) -> Stored:
    """Of the batch's partitions; everything, a second round trip, where one of them has no position."""
    asked = {"pipeline": batch.tenure.pipeline} | _places(batch.spans)
    found = _read(connection, query("stored_of", schema), asked)
    return found if found.keys() == batch.spans.keys() else stored(connection, schema, batch.tenure.pipeline)


def _read(connection: Connection, text: sql.Composed, values: Mapping[str, Any]) -> Stored:
    with translated("read the positions"):
        rows = connection.execute(text, values).fetchall()
    return {TopicPartition(topic, partition): StoredPosition(*held) for topic, partition, *held in rows}


def advance(
    connection: Connection, schema: str, batch: Batch[Any], landed: Mapping[TopicPartition, Landed] | None
) -> None:
    """Compare and set, and note the spans, in one statement; Fenced when not every position moved.

    `landed`: what was written for each, where that is known. The caller's transaction makes that all or nothing.
    """
    if batch.step:
        stream_batches.hold(connection, schema, batch.tenure, {at: span.start for at, span in batch.spans.items()})
    wrote = [landed[partition] if landed else None for partition in sorted(batch.noted)]
    counts = {"rows": [one.rows if one else None for one in wrote], "dead": [one.dead if one else 0 for one in wrote]}
    with translated("advance the position"):
        moved = connection.execute(query("advance", schema), _spans(batch) | counts).rowcount
    if moved != len(batch.noted):
        raise Fenced(f"{batch}: only {moved} of {len(batch.noted)} positions are at this batch's start")
    if batch.step:
        stream_batches.move(connection, schema, batch.tenure.pipeline, batch.step)


def retreat(connection: Connection, schema: str, batch: Batch[Any]) -> None:
    """Compare and set back, and forget the spans, in one statement; Fenced when not every position moved.

    For a batch whose positions moved first and of which nothing was written then. The caller's transaction makes that
    all or nothing.
    """
    if batch.step:
        stream_batches.hold(connection, schema, batch.tenure, {at: span.end for at, span in batch.spans.items()})
        back = StreamStep(batch.step.after, batch.step.before)
        stream_batches.move(connection, schema, batch.tenure.pipeline, back)
    with translated("put the position back"):
        (moved,) = connection.execute(query("retreat", schema), _spans(batch)).fetchone() or (0,)
    if moved != len(batch.noted):
        raise Fenced(f"{batch}: only {moved} of {len(batch.noted)} positions are at this batch's end")


def _spans(batch: Batch[Any]) -> dict[str, Any]:
    spans = sorted(batch.noted.items())
    ends = {"starts": [span.start for _, span in spans], "ends": [span.end for _, span in spans]}
    return _places(at for at, _ in spans) | ends | _of(batch.tenure)


def _of(tenure: Tenure) -> dict[str, Any]:
    return {"pipeline": tenure.pipeline, "token": tenure.token}


def _places(partitions: Iterable[TopicPartition]) -> dict[str, Any]:
    places = list(partitions)
    return {"topics": [at.topic for at in places], "partitions": [at.partition for at in places]}


def take_over(
    connection: Connection,
    schema: str,
    wanted: Tenure,
    topic_ids: Mapping[str, str],
    table: str | None,
    hurried: bool = False,
) -> Tenure:
    """Inside the caller's transaction: lock, compare the topics, set the owner, read what stands there.

    `table` is the target: where nothing is stored for the pipeline yet, it must be empty. `hurried`: it does not wait
    for long, because the caller will try again. Raises Unreachable when a lock is not to be had.
    """
    with translated("take over the positions"):
        epoch = _entered(connection, schema, wanted, topic_ids, table, hurried)
        positions = _locked(connection, schema, wanted)
        taken = {partition: positions.get(partition, first) for partition, first in wanted.positions.items()}
        tenure = Tenure(wanted.pipeline, wanted.token, epoch, taken)
        _store(connection, schema, tenure, topic_ids, "own")
        return tenure


def begin(connection: Connection, schema: str, wanted: Tenure, topic_ids: Mapping[str, str], table: str | None) -> None:
    """Inside the caller's transaction: positions where there are none. Those that somebody owns already stay."""
    with translated("begin the positions"):
        epoch = _entered(connection, schema, wanted, topic_ids, table, hurried=True)
        _store(connection, schema, replace(wanted, epoch=epoch), topic_ids, "begin")


def _entered(
    connection: Connection,
    schema: str,
    wanted: Tenure,
    topic_ids: Mapping[str, str],
    table: str | None,
    hurried: bool,
) -> int:
    """With the pipeline's row locked, and its topics and table compared: the owner's epoch."""
    connection.execute(_STALL)
    if hurried:
        connection.execute(_IMPATIENT, (f"{TRY_SECONDS}s",))
    epoch = _epoch_of(connection, schema, wanted)
    there = stored(connection, schema, wanted.pipeline)
    fence.require_same_topics(wanted.pipeline, there, topic_ids)
    if not there and table is not None:
        require_no_rows(connection, wanted.pipeline, table)
    return epoch


def heartbeat(connection: Connection, schema: str, pipeline: str) -> None:
    """A heartbeat: the owner is alive, and a standby keeps waiting."""
    with translated("say that the run lives"):
        connection.execute(query("heartbeat", schema), {"pipeline": pipeline})


def note_guarantee(connection: Connection, schema: str, pipeline: str, guarantee: str) -> None:
    """Under which word it runs from now on."""
    with translated("note the guarantee"):
        connection.execute(query("note_guarantee", schema), {"guarantee": guarantee, "pipeline": pipeline})


def _locked(connection: Connection, schema: str, wanted: Tenure) -> dict[TopicPartition, int]:
    """Where the wanted ones stand; the others belong to members that may be at work on them."""
    rows = connection.execute(query("lock", schema), _places(wanted.positions) | _of(wanted)).fetchall()
    return {TopicPartition(topic, partition): position for topic, partition, position in rows}


def _epoch_of(connection: Connection, schema: str, wanted: Tenure) -> int:
    """Locks the pipeline's row, so that takeovers queue up. Who is the newest owner stays it."""
    (epoch,) = connection.execute(query("enter", schema), _of(wanted)).fetchone() or (0,)
    if not wanted.positions:
        return int(epoch)  # nothing changes hands
    counted = connection.execute(query("count_owner", schema), _of(wanted)).fetchone()
    return int(counted[0] if counted else epoch)


def require_no_rows(connection: Connection, pipeline: str, table: str) -> None:
    """PositionLost where the target holds some: nobody knows which records they came of."""
    if holds_rows(connection, table):
        raise PositionLost(
            f"no position is stored for pipeline {pipeline!r}, but table {table!r} holds rows: "
            "starting from scratch could duplicate them",
            "choose where to continue with `fencepost positions set`, or use an empty table",
        )


def holds_rows(connection: Connection, table: str) -> bool:
    if not exists(connection, *table.split(".")):
        return False
    look = sql.SQL("SELECT EXISTS (SELECT 1 FROM {})").format(table_name(table))
    (found,) = connection.execute(look).fetchone() or (False,)
    return bool(found)


def _store(connection: Connection, schema: str, tenure: Tenure, topic_ids: Mapping[str, str], name: str) -> None:
    taken = sorted(tenure.positions.items())
    values = _places(at for at, _ in taken) | _of(tenure) | {"epoch": tenure.epoch}
    values |= {
        "positions": [position for _, position in taken],
        "topic_ids": [topic_ids.get(at.topic) for at, _ in taken],
    }
    connection.execute(query(name, schema), values)


def require_own(connection: Connection, schema: str, tenure: Tenure, run: UUID) -> None:
    """Fenced where another run owns one of the positions, Rewound where ours was forgotten. Locks nothing."""
    fence.require_own(read(connection, schema, tenure.pipeline), tenure, run)


def renew(connection: Connection, schema: str, tenure: Tenure, run: UUID) -> Tenure:
    """Inside the caller's transaction: what is ours, or was before PostgreSQL forgot it, is owned by the new token.

    Else Fenced. Partitions of which nothing is stored any more are not in the tenure that is returned.
    """
    new = replace(tenure, token=run)
    with translated("renew the ownership"):
        connection.execute(_STALL)
        connection.execute(query("enter", schema), _of(tenure))  # nobody can take over meanwhile
        _locked(connection, schema, tenure)
        held = stored(connection, schema, tenure.pipeline)
        epoch = _epoch_of(connection, schema, new) if _forgotten(held, tenure, run) else tenure.epoch
        positions = {at: held[at].position for at in tenure.positions if at in held}
        connection.execute(query("renew", schema), _places(positions) | _of(new) | {"epoch": epoch})
    return tenure.renewed(run, positions, epoch)


def _forgotten(held: Stored, tenure: Tenure, run: UUID) -> bool:
    """Did PostgreSQL forget even that we took over? Raises Fenced where somebody else owns a position."""
    forgotten = False
    for partition in tenure.positions:
        owner = held[partition].owner if partition in held else None
        if owner not in (tenure.token, run, *tenure.earlier):
            verdict = fence.not_ours(held, tenure, partition, tenure.pipeline)
            if not isinstance(verdict, Rewound):
                raise verdict
            forgotten = True
    return forgotten


def set_positions(
    connection: Connection,
    schema: str,
    tenure: Tenure,
    topic_ids: Mapping[str, str],
    kept: Mapping[TopicPartition, int],
) -> None:
    """Inside the caller's transaction: these positions and no others of their topics, owned by nobody.

    Of `kept` each keeps what is stored in this very moment; where nothing is, it begins at the offset that is given.
    The previous owners are fenced, and the next run takes over from here.
    """
    with translated("set the positions"):
        epoch = _epoch_of(connection, schema, tenure)
        ids = {"topics": list(topic_ids), "topic_ids": list(topic_ids.values()), "pipeline": tenure.pipeline}
        connection.execute(query("archive_spans", schema), ids)
        forget = {
            "pipeline": tenure.pipeline,
            "topics": list({at.topic for at in (*tenure.positions, *kept)}),
            "kept_topics": [at.topic for at in kept],
            "kept_partitions": [at.partition for at in kept],
        }
        connection.execute(query("forget", schema), forget)
        every = replace(tenure, epoch=epoch, positions={**tenure.positions, **kept})
        _store(connection, schema, every, topic_ids, "own")
