"""What the PostgreSQL sink can do."""

from fencepost.rules.sinks import Face, SinkTraits

TRAITS = SinkTraits("postgres", frozenset({Face.PARTITION, Face.TABLE}), atomic=True, dead_letters=True)
