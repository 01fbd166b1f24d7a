"""The Spark session: jars, addresses and the settings that the guarantee stands on."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost.errors import Unreachable
from fencepost.machine import cache
from fencepost.machine.jars import fetch
from fencepost.machine.java import find, home_for_spark
from fencepost.rules import require_fixed

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
    require_fixed(user, FIXED, "spark")
    merged = {**DEFAULTS, **user, **FIXED}
    merged["spark.jars"] = ",".join(filter(None, [*map(str, jars), user.get("spark.jars", "")]))
    merged["spark.driver.extraJavaOptions"] = (
        f"{DRIVER_OPTIONS} {user.get('spark.driver.extraJavaOptions', '')}".strip()
    )
    return merged


@contextmanager
def open_session(name: str, user: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session with the user's settings, whose own lines go to a file, which is kept when Spark does not start."""
    settings = settings_of(user, fetch("spark"))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(home_for_spark(find(), cache.folder()))
    builder = SparkSession.builder.appName(f"fencepost {name}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    log = Path(tempfile.mkstemp(prefix="fencepost-spark-", suffix=".log")[1])
    try:
        with _stderr_into(log):
            session = builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError) as error:  # whatever pyspark raises when the JVM fails
        raise Unreachable(f"Spark does not start: {str(error).splitlines()[0]}", f"see {log}") from error
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)  # prints what is raised anyway
    try:
        session.sparkContext.setLogLevel(settings["spark.log.level"])
        yield session
    finally:
        session.stop()
        log.unlink(missing_ok=True)


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """What is started inside writes its errors there, for as long as it lives; this process only meanwhile."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
