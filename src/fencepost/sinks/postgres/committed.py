"""What some runs committed, from the spans that they noted in the same transactions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from fencepost.model import Landed, TopicPartition
from fencepost.sinks.postgres.connection import Connection, statement, translated

_COMMITTED = """
SELECT coalesce(pg_catalog.sum(span.rows), 0)::bigint, coalesce(pg_catalog.sum(span.dead), 0)::bigint
FROM {schema}.spans AS span
JOIN ROWS FROM (
    pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[]),
    pg_catalog.unnest(%(starts)s::bigint[])
) AS first (topic, partition, position)
  ON span.topic = first.topic AND span.partition = first.partition AND span.start_offset >= first.position
WHERE span.pipeline = %(pipeline)s AND span.owner = ANY(%(runs)s)
"""


def committed(
    connection: Connection, schema: str, pipeline: str, runs: Collection[UUID], first: Mapping[TopicPartition, int]
) -> Landed:
    """By these owners, from these positions on."""
    values = {
        "pipeline": pipeline,
        "runs": list(runs),
        "topics": [at.topic for at in first],
        "partitions": [at.partition for at in first],
        "starts": list(first.values()),
    }
    with translated("read the spans"):
        (rows, dead) = connection.execute(statement(_COMMITTED, schema), values).fetchone() or (0, 0)
    return Landed(rows, dead)
