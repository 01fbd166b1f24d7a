"""What a Spark session that somebody else makes must have, and how it gets it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from fencepost.engines.spark import scratch
from fencepost.engines.spark.session import DRIVER_OPTIONS, FIXED, NOTHING, hidden_of, submit_args
from fencepost.errors import Usage
from fencepost.machine import cache
from fencepost.machine.jars import fetch
from fencepost.machine.java import find, home_for_spark
from fencepost.rules.findings import require_fixed
from fencepost.sinks.kind import NeedsSpark, SparkNeeds
from fencepost.spec import PipelineSpec

# Of ours what does not hang on the checkpoint being one that is thrown away
NEEDED = {name: value for name, value in FIXED.items() if name != "spark.sql.streaming.checkpointFileManagerClass"}
LISTS = ("spark.jars", "spark.sql.extensions")  # to which others add, too
SET_BY_US = "spark.fencepost.set"  # names: what is not the user's own
_JAVA = "spark.driver.extraJavaOptions"
_OF_SUBMIT = "PYSPARK_GATEWAY_PORT"  # in the environment of a script that spark-submit starts
_SOURCE = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_DEFAULTS = {"spark.speculation": "false"}  # where nobody sets them


def settings_for(spec: PipelineSpec) -> dict[str, str]:
    """Everything that a session needs for this sink, besides what is in `spec.spark`, which is the user's."""
    needs = _needs(spec)
    jars = ",".join(map(str, fetch("spark", *needs.jars)))
    wanted = {**needs.fixed, **NEEDED, "spark.jars": jars, _JAVA: DRIVER_OPTIONS}
    plain = {name: value for name, value in wanted.items() if name not in (*LISTS, _JAVA)}
    require_fixed(spec.spark, plain, "the builder")
    joined = {name: _joined(spec.spark, wanted, name, ",") for name in LISTS if name in wanted}
    java = {_JAVA: _joined(spec.spark, wanted, _JAVA, " ")}
    defaults = {name: value for name, value in needs.defaults.items() if name not in spec.spark}
    made = {**defaults, **plain, **joined, **java}
    return {**made, SET_BY_US: ",".join(sorted(made))}


def configure(builder: Any, spec: PipelineSpec) -> Any:
    """The builder with all of it, and this process with a Java and a Python for Spark where none is named."""
    settings = settings_for(spec)
    runs = bool(SparkContext._gateway) or _OF_SUBMIT in os.environ
    if runs:
        _require_source(settings["spark.jars"])
    hidden = {} if runs else hidden_of(settings)
    if hidden:  # pyspark writes the rest into the command line of Spark's process, where everybody can read it
        os.environ["PYSPARK_SUBMIT_ARGS"] = submit_args(hidden, scratch.folder() / "configured.properties")
    for name, value in settings.items():
        builder = builder if name in hidden else builder.config(name, value)
    if "JAVA_HOME" not in os.environ:
        os.environ["JAVA_HOME"] = str(home_for_spark(find(), cache.folder()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder


def _require_source(jars: str) -> None:
    """Raises Usage where Java runs already, and has no source of Kafka: nobody can change its class path any more."""
    SparkContext._ensure_initialized()
    if not SparkContext._jvm.org.apache.spark.util.Utils.classIsLoadable(_SOURCE):  # type: ignore[union-attr]
        raise Usage(
            "Spark's Java runs already, without its Kafka source",
            f"under spark-submit say which jars it needs: spark-submit --jars {jars}; elsewhere call "
            "fencepost.spark.configure before anything else starts Spark",
        )


def user_settings(spark: SparkSession) -> dict[str, str]:
    """Of a session, without what `configure` has set."""
    every = spark.conf.getAll
    ours = {SET_BY_US, *every.get(SET_BY_US, "").split(",")}
    return {name: value for name, value in every.items() if name not in ours}


def require_session(spark: SparkSession, spec: PipelineSpec) -> None:
    """Raises Usage for a live session that lacks something. No message shows a value: it may be a password."""
    wanted, every = {**NEEDED, **_needs(spec).fixed}, {**_DEFAULTS, **spark.conf.getAll}
    lacking = [name for name, value in wanted.items() if not _has(every.get(name, ""), name, value)]
    if lacking:
        raise Usage(
            f"this Spark session is not set up for sink {spec.sink.format!r}: {', '.join(sorted(lacking))}",
            "make it with fencepost.spark.configure(SparkSession.builder, sink=...).getOrCreate(), before any other "
            "session of the process",
        )


def builder_settings(builder: Any) -> Mapping[str, str]:
    """What its user has set so far."""
    return {name: str(value) for name, value in getattr(builder, "_options", {}).items()}


def _needs(spec: PipelineSpec) -> SparkNeeds:
    kind = spec.sink.kind
    return kind.needs(spec.job) if isinstance(kind, NeedsSpark) else NOTHING


def _has(given: str, name: str, value: str) -> bool:
    return set(value.split(",")) <= set(given.split(",")) if name in LISTS else given == value


def _joined(user: Mapping[str, str], wanted: Mapping[str, str], name: str, by: str) -> str:
    return by.join(filter(None, [wanted[name], user.get(name, "")]))
