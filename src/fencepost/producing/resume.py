"""Going on with a source where the last run left it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.errors import PositionLost, UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster
from fencepost.kafka.offsets import TopicReader
from fencepost.producing.batches import Limits
from fencepost.producing.bookmark import Bookmark
from fencepost.producing.carrying import Carrier
from fencepost.producing.producer import Producer
from fencepost.producing.sources.files import Files
from fencepost.producing.sources.source import Place, Source
from fencepost.rules.producer import Acks


@dataclass(frozen=True)
class ProduceJob:
    """What is to be carried where, under which word."""

    topic: str
    guarantee: Guarantee | None  # None: nothing is promised, and the next run begins anew
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
                "a stream cannot be read again, so a restart would lose or double what was under way",
                Guarantee.AT_LEAST_ONCE,
                "or write it to a file first",
            )
        if job.journal is not None and isinstance(source, Files) and source.holds(job.journal):
            raise Usage(f"the journal {job.journal} is one of the files that are sent", "keep it elsewhere")
        atomic = job.guarantee is Guarantee.EXACTLY_ONCE
        self.producer = Producer(
            job.topic,
            job.guarantee,
            kafka,
            acks=job.acks,
            transactional_id=job.group if atomic else None,
            journal=job.journal,
            delivery_reports=False,
        )
        self._bookmark = Bookmark(kafka, job.topic, job.group) if resumable else None
        self.resumed_at: Place | None = None
        self.carrier: Carrier | None = None

    def carry(self, see: Callable[[Carrier], None] = lambda _carrier: None) -> Carrier:
        """Carry what is left. Raises what `Carrier.carry` raises, and PositionLost."""
        with self.producer, closing(self._bookmark) if self._bookmark else nullcontext():
            if self._job.guarantee is Guarantee.EXACTLY_ONCE:
                self.producer.take_over()  # before the position is read: nobody else can move it from here on
            place = self._place()
            if place is not None and place["number"]:
                self.resumed_at = place
            carrier = self.carrier = Carrier(
                self.producer,
                self._source,
                self._bookmark,
                self._job.limits,
                skip_refused=self._job.skip_refused,
                see=lambda: see(carrier),
            )
            carrier.carry(place)
            return carrier

    def _place(self) -> Place | None:
        """What is stored; at the first run the source's start, which is stored before anything is sent.

        Otherwise a first run that was killed would leave records, if only aborted ones, and no position.
        """
        if self._bookmark is None:
            return None
        place = self._bookmark.read()
        if place is not None:
            return place
        if not self._job.from_start:
            self._require_empty_topic()
        self._source.open(None)
        self.producer.adopt(self._source.fingerprint)  # before the journal begins
        start = self._source.place()
        if self._job.guarantee is Guarantee.EXACTLY_ONCE:
            with self.producer.transaction():
                self._bookmark.move_with(self.producer, start)
        else:
            self._bookmark.move(start)
        return self._bookmark.read()

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
                "when it was not: give --from-start",
            )
