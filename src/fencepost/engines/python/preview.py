"""What the Python engine makes of a pipeline's transform, tried on no records: needs no cluster."""

from __future__ import annotations

from fencepost.engines.python.columns import EventRows
from fencepost.engines.python.engine import consumer_settings
from fencepost.kafka.config.settings import librdkafka_settings
from fencepost.rows.shape import Preview
from fencepost.spec import PipelineSpec


def preview(spec: PipelineSpec) -> Preview:
    """Raises Usage where the transform does not fit the source, or needs Spark."""
    rows = EventRows.of(spec)
    given = librdkafka_settings(spec.kafka)  # the user's own, and what became of them: a password, too
    everything = consumer_settings(spec).librdkafka()
    settings = {name: str(value) for name, value in everything.items() if name not in given}
    return Preview(rows.columns, None, rows.shape.provenance, settings)
