"""The driver's consumer, held by an owner who lets go of it when it is closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from logging import Logger
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

Heard = Callable[..., None]


class OwnedConsumer:
    """Closed, it is gone, whoever still refers to this object: an error's traceback, a cycle.

    The driver gives back what a process has a thousand of (keys for the storage of threads) with its own object only.
    And of what a callback raises through it, it keeps a reference for ever (confluent-kafka 2.16 under Python 3.11),
    with all that the traceback leads to. So an error of a callback is raised behind the call that led to it.
    """

    def __init__(self, config: Mapping[str, Any], logger: Logger, **callbacks: Heard) -> None:
        """`callbacks` by the driver's names. Raises KafkaException for settings that the driver refuses."""
        self._raised: BaseException | None = None
        shielded = {name: self._shielded(heard) for name, heard in callbacks.items()}
        self._driver: Consumer | None = Consumer({**config, **shielded}, logger=logger)

    @property
    def driver(self) -> Consumer:
        """For calls that lead to no callback. Not to be kept."""
        if self._driver is None:
            raise AssertionError("the consumer is closed")
        return self._driver

    def subscribe(self, topics: list[str], **callbacks: Heard) -> None:
        """`callbacks` by the driver's names; they get the partitions."""
        self.driver.subscribe(topics, **{name: self._rebalancing(heard) for name, heard in callbacks.items()})

    def poll(self, seconds: float) -> Message | None:
        message = self.driver.poll(seconds)
        self._raise()
        return message

    def consume(self, most: int, seconds: float) -> list[Message]:
        messages = self.driver.consume(most, seconds)
        self._raise()
        return messages

    def commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> list[TopicPartition] | None:
        """What stands, where it is waited for; else None, and on_commit hears the answer."""
        if not asynchronous:
            return self.driver.commit(offsets=offsets, asynchronous=False)
        self.driver.commit(offsets=offsets, asynchronous=True)
        return None

    def close(self) -> None:
        """Harmless when closed already."""
        if self._driver is None:
            return
        try:
            self._driver.close()
        finally:
            self._driver = None
        self._raise()

    def _shielded(self, heard: Heard) -> Heard:
        def hear(*told: Any) -> None:
            try:
                heard(*told)
            except BaseException as error:  # noqa: BLE001 (raised by `_raise`)
                self._raised = self._raised or error

        return hear

    def _rebalancing(self, heard: Heard) -> Heard:
        shielded = self._shielded(heard)

        def hear(driver: object, partitions: list[TopicPartition]) -> None:
            del driver  # the traceback of an error would lead to it
            shielded(partitions)

        return hear

    def _raise(self) -> None:
        if (raised := self._raised) is not None:
            self._raised = None
            try:
                raise raised
            finally:
                del raised  # else its traceback leads back to it
