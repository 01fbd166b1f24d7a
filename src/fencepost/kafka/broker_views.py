"""What each broker by itself says of a topic: one that has not heard of a change yet says what it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from confluent_kafka import KafkaException, Node
from confluent_kafka.admin import AdminClient

from fencepost.kafka.log import librdkafka_log

ANSWER_SECONDS = 5.0  # for one broker's answer
_AT_ONCE = 8  # brokers
_TRIES = 10  # to reach one broker: the driver chooses by itself whom it asks


class BrokerViews:
    """A client for each broker, made at the first question and gone with this."""

    def __init__(self, config: Mapping[str, Any], brokers: Callable[[], Sequence[Node]]) -> None:
        """`config`: librdkafka's settings. `brokers`: those that are there now."""
        self._config, self._brokers = config, brokers
        self._clients: dict[int, AdminClient] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._clients.clear()

    def partitions(self, topic: str) -> list[int]:
        """With how many partitions each broker that answers knows the topic; 0: it does not know it."""
        brokers = self._brokers()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            told = list(pool.map(lambda broker: self._ask(broker, topic), brokers))
        return [partitions for partitions in told if partitions is not None]

    def _ask(self, broker: Node, topic: str) -> int | None:
        for _ in range(_TRIES):
            try:
                found = self._client(broker).list_topics(topic, timeout=ANSWER_SECONDS)
            except KafkaException:
                return None
            if found.orig_broker_id in (-1, broker.id):  # -1: whoever was named, before its number was known
                return len(found.topics[topic].partitions)
            del self._clients[broker.id]
        return None

    def _client(self, broker: Node) -> AdminClient:
        if broker.id not in self._clients:
            host = f"[{broker.host}]" if ":" in broker.host else broker.host
            # a question about a topic must not make it
            own: dict[str, Any] = {"bootstrap.servers": f"{host}:{broker.port}", "allow.auto.create.topics": False}
            self._clients[broker.id] = AdminClient({**self._config, **own}, logger=librdkafka_log)
        return self._clients[broker.id]
