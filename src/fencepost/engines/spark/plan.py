"""What a batch's plan says: which Kafka span each task reads, and whether the transform keeps partitions apart."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from fencepost.model import Span, TopicPartition

TaskSpans = list[tuple[TopicPartition, Span]]  # in the order of the tasks

# Nodes that turn each partition into one partition, row by row, and skip none
NARROW_NODES = {
    "ArrowEvalPython",
    "BatchEvalPython",
    "ColumnarToRow",
    "Filter",
    "Generate",
    "InputAdapter",
    "MapInArrow",
    "MapInPandas",
    "Project",
    "Scan ExistingRDD",
    "WholeStageCodegen",
}
# those among them that never make two rows of one
ONE_ROW_NODES = NARROW_NODES - {"Generate", "MapInArrow", "MapInPandas"}


def spans_of(frame: DataFrame) -> TaskSpans:
    """The spans of an untransformed batch, by task."""
    spans = _walk(frame._jdf.queryExecution().toRdd())
    if spans is None:
        raise RuntimeError("this Spark version delivers batches in a form that Fencepost was not tested with")
    return spans


def wide_node(frame: DataFrame) -> str | None:
    """The first node of the plan that mixes partitions or may stop early; None for a narrow plan, or an empty one.

    Looks at the plan before the RDD: an adaptive plan would run a stage, and `limit` passes the walk alone.
    """
    if gives_nothing(frame):
        return None
    execution = frame._jdf.queryExecution()
    return next((name for name in _nodes(execution.executedPlan()) if name not in NARROW_NODES), None)


def one_row_each(frame: DataFrame) -> bool:
    """Does each record give one row at most? Said of plans of which it is certain."""
    return ONE_ROW_NODES.issuperset(_nodes(frame._jdf.queryExecution().executedPlan()))


def task_spans(frame: DataFrame) -> TaskSpans | None:
    """The spans of a narrow plan's tasks; None where a task does not read just one partition of its own."""
    spans = _walk(frame._jdf.queryExecution().toRdd())
    if spans is None or len({partition for partition, _ in spans}) < len(spans):
        return None
    return spans


def gives_nothing(frame: DataFrame) -> bool:
    """Spark sees beforehand that no row can come out of it (WHERE false), and would run no task at all."""
    scan = frame._jdf.queryExecution().executedPlan()
    return bool(scan.nodeName() == "LocalTableScan" and scan.rows().isEmpty())


def _nodes(plan: Any) -> list[str]:
    name = plan.nodeName()
    if name == "AdaptiveSparkPlan":
        return [*_nodes(plan.initialPlan()), name]  # looking at it runs nothing; it is never narrow itself
    children = plan.children()
    below = [node for index in range(children.size()) for node in _nodes(children.apply(index))]
    return [name.split(" (")[0] if name.startswith("WholeStageCodegen") else name, *below]


def _walk(rdd: Any) -> TaskSpans | None:
    """Down one-to-one dependencies to Kafka's own RDD; None when the way forks or mixes."""
    while rdd.getClass().getSimpleName() != "DataSourceRDD":
        dependencies = rdd.dependencies()
        if dependencies.size() != 1:
            return None
        dependency = dependencies.head()
        if dependency.getClass().getSimpleName() != "OneToOneDependency":
            return None
        rdd = dependency.rdd()
    return [_span(partition) for partition in rdd.partitions()]


def _span(partition: Any) -> tuple[TopicPartition, Span]:
    inputs = partition.inputPartitions()
    if inputs.size() != 1:
        raise RuntimeError("a task reads more than one Kafka partition: spark.sql...minPartitions must not be set")
    offsets = inputs.head().offsetRange()
    span = Span(offsets.fromOffset(), offsets.untilOffset())
    return TopicPartition(offsets.topic(), offsets.partition()), span
