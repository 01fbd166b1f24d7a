"""What a failure of Spark means: told by the classes of its causes, never by its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from fencepost.errors import FencepostError, Refused, Unreachable
from fencepost.kafka.offsets import set_command
from fencepost.model import TopicPartition

SparkFailure = (PySparkException, Py4JJavaError)

# Kafka's own base class of errors that pass by themselves, and what a broken line looks like
PASSING = (
    "org.apache.kafka.common.errors.RetriableException",
    "org.apache.kafka.common.errors.TimeoutException",
    "java.net.SocketException",
    "java.net.SocketTimeoutException",
    "java.util.concurrent.TimeoutException",
)


def translated(error: Exception) -> FencepostError:
    """Unreachable where Kafka will answer again by itself; Refused for everything else."""
    causes = list(_causes(error))
    reason = _reason(error, causes)
    if any(_is_a(cause, PASSING) for cause in causes):
        return Unreachable(f"Kafka does not answer Spark: {reason}", "check the brokers")
    if of_a_time(error):
        return Refused(f"a record's timestamp, beyond the year 294246, cannot be read by Spark: {reason}")
    return Refused(f"Spark refused the batch: {reason}", "fix the transform, or what it reads")


def of_a_time(error: Exception) -> bool:
    """Is it because of a record's timestamp? Spark's Kafka source multiplies it before anything of ours sees it."""
    return any(_is_of_a_time(cause) for cause in _causes(error))


def unreadable(partition: TopicPartition, offset: int, position: int) -> Refused:
    """A record with such a timestamp, by its place. `position`: where the batch begins that holds it."""
    aside = "`engine: python` takes it or dead-letters it, if the transform needs no Spark"
    behind = f"skip it: {set_command({partition: offset + 1})}"
    before = (
        "set batch: {records: 1} and run again: then everything before it lands, and the command that skips it is shown"
    )
    return Refused(
        f"{partition} offset {offset}: its timestamp, beyond the year 294246, cannot be read by Spark",
        f"{aside}; or {behind if position == offset else before}",
    )


def _causes(error: Exception) -> Iterator[Any]:
    """The Java exceptions behind it, the outermost first."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    seen = 0
    while cause is not None and seen < 30:
        yield cause
        cause, seen = cause.getCause(), seen + 1


def _is_of_a_time(cause: Any) -> bool:
    source = "org.apache.spark.sql.kafka010."
    return _is_a(cause, ("java.lang.ArithmeticException",)) and any(
        frame.getClassName().startswith(source) for frame in cause.getStackTrace()
    )


def _is_a(cause: Any, names: tuple[str, ...]) -> bool:
    kind = cause.getClass()
    while kind is not None:
        if kind.getName() in names:
            return True
        kind = kind.getSuperclass()
    return False


def _reason(error: Exception, causes: list[Any]) -> str:
    """The innermost cause in one line: what a person can do something about."""
    text = causes[-1].getMessage() if causes else str(error)
    lines = [line.strip() for line in str(text or type(error).__name__).splitlines() if line.strip()]
    return lines[-1] if lines and lines[0].startswith("Traceback") else (lines or ["no reason given"])[0]
