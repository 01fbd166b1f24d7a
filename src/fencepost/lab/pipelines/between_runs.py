"""Faults between two runs: what the second one finds is not what the first one left."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencepost.errors import Unreachable
from fencepost.lab.pipelines.scene import Scene
from fencepost.lab.scenario import Deed

GONE = 20  # offsets of partition 1 that were never read
ADDED = 4
BAD = 7


def delete_records(scene: Scene) -> None:
    """As retention does: past the position."""
    start = scene.flow.ends()[1]
    scene.produce(scene.events)
    scene.flow.delete_before(1, start + GONE)
    scene.seen(f"records {start} to {start + GONE - 1} of partition 1 deleted unread", GONE)


def recreate_topic(scene: Scene) -> None:
    scene.flow.recreate_topic()
    scene.produce(2 * scene.events)
    scene.seen("the topic deleted, and created again under its name", 2 * scene.events)


def add_partitions(scene: Scene) -> None:
    old = scene.flow.partitions
    scene.flow.add_partitions(ADDED)
    scene.produce(scene.events)
    new = sum(end for number, end in scene.flow.ends().items() if number >= old)
    scene.seen(f"{ADDED} partitions in place of {old}, and records in all of them", new)


def forget_position(scene: Scene) -> None:
    """Under another name nothing is stored, and the target holds everything."""
    there = len(scene.flow.landed())
    scene.flow.rename()
    scene.declare()
    if not scene.flow.positions():
        scene.seen(f"the pipeline renamed: no position is stored, and {there} events are in its target", there)


def poison(scene: Scene) -> None:
    scene.produce(scene.events, bad=BAD)
    scene.seen(f"{BAD} records that cannot be read among the others", BAD)


DEEDS: Mapping[Deed, Callable[[Scene], None]] = {
    Deed.DELETE_RECORDS: delete_records,
    Deed.RECREATE_TOPIC: recreate_topic,
    Deed.ADD_PARTITIONS: add_partitions,
    Deed.FORGET_POSITION: forget_position,
    Deed.POISON: poison,
}


def play_between_runs(scene: Scene) -> None:
    """Send and drain; break; drain again, unless the run refuses."""
    scene.produce(scene.events)
    scene.drain("the first run")
    if scene.stopped or len(scene.flow.landed()) != scene.events:
        raise Unreachable(f"the first run was not a good one: {scene.stopped or 'not everything landed'}")
    scene.before = list(scene.flow.sent)
    DEEDS[scene.inject.do](scene)
    scene.drain("the second run")
