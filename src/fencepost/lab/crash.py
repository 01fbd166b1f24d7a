"""Crash points: a process that writes down where it is, and then kills, stops or fails itself right there.

    CrashPoint(Step.ADVANCED, orders, CrashAction.KILL, witness)       between compare-and-set and COMMIT (exactly-once)
    MidCopy(2, CrashAction.STOP, witness).rows(batches)                in the middle of the rows, after two batches

Both are picklable: they act in the process where the step runs. They count in the witness file, so that
"the second time" also holds over task retries and restarts, and so that a point acts once, not in the successor too.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from fencepost.machine import process
from fencepost.model import Batch, Step, TopicPartition

T = TypeVar("T")
HELD_SECONDS = 600.0


class CrashAction(StrEnum):
    """What is done at a crash point."""

    KILL = "kill"  # SIGKILL: nothing is tidied up
    STOP = "stop"  # SIGSTOP: connections stay open and nothing happens on them, until SIGCONT
    FAIL = "fail"  # raises Crash: the attempt ends and the process lives on
    HOLD = "hold"  # this thread waits for `let_go`, and the process lives on: it still talks to its group


class Crash(Exception):
    """Raised on purpose at a crash point. Not a FencepostError: nothing may take it for an answer of the sink's."""


@dataclass(frozen=True)
class Visit:
    """One line of a witness file: a process came by."""

    pid: int
    where: str
    acted: bool  # false where it was not its turn
    offsets: int = 0  # how many the batch goes over, where that is known


@dataclass(frozen=True)
class CrashPoint:
    """An observer that acts at one step of one partition.

    Before the first row is Step.STARTED; between compare-and-set and COMMIT is Step.ADVANCED under exactly-once.
    """

    step: Step
    partition: TopicPartition
    deed: CrashAction
    witness: Path
    time: int = 1  # acts when the step is reached for this time, and at no other

    def __call__(self, step: Step, batch: Batch[Any]) -> None:
        if step == self.step and self.partition in batch.spans:
            offsets = sum(span.end - span.start for span in batch.spans.values())
            visit(self.witness, f"{step} of {batch}", self.time, self.deed, offsets)


@dataclass(frozen=True)
class MidCopy:
    """A crash point between the rows: some have gone to the sink, others have not."""

    after: int  # this many record batches, 1 or more
    deed: CrashAction
    witness: Path
    time: int = 1

    def rows(self, batches: Iterable[T]) -> Iterator[T]:
        """The same batches. Whoever asks for the next one has sent those before it."""
        for number, batch in enumerate(batches, start=1):
            yield batch
            if number == self.after:
                visit(self.witness, f"after {number} record batches", self.time, self.deed)


def visits(witness: Path) -> list[Visit]:
    """Who came by so far; nobody where there is no file yet."""
    return [Visit(**json.loads(line)) for line in witness.read_text().splitlines()] if witness.exists() else []


def standing(witness: Path) -> bool:
    """Does somebody stand still there? The line is written just before: a SIGSTOP of another's between the two would
    leave one more for after the SIGCONT."""
    actors = (process.identify(visit.pid) for visit in visits(witness) if visit.acted)
    return any(actor is not None and process.stopped(actor) for actor in actors)


def visit(witness: Path, where: str, time: int, deed: CrashAction, offsets: int = 0) -> None:
    with witness.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed: two tasks may come at once
        acts = len(visits(witness)) + 1 == time
        file.write(json.dumps(asdict(Visit(os.getpid(), where, acts, offsets))) + "\n")
        file.flush()
        os.fsync(file.fileno())
    if acts:
        _do(deed, where, witness)


def let_go(witness: Path) -> None:
    """Whoever waits there, by HOLD, goes on; may be repeated."""
    _word(witness).touch()


def _word(witness: Path) -> Path:
    return witness.with_name(f"{witness.name}.go-on")


def _do(deed: CrashAction, where: str, witness: Path) -> None:
    if deed is CrashAction.FAIL:
        raise Crash(where)
    if deed is CrashAction.HOLD:
        if not process.until(_word(witness).exists, HELD_SECONDS):
            raise Crash(f"{where}: nobody let it go on for {HELD_SECONDS:.0f} s")
        return
    number = signal.SIGKILL if deed is CrashAction.KILL else signal.SIGSTOP
    signal.pthread_kill(threading.get_ident(), number)  # to this very thread: it does not take another step
