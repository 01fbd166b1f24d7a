"""What the pages ask, each question with how long its answer stays. All of them share it: see answers.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TypeVar

from fencepost.admin.attention import Attention, of_layout, of_transactions
from fencepost.audit.journal import Journal, read_journals
from fencepost.audit.receipt import Receipt, receipt
from fencepost.errors import Unreachable, Usage
from fencepost.kafka.batch_headers import BatchHeader
from fencepost.kafka.client import Cluster
from fencepost.kafka.errors import Missing
from fencepost.kafka.group_lag import Counts, GroupLag, group_lags, lags_of
from fencepost.kafka.groups import GroupDescription, GroupSummary, describe_group, list_groups
from fencepost.kafka.key_search import Found, read_place, search, with_id, with_key
from fencepost.kafka.layout import Layout, TopicLayout, leaders, list_offsets, minimums, read_layout
from fencepost.kafka.log_reader import fetch
from fencepost.kafka.messages import LogEntry, LogPart, Wanted, read_parts
from fencepost.kafka.names import did_you_mean, require_topic
from fencepost.kafka.open_transactions import (
    OpenProducer,
    TransactionDescription,
    TransactionSummary,
    describe_transactions,
    find_hanging,
    list_transactions,
    open_producers,
    open_transactions,
)
from fencepost.kafka.topics import TopicDescription, TopicSetting, describe_topic, topic_facts, topic_settings
from fencepost.kafka.wire import Wire
from fencepost.model import Span, TopicPartition
from fencepost.rules.findings import Finding
from fencepost.rules.topics import topic_findings
from fencepost.sinks import registry
from fencepost.sinks.knowing import CommitsOver, KnownPipeline, TimedCommit
from fencepost.spec import PipelineSpec
from fencepost.web.answers import Answer, Answers
from fencepost.web.history import History, Pace
from fencepost.web.lab_runs import LabRun, read_runs

T = TypeVar("T")
_NEWEST = 100  # offsets of each partition
HURRY, PATIENCE = 0.03, 10.0  # seconds to wait for a newer answer where there is one already
_EVERYWHERE = (
    "layout",
    "open",
    "groups",
    "lags",
    "pipeline",
)  # what the overview shows must not wait for a broker that is gone
_WITH_OFFSETS = ("classic", "consumer")
AT_ONCE, TAIL, GLANCE, LOOK, SLOW, SEARCH = 0.2, 1.0, 2.0, 5.0, 20.0, 60.0  # seconds that an answer stays


class Connections:
    """To the brokers, by either client; opened when first needed, and anew after trouble."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self.kafka = dict(kafka)
        self._lock = Lock()
        self._wire: Wire | None = None
        self._cluster: Cluster | None = None

    def wire(self, question: Callable[[Wire], T]) -> T:
        with self._lock:
            wire = self._wire = self._wire or Wire(self.kafka)
        try:
            return question(wire)
        except Unreachable:
            self._drop(wire)
            raise

    def cluster(self, question: Callable[[Cluster], T]) -> T:
        with self._lock:
            cluster = self._cluster = self._cluster or Cluster(self.kafka)
        return question(cluster)

    def close(self) -> None:
        with self._lock:
            wire, cluster = self._wire, self._cluster
            self._wire = self._cluster = None
        if wire is not None:
            wire.close()
        if cluster is not None:
            cluster.close()

    def _drop(self, wire: Wire) -> None:
        """A client that lost its brokers may look for them where they are no more."""
        with self._lock:
            if self._wire is not wire:
                return
            self._wire = None
        wire.close()


@dataclass(frozen=True)
class TopicState:
    """Everything that the page of a topic shows."""

    topic: TopicDescription
    min_in_sync: int | None
    settings: Sequence[TopicSetting] | None
    findings: Sequence[Finding]  # what weakens a guarantee
    holding: Sequence[OpenProducer]  # inside transactions, where the last stable offset is behind the end


@dataclass(frozen=True)
class Gaps:
    """What open transactions hold back."""

    producers: Sequence[OpenProducer]
    offsets: Mapping[TopicPartition, int]  # from the last stable offset to the end


