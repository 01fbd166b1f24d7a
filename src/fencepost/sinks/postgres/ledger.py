"""The ledger's SQL: positions with their owners, moved by compare-and-set. Every function is one round trip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any, LiteralString
from uuid import UUID

from psycopg import sql

from fencepost.errors import Fenced, PositionLost, Rewound, TopicRecreated
from fencepost.kafka.names import read_anew
from fencepost.model import Batch, Landed, Tenure, TopicPartition
from fencepost.sinks.postgres.connection import Connection, statement, table_name, translated
from fencepost.sinks.postgres.reading import exists, has_columns

Held = dict[TopicPartition, tuple[int, UUID, int]]  # position, owner, epoch
NOBODY = (0, None, 0)


def install(connection: Connection, schema: str) -> None:
    """Make our own schema and tables, where they are not there yet."""
    known = has_columns(connection, f"{schema}.pipelines", "guarantee", "seen_at")
    if known and has_columns(connection, f"{schema}.spans", "since"):
        return
    text = files("fencepost.sinks.postgres").joinpath("schema.sql").read_text()
    with translated(f"make the schema {schema!r}"):
        # CREATE IF NOT EXISTS races
        connection.execute("SELECT pg_catalog.pg_advisory_lock(pg_catalog.hashtext(%s))", (schema,))
        try:
            connection.execute(sql.SQL(text).format(schema=sql.Identifier(schema)))
        finally:
            connection.execute("SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtext(%s))", (schema,))


def read(connection: Connection, schema: str, pipeline: str) -> Held:
    """Everything stored for the pipeline; nothing where our tables do not exist."""
    return held_by(connection, schema, pipeline) if exists(connection, schema, "positions") else {}


def held_by(connection: Connection, schema: str, pipeline: str) -> Held:
    """The same where our tables exist: one round trip."""
    query = statement(
        "SELECT topic, partition, position, owner, epoch FROM {schema}.positions WHERE pipeline = %s", schema
    )
    with translated("read the positions"):
        rows = connection.execute(query, (pipeline,)).fetchall()
    return {
        TopicPartition(topic, partition): (position, owner, epoch) for topic, partition, position, owner, epoch in rows
    }


def compare(held: Held, batch: Batch[Any]) -> bool:
    """At the end (True) or at the start (False) of the batch, under its owner; else Fenced, or Rewound."""
    for partition in batch.spans:
        if held.get(partition, NOBODY)[1] != batch.tenure.token:
            raise _not_ours(held, batch.tenure, partition, str(batch))
    stored = {partition: held[partition][0] for partition in batch.spans}
    if all(stored[partition] == span.end for partition, span in batch.spans.items()):
        return True
    if all(stored[partition] == span.start for partition, span in batch.spans.items()):
        return False
    where = ", ".join(f"{partition} at {position}" for partition, position in sorted(stored.items()))
    if all(stored[partition] <= span.start for partition, span in batch.spans.items()):
        raise Rewound(f"{batch}: the stored positions are {where}")
    raise Fenced(f"{batch}: the stored positions are {where}")


def _not_ours(held: Held, tenure: Tenure, partition: TopicPartition, doing: str) -> Fenced:
    """Whoever is stored there took over after us (Fenced), or PostgreSQL forgot what we did (Rewound).

    It forgot where a token of ours is back that we had replaced, and where what is stored is older than our own
    takeover: every owner has a higher epoch than those before.
    """
    _, owner, epoch = held.get(partition, NOBODY)
    now = f"run {owner} (epoch {epoch})" if owner else "nobody"
    said = f"{doing}: {partition} is owned by {now}, not by run {tenure.token} (epoch {tenure.epoch})"
    newest = max((one for _, _, one in held.values()), default=0)
    back = Rewound(f"{said}: PostgreSQL went back to before that")
    back.takeover_lost = owner not in tenure.earlier and (epoch < tenure.epoch if owner else newest <= tenure.epoch)
    return back if back.takeover_lost or owner in tenure.earlier else Fenced(said)


_ADVANCE = """
WITH span AS (
    SELECT * FROM ROWS FROM (
        pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[]),
        pg_catalog.unnest(%(starts)s::bigint[]), pg_catalog.unnest(%(ends)s::bigint[]),
        pg_catalog.unnest(%(rows)s::bigint[]), pg_catalog.unnest(%(dead)s::bigint[])
    ) AS span (topic, partition, start_offset, end_offset, rows, dead)
), moved AS (
    UPDATE {schema}.positions AS held
    SET position = span.end_offset, moved_at = pg_catalog.clock_timestamp()
    FROM span
    WHERE held.pipeline = %(pipeline)s AND held.topic = span.topic AND held.partition = span.partition
      AND held.position = span.start_offset AND held.owner = %(run)s
    RETURNING span.*
)
INSERT INTO {schema}.spans (pipeline, topic, partition, start_offset, end_offset, owner, rows, dead)
SELECT %(pipeline)s, topic, partition, start_offset, end_offset, %(run)s, rows, dead FROM moved
"""


def advance(
    connection: Connection, schema: str, batch: Batch[Any], landed: Mapping[TopicPartition, Landed] | None
) -> None:
    """Compare and set, and note the spans, in one statement; Fenced when not every position moved.

    `landed`: what was written for each, where that is known. The caller's transaction makes that all or nothing.
    """
    spans = sorted(batch.spans.items())
    values = {
        "topics": [partition.topic for partition, _ in spans],
        "partitions": [partition.partition for partition, _ in spans],
        "starts": [span.start for _, span in spans],
        "ends": [span.end for _, span in spans],
        "pipeline": batch.tenure.pipeline,
        "run": batch.tenure.token,
        "rows": [landed[partition].rows if landed else None for partition, _ in spans],
        "dead": [landed[partition].dead if landed else 0 for partition, _ in spans],
    }
    with translated("advance the position"):
        moved = connection.execute(statement(_ADVANCE, schema), values).rowcount
    if moved != len(spans):
        raise Fenced(f"{batch}: only {moved} of {len(spans)} positions stand where this batch begins")


_RETREAT = """
WITH span AS (
    SELECT * FROM ROWS FROM (
        pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[]),
        pg_catalog.unnest(%(starts)s::bigint[]), pg_catalog.unnest(%(ends)s::bigint[])
    ) AS span (topic, partition, start_offset, end_offset)
), moved AS (
    UPDATE {schema}.positions AS held
    SET position = span.start_offset, moved_at = pg_catalog.clock_timestamp()
    FROM span
    WHERE held.pipeline = %(pipeline)s AND held.topic = span.topic AND held.partition = span.partition
      AND held.position = span.end_offset AND held.owner = %(run)s
    RETURNING span.*
), undone AS (
    DELETE FROM {schema}.spans AS noted USING moved
    WHERE noted.pipeline = %(pipeline)s AND noted.topic = moved.topic AND noted.partition = moved.partition
      AND noted.start_offset = moved.start_offset AND noted.end_offset = moved.end_offset AND noted.owner = %(run)s
)
SELECT pg_catalog.count(*) FROM moved
"""


def retreat(connection: Connection, schema: str, batch: Batch[Any]) -> None:
    """Compare and set back, and forget the spans, in one statement; Fenced when not every position moved.

    For a batch whose positions moved first and of which nothing was written then. The caller's transaction makes that
    all or nothing.
    """
    spans = sorted(batch.spans.items())
    values = {
        "topics": [partition.topic for partition, _ in spans],
        "partitions": [partition.partition for partition, _ in spans],
        "starts": [span.start for _, span in spans],
        "ends": [span.end for _, span in spans],
        "pipeline": batch.tenure.pipeline,
        "run": batch.tenure.token,
    }
    with translated("put the position back"):
        (moved,) = connection.execute(statement(_RETREAT, schema), values).fetchone() or (0,)
    if moved != len(spans):
        raise Fenced(f"{batch}: only {moved} of {len(spans)} positions stand where this batch ends")


# A member that stood still a moment ago, between compare-and-set and COMMIT, is ended when the next try finds it so.
TRIES, TRY_SECONDS = 5, 3
_IMPATIENT = "SELECT pg_catalog.set_config('lock_timeout', %s, true)"

# Who stalls in a takeover holds the pipeline's row and is no writer yet, that the next one could end.
_STALL = "SET LOCAL idle_in_transaction_session_timeout = '5s'"


_STORED = "SELECT topic, topic_id FROM {schema}.positions WHERE pipeline = %s"
_LOCKED = """
SELECT topic, partition, position FROM {schema}.positions
WHERE pipeline = %s AND (topic, partition) IN (
    SELECT * FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.text[]), pg_catalog.unnest(%s::integer[]))
)
ORDER BY topic, partition FOR UPDATE
"""


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
        _store(connection, schema, tenure, topic_ids, _OWN)
        return tenure


def begin(connection: Connection, schema: str, wanted: Tenure, topic_ids: Mapping[str, str], table: str | None) -> None:
    """Inside the caller's transaction: positions where there are none. Those that somebody owns already stay."""
    with translated("begin the positions"):
        epoch = _entered(connection, schema, wanted, topic_ids, table, hurried=True)
        _store(connection, schema, Tenure(wanted.pipeline, wanted.token, epoch, wanted.positions), topic_ids, _KEEP)


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
    stored = connection.execute(statement(_STORED, schema), (wanted.pipeline,)).fetchall()
    same_topics(wanted.pipeline, dict(stored), topic_ids)
    if not stored and table is not None:
        _refuse_rows(connection, wanted.pipeline, table)
    return epoch


