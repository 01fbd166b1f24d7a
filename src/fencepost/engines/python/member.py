"""One member of a consumer group: it reads, processes, commits, and gives partitions away in good order.

The current batch is processed in a thread of its own while the group is still talked to, so that a slow handler does
not cost the membership. All of the group's callbacks run inside `poll`, in the thread of `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import ExitStack, suppress
from functools import partial
from threading import Event as Flag
from time import monotonic
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as DriverPartition

from fencepost.delivery import Observer
from fencepost.engines.python.consumed import Consumed
from fencepost.engines.python.drained import EndOffsets, OtherMembers, holders, is_listed
from fencepost.engines.python.events import driver_partitions, place_of, places_of, spans_of
from fencepost.engines.python.group_consumer import GroupConsumer
from fencepost.engines.python.offset_store import MemberHooks, Messages, OffsetStore
from fencepost.engines.python.settings import ConsumerSettings, Per
from fencepost.errors import (
    Fenced,
    FencepostError,
    PositionLost,
    RecordsGone,
    Rewound,
    Unknown,
    Unreachable,
    Usage,
)
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.errors import failure, is_end_of_partition, is_fatal, is_missing, is_out_of_range
from fencepost.kafka.log import librdkafka_log
from fencepost.kafka.offsets import TopicReader, before_the_start, beyond_the_end
from fencepost.model import Batch, Landed, Tenure, TopicPartition

POLL_SECONDS = 0.2
# From a batch's first record until it goes without more: other brokers' may be on their way. Longer where there were
# many a moment ago; by itself a record waits for nobody.
GATHER_SECONDS, GLIMPSE_SECONDS = 0.005, 0.001
MANY = 100  # records
FENCED_SECONDS = 30.0
TIMEOUT_SECONDS = 1.0  # work that is done by then is not worth a pause, which throws away what was read ahead
GLANCE_SECONDS = 0.05
CLOSE_SECONDS = 20.0
ANSWER_SECONDS = 0.002  # until the next look whether a commit was answered


class Member:
    """Made for one run."""

    def __init__(
        self,
        settings: ConsumerSettings,
        make_keeper: Callable[[GroupConsumer, TopicReader, MemberHooks], OffsetStore],
        stop: Flag,
        see: Observer,
        seen: Callable[[Batch[Messages], int], None],  # a batch was counted, and so many events were done since
        tell: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._stop = stop
        self._seen = seen
        self._tell = tell
        self._worker = ThreadPoolExecutor(1, "handler")
        self._batch: Batch[Messages] | None = None  # being processed
        self._in_hand: Future[Any] | None = None  # the work on it, while that is done
        self._owned: set[TopicPartition] = set()
        self._ends: dict[TopicPartition, int] = {}  # where the last of its records was, as far as we know
        self._early: Messages = []  # came while a batch was being processed
        self._next: dict[TopicPartition, int] = {}  # what the next batch of each partition begins with
        self._many = False  # were read the last time
        self._paused = False
        self._joined = False  # the group has given it partitions, or none
        self._goal: EndOffsets | None = None  # of the whole group, for a member that ends
        self._others: OtherMembers | None = None  # who may not reach it
        self._replaced: Fenced | None = None
        self._fenced_since: float | None = None
        self.done = Consumed()
        self._events_told = 0
        with ExitStack() as opened:  # closes what there is when the next thing fails
            self._cluster = opened.enter_context(Cluster(settings.kafka))
            self._topic = topic = TopicReader(self._cluster, *settings.topics)
            self._consumer = self._open_consumer()
            opened.callback(self._consumer.close_within, CLOSE_SECONDS)
            self._offset_store = make_keeper(self._consumer, topic, MemberHooks(stop, self._patiently, see, self._hear))
            opened.pop_all()

    def _open_consumer(self) -> GroupConsumer:
        try:
            return GroupConsumer(self._settings.librdkafka(), self._answered, librdkafka_log)
        except KafkaException as error:
            raise Usage(f"the consumer's settings are wrong: {error.args[0].str()}") from error

    def _answered(self, error: KafkaError | None, partitions: list[DriverPartition]) -> None:
        self._offset_store.answered(error, partitions)

    # -- the loop

    def run(self, once: bool = False) -> Consumed:
        """Until stopped, or (once) until every partition that it owns is at its end; of none, until the group's are.

        Of some, the others' too, unless they are seen to process theirs, or do not for as long as a session lasts: the
        rest is then in `left`.
        Raises HandlerFailed, RecordsGone, Unreachable; Fenced when a static member was replaced by another of its name.
        A batch whose partitions went away meanwhile is given up.
        """
        try:
            self._consumer.subscribe(
                list(self._settings.topics),
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._lost,
            )
            if once:
                self._goal = EndOffsets(self._topic, self._offset_store.stands, self._listed)
                self._others = OtherMembers(self._goal, self._holders, self._settings.session_seconds, self._tell)
            while not self._stop.is_set() and not (once and self._drained()):
                self._carry(self._read())
                if self._replaced is not None:
                    raise self._replaced
        finally:
            self.leave()
        if self._others is not None and not self._stop.is_set():
            self.done.left = self._others.left
        return self.done

    def _drained(self) -> bool:
        """Every partition that it owns was read to where it ended, and the others are in good hands, or hopeless."""
        if not self._owned:
            return self._goal is not None and self._goal.reached(self._joined)
        read = all(at in self._ends and self._next[at] >= self._ends[at] for at in self._owned)
        if not read or self._early or self._offset_store.waiting():
            return False
        return self._others is None or self._others.decided(self._owned)

    def _listed(self) -> bool:
        return is_listed(self._cluster, self._settings.group, self._consumer.driver.memberid())

    def _holders(self) -> Mapping[TopicPartition, str]:
        return holders(self._cluster, self._settings.group)

    def leave(self) -> None:
        """Give the partitions back, and leave the group; of one that is not run, only close what was opened."""
        with ExitStack() as opened:  # whatever is wrong, all of it is closed
            opened.enter_context(self._cluster)
            opened.callback(self._offset_store.close)
            opened.callback(self._worker.shutdown, wait=True)
            opened.callback(self._consumer.close_within, CLOSE_SECONDS)  # calls `_revoked` if nothing did before
            with suppress(FencepostError):  # told by `run`
                self._hear_while(lambda: self._consumer.under_way > 0)
                if "group.instance.id" not in self._settings.kafka:  # a static member stays, and its partitions with it
                    self._consumer.unsubscribe()
                    self._hear_while(lambda: bool(self._owned) or self._consumer.is_member())

    def _hear_while(self, condition: Callable[[], bool]) -> None:
        """Until commits are answered, which must not arrive behind the last one; until `_revoked` was called and the
        group was told."""
        deadline = monotonic() + self._settings.revoke_seconds
        while condition() and self._replaced is None and monotonic() < deadline:
            self._hear()

    def _read(self) -> Messages:
        if self._paused:
            self._resume()
        gather = 0.0 if self._early else GATHER_SECONDS if self._many else GLIMPSE_SECONDS
        if not self._early:
            self._hear(POLL_SECONDS)
        room = self._settings.batch - len(self._early)
        if self._early and room > 0:  # where a partition is asked back meanwhile, what came early of it is dropped
            self._early += self._records(self._consumer.consume(room, gather))
        messages, self._early = self._early, []
        self._many = len(messages) >= MANY
        return messages

    def _records(self, messages: Messages) -> Messages:
        """What of it is records; the rest tells of ends and of trouble."""
        if not any(map(Message.error, messages)):
            return messages
        for message in messages:
            if (error := message.error()) is not None:
                self._told(message, error)
        return [message for message in messages if message.error() is None]

    def _told(self, message: Message, error: KafkaError) -> None:
        if is_end_of_partition(error):
            self._ends[TopicPartition(message.topic() or "", message.partition() or 0)] = message.offset() or 0
        else:
            self._trouble(message, error)

    def _trouble(self, message: Message, error: KafkaError) -> None:
        if is_fatal(error) and "group.instance.id" in self._settings.kafka:
            self._replaced = Fenced(
                f"group {self._settings.group!r}: another process uses the same group.instance.id ({error.str()})",
                "give each process its own",
            )
            return  # told by `run`, not in the middle of a batch
        if is_out_of_range(error):
            raise self._out_of_range(TopicPartition(message.topic() or "", message.partition() or 0))
        if isinstance(found := failure(error, f"group {self._settings.group!r}", ""), Usage) and not is_missing(error):
            raise found
        if error.fatal() or not error.retriable():
            raise Unreachable(f"topic {message.topic() or self._settings.topic!r}: {error.str()}", "check the brokers")

    def _out_of_range(self, place: TopicPartition) -> FencepostError:
        first, end = self._topic.bounds([place])
        stored = {place: self._next.get(place, 0)}
        if stored[place] < first[place]:
            return RecordsGone(*before_the_start(stored, first, self._offset_store.set_command))
        if stored[place] > end[place]:
            return PositionLost(*beyond_the_end(stored, end, self._offset_store.set_command))
        return Unreachable(f"{place}: its leader lacks the records from {stored[place]} on", "check the brokers")

    # -- a batch

    def _carry(self, messages: Messages) -> None:
        nobody, most = (
            Tenure(self._settings.group, uuid4(), 0, {}),
            1 if self._settings.per is Per.RECORD else len(messages),
        )
        spans = spans_of(messages, self._next, self._ends, most)
        batches = [Batch({place: span}, part, nobody) for place, span, part in spans]
        if not batches:
            self._delivered(self._offset_store.catch_up, [])
        for number, batch in enumerate(batches):
            place, span = batch.only_span()
            if self._stop.is_set():
                return  # with `per` record many are read at once: the next run does the rest
            if self._next.get(place) != span.start:
                continue  # asked back since it was read
            self._batch = batch
            if not self._delivered(partial(self._offset_store.deliver, batch), batches[number:]):
                return
            self._count(batch)

    def _delivered(self, deliver: Callable[[], Landed], batches: list[Batch[Messages]]) -> bool:
        """False: the first of these batches and what waited before it were not processed, and are read again.

        Trouble without an answer ends the member: what it sent may still arrive, until the group has another one.
        """
        try:
            landed = deliver().rows
            self.done.events += landed
            if landed:  # one that is only under way may be fenced yet
                self._fenced_since = None
        except Fenced as trouble:
            if isinstance(trouble, Rewound) and trouble.takeover_lost:
                raise  # the group says again whose partitions these are
            self.done.given_up += 1
            if not self._offset_store.processed_though_fenced:
                self._require_not_for_long()
                self._go_back(batches)
                return False
            # processed: a later commit covers it, or its next owner repeats it
        finally:
            self._batch = None
        return True

    def _require_not_for_long(self) -> None:
        """The group tells a member that was replaced soon. Who is fenced and still its owner has a rival elsewhere."""
        now = monotonic()
        self._fenced_since = self._fenced_since or now
        if now - self._fenced_since > FENCED_SECONDS:
            raise Fenced(
                f"group {self._settings.group!r}: another owner moves the positions of our partitions",
                "check whether another program runs under the same name",
            )

    def _count(self, batch: Batch[Messages]) -> None:
        self.done.batches += 1
        place, span = batch.only_span()
        self.done.positions[place] = span.end
        if place in self._next:
            self._next[place] = span.end
        events, self._events_told = self.done.events - self._events_told, self.done.events
        self._seen(batch, events)

    def _patiently(self, work: Callable[[], Any]) -> Any:
        """Run the work in its own thread; when it takes long, poll meanwhile, with nothing to be read.

        Commits stay in this thread: a synchronous one beside a poll is never answered.
        """
        self._in_hand = self._worker.submit(work)
        try:
            with suppress(NotYet):
                self._in_hand.exception(TIMEOUT_SECONDS)
            if not self._in_hand.done():
                self._poll_meanwhile(self._in_hand)
            return self._in_hand.result()
        finally:
            self._in_hand = None

    def _poll_meanwhile(self, work: Future[Any]) -> None:
        self._pause()
        while not work.done():
            message = self._consumer.poll(GLANCE_SECONDS)
            if message is not None:
                self._early += self._records([message])
        self._resume()

    def _hear(self, seconds: float = ANSWER_SECONDS) -> None:
        """Let the group and its answers come through. What is read meanwhile waits, but no more than a batch."""
        if len(self._early) >= self._settings.batch and not self._paused:
            self._pause()
        message = self._consumer.poll(seconds)
        if message is not None:
            self._early += self._records([message])

    def _pause(self) -> None:
        self._consumer.driver.pause(driver_partitions(self._owned))
        self._paused = True

    def _resume(self) -> None:
        self._consumer.driver.resume(driver_partitions(self._owned))
        self._paused = False

    def _go_back(self, batches: list[Batch[Messages]]) -> None:
        """The first one was not processed, nor what waited: they are read again from where their positions stand."""
        back = self._offset_store.waiting() | set(batches[0].spans if batches else ())
        waiting = [message for other in batches for message in other.rows] + self._early
        self._early = [message for message in waiting if place_of(message) not in back]
        for place in back:
            self._ends.pop(place, None)
            if place in self._next:  # still ours, as far as we know
                self._next[place] = self._offset_store.position(place)
                self._consumer.driver.seek(DriverPartition(place.topic, place.partition, self._next[place]))

    # -- the group

    def _assigned(self, partitions: list[DriverPartition]) -> None:
        self._joined = True
        new = places_of(partitions)
        if not new:
            return
        starts = self._offset_store.take(sorted(new))
        self._fenced_since = None
        self._owned |= new
        self._next |= starts
        if self._settings.incremental:
            self._consumer.driver.incremental_assign(driver_partitions(starts))
        else:
            self._consumer.driver.assign(driver_partitions(starts))
        # Said of each one: the driver keeps a partition paused that goes, and it is paused when it comes back.
        if self._paused:
            self._consumer.driver.pause(driver_partitions(new))
        else:
            self._consumer.driver.resume(driver_partitions(new))

    def _revoked(self, partitions: list[DriverPartition]) -> None:
        """Asked back: finish the current batch or give it up; then everything that is done is committed."""
        gone = places_of(partitions)
        until = monotonic() + self._settings.revoke_seconds
        early = self._settings.guarantee is Guarantee.AT_MOST_ONCE  # an older batch than this one may be in hand
        concerned = early or (self._batch is not None and set(self._batch.spans) & gone)
        finished = self._finished_in_time() if concerned else None
        with suppress(Fenced, Unknown, Unreachable):  # at worst their next owner reads them again
            self._offset_store.give_back(gone, finished, max(until - monotonic(), 0.0))
        self._let_go(partitions)

    def _finished_in_time(self) -> Batch[Messages] | None:
        """The current batch, if its work ends well before time is up; else it is given up."""
        if self._in_hand is None:
            return None
        with suppress(NotYet):
            if self._in_hand.exception(self._settings.revoke_seconds) is None:
                return self._batch
        return None

    def _lost(self, partitions: list[DriverPartition]) -> None:
        """Others own them already: nothing of ours may be committed."""
        self._offset_store.lose(places_of(partitions))
        self._let_go(partitions)

    def _let_go(self, partitions: list[DriverPartition]) -> None:
        gone = places_of(partitions)
        self._owned -= gone
        for place in gone:
            self._next.pop(place, None)
            self._ends.pop(place, None)
        self._early = [message for message in self._early if place_of(message) not in gone]
        if self._settings.incremental:
            self._consumer.driver.incremental_unassign(partitions)
        else:
            self._consumer.driver.unassign()
