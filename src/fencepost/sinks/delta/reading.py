"""What the log says of a pipeline's commits: for status, receipts and the audit. Nothing here writes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

from fencepost.guarantee import Guarantee
from fencepost.model import Landed, TopicPartition
from fencepost.sinks.auditing import Commit
from fencepost.sinks.delta.held import Held
from fencepost.sinks.delta.log import Entry, Log
from fencepost.sinks.delta.store import DeltaStore
from fencepost.sinks.kind import Activity
from fencepost.sinks.lake import commits as lake_commits
from fencepost.sinks.lake.commits import Count

MINUTE = timedelta(minutes=1)


def activity(store: DeltaStore, held: Held, pipeline: str) -> Activity:
    since = datetime.now(UTC) - MINUTE
    recent = 0
    for entry in entries(store, held, pipeline):
        if entry.at < since or entry.note is None:
            break
        recent += entry.rows if entry.note.rows else entry.note.wrote
    last = max((one.moved_at for one in held.stored.values() if one.moved_at is not None), default=None)
    return Activity(held.total.rows, held.total.dead, recent, last)


def guarantee(held: Held) -> Guarantee | None:
    return Guarantee(held.note.guarantee) if held.note and held.note.guarantee else None


def landed(held: Held, runs: Collection[UUID]) -> Landed:
    return lake_commits.landed(held.stored, held.total, held.note.begun if held.note else Count(), runs)


def forgets(store: DeltaStore, held: Held) -> bool:
    """Has the log been cleaned up?"""
    return held.version is not None and next(store.log.back(0), None) is None


def entries(store: DeltaStore, held: Held, pipeline: str) -> Iterator[Entry]:
    """The pipeline's commits, the newest first, as far as the log goes back."""
    for entry in store.log.back(-1 if held.version is None else held.version):
        if entry.note is not None and entry.note.pipeline == pipeline and entry.note.stored:
            yield entry


def commits(store: DeltaStore, held: Held, pipeline: str) -> list[Commit]:
    """What each covered and wrote, in their order."""
    found: list[Commit] = []
    for entry in entries(store, held, pipeline):
        if entry.note is None or not entry.note.spans:
            continue
        rows = _rows(store.log, entry)
        for at, span in sorted(entry.note.spans.items(), reverse=True):
            place = lake_commits.placed(at, entry.note.stored[at].topic_id, held.stored)
            found.append(Commit(place, span, None if rows is None else rows[at], entry.note.dead.get(at, 0)))
    return found[::-1]


def _rows(log: Log, entry: Entry) -> Counter[TopicPartition] | None:
    """How many rows came of each partition; None where nobody can tell any more."""
    note = entry.note
    if note is None or (not note.rows and note.data is None):
        return None  # the position moved before the rows were written
    total = entry.rows if note.rows else note.wrote
    if len(note.spans) == 1 or not total:
        return Counter(dict.fromkeys(note.spans, total))
    whole = log.whole(entry.version if note.data is None else note.data)
    counts = _by_partition(whole, total) if whole else None
    of_stream = counts is None and note.stream is not None
    return Counter(lake_commits.of_the_first(note.spans, total)) if of_stream else counts


def _by_partition(entry: Entry, total: int) -> Counter[TopicPartition] | None:
    """By Delta's own statistics: where the plan keeps Kafka's partitions apart, a file holds rows of one of them."""
    counts: Counter[TopicPartition] = Counter()
    for add in entry.adds:
        stats = json.loads(add.get("stats") or "{}")
        low, high = ((stats.get(name) or {}) for name in ("minValues", "maxValues"))
        place = low.get("_topic"), low.get("_partition")
        if None in place or place != (high.get("_topic"), high.get("_partition")):
            return None
        counts[TopicPartition(str(low["_topic"]), int(low["_partition"]))] += int(stats["numRecords"])
    return counts if counts.total() == total else None