def heartbeat(connection: Connection, schema: str, pipeline: str) -> None:
    """Its owner lives: whoever stands by waits on."""
    with translated("say that the run lives"):
        text: LiteralString = "UPDATE {schema}.pipelines SET seen_at = pg_catalog.clock_timestamp() WHERE pipeline = %s"
        connection.execute(statement(text, schema), (pipeline,))


def note_guarantee(connection: Connection, schema: str, pipeline: str, guarantee: str) -> None:
    """Under which word it runs from now on."""
    with translated("note the guarantee"):
        query = statement("UPDATE {schema}.pipelines SET guarantee = %s WHERE pipeline = %s", schema)
        connection.execute(query, (guarantee, pipeline))


def _locked(connection: Connection, schema: str, wanted: Tenure) -> dict[TopicPartition, int]:
    """Where the wanted ones stand; the others belong to members that may be at work on them."""
    topics, partitions = [at.topic for at in wanted.positions], [at.partition for at in wanted.positions]
    rows = connection.execute(statement(_LOCKED, schema), (wanted.pipeline, topics, partitions)).fetchall()
    return {TopicPartition(topic, partition): position for topic, partition, position in rows}


_ENTER = """
INSERT INTO {schema}.pipelines (pipeline, taken_at) VALUES (%s, pg_catalog.clock_timestamp())
ON CONFLICT (pipeline) DO UPDATE SET taken_at = excluded.taken_at RETURNING epoch
"""
_COUNT = """
UPDATE {schema}.pipelines AS one SET epoch = epoch + 1
WHERE pipeline = %(pipeline)s AND NOT EXISTS (
    SELECT 1 FROM {schema}.positions AS held
    WHERE held.pipeline = %(pipeline)s AND held.owner = %(run)s AND held.epoch = one.epoch
)
RETURNING epoch
"""


