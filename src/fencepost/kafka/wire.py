"""Requests that librdkafka does not make: transactions, open producers, batches of the log, the controllers' quorum.

A thin door to kafka-python's admin client. Its errors become ours here, by their class.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from fencepost.errors import FencepostError, Unreachable, Usage
from fencepost.kafka.client import Cluster
from fencepost.kafka.config.kafka_python import kafka_python_settings
from fencepost.kafka.errors import AuthenticationFailed, Forbidden, Missing, may_pass

CONTACT_MS = 6_000
ANSWER_MS = 10_000
INSIST_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
LARGEST_ANSWER = 64 << 20  # bytes; a record may be larger than what a fetch asks for

logging.getLogger("kafka").addHandler(logging.NullHandler())  # else its lines go to stderr


class Wire:
    """A connection to each broker that is asked. May be used by several threads; closed by whoever opened it."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        """Raises Usage for settings that it does not have, Unreachable where nobody answers, AuthenticationFailed."""
        try:
            from kafka.admin import KafkaAdminClient
        except ModuleNotFoundError as error:
            raise Usage("kafka-python is not installed", "pip install 'fencepost[transactions]'") from error
        settings = kafka_python_settings(kafka)
        Cluster(kafka).close()  # librdkafka says why one does not get in: kafka-python only that time is up
        self.servers = ",".join(settings["bootstrap_servers"])
        own = {"bootstrap_timeout_ms": CONTACT_MS, "request_timeout_ms": ANSWER_MS}
        with self._translated("the cluster"):
            self._admin: Any = KafkaAdminClient(**settings, **own, receive_message_max_bytes=LARGEST_ANSWER)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()

    def ask(self, question: Callable[[Any], Any], subject: str) -> Any:
        """What kafka-python's admin client answers; asked again for a while, as another broker may take over."""
        deadline = time.monotonic() + INSIST_SECONDS
        while True:
            try:
                return self.tell(question, subject)
            except Unreachable as error:
                if not may_pass(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def tell(self, request: Callable[[Any], Any], subject: str) -> Any:
        """The same, once: for what changes something."""
        with self._translated(subject):
            return request(self._admin)

    def nodes(self) -> list[int]:
        """The brokers that are up."""
        found = self.ask(lambda admin: admin.describe_cluster(), "the cluster")["brokers"]
        return sorted(one["broker_id"] for one in found if not one.get("is_fenced"))

    def send(self, requests: Mapping[int, Any], subject: str) -> dict[int, Any]:
        """One request to each of these brokers, all at once: the answers of those that gave one.

        Raises where there are some, and none did.
        """

        async def everybody() -> dict[int, Any]:
            asked = {node: self._admin._manager.send(request, node_id=node) for node, request in requests.items()}
            return {node: await _settled(answer) for node, answer in asked.items()}

        with self._translated(subject):
            found: dict[int, Any] = self._admin._manager.run(everybody)
            answers = {node: one for node, one in found.items() if not isinstance(one, Exception)}
            if found and not answers:
                raise next(iter(found.values()))
        return answers

    @contextmanager
    def _translated(self, subject: str) -> Iterator[None]:
        from kafka import errors

        try:
            yield
        except (errors.KafkaError, OSError, RuntimeError) as error:  # RuntimeError: another thread has closed it
            raise failure(error, subject, self.servers) from error


async def _settled(answer: Any) -> Any:
    """It, or why there is none."""
    from kafka import errors

    try:
        return await answer
    except (errors.KafkaError, OSError, RuntimeError) as error:
        return error


def failure(error: Exception, subject: str, servers: str) -> FencepostError:
    """Our error for theirs."""
    from kafka import errors

    said = type(error).__name__
    if isinstance(error, errors.SaslAuthenticationFailedError):
        return AuthenticationFailed(
            f"Kafka at {servers} refused authentication ({said})", "check sasl.mechanism, the user and the password"
        )
    if isinstance(error, errors.AuthorizationError):
        return Forbidden(f"{subject}: not authorized ({said})", "ask for an ACL that allows it")
    if isinstance(error, (errors.TransactionalIdNotFoundError, errors.UnknownTopicOrPartitionError)):
        return Missing(f"{subject} does not exist")
    if isinstance(error, (errors.UnsupportedVersionError, errors.IncompatibleBrokerVersion)):
        return Usage(f"{subject}: these brokers do not answer that ({said})", "it needs Kafka 3.0 or newer")
    if isinstance(error, (errors.RetriableError, OSError, RuntimeError)):
        return Unreachable(
            f"Kafka does not answer at {servers} ({said})", "check that the brokers are up, and try again"
        )
    return Unreachable(f"{subject}: Kafka said {said}", "see the brokers' logs")
