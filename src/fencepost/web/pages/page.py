"""What every page is made of: what was asked, and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.web.state import State
from fencepost.web.tables import Asked


@dataclass(frozen=True)
class Shown:
    """A template with its values."""

    template: str
    context: Mapping[str, Any] = field(default_factory=dict)


View = Callable[[State, Asked], Shown]


@dataclass(frozen=True)
class Place:
    """Where a page is in the navigation."""

    path: str
    title: str
    key: str  # pressed behind g


PLACES = (
    Place("/", "Overview", "o"),
    Place("/pipelines", "Pipelines", "p"),
    Place("/topics", "Topics", "t"),
    Place("/groups", "Groups", "c"),
    Place("/transactions", "Transactions", "x"),
    Place("/events", "Events", "e"),
    Place("/lab", "Lab", "l"),
)
