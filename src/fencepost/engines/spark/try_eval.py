"""The records on which a transform's expressions fail, all of them in one job.

Spark ends a job at the first record that fails. So the expressions are evaluated once more inside `TryEval`, of which
Spark's own try_ functions are made: it gives null where what is inside fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.classic.column import Column
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from fencepost.engines.spark.transform import Transform
from fencepost.rows.shape import FROM

ROW_BY_ROW = ("Filter", "Generate", "Project")  # nodes that make rows of one record from that record alone


def failing(transform: Transform, records: DataFrame, most: int) -> list[int]:
    """Offsets of the first ones among these records of one partition: at most so many, in order.

    Covers projections and filters, up to the first node that puts records together. Raises Spark's error where
    something else fails.
    """
    events = _scanned(transform.source.events(records))
    for step in _steps(transform.of_events(events)):  # _from whole: its offset alone would be renamed
        if found := step.failing(most):
            return found
    return []


@dataclass(frozen=True)
class _Step:
    """Projections and filters that follow each other in a plan, as one: Catalyst's expressions over what is below."""

    spark: Any
    fields: list[Any]
    conditions: list[Any]  # in their order
    below: Any

    def failing(self, most: int) -> list[int]:
        jvm = self.spark._jvm
        columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
        made: Any = f.struct(*(Column(columns.column(field)) for field in self.fields))
        for condition in reversed(self.conditions):
            made = f.when(Column(columns.column(condition)), made)
        whole: Any = f.struct(made)  # null only where it fails, not where a record is filtered out
        tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(columns.expression(whole._jc))
        plan = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self.spark._jsparkSession, self.below)
        rows = ClassicFrame(plan, self.spark)
        if FROM not in rows.columns:
            return []
        bad = rows.where(Column(columns.column(tried)).isNull()).select(f.col(f"{FROM}.offset").alias("offset"))
        return [row.offset for row in bad.distinct().orderBy("offset").limit(most).collect()]


def _scanned(events: DataFrame) -> DataFrame:
    """The same events as the source of a plan: what parses them is no part of it, and all of their columns are."""
    spark: Any = events.sparkSession
    frame: Any = events
    rows = frame._jdf.queryExecution().toRdd()
    return ClassicFrame(spark._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), spark)


def _steps(rows: DataFrame) -> list[_Step]:
    """From the source upwards, as long as each row is made of one record; none where the plan forks."""
    frame: Any = rows
    spark = frame.sparkSession
    plan = frame._jdf.queryExecution().optimizedPlan()
    steps: list[_Step] = []
    while True:
        found = spark._jvm.org.apache.spark.sql.catalyst.planning.PhysicalOperation.unapply(plan).get()
        below = found._3()
        steps.insert(0, _Step(spark, _listed(found._1()), _listed(found._2()), below))
        if below.children().isEmpty():
            return steps
        if below.children().size() > 1:
            return []
        if below.nodeName() not in ROW_BY_ROW:
            steps.clear()
        plan = below.children().head()


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
