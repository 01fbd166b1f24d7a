"""What people use on Spark, whose only memory is its checkpoint: that is lost between two of its runs."""

from __future__ import annotations

import shutil

from fencepost.errors import Unreachable
from fencepost.lab.pipelines.at_a_step import MORE
from fencepost.lab.pipelines.scene import Scene


def play_native(scene: Scene) -> None:
    """Send and drain; remove the checkpoint; send more, and drain."""
    scene.produce(scene.events)
    scene.drain("the first run")
    landed, planned = len(scene.flow.landed()), [*scene.checkpoint.glob("offsets/[0-9]*")]
    if landed != scene.events:
        raise Unreachable(f"{landed} of {scene.events} events landed in the first run")
    shutil.rmtree(scene.checkpoint)
    if planned:
        scene.seen("its checkpoint removed", landed)
    scene.produce(MORE)
    scene.drain("the next run")
