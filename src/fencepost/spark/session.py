"""The Spark session: jars, addresses and the settings that the guarantee stands on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from fencepost.errors import Unreachable

FIXED = {
    # a throw-away checkpoint needs no rename that survives a crash: 115 ms less per batch
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.python.daemon.module": "fencepost.spark.worker_daemon",
    "spark.sql.ansi.enabled": "true",
    "spark.speculation": "false",
}
DEFAULTS = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.log.level": "ERROR",
}
DRIVER_OPTIONS = "-Xss16m"  # stopping in the middle of a Python batch overflows a smaller stack


def settings_of(user: Mapping[str, str], jars: Iterable[Path]) -> dict[str, str]:
    """What the session is made with: our defaults, then the user's, then what is not up to anybody."""
    merged = {**DEFAULTS, **user, **FIXED}
    merged["spark.jars"] = ",".join(filter(None, [*map(str, jars), user.get("spark.jars", "")]))
    merged["spark.driver.extraJavaOptions"] = (
        f"{DRIVER_OPTIONS} {user.get('spark.driver.extraJavaOptions', '')}".strip()
    )
    return merged


def open_session(name: str, settings: Mapping[str, str], java_home: str | None = None) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if java_home:
        os.environ["JAVA_HOME"] = java_home
    builder = SparkSession.builder.appName(f"fencepost {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except RuntimeError as error:  # what pyspark raises when the JVM does not come up
        raise Unreachable(f"Spark does not start: {error}", "see `fencepost doctor`") from error
    session.sparkContext.setLogLevel(settings["spark.log.level"])
    return session
