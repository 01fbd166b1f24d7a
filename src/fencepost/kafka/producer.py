"""The seam to confluent-kafka's producer: its errors become ours here, by their code.

Delivery is awaited by polling, never by the driver's `flush`: there a fatal error and a callback at the same moment
raise something that Python cannot catch.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Driver

from fencepost.errors import Fenced, FencepostError, Refused, Unknown, Unreachable, Usage
from fencepost.kafka.commits import requests_sent
from fencepost.kafka.errors import (
    NO_ANSWER,
    AuthenticationFailed,
    Complaints,
    failure,
    is_failed_transaction,
    is_fatal,
    is_fenced_producer,
    is_refused_at_once,
)
from fencepost.kafka.log import librdkafka_log

CALL_SECONDS = 10.0  # for one call of a transaction; it is repeated while the driver says that it may be
TIMEOUT_SECONDS = 90.0  # for a transaction's call and all its repetitions
_POLL_SECONDS = 0.005  # without receipts nothing wakes up whoever waits for the last answer
_IDLE_SECONDS = 0.5
_CAUSE_SECONDS = 1.0
_STRAGGLERS = ("EndTxn", "TxnOffsetCommit")  # repeated, an earlier one may still arrive, in the next transaction


class Client:
    """One driver's producer, with a transaction where it has a transactional.id.

    Closed, the driver's is gone, whoever still refers to this object (`owned_consumer.py` says why that matters).
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Raises Usage for settings that the driver refuses. Connects in the background."""
        self._servers = str(settings.get("bootstrap.servers", ""))
        if not self._servers:
            raise Usage("bootstrap.servers is not set", "give the bootstrap servers: host:port[,host:port]")
        self._complaints = Complaints()
        self._statistics = ""
        self._called: Counter[str] = Counter()  # requests that were asked for since the last look
        self._sent: Counter[str] = Counter()  # and those that the driver had sent by then
        config = {**settings, "error_cb": self._complaints.hear, "stats_cb": self._hear_statistics}
        try:
            self._driver: Driver | None = Driver(config, logger=librdkafka_log)
        except KafkaException as error:
            raise Usage(f"the producer's settings are wrong: {error.args[0].str()}", "correct or remove it") from error
        self._idle = True  # no transaction is open
        self._ending = threading.Event()
        self._serving = threading.Lock()
        if "statistics.interval.ms" in settings:
            threading.Thread(target=self._serve, name="fencepost-producer", daemon=True).start()

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            raise AssertionError("the producer is closed")
        return self._driver

    @property
    def produce(self) -> Callable[..., None]:
        """The driver's own: the fast path calls it without a detour, and does not keep it."""
        return self.driver.produce

    def __len__(self) -> int:
        """How many events are waiting for their answer."""
        return len(self.driver)

    def poll(self, seconds: float = 0.0) -> int:
        """Hand over the answers that came. Raises Fenced when this producer was replaced."""
        try:
            return int(self.driver.poll(seconds))
        except KafkaException as error:
            raise self.trouble(error) from error

    def drain(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Wait for every answer, or until it is enough; no answer takes longer than delivery.timeout.ms."""
        while len(self) and not enough():
            self.poll(_POLL_SECONDS)

    def serve(self) -> None:
        """Hand over every answer that came."""
        while self._poll_even_fenced(0.0):
            pass

    def trouble(self, error: KafkaException) -> FencepostError:
        """Our error for a call that failed."""
        cause: KafkaError = error.args[0]
        if is_fenced_producer(cause):
            return Fenced(
                "another producer with the same transactional.id took over, or the transaction exceeded "
                "transaction.timeout.ms",
                "check whether another one is running; if not, start this one again",
            )
        if is_refused_at_once(cause):
            return Refused(cause.str().removeprefix("Unable to produce message: "))
        if is_failed_transaction(cause):
            return Aborting("the transaction has failed already")
        found = failure(cause, "the producer", self._servers, self._complaints.last)
        if isinstance(found, Usage):  # a setting or a right: the driver gives up for good on some of these
            return found
        if is_fatal(cause):
            return self._fatal_cause() or Unknown(f"this producer has failed: {cause.str()}", "create a new one")
        return (
            found
            if cause.code() in NO_ANSWER or isinstance(found, AuthenticationFailed)
            else Unknown(found.message, found.remedy)
        )

    def _fatal_cause(self) -> FencepostError | None:
        """Why the driver gave up: it says so only to whoever ends a transaction.

        Its calls fail a moment before it knows that itself: asked without any time it would say "timed out".
        """
        try:
            self.driver.abort_transaction(_CAUSE_SECONDS)
        except KafkaException as error:
            if is_fenced_producer(error.args[0]):
                return self.trouble(error)
        return None

    # Transactions. A bound method of the driver's, given to `_insist`, would stay with the traceback of an error.

    def connect(self, topic: str) -> None:
        """Wait for a broker, and for where the topic is. Whatever is wrong is told by what comes next.

        The driver looks for the coordinator at once; where no broker is connected, half a second later. It drops the
        connection over which it learned the brokers' names, so the second question is the one that a broker answers
        who stays connected.
        """
        with suppress(KafkaException):
            self.driver.list_topics(topic, timeout=CALL_SECONDS)
            self.driver.list_topics(topic, timeout=CALL_SECONDS)

    def begin(self) -> None:
        """Become the owner of the transactional.id: on return, the previous owner is fenced."""
        self._insist(lambda seconds: self.driver.init_transactions(seconds))  # noqa: PLW0108 (see above)

    def begin_transaction(self) -> None:
        with self._serving:
            self._idle = False
        self._insist(lambda _seconds: self.driver.begin_transaction())

    def send_offsets(self, offsets: list[Any], group: object) -> None:
        self._called["TxnOffsetCommit"] += 1
        self._insist(lambda seconds: self.driver.send_offsets_to_transaction(offsets, group, seconds))

    def commit(self) -> None:
        """Raises Unknown where nobody can tell, Unreachable where the transaction must be aborted."""
        self._end(lambda seconds: self.driver.commit_transaction(seconds))  # noqa: PLW0108 (see above)

    def abort(self) -> None:
        self._end(lambda seconds: self.driver.abort_transaction(seconds))  # noqa: PLW0108 (see above)

    def _end(self, call: Callable[[float], object]) -> None:
        self._called["EndTxn"] += 1
        try:
            self._insist(call)
            self._idle = True
        finally:
            with self._serving:
                self.serve()  # what the driver told until now is of before the end
                self._statistics = ""

    def repeated(self) -> bool:
        """Was a request repeated that ended the last transaction? Then an earlier copy of it may still be under way.

        The driver does not say so; its statistics count what it sent. Waits for those after the end, if none came yet.
        """
        with self._serving:
            deadline = time.monotonic() + CALL_SECONDS
            while not self._statistics and time.monotonic() < deadline:
                self._poll_even_fenced(_POLL_SECONDS)
        if not self._statistics:
            return True  # nobody knows: as if
        sent = requests_sent(self._statistics, *_STRAGGLERS)
        more = any(sent[name] - self._sent[name] > self._called[name] for name in _STRAGGLERS)
        self._sent, self._called = sent, Counter()
        return more

    def _serve(self) -> None:
        """Statistics pile up in the driver while nobody polls: between transactions it is served from here.

        Not within one: an answer must be noted before whoever waits for the last of them goes on.
        """
        while not self._ending.wait(_IDLE_SECONDS):
            with self._serving:
                if self._idle and not self._ending.is_set():
                    self._poll_even_fenced(0.0)

    def _poll_even_fenced(self, seconds: float) -> int:
        """A fatal error comes back with every later call, so that nothing is lost by not raising it here."""
        try:
            return self.poll(seconds)
        except FencepostError:
            return 1

    def _insist(self, call: Callable[[float], object]) -> None:
        """Call again while that is allowed. Raises Aborting where the driver wants the transaction aborted."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                call(CALL_SECONDS)
                return
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if cause.txn_requires_abort():
                    raise Aborting(cause.str()) from error
                if not cause.retriable() or time.monotonic() > deadline:
                    raise self.trouble(error) from error

    def close(self) -> None:
        """End it at once: what is not answered stays unknown, what is not committed never will be. Harmless again."""
        self._ending.set()
        if self._driver is None:
            return
        with suppress(KafkaException, FencepostError):  # fenced or broken: that was told where it mattered
            self.driver.purge(in_queue=True, in_flight=True, blocking=False)
            self.poll()
        with self._serving, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # an abort that fails: the broker does it in time
            try:
                self._driver.close()
            finally:
                self._driver = None

    def _hear_statistics(self, text: str) -> None:
        self._statistics = text


class Aborting(Unreachable):
    """The transaction has failed and nothing of it will be read: abort it, and try again."""
