"""A producer as `produce` needs it: a source's name and numbers, many events at once, positions in its transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.model import Outcome
from fencepost.producing.events import Event
from fencepost.producing.producer import Producer


class SourceProducer(Producer):
    """What sends a source's events. A program that has its own events uses `Producer`."""

    @property
    def last_transaction(self) -> Outcome | None:
        """What the last one came to."""
        return self._last_transaction

    def adopt(self, producer_id: str) -> None:
        """Take the name of a source instead of a random one, before the first event."""
        self._sender.name(producer_id)

    def send_all(self, events: Sequence[Event]) -> None:
        """Many at once, numbered one after the other or, from a source, by their own numbers. No handles."""
        client = self._ready()
        with self._stopping():
            self._sender.send_all(client, events)

    def take_refusals(self) -> list[tuple[int, str]]:
        """The numbers of the events that were refused since the last call, and why."""
        return self._sender.take_refusals()

    def take_over(self) -> None:
        """Own the transactional.id: the previous owner is fenced, and its transaction decided."""
        self._take_over()

    def take_back(self) -> None:
        """The same, of a producer that was fenced, by a caller who has seen that nobody else is the owner.

        Brokers fence one whose transaction took too long, too.
        """
        self._stopped = None
        self._take_over()

    def add_offsets(self, offsets: list[Any], group: object) -> None:
        """Positions of a consumer group that move with the transaction; the driver's own objects."""
        with self._stopping():
            self._ready().send_offsets(offsets, group)

    def await_delivery(self) -> None:
        """Wait for the answers within a transaction. Raises Refused when an event cannot be had: it aborts the rest."""
        self._await_delivery()
