"""One transactional.id, the client that holds it, and what becomes of its transactions.

Free, or taken: then the previous owner is fenced, and its open transaction is committed or aborted. Open: records go
in. Then committed, aborted or in doubt:

- Before a commit is asked for, every failure means that nothing of it will be read, whether or not the abort gets
  through: whoever takes the id next ends it, or the brokers do in time. `Fenced` is such a failure.
- In a commit, `Fenced` means the same where one request was turned down. Of several copies the first may have been
  granted: in doubt.
- Where the driver wants it aborted though a commit was asked for, only an abort that gets through tells.
- Any other trouble in a commit: in doubt, until the id is taken again and the stored position is read.
- A copy of the request that ended a transaction could end the next one (`kafka/commits.py`): only a new epoch stops
  that, so the id is taken again first.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread
from typing import Any

from fencepost.errors import Fenced, FencepostError, Unknown
from fencepost.kafka.producer import Aborting, Client


class Connecting:
    """A client that looks for its brokers in a thread of its own, where it is known what will be written to."""

    def __init__(self, client: Client, topic: str) -> None:
        self.client = client
        self._thread: Thread | None = None
        if topic:
            self._thread = Thread(target=client.connect, args=(topic,), name="fencepost-connecting", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()


class TransactionalProducer:
    """Held by one client at a time, in all processes."""

    def __init__(self, settings: Mapping[str, Any], topic: str = "") -> None:
        """`topic`: one that will be written to, if that is known."""
        self._settings = settings
        self._topic = topic
        self._ended = False  # has the client ended a transaction already?
        self._next: Connecting | None = None  # who will hold it
        self.client: Client | None = None  # None: free
        self.in_doubt = False  # nobody can tell whether the last commit got through: taking the id decides it

    def connect(self, settings: Mapping[str, Any] | None = None) -> None:
        """Begin to connect who will take the id, with these settings besides. Takes nothing, and waits for nothing."""
        if self.client is None and self._next is None:
            self._next = Connecting(Client({**self._settings, **(settings or {})}), self._topic)

    def take(self) -> Client:
        """On return the previous owner is fenced, and its open transaction is committed or aborted."""
        if self.client is not None:
            self.drop()
        connecting, self._next = self._next or Connecting(Client(self._settings), self._topic), None
        client = connecting.client
        try:
            connecting.wait()
            client.begin()
        except BaseException:
            client.close()
            raise
        self.client, self._ended, self.in_doubt = client, False, False
        return client

    def ready(self) -> Client:
        """Taken, by a client of whose last transaction nothing is left on the way."""
        if self.client is None or (self._ended and self.client.repeated()):
            return self.take()
        return self.client

    def begin(self) -> Client:
        """Open a transaction; the id must be taken."""
        client = self._holder()
        client.begin_transaction()
        return client

    def commit(self) -> None:
        """Commit it. Raises Unknown where nobody can tell; after Aborting nothing of it will be read, nor after Fenced
        unless `in_doubt`. After any error the id is free."""
        self.in_doubt = True
        try:
            self._commit(self._holder())
        except BaseException:
            self.drop()
            raise
        self._ended, self.in_doubt = True, False

    def abort(self, keep: bool = False) -> None:
        """Nothing of it will be read, though this may raise. The id is free then, unless the client is to be kept: not
        where a record failed, because librdkafka has been seen to throw away what is sent after that."""
        try:
            self._holder().abort()
            self._ended = True
        except BaseException:
            self.drop()
            raise
        if not keep:
            self.drop()

    def drop(self) -> None:
        """Free: end the client. A transaction that is open is aborted, now or by whoever takes the id next."""
        client, self.client = self.client, None
        connecting, self._next = self._next, None
        if client is not None:
            client.close()
        if connecting is not None:
            connecting.wait()  # a client that is in use must not be closed
            connecting.client.close()

    def _commit(self, client: Client) -> None:
        try:
            client.commit()
        except Aborting:
            self._abort_after_all(client)
            raise
        except Fenced:
            self.in_doubt = client.repeated()
            raise
        except FencepostError as error:
            raise not_known(error) from error

    def _abort_after_all(self, client: Client) -> None:
        try:
            client.abort()
            self.in_doubt = False
        except FencepostError as error:
            raise not_known(error) from error

    def _holder(self) -> Client:
        if self.client is None:
            raise RuntimeError("a transaction was started before its transactional.id was taken")
        return self.client


def not_known(error: FencepostError) -> Unknown:
    """For a commit in doubt."""
    return Unknown(f"it is unknown whether the transaction was committed: {error.message}")
