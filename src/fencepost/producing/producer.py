"""The producer: settings from the guarantee, every send acked, refused, aborted or unknown, and transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from fencepost.errors import Fenced, FencepostError, Refused, Unknown, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.config.producer import Declaration, largest_record
from fencepost.kafka.names import require_topic
from fencepost.kafka.producer import Aborting, Client
from fencepost.kafka.transactions import TransactionalProducer
from fencepost.model import Outcome
from fencepost.producing.delivery_reports import DeliveryReport, Totals
from fencepost.producing.events import Event, Headers, require_id
from fencepost.producing.journal import Journal, NoJournal
from fencepost.producing.sender import Handle, Sender
from fencepost.rules.producer import Acks


class Producer:
    """Sends events to a topic under a declared guarantee. Use it in a `with` block: the end waits for every answer.

    exactly-once without a transactional.id holds for as long as the producer lives: no retry doubles or reorders.
    With one, events go in transactions, and a restart under the same id fences whatever the last session left.
    One thread at a time.
    """

    def __init__(  # noqa: PLR0913  (words that a caller picks from)
        self,
        topic: str,
        guarantee: Guarantee | str | None,
        kafka: Mapping[str, str],
        *,
        acks: Acks | str | None = None,
        transactional_id: str | None = None,
        journal: Path | str | None = None,
        identify: Callable[[bytes | None], str] | None = None,
        delivery_reports: bool = True,
    ) -> None:
        """Connects, and looks at the topic.

        `kafka` holds Kafka's own settings; one that would break the declaration is refused. `identify` derives an
        event's id from its value. `delivery_reports=False` saves the work per answer: an outcome is then known when
        `flush` returns or the transaction has ended, without its offset.
        Raises Usage, UnsupportedGuarantee where the topic cannot hold the guarantee, Unreachable.
        """
        self.topic = require_topic(topic)
        self._declaration = Declaration.of(guarantee, acks, transactional_id, delivery_reports)
        self._settings = self._declaration.settings(kafka)
        with Cluster(kafka) as cluster:
            self._declaration.require_topic(cluster, topic)
            self._settings |= largest_record(cluster, topic, self._settings)
        self._identify = identify
        lines = Journal(journal, topic, self.guarantee.value) if journal else NoJournal()
        self._sender = Sender(topic, self._declaration, kafka, lines)
        self._transactions = 0
        self._stopped: FencepostError | None = None
        self._transactional = TransactionalProducer(self._settings)
        self._plain = Client(self._settings) if transactional_id is None else None
        self._last_transaction: Outcome | None = None  # what the last one came to

    @property
    def _client(self) -> Client | None:
        return self._transactional.client if self._plain is None else self._plain

    @property
    def guarantee(self) -> Guarantee:
        return self._declaration.guarantee

    @property
    def producer_id(self) -> str:
        """With an event's number, the id that it carries."""
        return self._sender.producer_id

    @property
    def totals(self) -> Totals:
        """How many events ended how, so far."""
        return self._sender.reports.totals

    @property
    def in_flight(self) -> int:
        return len(self._client) if self._client else 0

    # Sending

    def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        *,
        id: str | None = None,  # noqa: A002  (the event's own word)
        topic: str | None = None,
    ) -> Handle:
        """Hand an event over and return at once; waits only while the queue is full.

        `id` is the caller's idempotency key. Raises Fenced when another producer took over, Usage outside of a
        transaction where one is needed. What is refused at once (too large) is the handle's outcome.
        """
        client = self._ready()
        given = self._identify(value) if id is None and self._identify else id
        named = None if given is None else require_id(given)
        with self._stopping():
            return self._sender.send(client, Event(value, key, headers=headers, id=named, topic=topic))

    def flush(self) -> Totals:
        """Wait until every event has its outcome; none takes longer than delivery.timeout.ms."""
        if self._sender.in_transaction:
            raise Usage("a transaction is open: its end decides the outcomes", "leave its `with` block first")
        if self._client is not None and self._declaration.transactional_id is None:
            with self._stopping():
                self._client.drain()
            self._sender.settle_answered()
        return self.totals

    # Transactions

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Events that are read together or not at all, over partitions and topics.

        Commits on a clean exit, aborts on an exception. Raises Refused or Unreachable when it had to be aborted
        (nothing of it will be read), Fenced when another producer took over, Unknown when nobody can tell.
        """
        client = self._begin()
        try:
            yield self
        except Aborting as error:
            cause = self._first_failure(client) or error
            self._abort(cause.message)
            raise cause from error
        except BaseException as error:
            self._abort(f"the transaction was aborted: {error}")
            raise
        self._commit()

    def _await_delivery(self) -> None:
        """Wait for the answers within a transaction. Raises Refused when an event cannot be had: it aborts the rest."""
        client = self._ready()
        with self._stopping():
            client.drain(lambda: bool(self._sender.reports.failed))  # after a failure the others are not sent any more
            if failure := self._first_failure(client):
                raise failure

    def _first_failure(self, client: Client) -> FencepostError | None:
        """Why the transaction cannot be committed: an event that was refused, where there is one."""
        client.serve()
        failed = self._sender.reports.failed
        if not failed:
            return None
        number, report = min(failed.items(), key=lambda one: (one[1].outcome is not Outcome.REFUSED, one[0]))
        said = f"event {number} of the transaction failed: {report.why}"
        return Refused(said) if report.outcome is Outcome.REFUSED else Aborting(said)

    def _take_over(self) -> Client:
        """A client that owns the transactional.id: the previous owner is fenced, and its transaction decided.

        Raises Fenced where that was us: nobody takes it back from a successor.
        """
        if self._stopped is not None:
            raise self._stopped
        return self._transactional.take()

    def _begin(self) -> Client:
        if self._declaration.transactional_id is None:
            raise Usage("a transaction needs a transactional.id that survives restarts", "give transactional_id=...")
        if self._sender.in_transaction:
            raise Usage("a transaction is open already", "leave its `with` block first")
        if self._stopped is not None:
            raise self._stopped
        with self._stopping():
            self._transactional.ready()
            client = self._transactional.begin()
        self._transactions += 1
        self._sender.in_transaction = True
        self._sender.journal.transaction("begin", self._transactions)
        return client

    def _commit(self) -> None:
        try:
            self._await_delivery()  # before the commit is asked for, a failure means that nothing will be read
        except FencepostError as error:
            self._abort(error.message)
            raise
        refused = self._refused()
        try:
            self._transactional.commit()
        except FencepostError as error:
            self._stop(error.__cause__ if isinstance(error.__cause__, Fenced) else error)
            unclear = self._transactional.in_doubt
            word, outcome = ("unclear", Outcome.UNKNOWN) if unclear else ("abort", Outcome.ABORTED)
            self._end(word, DeliveryReport(outcome, error.message), refused)
            raise
        self._end("commit", DeliveryReport(Outcome.ACKED), refused)

    def _abort(self, why: str) -> None:
        """Nothing of it will be read, whether or not the abort gets through: its successor or the broker ends it."""
        refused = self._refused()
        try:
            self._transactional.abort(keep=not self._sender.reports.failed)
        except FencepostError as error:
            self._stop(error)
        self._end("abort", DeliveryReport(Outcome.ABORTED, why), refused)

    def _refused(self) -> dict[int, DeliveryReport]:
        failed = self._sender.reports.failed
        return {number: one for number, one in failed.items() if one.outcome is Outcome.REFUSED}

    def _end(self, word: str, report: DeliveryReport, refused: dict[int, DeliveryReport]) -> None:
        self._sender.reports.failed = refused  # the abort itself reports what it threw away as failed
        self._last_transaction = report.outcome
        self._sender.end_transaction(word, self._transactions, report)

    # The end

    def _ready(self) -> Client:
        if self._stopped is not None:
            raise self._stopped
        outside = self._declaration.transactional_id is not None and not self._sender.in_transaction
        if self._client is None or outside:
            raise Usage("this producer sends in transactions", "send inside `with producer.transaction():`")
        return self._client

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        try:
            yield
        except FencepostError as error:
            self._stop(error)
            raise

    def _stop(self, error: FencepostError) -> FencepostError:
        """Fenced once is fenced for good. Whatever else ends a client, the next transaction gets a new one."""
        if isinstance(error, Fenced) or (isinstance(error, Unknown) and self._declaration.transactional_id is None):
            self._stopped = error
        return error

    def _drop(self) -> None:
        self._transactional.drop()
        plain, self._plain = self._plain, None
        if plain is not None:
            plain.close()

    def close(self, wait: bool = True) -> None:
        """Wait for every answer, unless told otherwise, then end. Harmless when closed already."""
        if wait and self._client is not None and self._stopped is None and not self._sender.in_transaction:
            self.flush()
        self._sender.settle_unanswered("the producer was closed before the answer came")
        self._drop()
        self._sender.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_failure: object) -> None:
        self.close(wait=kind is None or issubclass(kind, Exception))  # whoever interrupts does not want to wait
