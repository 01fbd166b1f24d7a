"""Old spans of one owner that follow each other become one row, so that the ledger does not grow for ever.

What they say together stays: which offsets were delivered, how many rows and dead letters came of them, when the first
and the last of them landed. A gap, an overlap, another owner, or rows that nobody counted begin a new row.
"""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

from fencepost.model import TopicPartition
from fencepost.sinks.postgres.connection import Connection, statement, transaction, translated

RETENTION = timedelta(days=7)  # for how long each commit has a row of its own
EVERY = 60.0  # seconds between two steps
WINDOW = 5_000  # spans that one step looks at, of one partition

# Beside the batches: it waits for nobody, and what is lost of it in a crash is folded again.
_QUIETLY = """
SELECT pg_catalog.set_config('lock_timeout', '200ms', true), pg_catalog.set_config('statement_timeout', '5s', true),
       pg_catalog.set_config('synchronous_commit', 'off', true)
"""
_ALONE = "SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext(%s), pg_catalog.hashtext(%s))"

# Spans of one owner and one partition are committed in the order of their offsets.
_FOLD = """
WITH there AS (
    SELECT id, start_offset, end_offset, owner, rows, dead, landed_at, since FROM {schema}.spans
    WHERE pipeline = %(pipeline)s AND topic = %(topic)s AND partition = %(partition)s AND start_offset >= %(first)s
    ORDER BY start_offset, id LIMIT %(window)s
), old AS (
    SELECT *, pg_catalog.lag(id) OVER following AS last_id, pg_catalog.lag(end_offset) OVER following AS last_end,
           pg_catalog.lag(rows IS NULL) OVER following AS last_uncounted
    FROM there WHERE landed_at < pg_catalog.clock_timestamp() - %(retention)s::interval
    WINDOW following AS (PARTITION BY owner ORDER BY start_offset, id)
), numbered AS (
    SELECT *, pg_catalog.count(*) FILTER (
        WHERE (id > last_id AND start_offset = last_end AND (rows IS NULL) = last_uncounted) IS NOT TRUE
    ) OVER (PARTITION BY owner ORDER BY start_offset, id) AS number
    FROM old
), folded AS (
    SELECT pg_catalog.min(id) AS id, pg_catalog.array_agg(id) AS ids,
           pg_catalog.min(start_offset) AS start_offset, pg_catalog.max(end_offset) AS end_offset,
           pg_catalog.sum(rows)::bigint AS rows, pg_catalog.sum(dead)::bigint AS dead,
           pg_catalog.max(landed_at) AS landed_at, pg_catalog.min(coalesce(since, landed_at)) AS since
    FROM numbered GROUP BY owner, number
), gone AS (
    DELETE FROM {schema}.spans AS span USING folded WHERE span.id = ANY(folded.ids) AND span.id <> folded.id
), kept AS (
    UPDATE {schema}.spans AS span
    SET end_offset = folded.end_offset, rows = folded.rows, dead = folded.dead, landed_at = folded.landed_at,
        since = folded.since
    FROM folded WHERE span.id = folded.id AND pg_catalog.cardinality(folded.ids) > 1
)
SELECT (SELECT pg_catalog.max(start_offset) FROM folded), (SELECT pg_catalog.count(*) FROM old),
       (SELECT pg_catalog.count(*) FROM folded)
"""


class SpanFolder:
    """Folds the spans of one pipeline, a bounded step now and then."""

    def __init__(self, schema: str, pipeline: str, retention: timedelta) -> None:
        self._schema = schema
        self._pipeline = pipeline
        self._retention = retention
        self._born = monotonic()  # who lives shorter than EVERY leaves it to others
        self._tried: dict[TopicPartition, float] = {}
        self._reached: dict[TopicPartition, int] = {}  # of each partition where the last step left off

    def due(self, partition: TopicPartition) -> bool:
        """True once in a while."""
        if monotonic() < self._tried.get(partition, self._born) + EVERY:
            return False
        self._tried[partition] = monotonic()
        return True

    def reached(self, partition: TopicPartition) -> int:
        """Where the next step begins."""
        return self._reached.get(partition, 0)

    def step(self, connection: Connection, partition: TopicPartition) -> int:
        """How many rows fewer there are. In a transaction of its own; another one's step at this moment does it too."""
        with transaction(connection), translated("fold old spans"):
            connection.execute(_QUIETLY)
            place = f"{self._schema}.{self._pipeline}"
            (alone,) = connection.execute(_ALONE, (f"fencepost.fold.{place}", str(partition))).fetchone() or (False,)
            if not alone:
                return 0
            values = {
                "pipeline": self._pipeline,
                "topic": partition.topic,
                "partition": partition.partition,
                "first": self.reached(partition),
                "window": WINDOW,
                "retention": self._retention,
            }
            found = connection.execute(statement(_FOLD, self._schema), values).fetchone() or (None, 0, 0)
        reached, before, after = found
        if reached is not None:
            self._reached[partition] = reached
        return int(before - after)
