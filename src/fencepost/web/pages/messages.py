"""Messages of a topic: by partition, offset, time or key, each with what a read_committed reader makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fencepost.errors import FencepostError, Usage
from fencepost.kafka.errors import Missing
from fencepost.kafka.key_search import Found
from fencepost.kafka.messages import Content, LogEntry, LogPart, Wanted
from fencepost.machine.plain_json import iso
from fencepost.model import TopicPartition
from fencepost.web.pages.events import Landing, landings, way_of
from fencepost.web.pages.page import Shown
from fencepost.web.state import State
from fencepost.web.tables import Asked
from fencepost.web.values import WHOLE, Readable, decoded, hexadecimal, lines, parsed, readable, tree

USUAL, MOST = 50, 500  # offsets on a page
MOST_PARTITIONS = 64  # that are looked at together
_FIRST_WHEN = ("newest", "oldest", "offset", "time", "key")


@dataclass(frozen=True)
class Browse:
    """What of a topic is asked for, as the address says it."""

    topic: str
    partition: int | None  # None: all of them
    when: str  # newest, oldest, offset, time, key
    offset: int = 0
    time: datetime | None = None
    key: str = ""
    committed: bool = True
    most: int = USUAL
    follow: bool = False

    @property
    def isolation(self) -> str:
        return "read_committed" if self.committed else "read_uncommitted"


@dataclass(frozen=True)
class Row:
    """One entry as it is shown."""

    entry: LogEntry
    key: Readable
    value: Readable

    @property
    def mark(self) -> str:
        return "waiting" if self.entry.held else self.entry.visibility.value


@dataclass(frozen=True)
class Page:
    """What there is to show."""

    browse: Browse
    rows: Sequence[Row]
    parts: Sequence[LogPart]
    hidden: Mapping[str, int]  # by mark: what the isolation level leaves out
    stopped: str = ""
    search: Found | None = None

    @property
    def only(self) -> LogPart | None:
        return self.parts[0] if len(self.parts) == 1 and self.browse.partition is not None else None

    @property
    def earlier(self) -> int | None:
        """The offset at which the page before this one begins."""
        part = self.only
        return max(part.span.start - self.browse.most, part.first) if part and part.span.start > part.first else None

    @property
    def later(self) -> int | None:
        part = self.only
        return part.span.end if part and part.span.end < part.end else None


def browse_of(topic: str, query: Mapping[str, str]) -> Browse:
    """Raises Usage, naming the field, for what is none."""
    when = query.get("from", "newest")
    if when not in _FIRST_WHEN:
        raise Usage(f"from={when[:40]!r}", f"give one of {', '.join(_FIRST_WHEN)}")
    partition = query.get("partition", "all")
    isolation = query.get("isolation", "read_committed")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise Usage(f"isolation={isolation[:40]!r}", "give read_committed or read_uncommitted")
    return Browse(
        topic,
        None if partition in ("all", "") else _number(partition, "partition", 1 << 31),
        when,
        _number(query.get("offset") or "0", "offset", 1 << 63),
        _moment(query.get("time", "")) if when == "time" else None,
        query.get("key", ""),
        isolation == "read_committed",
        min(max(_number(query.get("n") or str(USUAL), "n", 1 << 31), 1), MOST),
        query.get("follow") == "1" and when == "newest",
    )


def _number(given: str, name: str, limit: int) -> int:
    if not (given.isascii() and given.isdecimal() and len(given) < 20 and int(given) < limit):
        raise Usage(f"{name}={given[:40]!r}", "give a whole number that is not negative")
    return int(given)


def _moment(given: str) -> datetime:
    """With a zone, or in UTC."""
    try:
        found = datetime.fromisoformat(given)
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        found.timestamp()
    except (ValueError, OverflowError) as error:
        raise Usage(f"time={given[:40]!r}", "write 2026-01-31T14:05, in UTC or with a zone such as +01:00") from error
    return found


def read(state: State, browse: Browse) -> Page:
    """Raises Missing where there is no such topic or partition."""
    partitions = _partitions(state, browse)
    if browse.when == "key":
        starts = dict.fromkeys(partitions, browse.offset if browse.partition is not None else 0)
        found = state.search(browse.topic, starts, browse.key)
        return _page(browse, found.entries, (), "", found)
    parts = state.parts(browse.topic, _wanted(state, browse, partitions), browse.follow)
    entries = [entry for part in parts for entry in part.entries]
    stopped = next((part.stopped for part in parts if part.stopped), "")
    there = len(state.topic_layout(browse.topic).partitions)
    if browse.partition is None and there > MOST_PARTITIONS:
        stopped = stopped or f"only the first {MOST_PARTITIONS} of {there} partitions are looked at together"
    return _page(browse, entries, parts, stopped)


def _partitions(state: State, browse: Browse) -> list[TopicPartition]:
    there = [TopicPartition(browse.topic, one.partition) for one in state.topic_layout(browse.topic).partitions]
    if browse.partition is None:
        return there if browse.when == "key" else there[:MOST_PARTITIONS]
    wanted = TopicPartition(browse.topic, browse.partition)
    if wanted not in there:
        raise Missing(f"topic {browse.topic} has no partition {browse.partition}", f"it has 0 to {len(there) - 1}")
    return [wanted]


def _wanted(state: State, browse: Browse, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Wanted]:
    each = max(-(-browse.most // max(len(partitions), 1)), 1)
    match browse.when:
        case "newest":
            return {at: Wanted(each) for at in partitions}
        case "time":
            since = browse.time or datetime.now(UTC)
            return {at: Wanted(each, start) for at, start in state.offsets_at(partitions, since).items()}
        case "offset":
            return {at: Wanted(each, browse.offset) for at in partitions}
        case _:
            return {at: Wanted(each, 0) for at in partitions}


def _page(
    browse: Browse, entries: Sequence[LogEntry], parts: Sequence[LogPart], stopped: str, found: Found | None = None
) -> Page:
    seen = [one for one in entries if not browse.committed or one.read_committed]
    ordered = in_order(seen)
    if browse.when == "newest":
        ordered.reverse()
    rows = [Row(one, readable(one.key), readable(one.value)) for one in ordered]
    hidden = Counter(
        "waiting" if one.held else one.visibility.value
        for one in entries
        if browse.committed and not one.read_committed
    )
    return Page(browse, rows, parts, hidden, stopped, found)


def in_order(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """By time, and within a partition by offset, whatever the times say there: markers are written later than they are
    read, and producers' clocks differ."""
    latest: dict[TopicPartition, datetime] = {}
    keyed = []
    for one in sorted(entries, key=lambda one: one.offset):
        before = latest.get(one.partition, datetime.min.replace(tzinfo=UTC))
        latest[one.partition] = max(before, one.timestamp or before)
        keyed.append((latest[one.partition], one.partition, one.offset, one))
    return [one for *_, one in sorted(keyed, key=lambda key: key[:3])]


