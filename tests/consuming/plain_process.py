"""A consumer as it is often written, with librdkafka's defaults: `python -m consuming.plain_process WORK`."""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer, KafkaError

from consuming.consumer_process import effect
from fencepost.engines.python.events import event_of


def main() -> int:
    work = json.loads(sys.argv[1])
    more = {"group.id": work["group"], "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer({**work["kafka"], **work.get("settings", {}), **more})
    handle = effect(work["effects"], work.get("slowly", 0.0), work.get("dies"))
    consumer.subscribe([work["topic"]])
    while True:
        messages = consumer.consume(work.get("batch", 10), 0.2)
        handle([event_of(message) for message in messages if message.error() is None])
        errors = [error for message in messages if (error := message.error()) is not None]
        if any(error.code() == KafkaError._PARTITION_EOF for error in errors):
            consumer.close()
            return 0


if __name__ == "__main__":
    sys.exit(main())
