"""What the Kafka sink can do."""

from fencepost.rules.sinks import Capabilities, WritePath

CAPABILITIES = Capabilities("kafka", frozenset({WritePath.DIRECT}), atomic=True)
