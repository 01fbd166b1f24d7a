"""Transforms that mix Kafka's partitions or stop early, each with the node of its plan that says so."""

from __future__ import annotations

from pyspark.sql import DataFrame

from fencepost.engines.spark.plan import wide_node

WIDE = {
    "SELECT s, count(*) AS n FROM events GROUP BY s": "HashAggregate",
    "SELECT DISTINCT id FROM events": "HashAggregate",
    "SELECT id, _from FROM events LIMIT 3": "CollectLimit",
    "SELECT id, _from FROM events ORDER BY id": "Sort",
    "SELECT events.id, _from FROM events JOIN range(10) AS few ON events.id = few.id": "BroadcastHashJoin",
    "SELECT id, _from FROM events UNION ALL SELECT id, _from FROM events": "Union",
    "SELECT id, row_number() OVER (PARTITION BY s ORDER BY id) AS n FROM events": "Window",
}
seen: dict[str, str | None] = {}


def look(events: DataFrame) -> DataFrame:
    """A plain projection that looks at all of them from inside a batch, where it counts."""
    events.createOrReplaceTempView("events")
    seen.update({query: wide_node(events.sparkSession.sql(query)) for query in WIDE})
    return events.select("id", "_from")
