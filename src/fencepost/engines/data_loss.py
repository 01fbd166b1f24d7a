"""Records that were gone before anybody read them, skipped where the pipeline allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fencepost.delivery import Progress
from fencepost.engines.listener import Skipped
from fencepost.kafka.offsets import TopicReader
from fencepost.model import Batch, Tenure


def skip_gone(topic: TopicReader, tenure: Tenure, progress: Progress, tell: Callable[[Skipped], object]) -> Tenure:
    """The term as it stands when every position is one that the topic holds. Raises as `advance` does.

    A gap is reported before the position moves past it: a crash between reports it again, and none is missed.
    """
    gone = topic.gone(tenure.positions)
    for partition, span in gone.items():
        tell(Skipped(partition, span))
        progress.advance(Batch({partition: span}, None, tenure))
    return replace(tenure, positions={**tenure.positions, **{at: span.end for at, span in gone.items()}})
