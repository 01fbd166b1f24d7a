"""Pipelines, found without their files: by the ledger in PostgreSQL, and by groups of our names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

from fencepost.audit import page as audit_page
from fencepost.audit.kept import KeptAudit, kept
from fencepost.errors import FencepostError
from fencepost.fence import StoredPosition
from fencepost.guarantee import Guarantee
from fencepost.kafka.errors import Missing
from fencepost.kafka.group_lag import GroupLag, PartitionLag
from fencepost.machine.plain_json import iso
from fencepost.model import TopicPartition
from fencepost.sinks.knowing import KnownPipeline
from fencepost.web.history import Pace
from fencepost.web.pages.groups import OURS, lag_facts, partition_facts
from fencepost.web.pages.page import Shown
from fencepost.web.state import State
from fencepost.web.tables import Asked, Columns, arranged

ALIVE_SECONDS = 30.0  # since an owner was heard of
CHART_MINUTES = 60
_READER = {
    Guarantee.AT_MOST_ONCE: "each position moves first, then its rows are written",
    Guarantee.AT_LEAST_ONCE: "rows are written first, then the position moves",
    Guarantee.EXACTLY_ONCE: "rows and position are committed in one transaction, by compare-and-set under the owner's "
    "token",
}


@dataclass(frozen=True)
class Pipeline:
    """One pipeline, from wherever it is known."""

    name: str
    known: KnownPipeline | None  # None: only its group is
    lag: GroupLag | None
    audit: KeptAudit | None
    pace: Pace | None

    @property
    def guarantee(self) -> str | None:
        return self.known.guarantee if self.known else None

    @property
    def rate(self) -> float | None:
        """Rows per second over the last minute."""
        return self.known.rows_last_minute / 60 if self.known else None

    @property
    def seen(self) -> datetime | None:
        """When its owner was heard of last."""
        heard = (
            [at for at in (self.known.seen_at, self.known.taken_at, self.known.last_batch) if at] if self.known else []
        )
        return max(heard, default=None)

    @property
    def alive(self) -> bool:
        return self.seen is not None and (datetime.now(UTC) - self.seen).total_seconds() < ALIVE_SECONDS

    @property
    def topics(self) -> list[str]:
        return sorted({at.topic for at in self.known.stored}) if self.known else self.lag.topics if self.lag else []

    @property
    def verdict(self) -> str | None:
        return self.audit.found["verdict"] if self.audit else None


COLUMNS: Columns[Pipeline] = {
    "pipeline": lambda one: one.name,
    "guarantee": lambda one: one.guarantee,
    "records": lambda one: one.lag.records if one.lag else None,
    "rate": lambda one: one.rate,
    "batch": lambda one: one.known.last_batch.timestamp() if one.known and one.known.last_batch else None,
    "audit": lambda one: one.verdict,
    "topics": lambda one: ", ".join(one.topics),
}


@dataclass(frozen=True)
class Hop:
    """One part of the way, and what is seen of its guarantee."""

    name: str
    holds: bool | None  # None: nothing tells
    why: str


def every_pipeline(state: State) -> list[Pipeline]:
    """Those of ledgers, and those of which only a group is there. Unreachable ledgers are told by `ledger_trouble`."""
    known = {one.pipeline: one for one in state.pipelines().value or ()}
    lags = state.lags().value or {}
    shown = {name.removeprefix(OURS): lag for name, lag in lags.items() if name.startswith(OURS)}
    return [_pipeline(state, name, known.get(name), shown.get(name)) for name in sorted({*known, *shown})]


def _pipeline(state: State, name: str, known: KnownPipeline | None, shown: GroupLag | None) -> Pipeline:
    lag = state.lag_of(known).value if known and known.stored else shown
    servers = state.connections.kafka.get("bootstrap.servers", "")
    return Pipeline(name, known, lag, kept(name, servers), state.pace(f"{OURS}{name}"))


def one_pipeline(state: State, name: str) -> Pipeline:
    """Raises Missing where nothing knows it."""
    found = next((one for one in every_pipeline(state) if one.name == name), None)
    if found is None:
        raise Missing(f"nothing is known of a pipeline {name[:100]!r}", "see the pipelines")
    return found


def ledger_trouble(state: State) -> FencepostError | None:
    return state.pipelines().error


def pipelines(state: State, asked: Asked) -> Shown:
    table = arranged(every_pipeline(state), COLUMNS, asked, "pipeline")
    return Shown("pipelines.html", {"table": table, "trouble": ledger_trouble(state)})


@dataclass(frozen=True)
class PositionRow:
    """One partition of a pipeline."""

    at: TopicPartition
    stored: StoredPosition | None
    lag: PartitionLag | None


POSITIONS: Columns[PositionRow] = {
    "partition": lambda one: f"{one.at.topic}/{one.at.partition:06}",
    "position": lambda one: one.lag.position if one.lag else one.stored.position if one.stored else None,
    "stable": lambda one: one.lag.stable if one.lag else None,
    "records": lambda one: one.lag.waiting.records if one.lag and one.lag.waiting else None,
    "epoch": lambda one: one.stored.epoch if one.stored else None,
    "owner": lambda one: str(one.stored.owner) if one.stored else None,
    "moved": lambda one: one.stored.moved_at.timestamp() if one.stored and one.stored.moved_at else None,
}


def pipeline(state: State, asked: Asked) -> Shown:
    found = one_pipeline(state, asked.query.get("name", ""))
    return Shown(
        "pipeline.html",
        {
            "one": found,
            "hops": hops(state, found),
            "table": arranged(position_rows(found), POSITIONS, asked, "partition"),
            "strips": strips(found.audit),
            "trouble": ledger_trouble(state),
        },
    )


def position_rows(found: Pipeline) -> list[PositionRow]:
    lags = {TopicPartition(one.topic, one.partition): one for one in (found.lag.partitions if found.lag else ())}
    stored = found.known.stored if found.known else {}
    return [PositionRow(at, stored.get(at), lags.get(at)) for at in sorted({*lags, *stored})]


def hops(state: State, found: Pipeline) -> list[Hop]:
    """What each part of the way is seen to promise."""
    return [*_producers(state, found), *_topics(state, found), _reader(found)]


def _producers(state: State, found: Pipeline) -> list[Hop]:
    """As the newest batches in the log tell."""
    kinds = state.producers(found.topics)
    if not kinds:
        return [Hop("producer to topic", None, "nothing was sent of late, so that nothing tells how")]
    said = ", ".join(f"{many:,} {kind}" for kind, many in kinds.most_common())
    plain = kinds["not idempotent"]
    why = "a retry of one that is not may double its records" if plain else "a retry doubles nothing"
    return [Hop("producer to topic", not plain, f"the newest batches: {said}; {why}")]


def _topics(state: State, found: Pipeline) -> list[Hop]:
    return [
        Hop(f"topic {name}", False, finding.reason) for name in found.topics for finding in state.findings(name)
    ] or [Hop("topic", True, "what is acknowledged survives the loss of a broker")]


def _reader(found: Pipeline) -> Hop:
    try:
        word = Guarantee(found.guarantee or "")
    except ValueError:
        return Hop("topic to sink", None, "its group does not say under which guarantee it runs")
    return Hop("topic to sink", word is Guarantee.EXACTLY_ONCE, f"{word}: {_READER[word]}")


def strips(audit: KeptAudit | None) -> list[tuple[str, Markup]]:
    """A strip for each partition; numbers only go into it."""
    if audit is None:
        return []
    found = []
    for part in audit.found["partitions"]:
        there = [one for one in audit.findings if (one.topic, one.partition) == (part["topic"], part["partition"])]
        name = f"{part['topic']}/{part['partition']}: {part['from']:,} to {part['to']:,}"
        found.append((name, Markup(audit_page.strip(part, there))))  # noqa: S704 (made of numbers)
    return found


def pipelines_facts(state: State) -> dict[str, Any]:
    state.pipelines().require()
    return {"pipelines": [_facts(one) for one in every_pipeline(state)]}


def pipeline_facts(state: State, name: str) -> dict[str, Any]:
    found = one_pipeline(state, name)
    return {
        **_facts(found),
        "hops": hops(state, found),
        "partitions": [
            {
                "topic": row.at.topic,
                "partition": row.at.partition,
                "owner": row.stored.owner if row.stored else None,
                "epoch": row.stored.epoch if row.stored else None,
                "moved_at": iso(row.stored.moved_at) if row.stored else None,
                "lag": partition_facts(row.lag) if row.lag else None,
            }
            for row in position_rows(found)
        ],
        "last_audit": {"at": iso(found.audit.at), **found.audit.found} if found.audit else None,
    }


def _facts(one: Pipeline) -> dict[str, Any]:
    return {
        "pipeline": one.name,
        "ledger": one.known.place if one.known else None,
        "guarantee": one.guarantee,
        "epoch": one.known.epoch if one.known else None,
        "topics": one.topics,
        "rows_per_second": one.rate,
        "last_batch": iso(one.known.last_batch) if one.known else None,
        "owner_seen_at": iso(one.seen),
        **lag_facts(one.lag),
        "last_verdict": one.verdict,
    }


def batches_facts(state: State, name: str) -> dict[str, Any]:
    """Rows by minute, of the last hour, as charts take it."""
    found = one_pipeline(state, name)
    if found.known is None:
        return {"times": [], "series": []}
    now = datetime.now(UTC)
    commits = state.commits_since(found.known, now - timedelta(minutes=CHART_MINUTES))
    rows, dead = Counter[int](), Counter[int]()
    for one in commits:
        minute = int(one.landed_at.timestamp() // 60) * 60
        rows[minute] += one.commit.rows or 0
        dead[minute] += one.commit.dead
    first = int(now.timestamp() // 60 - CHART_MINUTES + 1) * 60
    times = list(range(first, first + CHART_MINUTES * 60, 60)) if commits else []
    return {"times": times, "series": _bars(times, rows, dead)}


def _bars(times: Sequence[int], rows: Counter[int], dead: Counter[int]) -> list[dict[str, Any]]:
    shown = [{"label": "rows", "values": [rows[at] for at in times], "bars": True, "fill": True}]
    if dead.total():
        shown.append({"label": "dead letters", "values": [dead[at] for at in times], "bars": True, "colour": "--bad"})
    return shown
