"""The same owner goes on under a new token, and takes what was added meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from fencepost.delivery import Ledger
from fencepost.model import Tenure, TopicPartition

Positions = Mapping[TopicPartition, int]


def renewed(
    ledger: Ledger, tenure: Tenure, token: UUID, every: Callable[[Positions], Positions], topic_ids: Mapping[str, str]
) -> Tenure:
    """May be repeated with the same token. Raises Fenced if another run took over meanwhile.

    `every`: of what is stored, each partition that is to be owned, with where it begins if nothing is stored of it.
    """
    now = ledger.renew(tenure, token)
    new = {at: position for at, position in every(now.positions).items() if at not in now.positions}
    if not new:
        return now
    added = ledger.take_over(tenure.pipeline, token, new, topic_ids)
    return replace(now, epoch=added.epoch, positions={**now.positions, **added.positions})
