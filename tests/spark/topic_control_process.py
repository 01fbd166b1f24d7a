"""What people write today, as the control: Spark's own Kafka sink, and Spark's checkpoint.

`topic_control_process.py SETTINGS`, as JSON: bootstrap.servers, topic, target, checkpoint, and the id at which a task
stops, once, with the witness of that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import functions as f

from fencepost.cli.output import emit_json
from fencepost.engines.spark.session import open_session
from spark.flows import SCHEMA, SPARK
from spark.topic_faults import StopOnValue


def main() -> None:
    settings = json.loads(sys.argv[1])
    stop = StopOnValue(settings["stop_on"], Path(settings["witness"]))

    def stopping(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (stop(batch).select(["value"]) for batch in batches)

    with open_session("control", SPARK) as spark:
        servers = {"kafka.bootstrap.servers": settings["bootstrap.servers"]}
        records = spark.readStream.format("kafka").options(
            **servers, subscribe=settings["topic"], startingOffsets="earliest"
        )
        parsed = records.load().select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("event"), "offset")
        events = parsed.select("event.id", f.struct("offset").alias("_from"))
        rows = events.mapInArrow(stopping, "value string")  # type: ignore[arg-type]
        writing = {**servers, "topic": settings["target"], "checkpointLocation": settings["checkpoint"]}
        rows.writeStream.format("kafka").options(**writing).trigger(availableNow=True).start().awaitTermination()
    emit_json({"event": "ended"})


if __name__ == "__main__":
    main()
