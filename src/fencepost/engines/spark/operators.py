"""What a transform asks for, by its logical plan: operators that keep state, and those that see one batch only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

# Operators that mean something only on a stream, over all of its batches
STATEFUL = {
    "DeduplicateWithinWatermark",
    "EventTimeWatermark",
    "FlatMapGroupsInPandasWithState",
    "FlatMapGroupsWithState",
    "TransformWithState",
    "TransformWithStateInPySpark",
}
OF_THEIR_OWN = STATEFUL - {"DeduplicateWithinWatermark", "EventTimeWatermark"}  # functions that keep what they like
EVENT_TIME = ("spark.timeWindow", "spark.sessionWindow")  # how Spark marks the columns of window and session_window

# Operators whose rows depend on more than one record
TOGETHER = {
    "Aggregate",
    "Deduplicate",
    "Distinct",
    "Except",
    "FlatMapCoGroupsInArrow",
    "FlatMapCoGroupsInPandas",
    "FlatMapGroupsInArrow",
    "FlatMapGroupsInPandas",
    "GlobalLimit",
    "Intersect",
    "Offset",
    "Tail",
    "Window",
}

SOURCES = {"LocalRelation", "LogicalRDD", "OneRowRelation", "Range"}  # that are known without asking anybody


def stateful_operator(frame: DataFrame) -> str | None:
    """The first one that keeps state from batch to batch; an aggregate by a window of event time is one."""
    for node in _nodes(frame._jdf.queryExecution().analyzed()):
        name = str(node.nodeName())
        if name in STATEFUL:
            return name
        if name == "Aggregate" and any(map(_marked, _nodes(node))):
            return "window"
    return None


def stateful_part(plan: Any) -> str | None:
    """The first part of a stream's own plan that keeps state: there everything that puts records together does."""
    for node in _nodes(plan):
        name = str(node.nodeName())
        streams = name == "Join" and all(side.isStreaming() for side in _children(node))
        if streams or (name in STATEFUL | TOGETHER and node.isStreaming()):
            return name
    return None


def function_with_state(plan: Any) -> str | None:
    """The first part of a stream's own plan that is somebody's function with state and timers."""
    return next((name for node in _nodes(plan) if (name := str(node.nodeName())) in OF_THEIR_OWN), None)


def streams_read(plan: Any) -> list[Any]:
    """The sources of a stream's own plan that are streams themselves."""
    return [node for node in _nodes(plan) if not node.children().size() and node.isStreaming()]


def operator_within_batch(frame: DataFrame) -> str | None:
    """The first one that puts records together: applied to a batch, it sees the records of that batch only."""
    for node in _nodes(frame._jdf.queryExecution().analyzed()):
        name = str(node.nodeName())
        if name in TOGETHER or (name == "Join" and all(any(map(_of_kafka, _nodes(side))) for side in _children(node))):
            return name
    return None


def reads_only_events(frame: DataFrame) -> bool:
    """Is everything that it reads the batch itself, or written in the transform? Else a table has a say, too."""
    plans = _nodes(frame._jdf.queryExecution().analyzed())
    return SOURCES.issuperset(str(node.nodeName()) for node in plans if not node.children().size())


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in [*_children(plan), *_each(plan.subqueries())]:
        yield from _nodes(child)


def _children(plan: Any) -> list[Any]:
    return _each(plan.children())


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _marked(plan: Any) -> bool:
    return any(column.metadata().contains(mark) for column in _each(plan.output()) for mark in EVENT_TIME)


def _of_kafka(plan: Any) -> bool:
    """Is it the batch itself? No other table has a column of this name."""
    return plan.nodeName() == "LogicalRDD" and any(c.name() == "timestampType" for c in _each(plan.output()))