def _epoch_of(connection: Connection, schema: str, wanted: Tenure) -> int:
    """Locks the pipeline's row, so that takeovers queue up behind each other. Who is the newest owner stays it."""
    (epoch,) = connection.execute(statement(_ENTER, schema), (wanted.pipeline,)).fetchone() or (0,)
    if not wanted.positions:
        return int(epoch)  # nothing changes hands
    counted = connection.execute(
        statement(_COUNT, schema), {"pipeline": wanted.pipeline, "run": wanted.token}
    ).fetchone()
    return int(counted[0] if counted else epoch)


def same_topics(pipeline: str, stored: Mapping[str, str | None], now: Mapping[str, str]) -> None:
    for topic, topic_id in stored.items():
        if topic_id and now.get(topic) and now[topic] != topic_id:
            raise TopicRecreated(
                f"topic {topic!r} was deleted and made anew since {pipeline!r} read it: its offsets mean other records",
                read_anew(topic),
            )


def _refuse_rows(connection: Connection, pipeline: str, table: str) -> None:
    if not exists(connection, *table.split(".")):
        return
    query = sql.SQL("SELECT EXISTS (SELECT 1 FROM {})").format(table_name(table))
    (holds_rows,) = connection.execute(query).fetchone() or (False,)
    if holds_rows:
        raise PositionLost(
            f"no position is stored for pipeline {pipeline!r}, but table {table!r} holds rows: "
            "starting anew could double them",
            "say where to go on with `fencepost positions set`, or use an empty table",
        )


_STORE = """
INSERT INTO {schema}.positions AS held (pipeline, topic, partition, position, owner, epoch, topic_id)
SELECT %(pipeline)s, topic, partition, position, %(run)s, %(epoch)s, topic_id
FROM ROWS FROM (
    pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[]),
    pg_catalog.unnest(%(positions)s::bigint[]), pg_catalog.unnest(%(topic_ids)s::pg_catalog.text[])
) AS taken (topic, partition, position, topic_id)
ON CONFLICT (pipeline, topic, partition) DO """
_KEEP = _STORE + "NOTHING"
_OWN = (
    _STORE
    + "UPDATE SET owner = excluded.owner, epoch = excluded.epoch, "
    + "topic_id = coalesce(excluded.topic_id, held.topic_id)"
)


def _store(
    connection: Connection, schema: str, tenure: Tenure, topic_ids: Mapping[str, str], query: LiteralString
) -> None:
    taken = sorted(tenure.positions.items())
    values = {
        "pipeline": tenure.pipeline,
        "run": tenure.token,
        "epoch": tenure.epoch,
        "topics": [partition.topic for partition, _ in taken],
        "partitions": [partition.partition for partition, _ in taken],
        "positions": [position for _, position in taken],
        "topic_ids": [topic_ids.get(partition.topic) for partition, _ in taken],
    }
    connection.execute(statement(query, schema), values)


