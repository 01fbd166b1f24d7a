"""The list of topics, and one topic with its partitions and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.kafka.layout import TopicLayout
from fencepost.kafka.open_transactions import OpenProducer
from fencepost.kafka.topics import PartitionDescription
from fencepost.web.pages.page import Shown
from fencepost.web.state import State, TopicState
from fencepost.web.tables import Asked, Columns, arranged

COLUMNS: Columns[TopicLayout] = {
    "topic": lambda one: one.topic,
    "partitions": lambda one: len(one.partitions),
    "replicas": lambda one: one.replication_factor,
    "min": lambda one: one.min_in_sync,
    "offline": lambda one: one.offline,
    "under_min": lambda one: one.under_min,
    "under": lambda one: one.under_replicated,
}


@dataclass(frozen=True)
class PartitionRow:
    """One partition as it is shown."""

    part: PartitionDescription
    min_in_sync: int | None
    holding: tuple[OpenProducer, ...]

    @property
    def gap(self) -> int | None:
        """Offsets that readers of committed records do not get yet."""
        end, stable = self.part.end_offset, self.part.last_stable_offset
        return None if end is None or stable is None else max(end - stable, 0)

    @property
    def state(self) -> str:
        """offline, under-min, under, or empty where all is well."""
        part = self.part
        if part.leader is None:
            return "offline"
        if self.min_in_sync is not None and len(part.in_sync) < self.min_in_sync:
            return "under-min"
        return "under" if len(part.in_sync) < len(part.replicas) else ""

    @property
    def strip(self) -> tuple[float, float] | None:
        """Of a width of 100: where the last stable offset is, and how wide the gap behind it; it is never invisible."""
        part = self.part
        if part.first_offset is None or part.end_offset is None or part.end_offset <= part.first_offset:
            return None
        gap = self.gap or 0
        width = max(100 * gap / (part.end_offset - part.first_offset), 3.0) if gap else 0.0
        return round(100 - width, 2), round(width, 2)


PARTITION_COLUMNS: Columns[PartitionRow] = {
    "partition": lambda one: one.part.partition,
    "leader": lambda one: one.part.leader,
    "in_sync": lambda one: len(one.part.in_sync),
    "first": lambda one: one.part.first_offset,
    "end": lambda one: one.part.end_offset,
    "stable": lambda one: one.part.last_stable_offset,
    "gap": lambda one: one.gap,
}


def topics(state: State, asked: Asked) -> Shown:
    layout = state.layout()
    everything = list((layout.value or layout.require()).topics.values())
    internal = asked.query.get("internal") == "1"
    listed = [one for one in everything if internal or not one.internal]
    table = arranged(listed, COLUMNS, asked, "topic")
    hidden = len(everything) - len(listed)
    return Shown("topics.html", {"layout": layout, "table": table, "internal": internal, "hidden": hidden})


def topic(state: State, asked: Asked, name: str) -> Shown:
    answer = state.topic(name)
    found = answer.value or answer.require()
    table = arranged(rows(found), PARTITION_COLUMNS, asked, "partition")
    return Shown("topic.html", {"answer": answer, "found": found, "table": table, "name": name})


def rows(found: TopicState) -> list[PartitionRow]:
    return [
        PartitionRow(
            part,
            found.min_in_sync,
            tuple(one for one in found.holding if one.partition.partition == part.partition),
        )
        for part in found.topic.partitions
    ]


def topics_facts(state: State) -> dict[str, Any]:
    return {"topics": list(state.layout().require().topics.values())}


def topic_facts(state: State, name: str) -> Mapping[str, Any]:
    found = state.topic(name).require()
    return {
        "topic": found.topic,
        "min_in_sync": found.min_in_sync,
        "settings": found.settings,
        "findings": [{"reason": one.reason, "remedy": one.remedy} for one in found.findings],
        "holding": found.holding,
    }