def messages(state: State, asked: Asked, topic: str) -> Shown:
    browse = browse_of(topic, asked.query)
    layout = state.topic_layout(topic)
    context = {"asked": asked, "name": topic, "browse": browse, "partitions": len(layout.partitions)}
    page = read(state, browse)
    landed = _landed(state, page)
    return Shown("messages.html", {**context, "page": page, "landed": landed, "live": browse.follow})


def _landed(state: State, page: Page) -> dict[tuple[TopicPartition, int], list[Landing]]:
    """By place, what each pipeline made of it; where the ledger does not answer, nothing."""
    try:
        return {
            (part.partition, offset): landed
            for part in page.parts
            for offset, landed in landings(state, part.partition, part.span).items()
        }
    except FencepostError:
        return {}


def record(state: State, _asked: Asked, topic: str, partition: int, offset: int) -> Shown:
    entry = _entry(state, topic, partition, offset)
    value, key = entry.value, entry.key
    text = decoded(value) if value else None
    document = parsed(text) if text is not None and value is not None and not value.cut else None
    return Shown(
        "record.html",
        {
            "name": topic,
            "row": Row(entry, readable(key), readable(value)),
            "tree": tree(document) if document is not None else None,
            "lines": lines(text) if text is not None else [],
            "dump": hexadecimal(value.data) if value and text is None else [],
            "way": None if entry.marker else way_of(state, entry),
            "headers": [(name, readable(one)) for name, one in entry.headers],
            "live": False,
        },
    )


def _entry(state: State, topic: str, partition: int, offset: int) -> LogEntry:
    at = TopicPartition(topic, partition)
    state.topic_layout(topic)
    entry = state.place(at, offset, WHOLE)
    if entry is None:
        raise Missing(
            f"nothing stands at offset {offset} of {at}", "it was compacted or deleted, or is not written yet"
        )
    return entry


def entry_facts(entry: LogEntry) -> dict[str, Any]:
    """As JSON: text where the bytes are UTF-8, else hexadecimal."""
    return {
        "topic": entry.partition.topic,
        "partition": entry.partition.partition,
        "offset": entry.offset,
        "timestamp": iso(entry.timestamp),
        "visibility": entry.visibility,
        "held": entry.held,
        "read_committed": entry.read_committed,
        "marker": entry.marker,
        "producer_id": entry.batch.producer_id,
        "producer_epoch": entry.batch.producer_epoch,
        "transactional": entry.batch.transactional,
        "key": content_facts(entry.key),
        "value": content_facts(entry.value),
        "headers": [{"name": name, "value": content_facts(value)} for name, value in entry.headers],
    }


def content_facts(content: Content | None) -> dict[str, Any] | None:
    if content is None:
        return None
    text = decoded(content)
    shown = {"text": text} if text is not None else {"hex": content.data.hex()}
    return {**shown, "bytes": content.size, "cut": content.cut}


def messages_facts(state: State, topic: str, query: Mapping[str, str]) -> dict[str, Any]:
    page = read(state, browse_of(topic, query))
    return {
        "isolation": page.browse.isolation,
        "messages": [entry_facts(row.entry) for row in page.rows],
        "hidden": page.hidden,
        "stopped": page.stopped,
        "partitions": [
            {"partition": one.partition.partition, "from": one.span.start, "to": one.span.end, "first": one.first,
             "last_stable": one.stable, "end": one.end}
            for one in page.parts
        ],
        "searched_everything": page.search.whole if page.search else None,
        "search_reached": {at.partition: to for at, to in page.search.reached.items()} if page.search else None,
    }  # fmt: skip


def record_facts(state: State, topic: str, partition: int, offset: int) -> dict[str, Any]:
    return entry_facts(_entry(state, topic, partition, offset))
