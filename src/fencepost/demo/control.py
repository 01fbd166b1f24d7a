"""Chapter three, the control: one kill against the usual recipe."""

from __future__ import annotations

import shutil
from pathlib import Path

from fencepost.audit.compare import Comparison, compare_sink
from fencepost.demo.step_log import StepLog
from fencepost.demo.target import TOPIC, Shown, count_in_sink
from fencepost.lab.pipelines.ids import ids_in_sink, ids_in_topic
from fencepost.lab.programs import program
from fencepost.spec import load


def kill_the_usual_recipe(sink: Shown, file: Path, events: int, tell: StepLog) -> Comparison:
    """Killed once in the middle of a batch and restarted from its checkpoint, or without that if it needs no less."""
    records, without = events // 4, sink.demo.outlives_kills
    and_gone = ", and its checkpoint is removed, as those above were" if without else ""
    tell.chapter(f"The same kill, once, against {sink.demo.recipe} and its own checkpoint{and_gone}")
    spec, checkpoint, log = load(file), file.parent / "checkpoint", file.parent / "naive.log"
    arguments = [str(file), f"file://{checkpoint}", str(records)]

    def hit() -> bool:
        """A batch is there; or some of its partitions are, and others not yet."""
        count = count_in_sink(spec)
        return count >= records if without else bool(count % records)

    with program("fencepost.lab.pipelines.native", arguments, log) as running:
        was_hit = running.wait_for(hit)
        running.kill_tree()
    if without:
        shutil.rmtree(checkpoint)
    tell.step(_told(was_hit, without))
    with program("fencepost.lab.pipelines.native", arguments, log) as running:
        running.finish()
    result = compare_sink(ids_in_topic(spec.kafka, TOPIC), ids_in_sink(spec))
    how = "started again" if without else "restarted from its checkpoint"
    tell.step(f"{how}, drained: lost {result.lost:,}, doubled {result.duplicated:,}")
    return result


def _told(hit: bool, without: bool) -> str:
    if not hit:
        return "it ended before it could be killed"
    return (
        "killed with -9 after a batch, its checkpoint removed" if without else "killed with -9 in the middle of a batch"
    )
