"""What a batch's plan says: which Kafka span each task reads, and whether the transform keeps partitions apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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

MADE_ANEW = "rows that Spark does not read from Kafka"  # made from a list or pandas, or checkpointed

ONE_TO_ONE = re.compile(r"List\(org\.apache\.spark\.OneToOneDependency@\w+\)")
RANGE = re.compile(r"KafkaOffsetRange\(([\w.-]+)-(\d+),(\d+),(\d+),")

# What is known of plans by their text, in which node names stand and numbers mean nothing. Every step to the JVM takes
# a tenth of a millisecond, and a plan has dozens: a batch whose plan reads as the last one's did takes three.
_known: dict[str, _Nodes] = {}
_MOST_KNOWN = 100


@dataclass(frozen=True)
class _Nodes:
    names: list[str]
    nothing: bool  # no row can come out of it


class Spans(list[tuple[TopicPartition, Span]]):
    """By task; `way` names the RDDs over which they were found, Kafka's own the last.

    `below`: nodes of a plan that a batch's own plan does not show, because the rows were made before it.
    """

    def __init__(
        self, spans: Iterable[tuple[TopicPartition, Span]], way: Sequence[str], below: Sequence[str] = ()
    ) -> None:
        super().__init__(spans)
        self.way = frozenset(way)
        self.below = below


def spans_of(frame: DataFrame) -> Spans:
    """The spans of an untransformed batch, by task."""
    spans = _walk(frame._jdf.queryExecution().toRdd())
    if spans is None:
        raise RuntimeError("this Spark version delivers batches in a form that Fencepost was not tested with")
    return spans


def spans_below(frame: DataFrame, read: Mapping[TopicPartition, Span], below: Sequence[str]) -> Spans:
    """The spans of a batch that somebody transformed before: by task where the plan is narrow, else as they were read.

    `read`: what the stream reads in this batch. `below`: the nodes of the stream's own plan.
    """
    if gives_nothing(frame) or wide_node(frame, below) is not None:
        return Spans(sorted(read.items()), (), below)
    if (walked := _walk(frame._jdf.queryExecution().toRdd())) is None:
        return Spans(sorted(read.items()), (), (*below, MADE_ANEW))
    if sorted(walked) != sorted(read.items()):
        raise RuntimeError("this Spark version delivers batches in a form that Fencepost was not tested with")
    return Spans(walked, sorted(walked.way), below)


def wide_node(frame: DataFrame, below: Sequence[str] = ()) -> str | None:
    """The first node of the plan that mixes partitions or may stop early; None for a narrow plan, or an empty one.

    Looks at the plan before the RDD: an adaptive plan would run a stage, and `limit` passes the walk alone.
    """
    plan = _nodes_of(frame)
    return None if plan.nothing else next((name for name in (*plan.names, *below) if name not in NARROW_NODES), None)


def one_row_each(frame: DataFrame, below: Sequence[str] = ()) -> bool:
    """Does each record give one row at most? Said of plans of which it is certain."""
    return ONE_ROW_NODES.issuperset([*_nodes_of(frame).names, *below])


def nodes_above(plan: Any, source: str) -> list[str]:
    """The names of a plan's nodes, without those that are the source."""
    return [name for name in _nodes(plan) if name != source]


def reads_alike(frame: DataFrame, spans: Spans) -> bool:
    """Does each task of a narrow plan read the partition that it reads in the untransformed batch, and no other?"""
    found = _walk(frame._jdf.queryExecution().toRdd(), spans)
    return found == spans and len({partition for partition, _ in spans}) == len(spans)


def gives_nothing(frame: DataFrame) -> bool:
    """Spark sees beforehand that no row can come out of it (WHERE false), and would run no task at all."""
    return _nodes_of(frame).nothing


def _nodes_of(frame: DataFrame) -> _Nodes:
    plan = frame._jdf.queryExecution().executedPlan()
    text = re.sub(r"\d+", "0", plan.toString())
    if text not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        names = _nodes(plan)
        _known[text] = _Nodes(names, names == ["LocalTableScan"] and bool(plan.rows().isEmpty()))
    return _known[text]


def _nodes(plan: Any) -> list[str]:
    name = plan.nodeName()
    if name == "AdaptiveSparkPlan":
        return [*_nodes(plan.initialPlan()), name]  # looking at it runs nothing; it is never narrow itself
    children = plan.children()
    below = [node for index in range(children.size()) for node in _nodes(children.apply(index))]
    return [name.split(" (")[0] if name.startswith("WholeStageCodegen") else name, *below]


def _walk(rdd: Any, known: Spans | None = None) -> Spans | None:
    """Down one-to-one dependencies to Kafka's own RDD; None when the way forks or mixes.

    `known`: spans that have been found already; from where the ways meet they are the same.
    """
    way, met = [_named(rdd)], known.way if known is not None else ()
    while way[-1] not in met and not way[-1].startswith("DataSourceRDD["):
        dependencies = rdd.dependencies()
        if not ONE_TO_ONE.fullmatch(dependencies.toString()):
            return None
        rdd = dependencies.head().rdd()
        way.append(_named(rdd))
    if way[-1] in met:
        return known
    return Spans((_span(partition) for partition in rdd.partitions()), way)


def _named(rdd: Any) -> str:
    """Class and number: what Spark writes first of an RDD without a name, before the place where it was made."""
    return str(rdd.toString()).split(" at ", 1)[0]


def _span(partition: Any) -> tuple[TopicPartition, Span]:
    """In one call, by the text of Spark's own record of it; in several where it is another text."""
    inputs = partition.inputPartitions()
    ranges = RANGE.findall(inputs.toString())
    if len(ranges) == 1:
        topic, number, start, end = ranges[0]
        return TopicPartition(topic, int(number)), Span(int(start), int(end))
    if inputs.size() != 1:
        raise RuntimeError("a task reads more than one Kafka partition: spark.sql...minPartitions must not be set")
    offsets = inputs.head().offsetRange()
    span = Span(offsets.fromOffset(), offsets.untilOffset())
    return TopicPartition(offsets.topic(), offsets.partition()), span