def require_own(connection: Connection, schema: str, tenure: Tenure, run: UUID) -> None:
    """Fenced where another run owns one of the positions, Rewound where ours was forgotten. Locks nothing."""
    held = read(connection, schema, tenure.pipeline)
    for partition in tenure.positions:
        if held.get(partition, NOBODY)[1] not in (tenure.token, run):
            raise _not_ours(held, tenure, partition, tenure.pipeline)


_RENEW = """
UPDATE {schema}.positions SET owner = %(new)s, epoch = %(epoch)s
WHERE pipeline = %(pipeline)s AND (topic, partition) IN (SELECT * FROM ROWS FROM (
    pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[])
))
"""


def renew(connection: Connection, schema: str, tenure: Tenure, run: UUID) -> Tenure:
    """Inside the caller's transaction: what is ours, or was before PostgreSQL forgot it, is owned by the new token.

    Else Fenced. Partitions of which nothing is stored any more are not in the tenure that is returned.
    """
    with translated("renew the ownership"):
        connection.execute(_STALL)
        connection.execute(statement(_ENTER, schema), (tenure.pipeline,))  # nobody can take over meanwhile
        _locked(connection, schema, tenure)
        held = held_by(connection, schema, tenure.pipeline)
        forgotten = [at for at in tenure.positions if _owned(held, tenure, run, at) is False]
        epoch = _epoch_of(connection, schema, replace(tenure, token=run)) if forgotten else tenure.epoch
        positions = {at: held[at][0] for at in tenure.positions if at in held}
        values = {
            "pipeline": tenure.pipeline,
            "new": run,
            "epoch": epoch,
            "topics": [partition.topic for partition in positions],
            "partitions": [partition.partition for partition in positions],
        }
        connection.execute(statement(_RENEW, schema), values)
    return tenure.renewed(run, positions, epoch)


def _owned(held: Held, tenure: Tenure, run: UUID, partition: TopicPartition) -> bool:
    """By a token of ours; False where PostgreSQL forgot even that we took over. Raises Fenced."""
    _, owner, _ = held.get(partition, NOBODY)
    if owner in (tenure.token, run, *tenure.earlier):
        return True
    verdict = _not_ours(held, tenure, partition, tenure.pipeline)
    if isinstance(verdict, Rewound):
        return False
    raise verdict


# A topic that was deleted and made anew has other records at the same offsets: what was carried is kept beside.
_SET_ASIDE = """
UPDATE {schema}.spans AS span SET topic = span.topic || '@' || held.topic_id
FROM (SELECT DISTINCT topic, topic_id FROM {schema}.positions WHERE pipeline = %(pipeline)s) AS held
JOIN ROWS FROM (pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(topic_ids)s::pg_catalog.text[]))
    AS now (topic, topic_id) USING (topic)
WHERE span.pipeline = %(pipeline)s AND span.topic = held.topic AND held.topic_id <> now.topic_id
"""


_FORGET = """
DELETE FROM {schema}.positions AS held
WHERE pipeline = %(pipeline)s AND topic = ANY (%(topics)s) AND NOT EXISTS (
    SELECT FROM ROWS FROM (
        pg_catalog.unnest(%(kept_topics)s::pg_catalog.text[]), pg_catalog.unnest(%(kept_partitions)s::integer[])
    ) AS kept (topic, partition)
    WHERE kept.topic = held.topic AND kept.partition = held.partition
)
"""


def set_positions(
    connection: Connection,
    schema: str,
    tenure: Tenure,
    topic_ids: Mapping[str, str],
    kept: Mapping[TopicPartition, int],
) -> None:
    """Inside the caller's transaction: these positions and no others of their topics, owned by nobody.

    Of `kept` each keeps what is stored in this very moment; where nothing is, it begins at the offset that is given.
    Whoever owned any of them is fenced, and the next run takes over from here.
    """
    with translated("set the positions"):
        epoch = _epoch_of(connection, schema, tenure)
        ids = {"topics": list(topic_ids), "topic_ids": list(topic_ids.values()), "pipeline": tenure.pipeline}
        connection.execute(statement(_SET_ASIDE, schema), ids)
        forget = {
            "pipeline": tenure.pipeline,
            "topics": list({at.topic for at in (*tenure.positions, *kept)}),
            "kept_topics": [at.topic for at in kept],
            "kept_partitions": [at.partition for at in kept],
        }
        connection.execute(statement(_FORGET, schema), forget)
        every = {**tenure.positions, **kept}
        _store(connection, schema, Tenure(tenure.pipeline, tenure.token, epoch, every), topic_ids, _OWN)
