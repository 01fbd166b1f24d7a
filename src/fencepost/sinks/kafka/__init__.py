"""Kafka as an atomic sink: records and the source's position in one transaction; the ledger is a consumer group."""

from fencepost.sinks.handlers import Output
from fencepost.sinks.kafka.outputs import from_arrow
from fencepost.sinks.kafka.settings import KafkaSettings
from fencepost.sinks.kafka.store import KafkaStore

__all__ = ["KafkaSettings", "KafkaStore", "Output", "from_arrow"]
