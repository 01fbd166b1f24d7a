"""The overview: what needs attention first, brokers, topics in short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.admin.attention import Attention, of_pipeline, worst_first
from fencepost.kafka.layout import BrokerState, Layout
from fencepost.web.pages.page import Shown
from fencepost.web.pages.pipelines import Pipeline, every_pipeline, ledger_trouble, pipelines_facts
from fencepost.web.state import State
from fencepost.web.tables import Asked, Columns, arranged

BROKERS: Columns[BrokerState] = {
    "broker": lambda one: one.id,
    "state": lambda one: "up" if one.up else "down",
    "leaders": lambda one: one.leaders,
    "replicas": lambda one: one.replicas,
    "lacking": lambda one: one.lacking,
    "address": lambda one: f"{one.host}:{one.port} {one.rack or ''}",
}


@dataclass(frozen=True)
class Sums:
    """Of all topics."""

    topics: int
    internal: int
    partitions: int
    offline: int
    under_min: int
    under_replicated: int


def sums(layout: Layout) -> Sums:
    topics = layout.topics.values()
    return Sums(
        sum(not one.internal for one in topics),
        sum(one.internal for one in topics),
        sum(len(one.partitions) for one in topics),
        sum(one.offline for one in topics),
        sum(one.under_min for one in topics),
        sum(one.under_replicated for one in topics),
    )


def overview(state: State, asked: Asked) -> Shown:
    layout = state.layout()
    if layout.value is None:
        layout.require()
    found = sorted(every_pipeline(state), key=lambda one: (-(one.lag.records if one.lag else 0), one.name))
    return Shown(
        "overview.html",
        {
            "layout": layout,
            "brokers": arranged(layout.value.brokers if layout.value else (), BROKERS, asked, "broker"),
            "sums": sums(layout.value) if layout.value else None,
            "attention": attention(state, found),
            "open": state.open_transactions(),
            "pipelines": found,
            "trouble": ledger_trouble(state),
            "lags": state.lags(),
        },
    )


def attention(state: State, pipelines: Sequence[Pipeline]) -> list[Attention]:
    of_them = [one for each in pipelines for one in of_pipeline(each.name, each.lag, each.verdict)]
    return worst_first([*state.attention(), *of_them])


def overview_facts(state: State) -> dict[str, Any]:
    layout = state.layout().require()
    return {
        "cluster_id": layout.cluster_id,
        "brokers": layout.brokers,
        "quorum": layout.quorum,
        "topics": sums(layout),
        "attention": attention(state, every_pipeline(state)),
        **pipelines_facts(state),
        "open_transactions": len(state.open_transactions().value or ()),
    }
