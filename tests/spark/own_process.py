"""Somebody's own stream in a process of its own, drained once: `own_process.py SETTINGS`, as JSON.

SETTINGS: kafka, topic, name, sink, guarantee, checkpoint; `crash` with step, partition, deed and witness; `starting`:
from the stored positions; `raw`: records as they came; `wide`: with a plan that mixes partitions. With `jdbc` in place
of `sink` it is what people write today, the control.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from fencepost import spark as fencepost_spark
from fencepost.cli.output import emit_json
from fencepost.delivery import Observer, nobody
from fencepost.engines.listener import BatchDone, News
from fencepost.engines.spark.own_stream import OwnStream
from fencepost.errors import FencepostError
from fencepost.lab.crash import CrashAction, CrashPoint
from fencepost.model import Step, TopicPartition
from spark.naive_process import jdbc
from spark.own import SOURCE, ids, own_records

LOCAL = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}


def main() -> int:
    settings = json.loads(sys.argv[1])
    writer = control(settings) if "jdbc" in settings else own(settings)
    with session(settings) as spark:
        records = own_records(spark, settings["kafka"], settings["topic"], {**SOURCE, **starting(settings)})
        query = (
            rows(records, settings)
            .writeStream.foreachBatch(writer)
            .option("checkpointLocation", settings["checkpoint"])
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException:
            return failed(writer)
    emit_json({"event": "ended"})
    return 0


def rows(records: DataFrame, settings: dict[str, Any]) -> DataFrame:
    if settings.get("raw"):
        return records
    return ids(records).repartition(2) if settings.get("wide") else ids(records)


def session(settings: dict[str, Any]) -> SparkSession:
    """As the author of a stream makes one."""
    builder = SparkSession.builder.appName("own")
    for name, value in LOCAL.items():
        builder = builder.config(name, value)
    sink = settings.get("sink", {"format": "postgres", "options": {"table": "none"}})
    made: SparkSession = fencepost_spark.configure(builder, sink=sink).getOrCreate()
    return made


def own(settings: dict[str, Any]) -> OwnStream:
    parts = {"name": settings["name"], "guarantee": settings["guarantee"], "sink": settings["sink"]}
    return OwnStream({**parts, "batch": {"small": settings.get("small", 0)}}, listen=tell, see=crash(settings))


def starting(settings: dict[str, Any]) -> dict[str, str]:
    if not settings.get("starting"):
        return {}
    named = {"sink": settings["sink"], "kafka": settings["kafka"], "topics": settings["topic"]}
    return {"startingOffsets": fencepost_spark.starting_offsets(settings["name"], **named)}


def crash(settings: dict[str, Any]) -> Observer:
    if "crash" not in settings:
        return nobody
    step, partition, deed, witness = settings["crash"]
    return CrashPoint(Step(step), TopicPartition(settings["topic"], partition), CrashAction(deed), Path(witness))


def tell(news: News) -> None:
    if isinstance(news, BatchDone):
        emit_json({"event": "batch", "rows": news.rows, "already": news.already})


def control(settings: dict[str, Any]) -> Callable[[DataFrame, int], None]:
    """Spark's own JDBC append; killed once, before Spark writes down that the batch is done."""

    def append(made: DataFrame, _number: int) -> None:
        table = {**jdbc(settings["jdbc"]), "dbtable": settings["name"]}
        made.select("id").write.format("jdbc").options(**table).mode("append").save()
        emit_json({"event": "written"})
        if settings.get("dies"):
            os.kill(os.getpid(), signal.SIGSTOP)

    return append


def failed(writer: Any) -> int:
    error = writer.error
    if not isinstance(error, FencepostError):
        raise error
    emit_json({"event": "failed", **error.facts()})
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
