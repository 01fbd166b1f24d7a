"""One connection to a cluster. In `ask` and `tell` the driver's errors become ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from traceback import clear_frames
from typing import Any, Self, TypeVar

from confluent_kafka import KafkaException, Node
from confluent_kafka.admin import AdminClient

from fencepost.errors import FencepostError, Unknown, Unreachable, Usage
from fencepost.kafka.broker_views import ANSWER_SECONDS, BrokerViews
from fencepost.kafka.certificates import distrust
from fencepost.kafka.config.settings import outsider_settings
from fencepost.kafka.errors import AuthenticationFailed, Complaints, failure, is_missing, may_pass
from fencepost.kafka.log import librdkafka_log
from fencepost.kafka.standalone_consumer import StandaloneConsumer
from fencepost.model import TopicPartition

K = TypeVar("K")
T = TypeVar("T")

CONTACT_SECONDS = 6.0  # for the first answer, so that a wrong address is told while somebody still looks
TIMEOUT_SECONDS = 20.0  # for an answer by whoever takes its place
_GLANCE_SECONDS = 1.0  # between two looks at why there is no answer yet
_POLL_SECONDS = 0.05


class Cluster:
    """A cluster that answered, until it is closed. Holds the driver's client, which must outlive its futures.

    That client has no `close` of its own: its threads and connections end with the last reference to it. An error's
    traceback or a cycle keeps such references for as long as the collector likes, so that they are dropped by hand,
    in the frames of the driver's own code too.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Connect. Raises Usage for bad settings, Unreachable when nobody answers, AuthenticationFailed for bad "
        "credentials."""
        self._settings = settings
        self._complaints = Complaints()
        self._config: dict[str, Any] = {**outsider_settings(settings), "error_cb": self._complaints.hear}
        if "bootstrap.servers" not in self._config:
            raise Usage("bootstrap.servers is not set", "give --bootstrap-server host:port")
        self.servers: str = self._config["bootstrap.servers"]
        self._admin: AdminClient | None = self._client()
        try:
            self._contact()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin = None

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            raise AssertionError("the connection to the cluster is closed")
        return self._admin

    def ask(self, question: Callable[[], Future[T]], subject: str) -> T:
        """The answer to a question about `subject`."""
        return self._insist(lambda: question().result(), subject)

    def ask_each(self, question: Callable[[], Mapping[K, Future[T]]], subject: str) -> dict[K, T]:
        """The answers to a question about several things, without those that do not exist."""

        def answers() -> dict[K, T]:
            asked = question()
            return {key: future.result() for key, future in asked.items() if not _is_missing(future)}

        return self._insist(answers, subject)

    def tell(self, change: Callable[[], Future[None]], subject: str) -> None:
        """Have something changed, once. Raises Unknown when no answer came: it may have happened."""
        try:
            change().result()
        except KafkaException as error:
            failed = self._failure(error, subject)
            if isinstance(failed, Unreachable):
                remedy = "it may be done or not: check before you repeat it"
                raise Unknown(f"{subject}: {failed.message}", remedy) from error
            raise failed from error

    def brokers(self) -> list[int]:
        """The ids of the brokers that are there now."""
        return sorted(node.id for node in self._nodes())

    def topic_names(self) -> list[str]:
        found = self._insist(lambda: self.admin.list_topics(timeout=ANSWER_SECONDS), "the topics")
        return sorted(found.topics)

    def views(self) -> BrokerViews:
        """What each broker by itself says of a topic."""
        return BrokerViews(self._config, self._nodes)

    def _nodes(self) -> list[Node]:
        found = self.ask(lambda: self.admin.describe_cluster(request_timeout=ANSWER_SECONDS), "the cluster")
        return list(found.nodes)

    def committed(self, group: str, stable: bool = False) -> dict[TopicPartition, int]:
        """What a group has stored in all topics that we may see, and what a transaction still holds as it was before.

        `stable`: wait for such transactions to end instead; Unreachable where one goes on.

        Not asked by the admin client: it ends the whole process when the broker that coordinates the group dies
        meanwhile.
        """
        isolation = "read_committed" if stable else "read_uncommitted"
        with closing(StandaloneConsumer(self._settings, group, isolation)) as consumer:
            found = consumer.stored(consumer.partitions(TIMEOUT_SECONDS), TIMEOUT_SECONDS)
        return {at: one.offset for at, one in found.items()}

    def _client(self) -> AdminClient:
        try:
            return AdminClient(self._config, logger=librdkafka_log)
        except KafkaException as error:
            raise failure(error.args[0], "Kafka's settings", self.servers) from error

    def _contact(self) -> None:
        """Wait until any broker answers. Wrong credentials end the wait at once."""
        deadline = time.monotonic() + CONTACT_SECONDS
        while True:
            try:
                # any broker answers this; what the admin client asks goes to one that it chose, who may be dead
                self.admin.list_topics(timeout=_GLANCE_SECONDS)
                return
            except KafkaException as error:
                failed = self._failure(error, "the cluster")
                if not may_pass(failed) or time.monotonic() > deadline:
                    raise failed from error

    def _insist(self, answer: Callable[[], T], subject: str) -> T:
        """Ask again while nobody answers: a broker may just have died, and another takes its place."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return answer()
            except KafkaException as error:
                failed = self._failure(error, subject)
                if not may_pass(failed) or time.monotonic() > deadline:
                    raise failed from error
            self._admin = self._client()  # the old one clings to the broker that it once chose
            time.sleep(_POLL_SECONDS)

    def _failure(self, error: KafkaException, subject: str) -> FencepostError:
        clear_frames(error.__traceback__)
        self.admin.poll(0)  # only here the driver hands over what its connections complained of
        failed = failure(error.args[0], subject, self.servers, self._complaints.last)
        if isinstance(failed, AuthenticationFailed) and (reason := distrust(self._config)):
            return AuthenticationFailed(*reason)
        return failed


def _is_missing(future: Future[Any]) -> bool:
    error = future.exception()
    return isinstance(error, KafkaException) and is_missing(error.args[0])


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Look until the condition holds; False when it did not within the time."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return holds
