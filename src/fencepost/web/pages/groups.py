"""Consumer groups: who reads what, and how far they are behind, in records and in time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from fencepost.errors import Usage
from fencepost.kafka.group_lag import GroupLag, PartitionLag
from fencepost.kafka.groups import GroupDescription, GroupSummary, Member
from fencepost.kafka.names import require_group
from fencepost.machine.plain_json import iso
from fencepost.web.history import Pace, behind
from fencepost.web.pages.page import Shown
from fencepost.web.state import State
from fencepost.web.tables import Asked, Columns, arranged

OURS = "fencepost."


@dataclass(frozen=True)
class GroupRow:
    """One group in the list."""

    summary: GroupSummary
    lag: GroupLag | None  # None: it has committed nothing, or its coordinator does not answer
    pace: Pace | None

    @property
    def pipeline(self) -> str | None:
        """Of ours, the one that it shows."""
        name = self.summary.group
        return name.removeprefix(OURS) if name.startswith(OURS) else None

    @property
    def catches_up(self) -> float | None:
        return self.pace.catches_up(self.lag.offsets) if self.pace and self.lag else None


COLUMNS: Columns[GroupRow] = {
    "group": lambda one: one.summary.group,
    "state": lambda one: one.summary.state,
    "records": lambda one: one.lag.records if one.lag else None,
    "time": lambda one: -one.lag.oldest.timestamp() if one.lag and one.lag.oldest else None,
    "rate": lambda one: one.pace.reads if one.pace else None,
    "topics": lambda one: ", ".join(one.lag.topics) if one.lag else None,
}


@dataclass(frozen=True)
class PartitionRow:
    """One partition of a group, with who reads it."""

    lag: PartitionLag
    owner: Member | None


PARTITION_COLUMNS: Columns[PartitionRow] = {
    "partition": lambda one: f"{one.lag.topic}/{one.lag.partition:06}",
    "position": lambda one: one.lag.position,
    "stable": lambda one: one.lag.stable,
    "records": lambda one: one.lag.waiting.records if one.lag.waiting else None,
    "time": lambda one: -one.lag.waiting.oldest.timestamp() if one.lag.waiting and one.lag.waiting.oldest else None,
    "owner": lambda one: one.owner.client_id if one.owner else None,
}


def groups(state: State, asked: Asked) -> Shown:
    listed, lags = state.groups(), state.lags()
    known = lags.value or {}
    rows = [GroupRow(one, known.get(one.group), state.pace(one.group)) for one in listed.value or listed.require()]
    table = arranged(rows, COLUMNS, asked, "records", descending=True)
    return Shown("groups.html", {"listed": listed, "lags": lags, "table": table})


def group(state: State, asked: Asked) -> Shown:
    name = _name(asked.query.get("name", ""))
    members, lag = state.members(name), state.lag(name)
    found = members.value or members.require()
    table = arranged(_rows(found, lag.value), PARTITION_COLUMNS, asked, "partition")
    row = GroupRow(GroupSummary(name, found.type, found.state), lag.value, state.pace(name))
    return Shown(
        "group.html", {"name": name, "answer": members, "found": found, "lag": lag, "table": table, "row": row}
    )


def _name(given: str) -> str:
    if not given:
        raise Usage("which group?", "give its name")
    return require_group(given)


def _rows(found: GroupDescription, lag: GroupLag | None) -> list[PartitionRow]:
    owners = {(one.topic, one.partition): one.owner for one in found.partitions}
    return [PartitionRow(one, owners.get((one.topic, one.partition))) for one in (lag.partitions if lag else ())]


def groups_facts(state: State) -> dict[str, Any]:
    lags = state.lags().require()
    return {
        "groups": [
            {"group": one.group, "type": one.type, "state": one.state, **lag_facts(lags.get(one.group))}
            for one in state.groups().require()
        ]
    }


def group_facts(state: State, name: str) -> dict[str, Any]:
    described, lag = state.members(_name(name)).require(), state.lag(name).require()
    pace = state.pace(name)
    return {
        "group": described,
        **lag_facts(lag),
        "partitions": [partition_facts(one) for one in (lag.partitions if lag else ())],
        "reads_per_second": pace.reads if pace else None,
        "grows_per_second": pace.grows if pace else None,
        "catches_up_in_seconds": pace.catches_up(lag.offsets) if pace and lag else None,
    }


def lag_facts(lag: GroupLag | None) -> dict[str, Any]:
    if lag is None:
        return {
            "lag_records": None,
            "lag_exact": None,
            "lag_offsets": None,
            "oldest_waiting": None,
            "lag_seconds": None,
        }
    return {
        "lag_records": lag.records,
        "lag_exact": lag.exact,
        "lag_offsets": lag.offsets,
        "oldest_waiting": iso(lag.oldest),
        "lag_seconds": behind(lag, datetime.now(UTC).timestamp()),
    }


def partition_facts(one: PartitionLag) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "position": one.position,
        "first": one.first,
        "last_stable": one.stable,
        "end": one.end,
        "offsets": one.offsets,
        "records": one.waiting.records if one.waiting else None,
        "exact": one.waiting.exact if one.waiting else None,
        "oldest_waiting": iso(one.waiting.oldest) if one.waiting else None,
        "held_by_transactions": one.held,
        "gone_unread": one.gone,
    }


class Measure(StrEnum):
    """In what lag is counted."""

    RECORDS = "records"
    SECONDS = "seconds"  # the age of the oldest record that waits


_LINES = {Measure.RECORDS: "records waiting", Measure.SECONDS: "seconds behind"}


def history_facts(state: State, name: str, hours: float, measure: Measure = Measure.RECORDS) -> dict[str, Any]:
    """As charts take it."""
    points = state.history.of(state.layout().require().cluster_id, _name(name), hours * 3600)
    line = [getattr(point, measure) for point in points]
    return {
        "times": [point.at for point in points],
        "series": [{"label": _LINES[measure], "values": line, "fill": True}],
    }
