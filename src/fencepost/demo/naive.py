"""What people write today: foreachBatch with Spark's JDBC append, and Spark's own checkpoint. The demo's control.

`python -m fencepost.demo.naive JSON` runs it until the topic is drained.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Recipe:
    """From where to where."""

    servers: str
    topic: str
    url: str
    user: str
    table: str
    checkpoint: str
    records: int  # per batch


def run(recipe: Recipe) -> None:
    from pyspark.sql import SparkSession

    from fencepost.machine.jars import fetch

    builder = SparkSession.builder.master("local[*]").config("spark.jars", ",".join(map(str, fetch("spark"))))
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(name, "127.0.0.1")
    spark = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    properties = {"user": recipe.user, "driver": "org.postgresql.Driver"}

    def append(batch: DataFrame, _number: int) -> None:
        rows = batch.selectExpr("cast(get_json_object(cast(value AS string), '$.id') AS long) AS id")
        rows.write.jdbc(recipe.url, recipe.table, mode="append", properties=properties)

    options = {
        "kafka.bootstrap.servers": recipe.servers,
        "subscribe": recipe.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(recipe.records),
    }
    source = spark.readStream.format("kafka").options(**options).load()
    query = source.writeStream.foreachBatch(append).option("checkpointLocation", recipe.checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    run(Recipe(**json.loads(sys.argv[1])))
