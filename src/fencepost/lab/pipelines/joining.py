"""Faults of a group's membership: another member joins while a batch is in hand, and its partition is asked back."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from fencepost.errors import FencepostError
from fencepost.kafka.client import Cluster
from fencepost.kafka.groups import describe_group
from fencepost.lab.crash import let_go
from fencepost.lab.pipelines.news import read_news
from fencepost.lab.pipelines.scene import Scene
from fencepost.lab.programs import Program
from fencepost.lab.proxy import Action, Api, Direction, Rule


class Join:
    """The batch is done as soon as the other one has joined: in time, before the group waits no longer."""

    def __init__(self) -> None:
        self._others = ExitStack()  # what was started, ended with the fault
        self._other: Program | None = None

    def inject(self, scene: Scene, running: Program) -> None:  # noqa: ARG002
        self._other = other = self._others.enter_context(scene.carrier())
        news, partition = scene.news, scene.gated.partition
        if other.wait_for(lambda: _members(scene) > 1):
            scene.tell("another member has joined the group", "fault", "driver")
        self._joined(scene)
        given = other.wait_for(lambda: _given(news, partition)) or _given(news, partition)
        scene.witnessed = int(given)
        if given:
            scene.tell(f"partition {partition} was given to it", "fault", "driver")
            self._given(scene, other)

    def _joined(self, scene: Scene) -> None:
        """Done is the batch when its member was told, with its next heartbeat, that the group shares out anew: before,
        it might go on and drain the topic, and leave nothing to share."""
        heartbeat = Rule(
            action=Action.FORWARD, request=Api.HEARTBEAT, direction=Direction.RESPONSE, client=scene.flow.name
        )
        scene.field.proxy.wait_hits(scene.field.proxy.add(heartbeat))
        let_go(scene.gated.witness)

    def _given(self, scene: Scene, other: Program) -> None:
        """Nothing more."""

    def heal(self, scene: Scene, running: Program) -> None:
        let_go(scene.gated.witness)
        with self._others:
            codes = [one.ended() for one in (running, self._other) if one is not None]
        scene.tell(f"the members ended with {' and '.join(map(str, codes))}", "heal", "driver")


class Outlast(Join):
    """The batch is done only when the other one has its partition, and has gone on with it to the end."""

    def _joined(self, scene: Scene) -> None:
        pass

    def _given(self, scene: Scene, other: Program) -> None:
        scene.tell(f"it went on to the end, and ended with {other.ended()}", lane="driver")


def _members(scene: Scene) -> int:
    """None as long as nobody can say."""
    try:
        with Cluster(scene.field.direct) as cluster:
            return len(describe_group(cluster, scene.group).members)
    except FencepostError:
        return 0


def _given(news: Path, partition: int) -> bool:
    return any(partition in one["partitions"] for one in read_news(news, "started"))
