"""What a carrier is told on its command line, and the gate at which it stands still, dies or fails."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fencepost.delivery import Observer, nobody
from fencepost.lab.crash import CrashAction, CrashPoint
from fencepost.lab.pipelines.cut_input import TakesTheEnd
from fencepost.lab.scenario import Control
from fencepost.model import Step, TopicPartition

PARTITION = 1  # where the gate is
ASKED_BACK = 0  # of two partitions the one that a group takes from a member for another, if they stick to theirs


class Gate(BaseModel):
    """A step of one partition, when it is reached for this time."""

    model_config = ConfigDict(frozen=True)
    step: Step
    partition: int = PARTITION
    time: int
    action: CrashAction
    witness: Path


class Work(BaseModel):
    """Carry the pipeline's events."""

    model_config = ConfigDict(frozen=True)
    spec: Path
    news: Path  # JSON lines: what it did, and the error that ended it
    once: bool = True  # up to where the topic ends now
    gate: Gate | None = None
    plain: Control | None = None  # of the plain loop: how it commits, and where it starts
    naive: Path | None = None  # takes the end of the rows for the end of the input, and makes this file when it lands

    def observer(self, topic: str) -> Observer:
        if self.naive is not None:
            return TakesTheEnd(PARTITION, self.naive)
        if self.gate is None:
            return nobody
        gate, where = self.gate, TopicPartition(topic, self.gate.partition)
        return CrashPoint(gate.step, where, gate.action, gate.witness, gate.time)
