"""Spark's own streaming Delta sink with its checkpoint, as the control: `native_process.py SETTINGS`, as JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import functions as f

from contract.delta_subject import InDelta
from fencepost.cli.output import emit_json
from spark.flows import SCHEMA


def main() -> None:
    settings = json.loads(sys.argv[1])
    with InDelta.session() as spark:
        kafka = {"kafka.bootstrap.servers": settings["bootstrap.servers"], "subscribe": settings["topic"]}
        records = spark.readStream.format("kafka").options(**kafka, startingOffsets="earliest").load()
        events = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("event"))
        query = (
            events.select("event.id")
            .writeStream.format("delta")
            .option("checkpointLocation", settings["checkpoint"])
            .trigger(availableNow=True)
            .start(settings["path"])
        )
        query.awaitTermination()
    emit_json({"event": "ended"})


if __name__ == "__main__":
    main()
