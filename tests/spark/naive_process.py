"""What people write today, as the control: foreachBatch, Spark's own JDBC append, and Spark's checkpoint.

`naive_process.py SETTINGS`, as JSON: bootstrap.servers, topic, dsn, checkpoint, and the id at which a task stops, once,
with the witness of that. The table has the topic's name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from fencepost.cli.output import emit_json
from fencepost.engines.spark.session import open_session
from fencepost.local.postgres import read_password
from spark.faults import StopOn
from spark.flows import SCHEMA, SPARK


def main() -> None:
    settings = json.loads(sys.argv[1])
    stop = StopOn(settings["stop_on"], Path(settings["witness"]))
    with open_session("naive", SPARK) as spark:
        kafka = {"kafka.bootstrap.servers": settings["bootstrap.servers"], "subscribe": settings["topic"]}
        records = spark.readStream.format("kafka").options(**kafka, startingOffsets="earliest").load()
        events = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("event"), "offset")
        query = (
            events.select("event.id", f.struct("offset").alias("_from"))
            .writeStream.foreachBatch(partial(append, stop=stop, settings=settings))
            .option("checkpointLocation", settings["checkpoint"])
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    emit_json({"event": "ended"})


def append(events: DataFrame, _number: int, stop: StopOn, settings: dict[str, str]) -> None:
    def stopping(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (stop(batch).select(["id"]) for batch in batches)

    rows = events.mapInArrow(stopping, "id long")  # type: ignore[arg-type]
    rows.write.format("jdbc").options(**jdbc(settings["dsn"]), dbtable=settings["topic"]).mode("append").save()


def jdbc(dsn: str) -> dict[str, str]:
    """libpq's connection string in JDBC's words."""
    libpq = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    return {
        "url": f"jdbc:postgresql://{libpq['host']}:{libpq['port']}/{libpq['dbname']}?sslmode=disable",
        "user": libpq["user"],
        "password": read_password(Path(libpq["passfile"])),
        "driver": "org.postgresql.Driver",
    }


if __name__ == "__main__":
    main()
