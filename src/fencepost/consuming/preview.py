"""What the Python engine makes of a pipeline's transform, tried on no records: needs no cluster."""

from __future__ import annotations

from fencepost.consuming.columns import EventRows
from fencepost.consuming.engine import consumer_settings
from fencepost.rows import Preview
from fencepost.spec import PipelineSpec


def preview(spec: PipelineSpec) -> Preview:
    """Raises Usage where the transform does not fit the source, or needs Spark."""
    rows = EventRows.of(spec)
    given = {name: value for name, value in consumer_settings(spec).librdkafka().items() if name not in spec.kafka}
    settings = {name: str(value) for name, value in given.items()}
    return Preview(rows.columns, None, rows.shape.provenance, settings)
