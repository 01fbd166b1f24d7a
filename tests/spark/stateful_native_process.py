"""Spark's own way with state, the control: foreachBatch, JDBC append, one checkpoint for whoever comes.

`stateful_native_process.py SETTINGS`, as JSON: bootstrap.servers, topic, dsn, checkpoint; `factor`, by which this
version of the code multiplies; `batch`, after whose rows it stops; `id`, at which a task stops, with its `witness`. The
table has the topic's name.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from fencepost.cli.output import emit_json
from fencepost.engines.spark.session import open_session
from fencepost.engines.spark.stateful.rows import STATEFUL
from fencepost.lab.crash import CrashAction, MidCopy
from spark.flows import SPARK
from spark.naive_process import jdbc
from spark.streams import DELAY, SCHEMA, WINDOW


def main() -> int:
    settings = json.loads(sys.argv[1])
    with open_session("native", SPARK) as spark:
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        for name, value in STATEFUL.items():  # as Spark has it by itself
            spark.conf.set(name, value)
        kafka = {"kafka.bootstrap.servers": settings["bootstrap.servers"], "subscribe": settings["topic"]}
        options = {**kafka, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
        records = spark.readStream.format("kafka").options(**options).load()
        query = (
            summed(records, settings)
            .writeStream.foreachBatch(lambda rows, number: append(rows, number, settings))
            .option("checkpointLocation", settings["checkpoint"])
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            emit_json({"event": "failed", "message": str(error)[:1000]})
            return 1
    emit_json({"event": "ended"})
    return 0


def summed(records: DataFrame, settings: dict[str, Any]) -> DataFrame:
    events = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
    if "id" in settings:
        events = events.mapInArrow(stopping(settings["id"], settings["witness"]), events.schema)
    late = events.withColumn("v", f.col("v") * settings.get("factor", 1)).withWatermark("at", f"{DELAY} seconds")
    sums = late.groupBy(f.window("at", f"{WINDOW} seconds"), "user").agg(f.count("*").alias("n"), f.sum("v").alias("v"))
    return sums.select(f.col("window.start").alias("start"), "user", "n", "v")


def stopping(id_: int, witness: str) -> Any:
    def stop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if id_ in batch.column("id").to_pylist():
                yield from MidCopy(1, CrashAction.STOP, Path(witness)).rows([batch])
            else:
                yield batch

    return stop


def append(rows: DataFrame, number: int, settings: dict[str, Any]) -> None:
    table = {**jdbc(settings["dsn"]), "dbtable": settings["topic"]}
    rows.write.format("jdbc").options(**table).mode("append").save()
    emit_json({"event": "written", "number": number})
    if number == settings.get("batch"):
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    sys.exit(main())