@dataclass(frozen=True)
class Beside:
    """What is shown beside the cluster."""

    ledger: str | None = field(default=None, repr=False)  # where pipelines keep positions, in its store's own words
    journals: Sequence[Path] = ()  # of producers
    specs: Sequence[PipelineSpec] = field(default=(), repr=False)  # whose rows and dead letters can be looked up
    lab: Path | None = None  # where its runs are kept


class State:
    """Asked by any number of threads."""

    def __init__(
        self, connections: Connections, answers: Answers, history: History | None = None, beside: Beside | None = None
    ) -> None:
        beside = beside or Beside()
        self.connections = connections
        self.answers = answers
        self.history = history or History(None)
        self.journals = beside.journals
        self.specs = {spec.name: spec for spec in beside.specs}
        self._ledger = beside.ledger
        self._lab = beside.lab
        self._counts = Counts()

    def layout(self) -> Answer[Layout]:
        return self._wire("layout", lambda wire: read_layout(wire, self._minimums(wire)), GLANCE)

    def _minimums(self, wire: Wire) -> dict[str, int]:
        """They seldom change, and are asked of all topics at once."""
        known = self.answers.get("topics", lambda: _topics(wire), SEARCH).require()
        return self.answers.get(("minimums", *known), lambda: minimums(wire, known), SEARCH).require()

    def topic(self, name: str) -> Answer[TopicState]:
        return self._cluster(("topic", name), lambda cluster: self._topic(cluster, name), GLANCE)

    def _topic(self, cluster: Cluster, name: str) -> TopicState:
        found = describe_topic(cluster, name)
        facts = topic_facts(cluster, name)
        gaps = [
            TopicPartition(name, one.partition)
            for one in found.partitions
            if one.end_offset is not None and (one.last_stable_offset or 0) < one.end_offset
        ]
        holding = self.connections.wire(lambda wire: open_producers(wire, gaps)) if gaps else []
        return TopicState(
            found,
            facts.min_insync_replicas if facts else None,
            topic_settings(cluster, name),
            list(topic_findings(facts)) if facts else [],
            holding,
        )

    def topic_layout(self, name: str) -> TopicLayout:
        """Raises Missing, with the nearest name."""
        require_topic(name)
        topics = self.layout().require().topics
        if name not in topics:
            self.answers.forget("layout", "topics")  # it may just have been made
            topics = self.layout().require().topics
        if name not in topics:
            raise Missing(f"there is no topic {name}", did_you_mean(name, topics, "see the topics"))
        return topics[name]

    def parts(self, topic: str, wanted: Mapping[TopicPartition, Wanted], follow: bool) -> list[LogPart]:
        """Of all who follow the same one asks."""
        key = ("parts", topic, tuple(sorted(wanted.items(), key=lambda one: one[0])))
        kafka = self.connections.kafka
        return self._wire(key, lambda wire: read_parts(wire, kafka, wanted), TAIL if follow else AT_ONCE).require()

    def search(self, topic: str, starts: Mapping[TopicPartition, int], key: str) -> Found:
        kafka, wanted = self.connections.kafka, with_key(key.encode("utf-8", "surrogateescape"))
        asked = ("key", topic, key, tuple(sorted(starts.items())))
        return self._wire(asked, lambda wire: search(wire, kafka, starts, wanted), LOOK).require()

    def search_id(self, topic: str, starts: Mapping[TopicPartition, int], id_: str) -> Found:
        kafka, asked = self.connections.kafka, ("id", topic, id_, tuple(sorted(starts.items())))
        return self._wire(asked, lambda wire: search(wire, kafka, starts, with_id(id_)), LOOK).require()

    def journal(self) -> Journal:
        """What producers noted, in the journals that were named. Raises Usage for one that is none."""
        return self.answers.get("journal", lambda: read_journals(self.journals), LOOK).require()

    def lab_runs(self) -> list[LabRun]:
        """The newest first. Raises Usage where the folder cannot be read."""
        return self.answers.get("lab", lambda: read_runs(self._lab), GLANCE).require()

    def place(self, at: TopicPartition, offset: int, kept: int) -> LogEntry | None:
        kafka = self.connections.kafka
        found = self._wire(("place", at, offset), lambda wire: read_place(wire, kafka, at, offset, kept), GLANCE)
        return next(iter(found.require()), None)

    def offsets_at(self, partitions: Sequence[TopicPartition], moment: datetime) -> dict[TopicPartition, int]:
        """The first offset of that time or later; the end where nothing is so young."""

        def ask(wire: Wire) -> dict[TopicPartition, int]:
            led = {at: leader for at, leader in leaders(wire, partitions).items() if at in set(partitions)}
            found = list_offsets(wire, led, at_ms=max(int(moment.timestamp() * 1000), 0))
            ends = list_offsets(wire, led)
            return {at: found[at] if found.get(at, -1) >= 0 else ends[at] for at in ends}

        return self._wire(("time", tuple(partitions), moment), ask, LOOK).require()

    def transactions(self) -> Answer[list[TransactionSummary]]:
        return self._wire("transactions", list_transactions, GLANCE)

    def open_transactions(self) -> Answer[list[TransactionDescription]]:
        return self._wire("open", open_transactions, GLANCE)

    def transaction(self, id_: str) -> Answer[TransactionDescription]:
        if not id_:
            raise Usage("which transaction?", "give its transactional.id as id")
        return self._wire(("transaction", id_), lambda wire: describe_transactions(wire, [id_])[0], GLANCE)

    def gaps(self, partitions: Iterable[TopicPartition]) -> Gaps:
        """Of those that there still are."""
        wanted = set(partitions)

        def ask(wire: Wire) -> Gaps:
            led = {at: leader for at, leader in leaders(wire, wanted).items() if at in wanted}
            stable, end = list_offsets(wire, led, stable=True), list_offsets(wire, led)
            behind = {at: end[at] - stable[at] for at in led if at in stable and at in end}
            return Gaps(open_producers(wire, led), behind)

        return self._wire(("gaps", tuple(sorted(wanted))), ask, GLANCE).require() if wanted else Gaps((), {})

    def hanging(self) -> Answer[list[OpenProducer]]:
        """As the last search found it: pages do not wait for one."""
        return self.answers.known("hanging")

    def find_hanging(self, fresh: float = LOOK) -> Answer[list[OpenProducer]]:
        """All partitions are looked at, twice where there is a suspect."""
        return self._wire("hanging", lambda wire: find_hanging(wire, self.layout().require().leaders), fresh)

    def stable_offsets(self) -> Answer[dict[TopicPartition, int]]:
        leaders = self.layout().require().leaders
        return self._wire("stable", lambda wire: list_offsets(wire, leaders, stable=True), LOOK)

    def groups(self) -> Answer[list[GroupSummary]]:
        return self._cluster("groups", list_groups, LOOK)

    def lags(self) -> Answer[dict[str, GroupLag]]:
        """Of every group that has committed something."""

        def ask(wire: Wire) -> dict[str, GroupLag]:
            names = [one.group for one in self.groups().require() if one.type in _WITH_OFFSETS]
            return {one.group: one for one in group_lags(wire, self._counts, names)}

        return self._wire("lags", ask, LOOK)

    def members(self, group: str) -> Answer[GroupDescription]:
        return self._cluster(("members", group), lambda cluster: describe_group(cluster, group), GLANCE)

    def lag(self, group: str) -> Answer[GroupLag | None]:
        """None: it has committed nothing."""

        def ask(wire: Wire) -> GroupLag | None:
            return next(iter(group_lags(wire, self._counts, [group])), None)

        return self._wire(("lag", group), ask, GLANCE)

    def remember(self) -> None:
        """What is known now goes into the history."""
        self.history.add(self.layout().require().cluster_id, self.lags().require().values())

    def pace(self, group: str) -> Pace | None:
        layout = self.layout().value
        return self.history.pace(layout.cluster_id, group) if layout else None

    def pipelines(self) -> Answer[list[KnownPipeline]]:
        """Those whose ledger can be read; none where nobody said where it is."""

        def ask() -> list[KnownPipeline]:
            where = self._ledger
            return (
                [] if where is None else [one for kind in registry.knowing_pipelines() for one in kind.pipelines(where)]
            )

        return self.answers.get("pipelines", ask, GLANCE, HURRY)

    def commits_over(self, one: KnownPipeline, at: TopicPartition, span: Span) -> CommitsOver:
        def ask() -> CommitsOver:
            found = [kind.commits_over(self._ledger or "", one, at, span) for kind in registry.knowing_pipelines()]
            return next((each for each in found if each.position is not None), CommitsOver(None, ()))

        return self.answers.get(("over", one.place, one.pipeline, at, span), ask, GLANCE).require()

    def receipt(self, spec: PipelineSpec, at: TopicPartition, offset: int) -> Answer[Receipt]:
        """With a look at its row, or at its dead letter."""

        def ask() -> Receipt:
            return receipt(spec, at.partition, offset, at.topic, check=True)

        return self.answers.get(("receipt", spec.name, at, offset), ask, LOOK)

    def commits_since(self, one: KnownPipeline, since: datetime) -> list[TimedCommit]:
        def ask() -> list[TimedCommit]:
            return [
                commit
                for kind in registry.knowing_pipelines()
                for commit in kind.commits_since(self._ledger or "", one, since)
            ]

        return self.answers.get(("since", one.place, one.pipeline), ask, LOOK).require()

    def lag_of(self, one: KnownPipeline) -> Answer[GroupLag]:
        """Of what its ledger holds, whatever its group shows."""
        positions = {at: held.position for at, held in one.stored.items()}

        def ask(wire: Wire) -> GroupLag:
            return lags_of(wire, self._counts, {one.pipeline: positions})[0]

        return self._wire(("pipeline", one.place, one.pipeline), ask, GLANCE)

    def producers(self, topics: Iterable[str]) -> Counter[str]:
        """How the newest batches were sent: in a transaction, idempotent, or not."""
        led = {at: leader for at, leader in self.layout().require().leaders.items() if at.topic in set(topics)}

        def ask(wire: Wire) -> Counter[str]:
            ends = list_offsets(wire, led)
            seen = fetch(
                wire, {at: max(end - _NEWEST, 0) for at, end in ends.items() if end}, committed=False, most=64 << 10
            )
            return Counter(_sent(batch) for one in seen.values() for batch in one.batches if batch.marker is None)

        return self._wire(("producers", tuple(led)), ask, SLOW).require() if led else Counter()

    def findings(self, topic: str) -> list[Finding]:
        """What of its settings weakens a guarantee; nothing for one that is gone."""

        def ask(cluster: Cluster) -> list[Finding]:
            facts = topic_facts(cluster, topic)
            return list(topic_findings(facts)) if facts else []

        try:
            return self._cluster(("findings", topic), ask, SLOW).require()
        except Missing:
            return []

    def attention(self) -> list[Attention]:
        """Of what is known; what cannot be asked is told where it is shown."""
        now = datetime.now(UTC)
        found: list[Attention] = []
        if layout := self.layout().value:
            found += of_layout(layout, now)
        found += of_transactions(self.open_transactions().value or (), self.hanging().value or (), now)
        return found

    def _wire(self, key: object, question: Callable[[Wire], T], fresh: float) -> Answer[T]:
        wait = HURRY if (key[0] if isinstance(key, tuple) else key) in _EVERYWHERE else PATIENCE
        return self.answers.get(key, lambda: self.connections.wire(question), fresh, wait)

    def _cluster(self, key: object, question: Callable[[Cluster], T], fresh: float) -> Answer[T]:
        wait = HURRY if (key[0] if isinstance(key, tuple) else key) in _EVERYWHERE else PATIENCE
        return self.answers.get(key, lambda: self.connections.cluster(question), fresh, wait)


def _sent(batch: BatchHeader) -> str:
    if batch.producer_id < 0:
        return "not idempotent"
    return "in a transaction" if batch.transactional else "idempotent"


def _topics(wire: Wire) -> list[str]:
    return [one["name"] for one in wire.ask(lambda admin: admin.describe_topics(None), "the topics")]
