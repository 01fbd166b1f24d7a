"""What the brokers allow, whatever a client asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from fencepost.errors import Unreachable
from fencepost.kafka.broker_views import ANSWER_SECONDS
from fencepost.kafka.client import Cluster
from fencepost.kafka.errors import Forbidden

LONGEST_TRANSACTION = "transaction.max.timeout.ms"
OFFSETS_KEPT = "offsets.retention.minutes"


@dataclass(frozen=True)
class Limits:
    """As one of the brokers says."""

    transaction_ms: int  # the most that a transaction may ask for
    offsets_minutes: int  # for so long a group's offsets are kept while it has no members


def limits(cluster: Cluster) -> Limits | None:
    """None where nobody says: seeing it is a right of its own, and whoever asks for too much hears of it later."""
    for broker in cluster.brokers():
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        try:
            found = _settings(cluster, resource)
            return Limits(int(found[LONGEST_TRANSACTION].value), int(found[OFFSETS_KEPT].value))
        except Forbidden:
            return None
        except Unreachable:
            continue
    return None


def _settings(cluster: Cluster, resource: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = cluster.ask(
        lambda: cluster.admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)[resource],
        "a broker's settings",
    )
    return found
