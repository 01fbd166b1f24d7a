"""One event's whole way: sent, in the log, and what each pipeline made of it. The receipt as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fencepost.audit.fates import Carried, Fate, Record, by_position
from fencepost.errors import FencepostError, Usage
from fencepost.kafka.key_search import Found
from fencepost.kafka.messages import LogEntry
from fencepost.kafka.visibility import Visibility
from fencepost.machine.plain_json import iso
from fencepost.model import EVENT_ID, Outcome, Span, TopicPartition
from fencepost.sinks.knowing import CommitsOver
from fencepost.spec import PipelineSpec
from fencepost.web.pages.page import Shown
from fencepost.web.state import State
from fencepost.web.tables import Asked

LONGEST = 4_096  # characters of an id or a key


@dataclass(frozen=True)
class Landing:
    """What one pipeline made of one record."""

    pipeline: str
    fate: Fate
    note: str
    at: datetime | None  # of the commit that carried it
    behind: int  # offsets that it has yet to read up to and with this one

    @property
    def look(self) -> str:
        """holds, waits, weak or broken, as the page colours it."""
        return {
            Fate.PROCESSED: "holds",
            Fate.LANDED: "holds",
            Fate.WAITING: "waits",
            Fate.SKIPPED: "broken",
            Fate.DEAD: "broken",
        }.get(self.fate, "weak")


@dataclass(frozen=True)
class Way:
    """One record of the event, and where it went."""

    entry: LogEntry
    id: str | None
    outcome: Outcome | None  # as its producer's journal has it; None: no journal knows it
    landings: Sequence[Landing]

    @property
    def read(self) -> bool:
        """Will a reader of committed records ever get it?"""
        return self.entry.visibility not in (Visibility.ABORTED, Visibility.CONTROL)


def landings(state: State, at: TopicPartition, span: Span) -> dict[int, list[Landing]]:
    """By offset, of each pipeline that reads the topic, as far as its ledger is known."""
    found: dict[int, list[Landing]] = {offset: [] for offset in range(span.start, span.end)}
    for one in state.pipelines().value or ():
        if any(stored.topic == at.topic for stored in one.stored):
            over = state.commits_over(one, at, span)
            for offset, landed in found.items():
                landed.append(landing(one.pipeline, offset, over))
    return found


def landing(pipeline: str, offset: int, known: CommitsOver) -> Landing:
    """Told from the position and the commits around the offset. Pure."""
    over = [each for each in known.commits if each.commit.span.start <= offset < each.commit.span.end]
    position = known.position
    carried = [Carried(each.commit.span, each.commit.rows, each.commit.dead) for each in over]
    fate, note = by_position(Record(offset, position, carried))
    if fate is Fate.PROCESSED and over[0].commit.dead:
        note = f"its batch left {over[0].commit.dead:,} in the dead letters: `fencepost receipt --check` tells which"
    return Landing(pipeline, fate, note, over[0].landed_at if over else None, max(offset + 1 - (position or 0), 0))


def way_of(state: State, entry: LogEntry) -> Way:
    id_ = next((one.data.decode(errors="replace") for name, one in entry.headers if name == EVENT_ID and one), None)
    outcome = state.journal().outcomes.get(id_) if id_ else None
    place = Span(entry.offset, entry.offset + 1)
    known = {one.pipeline: one for one in landings(state, entry.partition, place)[entry.offset]}
    known |= {spec.name: looked_up(state, spec, entry, known.get(spec.name)) for spec in _reading(state, entry)}
    return Way(entry, id_, outcome, list(known.values()))


def _reading(state: State, entry: LogEntry) -> list[PipelineSpec]:
    """The pipelines whose files we have, of those that read its topic."""
    return [spec for spec in state.specs.values() if entry.partition.topic in spec.source.origins]


def looked_up(state: State, spec: PipelineSpec, entry: LogEntry, known: Landing | None) -> Landing:
    """With its row, or its dead letter and why; where that cannot be had, what is known without."""
    try:
        found = state.receipt(spec, entry.partition, entry.offset).require()
    except FencepostError as error:
        why = f"its row could not be looked up: {error.message}"
        return replace(known, note=why) if known else Landing(spec.name, Fate.UNKNOWN, why, None, 0)
    return Landing(spec.name, found.fate, found.note, known.at if known else None, found.behind)


def events(state: State, asked: Asked) -> Shown:
    topics = sorted(name for name, one in state.layout().require().topics.items() if not one.internal)
    given = asked.query.get("q", "")
    ways, found, outcome = look(state, asked.query) if given else ([], None, None)
    context = {"asked": asked, "topics": topics[:2_000], "ways": ways, "found": found, "outcome": outcome}
    return Shown("events.html", {**context, "journals": len(state.journals), "live": False})


def look(state: State, query: Mapping[str, str]) -> tuple[list[Way], Found, Outcome | None]:
    """By id or key, in one topic. Raises Usage, Missing."""
    given, topic = query.get("q", ""), query.get("topic", "")
    by = query.get("by", "id")
    if not given or len(given) > LONGEST:
        raise Usage("which event?", f"give its id or its key, of up to {LONGEST:,} characters")
    if by not in ("id", "key"):
        raise Usage(f"by={by[:40]!r}", "give id or key")
    if not topic:
        raise Usage("in which topic?", "choose one: all of it is read")
    partitions = [TopicPartition(topic, one.partition) for one in state.topic_layout(topic).partitions]
    starts = dict.fromkeys(partitions, 0)
    found = state.search(topic, starts, given) if by == "key" else state.search_id(topic, starts, given)
    outcome = state.journal().outcomes.get(given) if by == "id" else None
    return [way_of(state, entry) for entry in found.entries], found, outcome


def events_facts(state: State, query: Mapping[str, str]) -> dict[str, Any]:
    ways, found, outcome = look(state, query)
    return {
        "journal": outcome,
        "searched_everything": found.whole,
        "records": [way_facts(one) for one in ways],
    }


def way_facts(one: Way) -> dict[str, Any]:
    return {
        "topic": one.entry.partition.topic,
        "partition": one.entry.partition.partition,
        "offset": one.entry.offset,
        "timestamp": iso(one.entry.timestamp),
        "id": one.id,
        "journal": one.outcome,
        "visibility": one.entry.visibility,
        "held": one.entry.held,
        "pipelines": [landing_facts(each) for each in one.landings],
    }


def landing_facts(one: Landing) -> dict[str, Any]:
    return {
        "pipeline": one.pipeline,
        "receipt": one.fate,
        "note": one.note,
        "landed_at": iso(one.at),
        "behind": one.behind if one.fate is Fate.WAITING else 0,
    }
