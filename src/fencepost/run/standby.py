"""Standby: while the owner of a pipeline is alive, another run of it waits."""

from __future__ import annotations

from threading import Event

from fencepost.engines.listener import Listener, Waiting
from fencepost.errors import Unreachable, Usage
from fencepost.sinks.kind import KnowsItsOwner, require_able
from fencepost.spec import EngineName, PipelineSpec

STALE_SECONDS = 15.0  # an owner says every three seconds that it lives
LOOK_SECONDS = 2.0


def stand_by(spec: PipelineSpec, stop: Event, listen: Listener, stale: float = STALE_SECONDS) -> None:
    """Returns when nobody has been seen for so long, or when stopped. Taking over is the fence's business."""
    if spec.engine is EngineName.PYTHON:
        raise Usage("group members are standbys for each other", "start it again, without --standby")
    kind, told = require_able(spec.sink.kind, KnowsItsOwner, spec.sink.format, "tell whether its owner is alive"), ""
    while not stop.is_set():
        try:
            seen = kind.last_seen(spec.job)
            if seen is None or seen > stale:
                return
            trouble = "standby: another run of the pipeline is alive"
        except Unreachable as error:
            trouble = str(error)
        if trouble != told:
            listen(Waiting(trouble, None))
            told = trouble
        stop.wait(LOOK_SECONDS)
