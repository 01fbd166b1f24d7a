"""One source partition's transactional.id, with what is known of its position.

That somebody else holds the id now proves nothing: a zombie that wakes up and takes it fences the living. So the
client's "fenced" is told as `Rewound`: nothing of the transaction is there, and the ledger says who the owner is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from fencepost.errors import Fenced, FencepostError, Rewound
from fencepost.fence import StoredPosition
from fencepost.kafka.producer import Client
from fencepost.kafka.transactions import TransactionalProducer, not_known


class FencedProducer:
    """Taken by one client at a time, in all processes: taking it fences the previous owner."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        """`topic`: one of its targets."""
        self._producer = TransactionalProducer(settings, topic)
        self._known = False
        self._stored: StoredPosition | None = None

    @property
    def in_doubt(self) -> bool:
        """A commit was not answered: it is decided when the producer is taken again."""
        return self._producer.in_doubt

    @property
    def taken(self) -> bool:
        return self._producer.client is not None

    @property
    def known(self) -> bool:
        """Is it certain what stands in the ledger? While nobody else takes the id: the broker would say."""
        return self._known

    @property
    def stored(self) -> StoredPosition | None:
        return self._stored

    def learn(self, stored: StoredPosition | None) -> None:
        """What was read, or committed, since the producer was taken."""
        self._stored, self._known = stored, True

    def connect(self, settings: Mapping[str, Any]) -> None:
        """Begin to connect who will take it, with these settings besides, if nobody has it here."""
        self._producer.connect(settings)

    def take(self) -> None:
        """On return the previous owner is fenced, and its open transaction is committed or aborted."""
        self._forget()
        with telling():
            self._producer.take()

    def leave(self) -> None:
        """End the client; a transaction that is open is aborted, now or by whoever takes the producer next."""
        self._forget()
        self._producer.drop()

    def ready(self) -> None:
        """Taken, by a client of whose last transaction nothing is left on the way."""
        before = self._producer.client
        try:
            with telling():
                self._producer.ready()
        finally:
            if self._producer.client is not before:
                self._forget()

    @contextmanager
    def transaction(self) -> Iterator[Client]:
        """Commits on a clean exit, aborts on an exception. The producer must be ready.

        Raises Unknown when nobody can tell whether it was committed. After any other error nothing of it will be read.
        """
        try:
            with telling():
                client = self._producer.begin()
            yield client
        except BaseException:
            self._forget()
            with suppress(FencepostError):
                self._producer.abort()
            raise
        self._commit()

    def _commit(self) -> None:
        try:
            self._producer.commit()
        except Fenced as error:
            self._forget()
            raise not_known(error) if self.in_doubt else _displaced() from error
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        self._stored, self._known = None, False


@contextmanager
def telling() -> Iterator[None]:
    """Calls of the client, before its commit."""
    try:
        yield
    except Fenced as error:
        raise _displaced() from error


def _displaced() -> Rewound:
    return Rewound(
        "another writer took the transactional.id, or the transaction exceeded transaction.timeout.ms: nothing of "
        "it was committed",
        "continue from the stored position, if this run still owns it",
    )
