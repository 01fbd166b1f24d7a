"""What Spark makes of a pipeline's transform, tried on no records: needs no cluster."""

from __future__ import annotations

from fencepost.engines.spark import preview_cache
from fencepost.engines.spark.operators import operator_within_batch, reads_only_events
from fencepost.engines.spark.plan import wide_node
from fencepost.engines.spark.session import FIXED, session_for
from fencepost.engines.spark.source import SOURCE_OPTIONS, KafkaSource
from fencepost.engines.spark.stateful.rows import STATEFUL, resolve_stream
from fencepost.engines.spark.transform import resolve
from fencepost.rows.shape import Preview
from fencepost.spec import PipelineSpec


def preview(spec: PipelineSpec) -> Preview:
    """Raises Usage where the transform does not fit the source."""
    source = KafkaSource(spec.source, spec.kafka, spec.batch.records)
    with session_for(spec) as spark:
        if spec.checkpoint is not None:
            rows = resolve_stream(spark, spec, source)
            return Preview(rows.columns, rows.keeps, rows.shape.provenance, {**SOURCE_OPTIONS, **FIXED, **STATEFUL})
        transform = resolve(spark, spec, source)
        made = transform.made(transform.source.empty(spark))
        found = Preview(
            transform.columns,
            wide_node(transform.for_partitions(made)),
            transform.shape.provenance,
            {**SOURCE_OPTIONS, **FIXED},
            operator_within_batch(made),
        )
        if reads_only_events(made):
            preview_cache.keep(spec, found)
        return found
