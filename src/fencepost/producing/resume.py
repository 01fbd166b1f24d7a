"""Going on with a source where the last run left it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from fencepost.delivery import deliver
from fencepost.errors import Fenced, PositionLost, Refused, Unknown, Unreachable, UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
from fencepost.producing.batches import Chunks, Limits, Reader, SourceBatch
from fencepost.producing.source_position import SourcePosition
from fencepost.producing.source_producer import SourceProducer
from fencepost.producing.source_store import SourceStore, SourceTotals
from fencepost.producing.sources.files import Files
from fencepost.producing.sources.source import Place, Source
from fencepost.rules.producer import Acks

_ATTEMPTS = 5  # of one transaction; each may have waited for more than a minute


@dataclass(frozen=True)
class ProduceJob:
    """What is to be carried where, under which word."""

    topic: str
    guarantee: Guarantee | None  # None: nothing is promised, and the next run begins from scratch
    name: str = ""  # of the source, the same at every run: what its position is kept under
    acks: Acks | None = None
    from_start: bool = False  # where no position is stored, begin though the topic is not empty
    journal: Path | None = None
    limits: Limits = field(default_factory=Limits)
    skip_refused: bool = False

    @property
    def group(self) -> str:
        """The group that keeps the position, and the transactional.id: what fences another run."""
        return f"fencepost-{self.topic}-{self.name}"


def file_name(path: Path) -> str:
    """A name for a file or folder, the same for as long as it stays where it is."""
    shown = path.name.encode("utf-8", "backslashreplace").decode()  # a name need not be UTF-8, a group's must
    return f"{shown}-{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]}"


class Run:
    """One run over a source, from wherever the last one got to."""

    def __init__(self, kafka: Mapping[str, str], job: ProduceJob, source: Source) -> None:
        """Raises what `Producer` raises, and UnsupportedGuarantee for a stream under exactly-once."""
        self._kafka = kafka
        self._job = job
        self._source = source
        resumable = job.guarantee is not None and bool(source.fingerprint)
        if job.guarantee is Guarantee.EXACTLY_ONCE and not resumable:
            raise UnsupportedGuarantee(
                Guarantee.EXACTLY_ONCE,
                "a stream cannot be read again, so a restart would lose or duplicate what was in flight",
                Guarantee.AT_LEAST_ONCE,
                "or write it to a file first",
            )
        if job.journal is not None and isinstance(source, Files) and source.holds(job.journal):
            raise Usage(f"the journal {job.journal} is one of the files to send", "put it elsewhere")
        atomic = job.guarantee is Guarantee.EXACTLY_ONCE
        self.producer = SourceProducer(
            job.topic,
            job.guarantee,
            kafka,
            acks=job.acks,
            transactional_id=job.group if atomic else None,
            journal=job.journal,
            delivery_reports=False,
        )
        self._position = SourcePosition(kafka, job.topic, job.group) if resumable else None
        self.resumed_at: Place | None = None
        self.totals = SourceTotals()

    def carry(self, see: Callable[[], None] = lambda: None) -> SourceTotals:
        """Send what is left; what stands before a broken line is sent before that is raised. `totals` says how far it
        got. Raises Fenced, Unknown, Unreachable, Refused (BrokenLine for a line), PositionLost."""
        with self.producer, closing(self._position) if self._position else nullcontext():
            skip = self._job.skip_refused
            store = SourceStore(self.producer, self._position, self._start, self.totals, skip_refused=skip, see=see)
            tenure = store.take_over(self._job.group, uuid4(), {}, {})
            place = store.place
            if place is not None and place["number"]:
                self.resumed_at = place
            reader = Reader(self._source, place, self._job.limits)
            if self._source.fingerprint:
                self.producer.adopt(self._source.fingerprint)
            store.claim(tenure)
            while not reader.ended:
                chunks = Chunks(reader, place)
                if not chunks.empty():
                    self._deliver(SourceBatch({}, chunks, tenure), store)
                place = chunks.after
            if reader.broken is not None:
                raise reader.broken
            return self.totals

    def _deliver(self, batch: SourceBatch, store: SourceStore) -> None:
        """A transaction that failed is tried again, without what was refused."""
        failures = 0
        while True:
            try:
                deliver(self.producer.guarantee, batch, store, store)
                break
            except Refused as error:
                if not store.atomic:
                    raise
                store.leave_out_refused(batch, error)
            except (Fenced, Unknown, Unreachable) as error:
                if not store.atomic:
                    raise
                if not store.certain:
                    store.count_lost_track(batch, error)
                    raise
                failures += 1
                if failures == _ATTEMPTS:
                    remedy = "run again: nothing of it was committed"
                    raise Unreachable(f"a transaction failed {_ATTEMPTS} times: {error.message}", remedy) from error
        if store.atomic:
            store.count_landed(batch)

    def _start(self) -> Place:
        """Where nothing is stored: the source's start."""
        if not self._job.from_start:
            self._require_empty_topic()
        self._source.open(None)
        self.producer.adopt(self._source.fingerprint)  # before the journal begins
        return self._source.place()

    def _require_empty_topic(self) -> None:
        """Without a position, sending from the start may double: group offsets expire."""
        topic = self._job.topic
        if self._job.guarantee is Guarantee.AT_LEAST_ONCE:
            return
        with Cluster(self._kafka) as cluster:
            reader = TopicReader(cluster, topic)
            _, ends = reader.bounds(reader.require_same())
        if any(ends.values()):
            raise PositionLost(
                f"no position of {self._job.name} is stored in group {self._job.group}, and topic {topic} is not"
                " empty: it may have been sent before",
                "if it was not: give --from-start",
            )
