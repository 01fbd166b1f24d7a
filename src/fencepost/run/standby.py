"""Waiting for one's turn: while the owner of a pipeline lives, another run of it stands by."""

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
        raise Usage("members of a group stand by for each other", "run it once more, without --standby")
    kind, told = require_able(spec.sink.kind, KnowsItsOwner, spec.sink.format, "tell whether its owner lives"), ""
    while not stop.is_set():
        try:
            seen = kind.last_seen(spec.job)
            if seen is None or seen > stale:
                return
            trouble = "standing by: another run of the pipeline lives"
        except Unreachable as error:
            trouble = str(error)
        if trouble != told:
            listen(Waiting(trouble, None))
            told = trouble
        stop.wait(LOOK_SECONDS)
