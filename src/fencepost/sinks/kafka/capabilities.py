"""What the Kafka sink can do."""

from fencepost.rules.sinks import Face, SinkTraits

TRAITS = SinkTraits("kafka", frozenset({Face.PARTITION}), atomic=True)
