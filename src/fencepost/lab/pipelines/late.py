"""A request that arrives late: kept on its way, sent again by its client, and delivered behind the ones after it."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.errors import FencepostError
from fencepost.kafka.client import Cluster
from fencepost.lab.pipelines.scene import Scene
from fencepost.lab.programs import Program
from fencepost.lab.proxy import Action, Rule, RuleId
from fencepost.machine import process
from fencepost.model import TopicPartition

MOST, FEW, SECONDS = 15, 10, 2.0


class Late:
    """It arrives when a later one was answered; then the run is killed, and the next one goes by what stands."""

    def __init__(self) -> None:
        self._rule: RuleId | None = None

    def inject(self, scene: Scene, running: Program) -> None:
        proxy, request = scene.field.proxy, scene.inject.request or ""
        held = {"action": Action.HOLD_DETACH.value, "request": request, "client": scene.flow.name, "count": 1}
        self._rule = rule = proxy.add(Rule.from_json(held))
        scene.witnessed, end = 0, scene.flow.ends()[scene.gated.partition]  # behind whatever is late
        running.go_on()
        if not _fed(scene, lambda: proxy.witness(rule).hits > 0):
            return
        scene.tell(f"{request} is kept on its way, and its client cut off", "fault", "brokers")
        if not _fed(scene, lambda: (_position(scene) or 0) >= end):
            return
        scene.tell(f"later ones are answered: the group stands at {_position(scene)}", lane="brokers")
        proxy.release(rule)
        scene.witnessed = proxy.wait_done(rule).done
        scene.tell(f"the late one arrived; the group stands at {_position(scene)}", "fault", "brokers")

    def heal(self, scene: Scene, running: Program) -> None:
        if self._rule is not None:
            scene.field.proxy.release(self._rule)
        running.kill_tree()
        scene.tell("killed with -9", "heal", "driver")


def _fed(scene: Scene, condition: Callable[[], bool]) -> bool:
    """Events come all the time: a position that is only shown is committed now and then, with what lands."""
    for _ in range(MOST):
        if process.until(condition, SECONDS):
            return True
        scene.produce(FEW)
    return condition()


def _position(scene: Scene) -> int | None:
    """What the group has stored for the partition of the batch; None where nobody can say."""
    try:
        with Cluster(scene.field.direct) as cluster:
            return cluster.committed(scene.group).get(TopicPartition(scene.flow.topic, scene.gated.partition))
    except FencepostError:
        return None
