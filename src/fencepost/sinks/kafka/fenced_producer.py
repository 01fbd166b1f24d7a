"""One source partition's transactional.id, the client that holds it, and its transactions.

That somebody else holds the id now proves nothing: a zombie that wakes up and takes it fences the living. So the
client's "fenced" is told as `Rewound`: nothing of the transaction is there, and the ledger says who the owner is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from fencepost.errors import Fenced, FencepostError, Rewound, Unknown
from fencepost.fence import StoredPosition
from fencepost.kafka.producer import Aborting, Client


class FencedProducer:
    """Taken by one client at a time, in all processes: taking it fences the previous owner."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._client: Client | None = None
        self._ended = False  # has the client ended a transaction already?
        self._known = False
        self._stored: StoredPosition | None = None
        self.in_doubt = False  # a commit was not answered: it is decided when the producer is taken again

    @property
    def taken(self) -> bool:
        return self._client is not None

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

    def take(self) -> None:
        """On return the previous owner is fenced, and its open transaction is committed or aborted."""
        self.leave()
        client = Client(self._settings)
        try:
            with telling():
                client.begin()
        except BaseException:
            client.close()
            raise
        self._client, self._ended, self.in_doubt = client, False, False

    def leave(self) -> None:
        """End the client; a transaction that is open is aborted, now or by whoever takes the producer next."""
        client, self._client = self._client, None
        self._stored, self._known = None, False
        if client is not None:
            client.close()

    def ready(self) -> None:
        """Taken, by a client of whose last transaction nothing is left on the way.

        A copy of the request that ended it could end the next one: only a new epoch stops that.
        """
        if self._client is None or (self._ended and self._client.repeated()):
            self.take()

    @contextmanager
    def transaction(self) -> Iterator[Client]:
        """Commits on a clean exit, aborts on an exception. The producer must be ready.

        Raises Unknown when nobody can tell whether it was committed. After any other error nothing of it will be read.
        """
        client = self._holder()
        try:
            with telling():
                client.begin_transaction()
            yield client
        except BaseException:
            self._abort(client)
            raise
        self._commit(client)

    def _holder(self) -> Client:
        if self._client is None:
            raise RuntimeError("a transaction was started before its transactional.id was taken")
        return self._client

    def _abort(self, client: Client) -> None:
        """Whether or not it gets through: nothing was committed, and the next one to take the producer ends it."""
        with suppress(FencepostError):
            client.abort()
        self.leave()  # librdkafka has been seen to throw away what is sent after a transaction that failed

    def _commit(self, client: Client) -> None:
        self.in_doubt = True
        try:
            client.commit()
        except Aborting:
            self._abort_after_all(client)
            raise
        except Fenced as error:
            # One request that was turned down did nothing; of several, the first may have been granted.
            self.in_doubt = client.repeated()
            self.leave()
            raise _unknown(error) if self.in_doubt else _displaced() from error
        except FencepostError as error:
            self.leave()
            raise _unknown(error) from error
        except BaseException:
            self.leave()
            raise
        self._ended, self.in_doubt = True, False

    def _abort_after_all(self, client: Client) -> None:
        """The driver wants it aborted though a commit was asked for: only an abort that gets through tells."""
        try:
            client.abort()
            self.in_doubt = False
        except FencepostError as error:
            raise _unknown(error) from error
        finally:
            self.leave()


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


def _unknown(error: FencepostError) -> Unknown:
    return Unknown(f"it is unknown whether the transaction was committed: {error.message}")
